/* The life of a run: read the options, plan the cage, start bubblewrap, wait, tell the truth about the end.
 *
 * bubblewrap builds the namespaces and starts this same program inside (inside.c), which makes the remaining mounts,
 * gives up its rights, reports that it is about to start the command, and starts it. No report, no command: exit 125. */
#define _GNU_SOURCE
#include "sbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const int FORWARDED[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
static volatile pid_t cage_pid, init_pid, command_pid;
static volatile sig_atomic_t last_signal, ending;
static bool alone; /* run->own_session */
static struct rlimit caller_files; /* what the command gets back; we need a descriptor for each placeholder */

static const char USAGE[] =
    "Usage: sbox [--] CMD [ARG...]     run CMD in the cage\n"
    "       sbox --net-allow NAME -- CMD [ARG...]     the same, with the hosts listed under NAME in net-allow.txt\n"
    "       sbox --check               say what the cage holds on this machine, and what is missing\n"
    "       sbox --limits              show the limits in force\n"
    "       sbox --help\n\n"
    "In the cage the whole system is read-only but ~/projects, /tmp and ~/.cache; there is no network, ~/.ssh is empty,\n"
    "hidden files of the home directory are out of sight but for toolchains, and only a short list of environment\n"
    "variables is passed on. The exit code is that of CMD: 127 when it is not found, 126 when it cannot be run.\n"
    "A cage that cannot be built runs nothing and exits 125.\n";

static void say_list(const char *format, va_list arguments) {
    char *sentence;
    if (vasprintf(&sentence, format, arguments) < 0) return;
    for (char *at = sentence; *at; at++) /* names come from anywhere, and this is for a terminal */
        if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
    dprintf(2, "sbox: %s\n", sentence);
    free(sentence);
}

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_list(format, arguments);
    va_end(arguments);
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_list(format, arguments);
    va_end(arguments);
    exit(EXIT_CAGE);
}

char *text(const char *format, ...) {
    char *made;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&made, format, arguments) < 0) fail("out of memory. Nothing was run.");
    va_end(arguments);
    return made;
}

void add(List *list, const char *item) {
    if (list->count % 64 == 0) {
        list->at = realloc(list->at, (list->count + 65) * sizeof *list->at);
        if (!list->at) fail("out of memory. Nothing was run.");
    }
    list->at[list->count++] = (char *)item;
    list->at[list->count] = NULL;
}

void addf(List *list, const char *format, ...) {
    char *made;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&made, format, arguments) < 0) fail("out of memory. Nothing was run.");
    va_end(arguments);
    add(list, made);
}

/* A directory, or a socket: those are of the network outside, and can be connected anew, but for a stream between two ends. */
static bool leads_out(int fd) {
    struct stat info;
    struct sockaddr_storage peer;
    int family = 0, type = 0;
    socklen_t size = sizeof family, room = sizeof peer;
    if (fstat(fd, &info) || !S_ISSOCK(info.st_mode)) return S_ISDIR(info.st_mode);
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    return family != AF_UNIX || type == SOCK_DGRAM || getpeername(fd, (struct sockaddr *)&peer, &room);
}

/* No descriptor of the caller but 0, 1 and 2 goes in; a closed one of these would be taken by the next file opened. */
static void close_inherited_descriptors(int kept) {
    unsigned first = kept < 3 ? 3 : (unsigned)kept + 1;
    if ((kept > 3 && syscall(SYS_close_range, 3, kept - 1, 0) < 0) || syscall(SYS_close_range, first, ~0U, 0) < 0)
        for (int fd = 3; fd < sysconf(_SC_OPEN_MAX); fd++)
            if (fd != kept) close(fd);
    if (kept > 2) fcntl(kept, F_SETFD, FD_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) fail("/dev/null cannot be opened. Nothing was run.");
    for (int fd = 0; fd <= 2; fd++)
        if (leads_out(fd)) fail("descriptor %d is a directory or a socket that can be connected anew, a way out of the cage. Nothing was run.", fd);
}

/* The descriptor that --net-fd names, or -1. */
static int kept_descriptor(int argc, char **argv) {
    char *end = NULL;
    long fd = argc > 2 && !strcmp(argv[1], "--net-fd") ? strtol(argv[2], &end, 10) : -1;
    return end && !*end && fd > 2 && fd < 1 << 20 && fcntl((int)fd, F_GETFD) >= 0 ? (int)fd : -1;
}

