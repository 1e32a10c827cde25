/* Inside the cage, between bubblewrap and the command: the remaining mounts, then no rights, limits, the system call
 * filter, and the command itself. Whatever fails is reported, and nothing is started. */
#define _GNU_SOURCE
#include "filter.h"
#include "sbox.h"
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x4
#endif

typedef struct {
    char **steps; /* kind, source, target */
    int *sources; /* opened before the first step */
    size_t count;
    const char *layer; /* the directory that holds upper/ and work/, or "" */
    int layer_fd;
    int saved; /* the tree remembered by SAVE */
} Mounts;

static int report_to;

static void report(char stage, const char *what) {
    Report message = {.stage = stage, .error = errno};
    snprintf(message.what, sizeof message.what, "%s", what);
    if (send(report_to, &message, sizeof message, MSG_NOSIGNAL) < 0) _exit(EXIT_CAGE);
}

static void give_up(char stage, const char *what) __attribute__((noreturn));
static void give_up(char stage, const char *what) {
    report(stage, what);
    _exit(EXIT_CAGE);
}

static const char *fd_path(int fd) {
    return text("/proc/self/fd/%d", fd);
}

/* After a name could not be made: true when the directories above it were what was missing. */
static bool made_parents(const char *path) {
    if (errno != ENOENT) return false;
    char *copy = text("%s", path);
    for (char *slash = copy; (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        mkdir(copy, 0755);
    }
    return true;
}

static void make_directory(const char *path) {
    if (mkdir(path, 0755) && made_parents(path)) mkdir(path, 0755);
}

static void make_file(const char *path) {
    static const int HOW = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    int fd = open(path, HOW, 0600);
    if (fd < 0 && made_parents(path)) fd = open(path, HOW, 0600);
    if (fd >= 0) close(fd);
}

static int make_link(const char *target, const char *path) {
    return symlink(target, path) && !(made_parents(path) && !symlink(target, path)) ? -1 : 0;
}

enum { KEPT = ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC }; /* flags that the host set may not be left out; MS_… are the same */

struct mount_attributes {
    uint64_t set, clear, propagation, user_namespace;
};

/* `how`: 0 for this mount alone, AT_RECURSIVE for those below it as well, which would stay writable. */
static int make_read_only(const char *path, unsigned how) {
    struct mount_attributes seal = {.set = 1 /* MOUNT_ATTR_RDONLY */};
    return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, how, &seal, sizeof seal);
}

static int show(int source, const char *target, bool writable) {
    struct stat info;
    if (source < 0) return 0; /* gone since the plan was made */
    if (fstat(source, &info)) return -1;
    S_ISDIR(info.st_mode) ? make_directory(target) : make_file(target);
    if (mount(fd_path(source), target, NULL, MS_BIND | MS_REC, NULL)) return -1;
    return writable ? 0 : make_read_only(target, AT_RECURSIVE);
}

static int show_device(int source, const char *target) {
    struct statvfs info;
    if (source < 0) return 0; /* there is none */
    make_file(target);
    if (mount(fd_path(source), target, NULL, MS_BIND, NULL) || statvfs(target, &info)) return -1;
    return mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | (info.f_flag & KEPT & ~ST_NODEV), NULL);
}

static int ignore_all(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 || write(fd, "*\n", 2) != 2 ? -1 : close(fd);
}

/* What we do not reach, with more rights than the command, it does not reach either. */
static int unless_gone(int result) {
    return result && errno != ENOENT && errno != ENOTDIR && errno != EACCES ? -1 : 0;
}

static int hide(const char *path) {
    struct stat info;
    if (stat(path, &info)) return 0;
    if (!S_ISDIR(info.st_mode)) return unless_gone(mount("/dev/null", path, NULL, MS_BIND, NULL));
    return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, "mode=0755,size=4k");
}

