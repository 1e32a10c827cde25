/* What the cage shows: the system read-only, the writable directories, and of the home only plain entries and toolchains. */
#define _GNU_SOURCE
#include "sbox.h"
#include "steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Hidden entries of the home that programs need to run. Everything else there, what comes later too, stays out of sight. */
static const char *const TOOLCHAINS[] = {
    ".local/bin", ".local/lib", ".local/include", ".local/pipx", ".local/share/uv", ".local/share/pipx",
    ".local/share/pnpm", ".local/share/mise", ".local/share/fnm", ".local/share/virtualenvs", ".local/share/claude",
    ".pyenv", ".nvm", ".rustup", ".cargo/bin", ".cargo/env", ".cargo/registry", ".cargo/git", ".bun", ".deno", ".sdkman",
    ".conda", ".volta", ".asdf", ".rbenv", ".juliaup", ".julia", ".ghcup", ".elan", ".pixi", ".npm-global", ".nix-profile",
    ".m2/repository", ".terminfo", ".gitconfig", ".config/git",
};
/* Hidden even where a setting shows what is around them. */
static const char *const CREDENTIALS[] = {
    ".config/slack-gate", ".config/spikybot", ".config/git/credentials", ".bun/install/.npmrc", ".sdkman/etc/config",
    ".julia/servers", ".julia/logs", ".conda/condarc", ".conda/.condarc", ".pyenv/versions/*/pip.conf", ".npm-global/etc/npmrc",
    ".nvm/versions/node/*/etc/npmrc", ".volta/tools/image/node/*/etc/npmrc", ".asdf/installs/nodejs/*/etc/npmrc",
    ".local/share/mise/installs/node/*/etc/npmrc", ".local/share/fnm/node-versions/*/installation/etc/npmrc",
    ".local/share/uv/credentials",
};

enum { MOST_ROUNDS = 1 << 22 }; /* an older cage may go on writing to what is removed */

static const char *standing; /* where we stand, NULL for anywhere */
static size_t standing_length;

void stand_in(const char *directory) {
    standing = chdir(directory) ? NULL : directory;
    standing_length = strlen(directory);
}

const char *near(const char *path) {
    if (!standing || strncmp(path, standing, standing_length) || path[standing_length] != '/') return path;
    const char *name = path + standing_length;
    while (*name == '/') name++; /* more than one are as good as one, and would lead to the root */
    return *name ? name : path;
}

const char *directory_of(const char *path) {
    return text("%.*s", (int)(strrchr(path, '/') - path), path);
}

bool exists(const char *path) {
    struct stat ignored;
    return lstat(near(path), &ignored) == 0;
}

int open_plainly(const char *directory) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, near(directory), &how, sizeof how);
}

/* True when its owner had no right to something in it and has now. */
static bool open_up(int directory) {
    struct stat info;
    return faccessat(directory, ".", R_OK | W_OK | X_OK, 0) && errno == EACCES && !fstat(directory, &info) &&
           !chmod(text("/proc/self/fd/%d", directory), (info.st_mode & 07777) | 0700);
}

int open_again(const char *directory) {
    int fd = open_plainly(directory);
    if (fd < 0 && errno == EACCES && strrchr(directory, '/') > directory) {
        int above = open_again(directory_of(directory));
        if (above >= 0) close(above), fd = open_plainly(directory);
    }
    if (fd >= 0 && open_up(fd)) say("%s was closed in the cage. Its owner's rights are given back.", directory);
    return fd;
}

bool is_below(const char *path, const char *directory) {
    size_t length = strlen(directory);
    return !strncmp(path, directory, length) && (!path[length] || path[length] == '/');
}

void step(Run *run, char kind, const char *source, const char *target) {
    static char kinds[256][2]; /* words of one letter */
    kinds[(unsigned char)kind][0] = kind;
    add(&run->steps, kinds[(unsigned char)kind]);
    add(&run->steps, source);
    add(&run->steps, target);
}

static bool is_system_directory(const char *path) {
    static const char *const ALONE[] = {"/", "/tmp", "/home", "/var", "/opt", "/mnt", "/media", "/srv", "/nonexistent"};
    static const char *const WHOLE[] = {"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64",
                                        "/proc", "/run", "/sbin", "/sys", "/usr"};
    for (size_t i = 0; i < sizeof ALONE / sizeof *ALONE; i++)
        if (!strcmp(path, ALONE[i])) return true;
    for (size_t i = 0; i < sizeof WHOLE / sizeof *WHOLE; i++)
        if (is_below(path, WHOLE[i])) return true;
    return false;
}