/* bubblewrap, left alive, waits until the last process of the cage is gone. It is not ended itself: its child could be
 * left behind, which waits for a word from it. */
static void end_cage(void) {
    ending = 1; /* for a first process that has not said yet who it is */
    if (init_pid > 0) kill(init_pid, SIGKILL);
}

static void allow_many_descriptors(void) {
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &caller_files);
    most = caller_files;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
}

/* A signal sent to us alone is meant for the command. One typed at the terminal is for all that runs there: it reached
 * them already, if they are in our session; else it is passed on to their group, which is that of the cage's first process. */
static void forward(int signal, siginfo_t *info, void *context) {
    (void)context;
    bool typed = info->si_code > 0;
    if (typed && !alone) return;
    last_signal = signal;
    if (typed && command_pid > 0 && init_pid > 0)
        kill(-init_pid, signal);
    else if (command_pid > 0)
        kill(command_pid, signal);
    else
        end_cage();
}

static void catch_signals(Run *run) {
    for (size_t i = 0; i < sizeof FORWARDED / sizeof *FORWARDED; i++) {
        struct sigaction before, ours = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO};
        sigaction(FORWARDED[i], NULL, &before);
        if (before.sa_handler == SIG_IGN) continue;
        run->default_signals |= 1u << FORWARDED[i];
        sigaction(FORWARDED[i], &ours, NULL);
    }
    static const int ERRORS[] = {SIGPIPE, SIGXFSZ}; /* a call that fails says it as well, and then there is an end in order */
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (signal(ERRORS[i], SIG_IGN) != SIG_IGN) run->default_signals |= 1u << ERRORS[i];
}

const char *bubblewrap(void) {
    static const char *const PLACES[] = {"/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap",
                                         "/run/current-system/sw/bin/bwrap"};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (!access(PLACES[i], X_OK)) return PLACES[i];
    return NULL;
}

static void bubblewrap_arguments(Run *run, List *argv) {
    static const char *const WALLS[] = {
        "--unshare-user", "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-net", "--die-with-parent",
        /* the program inside needs these two for its mounts and gives them up before the command starts */
        "--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_SETPCAP",
        /* all of it becomes read-only inside, but for the zones: bubblewrap looks through all mounts for each --bind */
        "--bind", "/", "/", "--proc", "/proc", "--chdir", "/", "--"};
    if (by_cgroup(run)) launch_in_scope(run, argv);
    if (run->grant) launch_with_proxy(run, argv);
    add(argv, bubblewrap() ? bubblewrap() : "");
    for (size_t i = 0; i < sizeof WALLS / sizeof *WALLS; i++) add(argv, WALLS[i]);
    addf(argv, "/proc/self/fd/%d", SELF_FD);
}

/* Runs between vfork and exec: nothing but system calls. */
static void start_bubblewrap(char **argv, char **env, const int descriptors[4], int errors) {
    static const int PLACES[] = {SELF_FD, PLAN_FD, REPORT_FD, GRANT_FD};
    int kept[4];
    if (errors >= 0 && dup2(errors, 2) < 0) _exit(EXIT_CAGE); /* before its place is taken below */
    for (int i = 0; i < 4; i++) kept[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, 20); /* clear of the places they go to */
    for (int i = 0; i < 4; i++)
        if (descriptors[i] >= 0 && dup2(kept[i], PLACES[i]) < 0) _exit(EXIT_CAGE);
    setrlimit(RLIMIT_NOFILE, &caller_files);
    for (size_t i = 0; i < sizeof FORWARDED / sizeof *FORWARDED; i++) signal(FORWARDED[i], SIG_IGN);
    execve(argv[0], argv, env);
    _exit(EXIT_CAGE);
}

/* Takes one report, and learns from the kernel which process sent it. False at the end. */
static bool take_report(int socket, Report *report) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {.iov_base = report, .iov_len = sizeof *report};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof *report) return false;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    pid_t sender = header && header->cmsg_type == SCM_CREDENTIALS ? ((struct ucred *)(void *)CMSG_DATA(header))->pid : 0;
    if (report->stage == 'r') command_pid = sender;
    if (report->stage == 'i') {
        init_pid = sender, report->stage = 0;
        tell_caretaker(sender);
        if (ending) end_cage();
    }
    return true;
}

