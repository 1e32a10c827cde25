/* Why a cage could not be built, what is in force, and the fix for what is missing. */
#define _GNU_SOURCE
#include "sbox.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number in a file of /proc/sys, or `otherwise` where there is no such file. */
static long setting(const char *name, long otherwise) {
    FILE *file = fopen(text("/proc/sys/%s", name), "re");
    if (!file) return otherwise;
    if (fscanf(file, "%ld", &otherwise) != 1) otherwise = 0;
    fclose(file);
    return otherwise;
}

/* What keeps bubblewrap from making namespaces here, and the fix; NULL when nothing known does. */
static const char *obstacle(void) {
    if (!bubblewrap()) return "bubblewrap is missing. Install it: sudo apt-get install bubblewrap";
    if (setting("user/max_user_namespaces", 1) == 0)
        return "user namespaces are switched off. Switch them on: sudo sysctl user.max_user_namespaces=10000";
    if (geteuid() == 0) return NULL;
    if (setting("kernel/unprivileged_userns_clone", 1) == 0)
        return "user namespaces are for root only. Open them: sudo sysctl kernel.unprivileged_userns_clone=1";
    if (setting("kernel/apparmor_restrict_unprivileged_userns", 0))
        return "AppArmor restricts user namespaces. Use the shell script cage/sbox and load the profile beside it: "
               "docs/cage.md, Ubuntu 24.04";
    return NULL;
}

void explain(const Run *run, const Report *report) {
    const char *known = obstacle();
    if (report->stage == 'd')
        fail("the working directory %s does not exist in the cage. Work under ~/projects or /tmp. Nothing was run.", run->cwd);
    if (known) fail("%s. Nothing was run.", known);
    if (report->stage)
        fail("the cage could not be built (%s: %s). Nothing was run.", report->what, strerror(report->error));
    fail("bubblewrap could not build the cage. In a container, or inside another cage, it may not: use a host that lets it "
         "make namespaces and mount /proc. Nothing was run.");
}

int show_limits(const Run *run) {
    const struct {
        const char *name, *unit;
        long value;
    } limits[] = {{"processes", "", run->limit_processes},
                  {"file-size", " bytes", run->limit_file_size},
                  {"memory", " bytes of address space a process", run->limit_memory},
                  {"cpu", " seconds a process", run->limit_cpu}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value)
            printf("%-10s %ld%s\n", limits[i].name, limits[i].value, limits[i].unit);
        else
            printf("%-10s no limit\n", limits[i].name);
    printf("core       0 bytes\n");
    if (geteuid() == 0) printf("The kernel does not count the processes of root: run sbox as an ordinary user.\n");
    return 0;
}
