/* What DIRECTORY/.claude says can switch the gate off in the middle of a session, so no cage may make one. Where there is
 * none, a placeholder is put there for a mount to hold on to: an empty directory with the sticky bit, made by no one else.
 *
 * Removing a mount point undoes the mount in every cage. So each cage holds a shared lock on the placeholders it relies
 * on, and only who gets the lock alone removes one. One that a killed run left is taken over by the next.
 *
 * To make and remove a directory costs the disk twenty times what renaming one does. So those below ~/projects are parked
 * out of the cage's sight, each for its own directory alone: an older cage that knew no .claude there may have it open. */
#define _GNU_SOURCE
#include "sbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 400, PAUSE_MICROSECONDS = 5000 };

static List held, parkings; /* `parkings` has for each path in `held` its name in the yard, or "" */
static int yard_fd = -1;
static struct {
    int lock; /* a descriptor */
    Holding found;
    struct timespec changed; /* when it was found so */
} *known; /* one for each path in `held` */

static bool is_at(const struct stat *opened, int place, const char *name) {
    struct stat named;
    return !fstatat(place, name, &named, AT_SYMLINK_NOFOLLOW) && opened->st_ino == named.st_ino &&
           opened->st_dev == named.st_dev;
}

static bool is_marked(int fd) {
    struct stat info;
    return !fstat(fd, &info) && info.st_mode & S_ISVTX;
}

/* An open directory that can be read and holds nothing. */
static bool holds_nothing(int fd) {
    char room[4096] __attribute__((aligned(8)));
    long count;
    lseek(fd, 0, SEEK_SET);
    while ((count = syscall(SYS_getdents64, fd, room, sizeof room)) > 0)
        for (long at = 0; at < count; at += ((struct dirent64 *)(void *)(room + at))->d_reclen) {
            const char *name = ((struct dirent64 *)(void *)(room + at))->d_name;
            if (strcmp(name, ".") && strcmp(name, "..")) return false;
        }
    return count == 0;
}

/* `name` lies in the directory `place`, opened so that no cage which still runs can lead it elsewhere. */
static int put_away(int fd, const char *path, const char *parking, bool untouched, int place) {
    const char *name = strrchr(path, '/') + 1;
    if (!*parking || !untouched || renameat2(place, name, yard_fd, parking, RENAME_NOREPLACE))
        return unlinkat(place, name, AT_REMOVEDIR); /* only if it is empty */
    if (!holds_nothing(fd) && renameat2(yard_fd, parking, place, name, RENAME_NOREPLACE))
        say("what was just written to %s is in ~/.local/state/sbox/yard/%s.", path, parking); /* from outside */
    return 0;
}

static int let_one_go(size_t i, int place) {
    struct stat now;
    const char *path = held.at[i];
    if (place < 0 || fstat(known[i].lock, &now)) return -1;
    if (!is_at(&now, place, strrchr(path, '/') + 1)) return -1;
    bool untouched = now.st_mtim.tv_sec == known[i].changed.tv_sec && now.st_mtim.tv_nsec == known[i].changed.tv_nsec;
    return put_away(known[i].lock, path, parkings.at[i], untouched, place);
}

/* At the end, however it comes: nothing of the cage runs any more. */
void let_go(void) {
    for (size_t i = 0; i < held.count; i++) {
        const char *directory = directory_of(held.at[i]);
        if (known[i].found == PLACEHOLDER && !flock(known[i].lock, LOCK_EX | LOCK_NB) && is_marked(known[i].lock)) {
            int place = open_plainly(directory);
            bool closed = let_one_go(i, place) && errno == EACCES; /* in the cage: it was open when this one was made */
            if (place >= 0) close(place);
            place = closed ? open_again(directory) : -1;
            let_one_go(i, place);
            if (place >= 0) close(place);
        }
        close(known[i].lock);
    }
    held.count = 0;
}

static void keep(const char *path, const char *parking, int fd, Holding found, const struct stat *info) {
    if (!held.count) atexit(let_go);
    if (held.count % 64 == 0 && !(known = realloc(known, (held.count + 64) * sizeof *known)))
        fail("out of memory. Nothing was run.");
    known[held.count].lock = fd;
    known[held.count].found = found;
    known[held.count].changed = info->st_mtim;
    add(&held, path);
    add(&parkings, parking);
}

/* The parked directory put back in its place, with a shared lock; -1 when there is none, or not an empty one: an older
 * cage, which could write there when it was in its place, may still have it open. */