/* The home of this user in /etc/passwd, or NULL. */
static const char *passwd_home(void) {
    FILE *file = fopen("/etc/passwd", "re");
    char *line = NULL, *found = NULL;
    size_t room = 0;
    while (file && !found && getline(&line, &room, file) >= 0) {
        char *field[7], *rest = line;
        int count = 0;
        while (count < 7 && (field[count] = strsep(&rest, ":\n"))) count++;
        if (count >= 6 && strtoul(field[2], NULL, 10) == getuid()) found = realpath(field[5], NULL);
    }
    if (file) fclose(file);
    return found;
}

/* A writable directory of the home, made when missing, followed when it is a link. */
static const char *zone_directory(const Run *run, const char *name) {
    const char *path = text("%s/%s", run->home, name);
    if (!exists(path)) mkdir(path, 0755);
    const char *target = realpath(path, NULL);
    struct stat info;
    if (!target || stat(target, &info) || !S_ISDIR(info.st_mode) || access(target, R_OK | X_OK))
        fail("~/%s is not a usable directory. Make it: mkdir -p ~/%s; chmod u+rwx ~/%s", name, name, name);
    const char *hidden = text("%s/.", run->home);
    if (is_system_directory(target) || is_below(run->home, target) ||
        (strcmp(target, path) && !strncmp(target, hidden, strlen(hidden))))
        fail("~/%s leads to %s, which must not be writable in the cage. Make ~/%s a directory of its own.", name, target, name);
    return target;
}

void find_places(Run *run) {
    const char *home = getenv("HOME");
    run->home = home && home[0] == '/' && home[1] ? realpath(home, NULL) : NULL;
    if (!run->home) run->home = passwd_home();
    if (!run->home) fail("there is no home directory. Set HOME to yours.");
    if (is_system_directory(run->home))
        fail("HOME is %s, a system directory. Set HOME to your own home directory.", run->home);
    if (!(run->cwd = getcwd(NULL, 0))) fail("the working directory is gone. Change to one that exists.");
    if (!(run->tmp = realpath("/tmp", NULL))) fail("/tmp is missing. Make it: sudo mkdir -m 1777 /tmp");
    run->projects = zone_directory(run, "projects");
    run->cache = zone_directory(run, ".cache");
}

/* A directory to be emptied, its owner's rights given back; -1 for what is none. By descriptors: a path in it can be too long,
 * and an older cage, which still runs, may put links on the way. */
static int open_to_empty(int parent, const char *name) {
    int place = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0) return -1;
    open_up(place);
    int fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(place);
    return fd;
}

/* Removes the files in `from` and moves its directories up to `top`; for `top` itself this is done with each of its own. False
 * when there was nothing that could be done. */
static bool thin_out(int from, int top) {
    static unsigned long number;
    bool done = false;
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = again >= 0 ? fdopendir(again) : NULL;
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, "..")) continue;
        if (!unlinkat(from, name, 0)) {
            done = true;
            continue;
        }
        int below = open_to_empty(from, name), failed;
        if (below < 0) continue;
        if (from == top) {
            done |= thin_out(below, top);
            failed = unlinkat(top, name, AT_REMOVEDIR);
        } else {
            char unused[24];
            do snprintf(unused, sizeof unused, "%lu", number++);
            while ((failed = renameat(from, name, top, unused)) &&
                   (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR));
        }
        done |= !failed;
        close(below);
    }
    if (directory) closedir(directory);
    return done;
}

/* With what is in it, however deep: the cage may have made a tree that is deeper than the stack. */
bool remove_entry(int parent, const char *name) {
    if (!unlinkat(parent, name, 0)) return true;
    if (errno != EISDIR && errno != EPERM) return false;
    int top = open_to_empty(parent, name);
    for (long rounds = 0; top >= 0 && rounds < MOST_ROUNDS && thin_out(top, top); rounds++) continue;
    if (top >= 0) close(top);
    return !unlinkat(parent, name, AT_REMOVEDIR);
}

void remove_tree(const char *path) {
    remove_entry(AT_FDCWD, path);
}