/* Under the cover it is not seen, but a name with a mount on it can be neither removed nor renamed. */
static int pin(const char *path) {
    struct stat info;
    if (lstat(path, &info)) return unless_gone(-1);
    if (!S_ISLNK(info.st_mode)) return unless_gone(mount(path, path, NULL, MS_BIND | MS_REC, NULL));
    int file = (int)syscall(SYS_open_tree, AT_FDCWD, "/dev/null", OPEN_TREE_CLONE | O_CLOEXEC);
    if (file < 0) return -1;
    int result = (int)syscall(SYS_move_mount, file, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
    close(file);
    return unless_gone(result);
}

static int lock(const char *path) {
    return mount(path, path, NULL, MS_BIND | MS_REC, NULL) ? -1 : make_read_only(path, AT_RECURSIVE);
}

/* The real cache below, this cage's writes above; where the kernel has no such overlay, the writes alone. */
static int layer(const Mounts *mounts, int source, const char *target) {
    make_directory(target);
    if (mounts->layer_fd < 0) return -1;
    const char *above = fd_path(mounts->layer_fd);
    /* volatile: no sync of the whole disk at the end of every cage; the kernel's mark of it must go before the next one */
    unlink(text("%s/work/work/incompat/volatile/dirty", above));
    rmdir(text("%s/work/work/incompat/volatile", above));
    rmdir(text("%s/work/work/incompat", above));
    const char *options =
        text("lowerdir=%s,upperdir=%s/upper,workdir=%s/work,userxattr,volatile", fd_path(source), above, above);
    int result = mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options);
    if (result) result = mount(text("%s/upper", above), target, NULL, MS_BIND, NULL);
    close(mounts->layer_fd); /* no later step follows a link to it, which an older cage may put on its way */
    return result;
}

static int take(Mounts *mounts, char kind, int source, const char *from, const char *target) {
    switch (kind) {
    case ZONE: return 0; /* made already */
    case EMPTY: return mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
    case SEAL: return make_read_only(target, 0);
    case SHOW: return show(source, target, false);
    case WRITE: return show(source, target, true);
    case DEVICE: return show_device(source, target);
    case TTYS:
        mkdir(target, 0755);
        return mount("devpts", target, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    case FOLDER: return mkdir(target, 0700);
    case IGNORE: return ignore_all(target);
    case LINK: return make_link(from, target);
    case HIDE: return hide(near(target));
    case LAYER: return layer(mounts, source, target);
    case PIN: return pin(near(target));
    case SAVE:
        stand_in(target);
        mounts->saved = (int)syscall(SYS_open_tree, AT_FDCWD, target, OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE);
        return mounts->saved;
    case COVER:
        if (syscall(SYS_move_mount, mounts->saved, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH)) return -1;
        stand_in(target); /* on top of the pins */
        return 0;
    case VIEW:
        mkdir(target, 0700);
        return mount(from, target, NULL, MS_BIND | MS_REC, NULL) ? -1 : make_read_only(target, AT_RECURSIVE);
    case GUARD: return unless_gone(mount(from, near(target), NULL, MS_BIND | MS_REC, NULL));
    case HOLD: return mount(from, near(target), NULL, MS_BIND, NULL);
    case DONE: return umount2(target, MNT_DETACH) ? -1 : rmdir(target);
    case LOCK: return lock(target);
    default: return errno = EINVAL, -1;
    }
}

/* Everything but /proc itself; nothing is left out, or it fails. */
static int make_all_read_only(void) {
    struct mount_attributes open = {.clear = 1};
    if (make_read_only("/", AT_RECURSIVE)) return -1;
    return (int)syscall(SYS_mount_setattr, AT_FDCWD, "/proc", 0, &open, sizeof open);
}

static void make_zones(const Mounts *mounts) {
    size_t zones = 0;
    int trees[8];
    for (; zones < mounts->count && zones < 8 && mounts->steps[3 * zones][0] == ZONE; zones++) {
        const char *path = mounts->steps[3 * zones + 2];
        trees[zones] = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE);
        if (trees[zones] < 0) give_up('m', path);
    }
    if (make_all_read_only()) give_up('m', "/");
    for (size_t i = 0; i < zones; i++) {
        const char *path = mounts->steps[3 * i + 2];
        if (syscall(SYS_move_mount, trees[i], "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH)) give_up('m', path);
        close(trees[i]);
    }
}

static void make_mounts(Mounts *mounts) {
    /* Nothing mounted outside from now on shows up in here. */
    if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL)) give_up('m', "/");
    make_zones(mounts);
    mounts->layer_fd = mounts->layer[0] ? open(mounts->layer, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    mounts->sources = calloc(mounts->count + 1, sizeof *mounts->sources);
    for (size_t i = 0; i < mounts->count; i++) {
        char **step = mounts->steps + 3 * i, kind = step[0][0];
        bool named = kind == SHOW || kind == WRITE || kind == LAYER || kind == DEVICE;
        mounts->sources[i] = named ? open(step[1], O_PATH | O_CLOEXEC) : -1;
        if (named && mounts->sources[i] < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) give_up('m', step[1]);
    }
    for (size_t i = 0; i < mounts->count; i++) {
        char **step = mounts->steps + 3 * i;
        if (take(mounts, step[0][0], mounts->sources[i], step[1], step[2]) < 0) give_up('m', step[2]);
        if (mounts->sources[i] >= 0) close(mounts->sources[i]);
    }
}

static void drop_rights(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    for (int capability = 0; !prctl(PR_CAPBSET_DROP, capability, 0, 0, 0); capability++) continue;
    if (errno != EINVAL) give_up('f', "capabilities"); /* that of one more than there are */
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) || syscall(SYS_capset, &header, none) ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        give_up('f', "capabilities");
}