/* The last bytes the command wrote to stderr. */
typedef struct {
    char at[4097];
    size_t count;
} Tail;

static void keep_tail(Tail *tail, const char *bytes, size_t count) {
    size_t room = sizeof tail->at - 1;
    if (count > room) bytes += count - room, count = room;
    if (tail->count + count > room) {
        size_t drop = tail->count + count - room;
        memmove(tail->at, tail->at + drop, tail->count -= drop);
    }
    memcpy(tail->at + tail->count, bytes, count);
    tail->count += count;
    tail->at[tail->count] = 0;
}

static bool write_all(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t wrote = write(fd, bytes, count);
        if (wrote > 0) {
            bytes += wrote, count -= (size_t)wrote;
        } else if (errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Passes stderr on. False when it ended, or when nobody reads any more (the command then gets its EPIPE). */
static bool relay(int from, Tail *tail) {
    char bytes[65536];
    ssize_t count = read(from, bytes, sizeof bytes);
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    if (count == 0) return false;
    keep_tail(tail, bytes, (size_t)count);
    return write_all(2, bytes, (size_t)count);
}

/* Of a bubblewrap that was killed, what it left behind is our child now: it may wait for a word from it for ever. */
static void end_left_behind(void) {
    char pids[256] = "", *at = pids;
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read(fd, pids, sizeof pids - 1) < 0) pids[0] = 0;
    close(fd);
    for (long pid; (pid = strtol(at, &at, 10)) > 0;)
        if (!is_caretaker((pid_t)pid) && !kill((pid_t)pid, SIGKILL)) waitpid((pid_t)pid, NULL, 0);
}

/* Waits for bubblewrap. The caller's end is the cage's end, also when only a thread of the caller started us. */
static int supervise(const Run *run, int reports, int errors, int parent, Report *report, Tail *tail) {
    int cage = (int)syscall(SYS_pidfd_open, cage_pid, 0), status;
    struct pollfd watch[] = {{.fd = cage, .events = POLLIN},
                             {.fd = reports, .events = POLLIN},
                             {.fd = errors, .events = POLLIN},
                             {.fd = parent, .events = POLLIN},
                             {.fd = run->made ? run->made : -1, .events = POLLIN}};
    while (cage >= 0) {
        if (poll(watch, sizeof watch / sizeof *watch, -1) < 0) {
            if (errno == EINTR) continue;
            break;
        }
        if (watch[1].revents && !take_report(reports, report)) watch[1].fd = -1;
        if (watch[2].revents && !relay(errors, tail)) close(errors), watch[2].fd = -1;
        if (watch[3].revents) end_cage(), watch[3].fd = -1;
        const char *misleading = watch[4].revents ? misleads_git(run) : NULL;
        if (misleading) {
            end_cage(), watch[4].fd = -1; /* first: nobody may read what is said */
            say("the run was ended: %s was made, which git outside follows at once.", misleading);
            last_signal = 0;      /* it did not end the run */
            take_files_away(run); /* the end can take long, of a cage that holds much memory */
        }
        if (watch[0].revents && watch[2].fd < 0) break;
        if (watch[0].revents && !watch[2].revents) break;
    }
    while (waitpid(cage_pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(status)) end_left_behind();
    while (take_report(reports, report)) continue;
    command_pid = init_pid = 0; /* these numbers may be others' from now on */
    return status;
}

/* One more line when the cage is what stopped the command, so that its reader does not look elsewhere. */
static void say_what_was_stopped(const Run *run, const Tail *tail) {
    static const char *const WRITES[] = {"Read-only file system", "EROFS", "Device or resource busy", NULL};
    static const char *const NETWORK[] = {"Network is unreachable", "ENETUNREACH", "Could not resolve host",
                                          "Temporary failure in name resolution", "EAI_AGAIN", "Tunnel connection failed: 403",
                                          "CONNECT tunnel failed, response 403", "is not in the grant", NULL};
    for (int i = 0; WRITES[i]; i++)
        if (strstr(tail->at, WRITES[i])) {
            dprintf(2, "sbox: the cage stopped a write outside ~/projects, /tmp and ~/.cache, or to a guarded file there. "
                       "If it is needed, run the command without sbox: a person will be asked.\n");
            return;
        }
    for (int i = 0; NETWORK[i]; i++)
        if (strstr(tail->at, NETWORK[i])) {
            dprintf(2, run->grant ? "sbox: the cage reaches only what its network grant lists. For more, run the command without "
                                    "sbox: a person will be asked.\n"
                                  : "sbox: the cage has no network. If it is needed, run the command without sbox: a person will "
                                    "be asked.\n");
            return;
        }
    char *hidden = text("%s/.", run->home);
    const char *found = strstr(tail->at, "No such file or directory") ? strstr(tail->at, hidden) : NULL;
    if (!found) return;
    char *path = strndup(found, strcspn(found, "'\"`: \n"));
    if (path && exists(path))
        say("%s exists but is hidden in the cage. If it is needed, run the command without sbox: a person will be asked.", path);
}

/* Where stderr can be read back afterwards, or must be passed on to be seen; a terminal shows itself. */
static bool is_pipe_of_its_own(void) {
    struct stat out, err;
    if (fstat(2, &err) || !(S_ISFIFO(err.st_mode) || S_ISSOCK(err.st_mode))) return false;
    return fstat(1, &out) || out.st_ino != err.st_ino || out.st_dev != err.st_dev;
}

static void read_tail_of_file(Tail *tail, off_t start) {
    struct stat now;
    if (fstat(2, &now) || !S_ISREG(now.st_mode) || now.st_size <= start) return;
    int fd = open("/proc/self/fd/2", O_RDONLY | O_CLOEXEC);
    off_t from = now.st_size - (off_t)sizeof tail->at + 1;
    ssize_t count = pread(fd, tail->at, sizeof tail->at - 1, from > start ? from : start);
    if (count > 0) tail->count = (size_t)count, tail->at[count] = 0;
    if (fd >= 0) close(fd);
}

static void die_of(int number) {
    dismiss_caretaker();
    let_go();
    signal(number, SIG_DFL);
    raise(number);
}

static int exit_like(int status) {
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    /* ended by what we passed on, or by us, where it came before we knew of the command */
    if (last_signal && (ending || WEXITSTATUS(status) == 128 + last_signal)) die_of(last_signal);
    return WEXITSTATUS(status);
}

typedef struct {
    int parent, reports, errors, plan; /* descriptors: our caller, what comes from inside, the command's stderr, the plan */
    off_t stderr_start;
} Cage;

/* bubblewrap gets ready while we look what there is to guard; the program inside waits for the plan. */
static Cage start_cage(Run *run) {
    int reports[2], errors[2] = {-1, -1}, on = 1;
    struct stat stderr_then = {0};
    fstat(2, &stderr_then);
    pid_t parent_pid = getppid();
    int parent = parent_pid > 1 ? (int)syscall(SYS_pidfd_open, parent_pid, 0) : -1;
    if (getppid() != parent_pid) exit(EXIT_CAGE);
    int plan = memfd_create("plan", MFD_CLOEXEC);
    if (plan < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reports) ||
        setsockopt(reports[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
        (is_pipe_of_its_own() && pipe2(errors, O_CLOEXEC)))
        fail("no descriptors are left (%s). Nothing was run.", strerror(errno));
    List argv = {0};
    bubblewrap_arguments(run, &argv);
    int descriptors[] = {open("/proc/self/exe", O_RDONLY | O_CLOEXEC), plan, reports[1], run->grant_fd};
    if ((cage_pid = vfork()) == 0) start_bubblewrap(argv.at, run->env.at, descriptors, errors[1]);
    if (cage_pid < 0) fail("no process could be started (%s). Nothing was run.", strerror(errno));
    close(reports[1]);
    if (errors[1] >= 0) close(errors[1]);
    return (Cage){parent, reports[0], errors[0], plan, stderr_then.st_size};
}

/* What was to be covered had gone before the mount, so nothing has run. Comes back when that was tried often enough. */
static void start_again(const Run *run, char **argv) {
    static const char NAME[] = "SBOX_ATTEMPT"; /* none of the names that are passed on */
    const char *before = getenv(NAME);
    int attempt = before ? atoi(before) : 0;
    if (attempt >= 9 || chdir(run->cwd)) return;
    dismiss_caretaker();
    let_go();
    if (run->scratch) remove_tree(run->scratch);
    if (run->grant_fd >= 0) fcntl(run->grant_fd, F_SETFD, 0);
    setrlimit(RLIMIT_NOFILE, &caller_files);
    setenv(NAME, text("%d", attempt + 1), 1);
    execv("/proc/self/exe", argv);
}

static int run_command(Run *run, const Cage *cage, char **argv) {
    static Tail tail;
    Report report = {0};
    const int not_its[] = {cage->parent, cage->reports, cage->errors, cage->plan, run->grant_fd, run->made};
    begin(run);
    start_caretaker(run, cage_pid, not_its, sizeof not_its / sizeof *not_its);
    write_plan(run, cage->plan);
    if (!ending) send(cage->reports, "g", 1, MSG_NOSIGNAL); /* where nobody waits for it, supervise() learns why */
    int status = supervise(run, cage->reports, cage->errors, cage->parent, &report, &tail);
    if (last_signal && report.stage != 'r') die_of(last_signal);
    if (report.stage == 'm' && (report.error == ENOENT || report.error == ENOTDIR)) start_again(run, argv);
    report_new_files(run);
    if (run->scratch) remove_tree(run->scratch);
    if (report.stage == 'x') {
        say("%s: %s", run->command.at[0], report.error == ENOENT ? "command not found" : strerror(report.error));
        return report.error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
    }
    if (run->grant && !report.stage && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CAGE) return EXIT_CAGE; /* said */
    if (report.stage != 'r') explain(run, &report);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        read_tail_of_file(&tail, cage->stderr_start);
        say_what_was_stopped(run, &tail);
    }
    return exit_like(status);
}

/* The options before the command; the place of the command among the words. */
static int read_options(Run *run, int argc, char **argv) {
    const char *option = argc > 1 ? argv[1] : "";
    bool by_fd = !strcmp(option, "--net-fd");
    run->grant_fd = -1;
    if (!by_fd && strcmp(option, "--net-allow")) {
        if (!strcmp(option, "--")) return 2;
        if (option[0] == '-') fail("there is no option %s. Options come before the command; see sbox --help.", option);
        return 1;
    }
    if (argc < 4 || !argv[2][0] || argv[2][0] == '-' || strcmp(argv[3], "--"))
        fail("%s is understood only as: sbox %s NAME -- CMD [ARG...]. Nothing was run.", option, option);
    run->grant = argv[2];
    if (by_fd && (run->grant_fd = kept_descriptor(argc, argv)) < 0)
        fail("%s is not an inherited descriptor. Nothing was run.", argv[2]);
    if (!bubblewrap()) explain(run, &(Report){0});
    return 4;
}

int main(int argc, char **argv) {
    /* Only as the first process of a new process namespace, started by bubblewrap, are we inside. */
    if (getpid() == 1 && argc == 1 && !strncmp(argv[0], "/proc/self/fd/", 14)) inside(PLAN_FD, REPORT_FD);
    static Run run;
    static Settings settings;
    clock_gettime(CLOCK_REALTIME, &run.began);
    signal(SIGCHLD, SIG_DFL); /* whoever ignores it leaves it ignored, and then nobody hears of an end */
    close_inherited_descriptors(kept_descriptor(argc, argv));
    const char *option = argc > 1 ? argv[1] : "";
    if (!strcmp(option, "--help") || !strcmp(option, "-h")) return write_all(1, USAGE, sizeof USAGE - 1) ? 0 : 1;
    find_places(&run);
    read_settings(&run, &settings);
    if (!strcmp(option, "--check")) return check(&run);
    if (!strcmp(option, "--limits")) return show_limits(&run);
    int first = read_options(&run, argc, argv);
    if (first >= argc || !argv[first][0]) fail("no command. Use: sbox CMD [ARG...]");
    for (int i = first; i < argc; i++) add(&run.command, argv[i]);
    keep_environment(&run, &settings, environ);
    run.own_session = alone = !isatty(0) && !isatty(1) && !isatty(2);
    catch_signals(&run);
    allow_many_descriptors();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    Cage cage = start_cage(&run);
    plan_cage(&run, &settings);
    plan_guards(&run);
    plan_seals(&run);
    return run_command(&run, &cage, argv);
}
