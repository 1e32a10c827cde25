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

/* The first line that a shell command prints in a cage, or NULL when no cage could be built. */
static const char *ask_a_cage(const char *command) {
    char line[1024] = "";
    FILE *answer = popen(text("exec /proc/%d/exe /bin/sh -c '%s'", getpid(), command), "re");
    if (!answer) return NULL;
    if (fgets(line, sizeof line, answer)) line[strcspn(line, "\n")] = 0;
    return pclose(answer) ? NULL : text("%s", line);
}

/* Starts a cage for each line it prints: nothing is said to hold that was not seen to hold. */
int check(const Run *run) {
    const char *known = obstacle();
    if (known) printf("missing  %s.\n", known);
    if (known && !bubblewrap()) return 1;
    const char *cache = ask_a_cage("grep -m1 \" $(readlink -f ~/.cache) overlay \" /proc/self/mounts || echo own");
    if (!cache) {
        printf("missing  no cage could be built: sbox refuses to run anything here.\n");
        return 1;
    }
    printf("ok       a cage starts (%s, sbox as a C program)\n", bubblewrap());
    printf("ok       writable: %s, %s and, for the cage alone, %s\n", run->projects, run->tmp, run->cache);
    printf("ok       ~/.cache: %s\n", !strcmp(cache, "own") ? "the cage's own; nothing was downloaded before"
                                                               : "what was downloaded before, under a layer of the cage's own");
    const char *filter = ask_a_cage("grep -c Seccomp:.2 /proc/self/status");
    printf("%s system call filter\n", filter && !strcmp(filter, "1") ? "ok      " : "missing ");
    const char *gpus = ask_a_cage("cd /dev && ls -d nvidia* dri kfd dxg 2>/dev/null | tr \"\\n\" \" \" || true");
    printf("ok       GPU nodes: %s\n", gpus && gpus[0] ? gpus : "none on this machine");
    printf("ok       .claude: held at the top of every directory in %s and of the one worked in\n", run->projects);
    if (no_grants())
        printf("missing  %s.\n", no_grants());
    else
        printf("ok       network grants: %s%s\n", grants_file(run), access(grants_file(run), F_OK) ? " is not there, so none" : "");
    if (knows_own_sockets())
        printf("ok       sockets that programs outside open while a cage runs are out of its reach (Landlock)\n");
    else
        printf("left     sockets that programs outside open while a cage runs, where it can see them, can be reached from it; "
               "Linux 7.1 has the rule against it\n");
    printf("left     memory: no limit without one in sbox.conf; see sbox --limits\n");
    if (geteuid() == 0) printf("left     root: files that root owns can be read; run agents as an ordinary user\n");
    if (!access("/proc/sys/fs/binfmt_misc/WSLInterop", F_OK))
        printf("left     WSL2: not tried; Windows programs need sockets that the cage hides\n");
    return 0;
}