static int fetch(int place, const char *name, const char *parking) {
    struct stat info;
    int fd = *parking ? openat(yard_fd, parking, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME) : -1;
    if (fd < 0) return -1;
    if (holds_nothing(fd) && !renameat2(yard_fd, parking, place, name, RENAME_NOREPLACE) &&
        !flock(fd, LOCK_SH | LOCK_NB) && !fstat(fd, &info) && is_at(&info, place, name))
        return fd;
    close(fd);
    return -1;
}

/* The directory `name` in `place`, made when missing, with a shared lock; -1 with errno. */
static int open_locked(int place, const char *name, const char *parking) {
    struct stat info;
    for (int i = 0; i < TRIES; i++) {
        int fetched = fetch(place, name, parking);
        if (fetched >= 0) return fetched;
        mode_t mask = umask(022); /* other users have to be able to lock it */
        bool made = !mkdirat(place, name, S_ISVTX | 0755) || errno == EEXIST;
        umask(mask);
        if (!made) return -1;
        int fd = openat(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) return -1;
        if (fd < 0) continue; /* another run has just removed it */
        bool locked = !flock(fd, LOCK_SH | LOCK_NB);
        if (locked && !fstat(fd, &info) && is_at(&info, place, name)) return fd;
        bool busy = !locked && errno == EWOULDBLOCK;
        if (!locked && (!busy || !is_marked(fd))) return fd; /* a file system without locks, or not ours to remove */
        close(fd);
        if (busy) usleep(PAUSE_MICROSECONDS); /* whoever removes it holds the lock for an instant */
    }
    return errno = EWOULDBLOCK, -1;
}

/* Whether this user, without root's rights, can make a file in the directory. */
static bool can_be_filled(int directory, const struct stat *info) {
    if (info->st_uid == geteuid()) return true;
    return geteuid() ? !faccessat(directory, ".", W_OK, 0) : (info->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* Named after the directory, whatever that is called later; a number alone is given to another when it is gone. */
static const char *parking_of(int directory, const char *yard) {
    struct statx info;
    if (yard && yard_fd < 0) yard_fd = open(yard, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (!yard || yard_fd < 0 || statx(directory, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &info) ||
        !(info.stx_mask & STATX_BTIME))
        return "";
    return text("%x.%x-%llx-%llx.%x", info.stx_dev_major, info.stx_dev_minor, (unsigned long long)info.stx_ino,
                (unsigned long long)info.stx_btime.tv_sec, info.stx_btime.tv_nsec);
}

static Holding hold_in(int place, const char *path, const char *yard) {
    struct stat info, above;
    const char *name = strrchr(path, '/') + 1;
    if (fstat(place, &above)) return NOTHING;
    bool missing = fstatat(place, name, &info, AT_SYMLINK_NOFOLLOW) != 0;
    if (!missing && S_ISLNK(info.st_mode)) return LINKED;
    if (!missing && !S_ISDIR(info.st_mode)) return FILES;
    if (missing && !can_be_filled(place, &above)) return NOTHING;
    const char *parking = parking_of(place, yard);
    int fd = open_locked(place, name, missing ? parking : ""), error = errno;
    if (fd >= 0) {
        bool empty = !fstat(fd, &info) && info.st_mode & S_ISVTX && holds_nothing(fd);
        keep(path, parking, fd, empty ? PLACEHOLDER : FILES, &info);
        return empty ? PLACEHOLDER : FILES;
    }
    if (!missing && error == EACCES) return FILES;
    if (error == EROFS || error == ENOENT) return NOTHING;
    if (error == EACCES || error == EPERM) return UNWRITABLE;
    fail("%s cannot be held against a change (%s). Nothing was run.", path,
         error == EWOULDBLOCK ? "another program keeps it locked: see lslocks" : strerror(error));
}

/* The directory is opened first: an older cage may put a link in its place, and nothing is made where that leads. */
Holding hold(const char *directory, const char *path, const char *yard) {
    for (size_t i = held.count; i-- > 0;)
        if (!strcmp(held.at[i], path)) return known[i].found;
    int place = open_plainly(directory);
    if (place < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES)) return NOTHING;
    if (place < 0) fail("%s cannot be held against a change (%s). Nothing was run.", path, strerror(errno));
    Holding found = hold_in(place, path, yard);
    close(place);
    return found;
}
