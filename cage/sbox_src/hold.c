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

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 400, PAUSE_MICROSECONDS = 5000 };

static List held, parkings; /* `parkings` has for each path in `held` where it is parked, or "" */
static int *locks;          /* descriptors, one for each path in `held` */

static bool is_at(int fd, const char *path) {
    struct stat opened, named;
    return !fstat(fd, &opened) && !lstat(path, &named) && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

static bool is_marked(int fd) {
    struct stat info;
    return !fstat(fd, &info) && info.st_mode & S_ISVTX;
}

static bool move(const char *from, const char *to) {
    return !renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
}

static void put_away(const char *path, const char *parking) {
    if (!*parking || !is_empty(path) || !move(path, parking))
        rmdir(path); /* only if it is empty */
    else if (!is_empty(parking) && !move(parking, path)) /* someone outside just used it, and made another */
        dprintf(2, "sbox: what was just written to %s is in %s.\n", path, parking);
}

/* At the end, however it comes: nothing of the cage runs any more. */
void let_go(void) {
    for (size_t i = 0; i < held.count; i++) {
        if (!flock(locks[i], LOCK_EX | LOCK_NB) && is_marked(locks[i]) && is_at(locks[i], held.at[i]))
            put_away(held.at[i], parkings.at[i]);
        close(locks[i]);
    }
    held.count = 0;
}

static void keep(const char *path, const char *parking, int fd) {
    if (!held.count) atexit(let_go);
    if (held.count % 64 == 0 && !(locks = realloc(locks, (held.count + 64) * sizeof *locks)))
        fail("out of memory. Nothing was run.");
    locks[held.count] = fd;
    add(&held, path);
    add(&parkings, parking);
}

/* The directory at `path`, made when missing, with a shared lock; -1 with errno. */
static int open_locked(const char *path, const char *parking) {
    for (int i = 0; i < TRIES; i++) {
        if (*parking && is_empty(parking)) move(parking, path); /* where that fails the next line says why */
        if (mkdir(path, S_ISVTX | 0755) && errno != EEXIST) return -1;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) return -1;
        if (fd < 0) continue; /* another run has just removed it */
        bool locked = !flock(fd, LOCK_SH | LOCK_NB);
        if (locked && is_at(fd, path)) return fd;
        bool busy = !locked && errno == EWOULDBLOCK;
        if (!locked && (!busy || !is_marked(fd))) return fd; /* a file system without locks, or not ours to remove */
        close(fd);
        if (busy) usleep(PAUSE_MICROSECONDS); /* whoever removes it holds the lock for an instant */
    }
    return errno = EWOULDBLOCK, -1;
}

/* Whether this user, without root's rights, can make a file in it. */
static bool can_be_filled(const char *directory) {
    struct stat info;
    if (stat(directory, &info)) return false;
    if (info.st_uid == geteuid()) return true;
    return geteuid() ? !access(directory, W_OK) : (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* Named after the directory, whatever that is called later. */
static const char *parking_of(const char *directory, const char *yard) {
    struct stat info;
    return yard && !stat(directory, &info) ? text("%s/%lx-%lx", yard, (long)info.st_dev, (long)info.st_ino) : "";
}

Holding hold(const char *directory, const char *path, const char *yard) {
    struct stat info;
    for (size_t i = held.count; i-- > 0;)
        if (!strcmp(held.at[i], path)) return is_marked(locks[i]) && is_empty(path) ? PLACEHOLDER : FILES;
    bool missing = lstat(path, &info) != 0;
    if (!missing && S_ISLNK(info.st_mode)) return LINKED;
    if (!missing && !S_ISDIR(info.st_mode)) return FILES;
    if (missing && !can_be_filled(directory)) return NOTHING;
    mode_t mask = umask(022); /* other users have to be able to lock it */
    const char *parking = parking_of(directory, yard);
    int fd = open_locked(path, parking), error = errno;
    umask(mask);
    if (fd >= 0) {
        keep(path, parking, fd);
        return is_marked(fd) && is_empty(path) ? PLACEHOLDER : FILES;
    }
    if (!missing && error == EACCES) return FILES;
    if (error == EROFS || error == ENOENT) return NOTHING;
    if (error == EACCES || error == EPERM) return UNWRITABLE;
    fail("%s cannot be held against a change (%s). Nothing was run.", path,
         error == EWOULDBLOCK ? "another program keeps it locked: see lslocks" : strerror(error));
}
