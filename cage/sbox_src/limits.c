/* What a cage may use. Each process has the limits of setrlimit(2). Where a limit on memory is set and systemd's user manager
 * runs, the cage gets a control group of its own, so that the limit is one for all its processes together. It is not made
 * otherwise: to ask the manager takes longer than all the rest. */
#define _GNU_SOURCE
#include "sbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEMD_RUN "/usr/bin/systemd-run"

bool by_cgroup(const Run *run) {
    struct stat manager;
    return run->limit_memory && !access(SYSTEMD_RUN, X_OK) && !access("/usr/bin/env", X_OK) &&
           !stat(text("/run/user/%u/systemd/private", getuid()), &manager) && S_ISSOCK(manager.st_mode);
}

void launch_in_scope(Run *run, List *argv) {
    static const char *const WORDS[] = {SYSTEMD_RUN, "--user", "--scope", "--quiet", "--collect"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) add(argv, WORDS[i]);
    addf(argv, "--property=MemoryMax=%ld", run->limit_memory);
    add(argv, "--property=MemorySwapMax=0");
    if (run->limit_processes) addf(argv, "--property=TasksMax=%ld", run->limit_processes);
    add(argv, "--");
    /* by which it finds the manager; the cage does not get it */
    addf(&run->env, "XDG_RUNTIME_DIR=/run/user/%u", getuid());
    static const char *const WITHOUT[] = {"/usr/bin/env", "-u", "XDG_RUNTIME_DIR", "-u", "INVOCATION_ID"};
    for (size_t i = 0; i < sizeof WITHOUT / sizeof *WITHOUT; i++) add(argv, WITHOUT[i]);
    run->limit_memory = 0; /* the address space of a process would be another thing */
}

int show_limits(const Run *run) {
    bool cgroup = by_cgroup(run);
    const struct {
        const char *name, *unit;
        long value;
    } limits[] = {
        {"processes", cgroup ? ", all of the cage (control group)" : " (rlimit)", run->limit_processes},
        {"file-size", " bytes a file (rlimit)", run->limit_file_size},
        {"memory", cgroup ? " bytes, all of the cage (control group)" : " bytes of address space a process (rlimit)",
         run->limit_memory},
        {"cpu", " seconds a process (rlimit)", run->limit_cpu}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value)
            printf("%-10s %ld%s\n", limits[i].name, limits[i].value, limits[i].unit);
        else
            printf("%-10s no limit\n", limits[i].name);
    printf("core       0 bytes\n");
    if (geteuid() == 0 && !cgroup) printf("The kernel does not count the processes of root: run sbox as an ordinary user.\n");
    return 0;
}
