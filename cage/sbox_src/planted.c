/* What the cage may leave in git directories for git outside to follow: a commondir, which git takes its configuration
 * from, and symbolic links, which git writes through. `git commit` writes .git/COMMIT_EDITMSG, .git/logs/HEAD and the index
 * wherever they lead to, ~/.bashrc for one. Git makes no links there itself. */
#define _GNU_SOURCE
#include "sbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MOST_PAUSES = 100 }; /* the clock may be set back meanwhile */

static struct {
    int watch; /* -1 where the kernel gave none */
    const char *git;
} *gits;
static size_t count;

void watch_git_directory(Run *run, const char *git) {
    if (!run->made) run->made = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (count % 64 == 0 && !(gits = realloc(gits, (count + 64) * sizeof *gits))) fail("out of memory. Nothing was run.");
    int watch = run->made < 0 ? -1 : inotify_add_watch(run->made, near(git), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
    gits[count].watch = watch;
    gits[count++].git = git;
}

static bool is_before(const struct timespec *one, const struct timespec *other) {
    return one->tv_sec < other->tv_sec || (one->tv_sec == other->tv_sec && one->tv_nsec < other->tv_nsec);
}

/* The clock of files moves in steps of some milliseconds. It has to be past our start, or what was made just before would
 * count as the cage's. */
void begin(Run *run) {
    struct timespec now, pause = {.tv_nsec = 200000};
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    for (int i = 0; i < MOST_PAUSES && count && is_before(&now, &run->began); i++) {
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    }
    run->began = now;
}

static const char *git_of(int watch) {
    for (size_t i = 0; i < count; i++)
        if (gits[i].watch == watch) return gits[i].git;
    return NULL;
}

/* By its time: the cage made it, moved it or gave it another name. */
static bool is_new(const Run *run, const struct stat *info) {
    return !is_before(&info->st_ctim, &run->began);
}

static bool is_new_link(const Run *run, int directory, const char *name, bool moved) {
    struct stat info;
    if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISLNK(info.st_mode)) return false;
    return moved || is_new(run, &info);
}

static const char *misleading_commondir(const Run *run) {
    for (size_t i = 0; i < run->removed.count; i++)
        if (!strcmp(strrchr(run->removed.at[i], '/'), "/commondir") && (exists(run->removed.at[i]) || errno == EACCES))
            return run->removed.at[i];
    return NULL;
}

static const char *misleading_link(const Run *run, const char *git, const char *name) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", git, name);
    if (length < 0 || (size_t)length >= sizeof path || !is_new_link(run, AT_FDCWD, near(path), false)) return NULL;
    return text("%s", path);
}

const char *misleads_git(const Run *run) {
    char room[8192] __attribute__((aligned(8)));
    bool named = false, lost = false;
    const char *link = NULL, *git;
    ssize_t size = read(run->made, room, sizeof room);
    for (ssize_t at = 0; at < size;) {
        const struct inotify_event *event = (void *)(room + at);
        named |= event->len && !strcmp(event->name, "commondir");
        lost |= (event->mask & IN_Q_OVERFLOW) != 0;
        if (!link && event->len && (git = git_of(event->wd))) link = misleading_link(run, git, event->name);
        at += (ssize_t)(sizeof *event + event->len);
    }
    if (lost) take_links_away(run); /* too many at once to be told one by one */
    const char *commondir = named || lost ? misleading_commondir(run) : NULL;
    if (commondir || link) return commondir ? commondir : link;
    return named ? "a commondir" : NULL; /* gone again; another may follow */
}

static int open_directory(const char *path) {
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, near(path), &how, sizeof how);
    if (fd < 0 && errno == EACCES && (fd = open_again(path)) >= 0) {
        int place = fd;
        fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(place);
    }
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        say("%s cannot be looked at (%s): read what links are in it.", path, strerror(errno));
    return fd;
}

/* Whether the links of a directory tell how many directories are in it. */
static bool counts_directories(int fd) {
    struct statfs info;
    return !fstatfs(fd, &info) &&
           (info.f_type == EXT4_SUPER_MAGIC || info.f_type == XFS_SUPER_MAGIC || info.f_type == TMPFS_MAGIC);
}

typedef struct {
    const Run *run;
    bool counted;
    List rest; /* directories, each followed by "moved" if it may have been moved here with the links that are in it */
} Walk;

/* What is too long for a path git outside cannot reach. */
static void take_links(Walk *walk, int fd, const char *path, bool moved, bool top) {
    static const char *const OTHERS[] = {"objects", "hooks", "modules"}; /* data; guarded; git directories of their own */
    DIR *directory = fdopendir(fd);
    struct dirent *entry;
    if (!directory) close(fd);
    while (directory && (entry = readdir(directory))) {
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, "..")) continue;
        if ((entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) && is_new_link(walk->run, dirfd(directory), name, moved)) {
            bool removed = !unlinkat(dirfd(directory), name, 0);
            say("%s/%s became a link in the cage and %s: git outside would have written where it leads.", path, name,
                removed ? "was removed" : "must be removed by you");
        }
        struct stat info;
        bool other = entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN;
        for (size_t i = 0; top && i < sizeof OTHERS / sizeof *OTHERS; i++) other |= !strcmp(name, OTHERS[i]);
        if (other || fstatat(dirfd(directory), name, &info, AT_SYMLINK_NOFOLLOW)) continue;
        bool now_moved = moved || is_new(walk->run, &info);
        if (!now_moved && info.st_nlink == 2 && walk->counted) continue; /* nothing was made in it, and no directory is in it */
        add(&walk->rest, text("%s/%s", path, name)), add(&walk->rest, now_moved ? "moved" : "");
    }
    if (directory) closedir(directory);
}

void take_links_away(const Run *run) {
    for (size_t i = 0; i < count; i++) {
        int fd = open_directory(gits[i].git);
        Walk walk = {.run = run, .counted = fd >= 0 && counts_directories(fd)};
        if (fd >= 0) take_links(&walk, fd, gits[i].git, false, true);
        for (size_t at = 0; at < walk.rest.count; at += 2) /* grows meanwhile */
            if ((fd = open_directory(walk.rest.at[at])) >= 0) take_links(&walk, fd, walk.rest.at[at], *walk.rest.at[at + 1], false);
        free(walk.rest.at);
    }
}
