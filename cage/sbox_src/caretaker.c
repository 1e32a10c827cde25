/* What is to be done after the cage, done also when sbox itself is killed: a process in a session of its own, which a signal
 * to sbox and its group does not reach, waits for that. It holds the locks of the placeholders meanwhile. */
#define _GNU_SOURCE
#include "sbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t caretaker;
static int duty = -1; /* process numbers for it: 0 to leave, else that of the cage's first process */

static void wait_for(int process) {
    struct pollfd end = {.fd = process, .events = POLLIN};
    while (process >= 0 && poll(&end, 1, -1) < 0 && errno == EINTR) continue;
}

static _Noreturn void stand_by(const Run *run, int orders, int cage) {
    int first = -1;
    pid_t pid;
    setsid();
    close(0), close(1);
    while (read(orders, &pid, sizeof pid) == sizeof pid) {
        if (!pid) _exit(0);
        first = (int)syscall(SYS_pidfd_open, pid, 0);
    }
    wait_for(cage);
    wait_for(first); /* it ends after all others in the cage */
    report_new_files(run);
    let_go();
    if (run->scratch) remove_tree(run->scratch);
    _exit(0);
}

void start_caretaker(const Run *run, pid_t cage, const int *not_its, size_t count) {
    int orders[2], process = (int)syscall(SYS_pidfd_open, cage, 0);
    if (pipe2(orders, O_CLOEXEC)) fail("no descriptors are left (%s). Nothing was run.", strerror(errno));
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* it keeps them blocked */
    if ((caretaker = fork()) == 0) {
        for (size_t i = 0; i < count; i++)
            if (not_its[i] >= 0) close(not_its[i]);
        close(orders[1]);
        stand_by(run, orders[0], process);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (caretaker < 0) fail("no process could be started (%s). Nothing was run.", strerror(errno));
    atexit(dismiss_caretaker);
    close(orders[0]);
    if (process >= 0) close(process);
    duty = orders[1];
}

void tell_caretaker(pid_t pid) {
    if (duty >= 0 && write(duty, &pid, sizeof pid) < 0) close(duty), duty = -1;
}

void dismiss_caretaker(void) {
    if (caretaker <= 0) return;
    tell_caretaker(0);
    if (duty >= 0) close(duty);
    while (waitpid(caretaker, NULL, 0) < 0 && errno == EINTR) continue;
    caretaker = 0, duty = -1;
}

bool is_caretaker(pid_t pid) {
    return pid == caretaker;
}