int load_filter(void) {
    static struct sock_filter program[(sizeof FILTER - 1) / sizeof(struct sock_filter)];
    memcpy(program, FILTER, sizeof program);
    struct sock_fprog filter = {.len = sizeof program / sizeof *program, .filter = program};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void limit(int kind, long value) {
    struct rlimit now, wanted = {(rlim_t)value, (rlim_t)value};
    if (value < 0 || getrlimit(kind, &now)) return;
    if (now.rlim_max < wanted.rlim_max) wanted.rlim_cur = wanted.rlim_max = now.rlim_max;
    if (setrlimit(kind, &wanted)) give_up('f', "limits");
}

/* The plan: numbers, places, steps and the command, as strings one after another. */
void write_plan(const Run *run, int fd) {
    FILE *file = fdopen(fd, "w");
    if (!file) fail("no descriptors are left (%s). Nothing was run.", strerror(errno));
    fprintf(file, "%u%c%ld%c%ld%c%ld%c%ld%c", run->default_signals, 0, run->limit_processes, 0, run->limit_file_size, 0,
            run->limit_memory, 0, run->limit_cpu, 0);
    fprintf(file, "%d%c%d%c%s%c%s%c", run->own_session, 0, run->grant != NULL, 0, run->cwd, 0, run->layer ? run->layer : "", 0);
    const List *lists[] = {&run->steps, &run->command};
    for (int i = 0; i < 2; i++) {
        fprintf(file, "%zu%c", lists[i]->count, 0);
        for (size_t j = 0; j < lists[i]->count; j++) fwrite(lists[i]->at[j], 1, strlen(lists[i]->at[j]) + 1, file);
    }
    if (fclose(file)) fail("the plan of the cage could not be written (%s). Nothing was run.", strerror(errno));
}

static char *next(char **rest, char *end) {
    char *word = *rest;
    if (word >= end) give_up('m', "the plan is incomplete");
    *rest += strlen(word) + 1;
    return word;
}

/* We are process 1 of the cage, not bubblewrap: its process would still see what is covered here, and the command would
 * see it through /proc/1/root. When we end, everything in the cage ends. */
static void reap(pid_t command) __attribute__((noreturn));
static void reap(pid_t command) {
    int status;
    syscall(SYS_close_range, 3, ~0U, 0);
    for (pid_t ended = 0; ended != command;)
        if ((ended = waitpid(-1, &status, 0)) < 0 && errno != EINTR) _exit(EXIT_CAGE);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void inside(int plan_fd, int report_fd) {
    report_to = report_fd;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    report('i', "");
    fcntl(report_fd, F_SETFD, FD_CLOEXEC);
    fcntl(plan_fd, F_SETFD, FD_CLOEXEC);
    fcntl(7, F_SETFD, FD_CLOEXEC);
    char go;
    if (recv(report_fd, &go, 1, 0) != 1) _exit(EXIT_CAGE); /* sbox has ended, or found that nothing may be run */
    struct stat info;
    char *rest = MAP_FAILED;
    if (!fstat(plan_fd, &info))
        rest = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, plan_fd, 0);
    if (rest == MAP_FAILED) give_up('m', "the plan");
    char *end = rest + info.st_size;
    unsigned default_signals = (unsigned)strtoul(next(&rest, end), NULL, 10);
    long limits[4];
    for (int i = 0; i < 4; i++) limits[i] = strtol(next(&rest, end), NULL, 10);
    bool own_session = next(&rest, end)[0] == '1', granted = next(&rest, end)[0] == '1';
    const char *cwd = next(&rest, end);
    Mounts mounts = {.layer = next(&rest, end), .saved = -1};
    List lists[2] = {{0}};
    for (int i = 0; i < 2; i++)
        for (long count = strtol(next(&rest, end), NULL, 10); count > 0; count--) add(&lists[i], next(&rest, end));
    mounts.steps = lists[0].at, mounts.count = lists[0].count / 3;

    struct rlimit files, most; /* each source takes a descriptor */
    if (getrlimit(RLIMIT_NOFILE, &files)) give_up('f', "limits");
    most = (struct rlimit){files.rlim_max, files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &most);
    make_mounts(&mounts);
    if (chdir(cwd)) give_up('d', cwd);
    setenv("PWD", cwd, 1);
    drop_rights();
    limit(RLIMIT_CORE, 1); /* less than any core; at 0 the kernel would start a program outside that core_pattern names */
    limit(RLIMIT_NPROC, limits[0] ? limits[0] : -1);
    limit(RLIMIT_FSIZE, limits[1] ? limits[1] : -1);
    limit(RLIMIT_AS, limits[2] ? limits[2] : -1);
    limit(RLIMIT_CPU, limits[3] ? limits[3] : -1);
    if (granted && !hand_out_listener()) give_up('n', "the network grant");
    if (setrlimit(RLIMIT_NOFILE, &files)) give_up('f', "limits");
    if (!keep_to_own_sockets()) give_up('f', "the rule for sockets");
    if (load_filter()) give_up('f', "the system call filter");
    /* The command must find nothing here, not in the instant before we go on either: our descriptors lead to what is
     * covered by now. It could not take even the socket, for nobody but us may look into this process. */
    if (syscall(SYS_close_range, 3, report_fd - 1, 0) || syscall(SYS_close_range, report_fd + 1, ~0U, 0) ||
        prctl(PR_SET_DUMPABLE, 0))
        give_up('f', "descriptors");
    /* else kill(0, …) would reach the caller, whose group is outside. Not done by the command, which may want to itself. */
    if (own_session && setsid() < 0) give_up('f', "a session");
    pid_t command = vfork(); /* what follows in the child is nothing but system calls */
    if (command < 0) give_up('f', "a process");
    if (command > 0) reap(command);
    for (int number = 1; number < 32; number++)
        if (default_signals & (1u << number)) signal(number, SIG_DFL);
    report('r', "");
    execvp(lists[1].at[0], lists[1].at);
    give_up('x', lists[1].at[0]);
}