/* Layers of runs that were killed. */
static void remove_left_layers(const Run *run) {
    DIR *directory = opendir(run->state);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (!strncmp(entry->d_name, "run.", 4) && kill(atoi(entry->d_name + 4), 0) && errno == ESRCH)
            remove_tree(text("%s/%s", run->state, entry->d_name));
    if (directory) closedir(directory);
}

bool is_empty(const char *path) {
    DIR *directory = opendir(near(path));
    struct dirent *entry;
    bool empty = directory != NULL;
    while (empty && (entry = readdir(directory))) empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
    if (directory) closedir(directory);
    return empty;
}

/* Whoever is about to run git outside learns from this file whether a cage runs, by its lock, and since when at most: its time
 * is that of the first one, for as long as there is one after another without a gap. */
static void say_that_one_runs(const Run *run) {
    int running = open(text("%s/running", run->state), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (running < 0) return; /* another user's: then nobody can read it, which is told as well */
    if (!flock(running, LOCK_EX | LOCK_NB)) futimens(running, NULL);
    while (flock(running, LOCK_SH) && errno == EINTR) continue;
}

/* ~/.local/state/sbox, where the cage's writes to ~/.cache go; out of sight of the cage itself. */
static void make_state(Run *run) {
    const char *path = run->home;
    static const char *const PARTS[] = {".local", "state", "sbox"};
    for (int i = 0; i < 3; i++) {
        path = text("%s/%s", path, PARTS[i]);
        mkdir(path, i < 2 ? 0755 : 0700);
    }
    run->state = realpath(path, NULL);
    if (run->state && (is_below(run->state, run->projects) || is_below(run->state, run->cache)))
        fail("~/.local/state/sbox leads to %s, which the cage could write. Make it a directory of its own.", run->state);
    if (!run->state || access(run->state, W_OK)) {
        run->state = NULL;
        return;
    }
    say_that_one_runs(run);
    mkdir(text("%s/upper", run->state), 0700);
    run->yard = text("%s/yard", run->state);
    mkdir(run->yard, 0700);
    if (is_empty(run->cache)) return; /* nothing to lay over: the cage's own cache is shown as it is */
    /* Two overlays must not share a writable layer: the first cage has the lasting one, others one of their own. */
    int lock = open(text("%s/lock", run->state), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB)) run->scratch = text("%s/run.%d", run->state, getpid());
    remove_left_layers(run);
    run->layer = run->scratch ? run->scratch : run->state;
    mkdir(run->layer, 0700);
    mkdir(text("%s/upper", run->layer), 0700);
    mkdir(text("%s/work", run->layer), 0700);
}

static void hide(Run *run, const char *path) {
    step(run, HIDE, "", path);
    const char *real = realpath(path, NULL);
    if (real) add(&run->hidden, real);
}

static void show_hidden(Run *run, const char *home, const char *name) {
    const char *path = text("%s/%s", home, name);
    const char *source = exists(path) ? realpath(path, NULL) : NULL;
    if (source) step(run, SHOW, source, path);
}

static void show_home(Run *run, const Settings *settings, const char *home) {
    step(run, EMPTY, "", home);
    DIR *directory = opendir(home);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] == '.' || entry->d_type == DT_SOCK || entry->d_type == DT_FIFO) continue;
        const char *path = text("%s/%s", home, entry->d_name);
        char target[PATH_MAX];
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (!strcmp(path, run->projects)) continue;
        if (length > 0)
            target[length] = 0, step(run, LINK, text("%s", target), path); /* one into a hidden directory now leads nowhere */
        else
            step(run, SHOW, path, path);
    }
    if (directory) closedir(directory);
    for (size_t i = 0; i < sizeof TOOLCHAINS / sizeof *TOOLCHAINS; i++) show_hidden(run, home, TOOLCHAINS[i]);
    for (size_t i = 0; i < settings->show.count; i++) show_hidden(run, home, settings->show.at[i]);
    step(run, FOLDER, "", text("%s/.ssh", home));
}

/* An own /dev, with what programs expect there and what computing on a GPU needs. bubblewrap's --dev is the same and takes
 * four times as long. */
static void show_devices(Run *run) {
    static const char *const PLAIN[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const LINKS[][2] = {{"/proc/self/fd", "/dev/fd"},     {"/proc/self/fd/0", "/dev/stdin"},
                                           {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
                                           {"pts/ptmx", "/dev/ptmx"}};
    static const char *const GPUS[] = {"/dev/dri/renderD*", "/dev/dxg",        "/dev/kfd",
                                        "/dev/nvidiactl",    "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                        "/dev/nvidia[0-9]*", "/dev/nvidia-caps/*"};
    step(run, EMPTY, "", "/dev");
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++) {
        const char *path = text("/dev/%s", PLAIN[i]);
        step(run, DEVICE, path, path);
    }
    for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++) step(run, LINK, LINKS[i][0], LINKS[i][1]);
    step(run, FOLDER, "", "/dev/shm");
    step(run, TTYS, "", "/dev/pts");
    for (size_t i = 0; i < sizeof GPUS / sizeof *GPUS; i++) {
        if (i > 3 && access(GPUS[3], F_OK)) break; /* no card of that maker: /dev need not be read */
        glob_t found;
        if (!glob(GPUS[i], 0, NULL, &found))
            for (size_t j = 0; j < found.gl_pathc; j++) step(run, DEVICE, found.gl_pathv[j], found.gl_pathv[j]);
    }
}

void plan_cage(Run *run, const Settings *settings) {
    make_state(run);
    step(run, ZONE, "", run->tmp);
    step(run, ZONE, "", run->projects);
    if (run->state) step(run, ZONE, "", run->state);
    show_devices(run);

    step(run, EMPTY, "", "/run");
    const char *other = passwd_home();
    if (other && strcmp(other, run->home) && !is_system_directory(other) && !is_below(run->home, other) &&
        !is_below(other, run->home)) {
        show_home(run, settings, other);
        step(run, SEAL, "", other);
    }
    show_home(run, settings, run->home);
    step(run, WRITE, run->projects, run->projects);
    const char *link = text("%s/projects", run->home);
    if (strcmp(link, run->projects)) step(run, LINK, run->projects, link);
    if (run->layer)
        step(run, LAYER, run->cache, run->cache);
    else if (run->state)
        step(run, WRITE, text("%s/upper", run->state), run->cache);
    else
        step(run, FOLDER, "", run->cache), step(run, EMPTY, "", run->cache);
    link = text("%s/.cache", run->home);
    if (strcmp(link, run->cache)) step(run, LINK, run->cache, link);
    const char *homes[] = {run->home, other && strcmp(other, run->home) ? other : NULL};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; homes[i] && j < sizeof CREDENTIALS / sizeof *CREDENTIALS; j++) {
            glob_t found;
            if (glob(text("%s/%s", homes[i], CREDENTIALS[j]), GLOB_NOSORT, NULL, &found)) continue;
            for (size_t k = 0; k < found.gl_pathc; k++) hide(run, found.gl_pathv[k]);
        }
    const char *ssh = realpath(text("%s/.ssh", run->home), NULL); /* a link: hide what it leads to as well */
    if (ssh && strcmp(ssh, text("%s/.ssh", run->home)) && !is_system_directory(ssh)) hide(run, ssh);
    const char *gate = getenv("SLACK_GATE_HOME");
    if (gate && gate[0] == '/') hide(run, gate);
    for (size_t i = 0; i < settings->hide.count; i++) hide(run, settings->hide.at[i]);
    step(run, LOCK, "", "/proc/sys"); /* its owner could have the kernel run a program outside: core_pattern */
    if (geteuid() == 0) {
        static const char *const ROOTS[] = {"/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers",
                                            "/etc/ssl/private"};
        for (size_t i = 0; i < sizeof ROOTS / sizeof *ROOTS; i++) step(run, HIDE, "", ROOTS[i]);
        /* files of the kernel that root may write without any further right */
        static const char *const KERNEL[] = {"/proc/sysrq-trigger", "/proc/mtrr", "/proc/acpi", "/proc/scsi",
                                             "/proc/irq",           "/proc/bus",  "/proc/fs"};
        for (size_t i = 0; i < sizeof KERNEL / sizeof *KERNEL; i++)
            if (exists(KERNEL[i])) step(run, LOCK, "", KERNEL[i]);
    }
}

void plan_seals(Run *run) {
    step(run, SEAL, "", run->home);
    step(run, SEAL, "", "/run");
}
