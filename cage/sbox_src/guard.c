/* What the cage must not change although it lies where it may write: in every repository the files that make git run
 * something, and the files that make editors and agents run something; and the sockets of programs outside.
 *
 * A guarded file is mounted read-only. The directories above it are pinned, so that no rename can put another in its
 * place, and the pins are covered by the same tree, so that ordinary renames between directories go on working. */
#define _GNU_SOURCE
#include "sbox.h"
#include "steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELD "/run/.held" /* what placeholders show; git leaves alone a directory that ignores itself, `git clean` too */
enum { DEPTH_PROJECTS = 3, DEPTH_TMP = 1, MOST_LINKS = 20 };

/* Read-only where they are; where they are not, their appearance is reported. */
static const char *const TOOL_FILES[] = {".mcp.json", ".vscode", ".idea", ".envrc", ".cursor", ".codex", ".gemini"};
static const char *const GIT_FILES[] = {"hooks", "config", "config.worktree", "commondir", "gitdir"};

/* Those that git would follow, and that can be missing. When one appears it is removed after the run. */
static bool is_removed(const char *name) {
    return !strcmp(name, "commondir") || !strcmp(name, "config") || !strcmp(name, "config.worktree");
}

typedef struct {
    Run *run;
    List found;               /* worktrees of the repositories */
    List pins, guards, holds, hides; /* paths; written to the plan in this order, the cover between the first two */
} Search;

static void add_once(List *list, const char *path) {
    for (size_t i = list->count; i-- > 0 && list->count - i < 16;)
        if (!strcmp(list->at[i], path)) return;
    add(list, path);
}

static void guard(Search *search, const char *path) {
    if (exists(path)) add(&search->guards, path);
}

/* Every directory from below the writable one down to `path`. */
static void pin(Search *search, const char *zone, const char *path) {
    if (!is_below(path, zone) || !strcmp(path, zone)) return;
    for (const char *slash = path + strlen(zone) + 1; (slash = strchr(slash, '/')); slash++)
        add_once(&search->pins, text("%.*s", (int)(slash - path), path));
    add_once(&search->pins, path);
}

/* Where a path leads, whether something is there or not. Every symbolic link on the way is pinned. NULL in a circle. */
static const char *resolve(Search *search, const char *zone, const char *path, int links) {
    char target[PATH_MAX], *copy = text("%s", path), *at = text("%s", "");
    for (char *rest = copy, *name; (name = strsep(&rest, "/"));) {
        if (!*name || !strcmp(name, ".")) continue;
        if (!strcmp(name, "..")) {
            *(strrchr(at, '/') ? strrchr(at, '/') : at) = 0;
            continue;
        }
        const char *next = text("%s/%s", at, name);
        ssize_t length = readlink(near(next), target, sizeof target - 1);
        if (length <= 0) {
            at = (char *)next;
            continue;
        }
        target[length] = 0;
        pin(search, zone, next);
        next = text("%s/%s/%s", target[0] == '/' ? "" : at, target, rest ? rest : "");
        return links ? resolve(search, zone, next, links - 1) : NULL;
    }
    return at;
}

/* What a name leads to, when it lies in the zone; watched while it is not there. */
static void guard_named(Search *search, const char *zone, const char *base, const char *value) {
    const char *path = resolve(search, zone, value[0] == '/' ? value : text("%s/%s", base, value), MOST_LINKS);
    if (!path || !is_below(path, zone) || !strcmp(path, zone)) return;
    if (!exists(path)) {
        add(&search->run->watched, path);
        return;
    }
    size_t length = strlen(path);
    if (length > 9 && !strcmp(path + length - 9, "/.husky/_")) path = text("%.*s", (int)length - 2, path); /* runs its parent's */
    pin(search, zone, path);
    guard(search, path);
}

static bool value_of(const char *key, size_t length, char *value) {
    return sscanf(key + length, " = %4095[^\n]", value) == 1;
}

/* The hooks directory, the included files and, for a submodule, the worktree that a configuration names. Relative names
 * count from the git directory, that of the hooks from the worktree, which for a repository lies above it. */
static void guard_configured(Search *search, const char *zone, const char *git) {
    char config[65536], value[PATH_MAX];
    int fd = open(near(text("%s/config", git)), O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read(fd, config, sizeof config - 1);
    if (fd >= 0) close(fd);
    if (count <= 0) return;
    config[count] = 0;
    const char *worktree = text("%s/..", git);
    for (const char *key = config; (key = strcasestr(key, "worktree")); key += 8) {
        if (!value_of(key, 8, value)) continue;
        const char *path = realpath(value[0] == '/' ? value : text("%s/%s", git, value), NULL);
        if (!path || !is_below(path, zone)) continue;
        worktree = path;
        pin(search, zone, path);
        guard(search, text("%s/.git", path));
    }
    for (const char *key = config; (key = strcasestr(key, "hookspath")); key += 9)
        if (value_of(key, 9, value)) guard_named(search, zone, worktree, value);
    if (!strcasestr(config, "[include")) return;
    for (const char *key = config; (key = strcasestr(key, "path")); key += 4)
        if (value_of(key, 4, value)) guard_named(search, zone, git, value);
}

/* What lies in a directory, or what it leads to when it is a link. False when it is not there. */
static bool guard_entry(Search *search, const char *zone, const char *directory, const char *name) {
    const char *path = text("%s/%s", directory, name);
    struct stat info;
    if (lstat(near(path), &info)) return false;
    if (S_ISLNK(info.st_mode))
        guard_named(search, zone, directory, name);
    else
        add(&search->guards, path);
    return true;
}

/* Whether this zone's cover is the one that counts for what lies in the directory. */
static bool is_of(const Search *search, const char *zone, const char *directory) {
    const char *home = search->run->home, *projects = search->run->projects;
    if (is_below(directory, projects)) return !strcmp(zone, projects);
    return !is_below(directory, home); /* there the cage writes nothing */
}

/* A git directory without hooks, which a template can leave out: none may be made. */
static void hold_hooks(Search *search, const char *zone, const char *git) {
    const char *path = text("%s/hooks", git);
    if (!is_of(search, zone, git)) return;
    Holding holding = hold(git, path, is_below(git, search->run->projects) ? search->run->yard : NULL);
    if (holding == PLACEHOLDER)
        add_once(&search->holds, path);
    else if (holding == UNWRITABLE)
        add(&search->guards, git);
    else if (holding != NOTHING)
        guard_entry(search, zone, git, "hooks");
}

/* The .claude of a directory. See hold.c. */
static void guard_settings(Search *search, const char *zone, const char *directory) {
    static const char *const SETTINGS[] = {"settings.json", "settings.local.json"};
    const char *path = text("%s/.claude", directory);
    if (!is_of(search, zone, directory)) return;
    Holding holding = hold(directory, path, is_below(directory, search->run->projects) ? search->run->yard : NULL);
    if (holding == NOTHING) return;
    pin(search, zone, directory);
    if (holding == LINKED && access(near(path), F_OK))
        fail("%s is a link that leads nowhere: what it leads to could be made in the cage. Remove it. Nothing was run.", path);
    if (holding == PLACEHOLDER)
        add_once(&search->holds, path);
    else if (holding == UNWRITABLE)
        add(&search->guards, directory);
    else
        guard_entry(search, zone, directory, ".claude");
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS && holding != PLACEHOLDER; i++)
        guard_entry(search, zone, path, SETTINGS[i]);
}

static void guard_git_directory(Search *search, const char *zone, const char *git);

/* .git/modules and .git/worktrees; a submodule whose name has a slash lies a directory deeper. */
static void guard_git_directories(Search *search, const char *zone, const char *parent) {
    DIR *directory = opendir(near(parent));
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        const char *below = text("%s/%s", parent, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        if (exists(text("%s/HEAD", below)))
            guard_git_directory(search, zone, below);
        else if (entry->d_type == DT_DIR)
            guard_git_directories(search, zone, below);
    }
    if (directory) closedir(directory);
}

/* A directory that holds a git configuration: .git itself, and those of its submodules and linked worktrees. */
static void guard_git_directory(Search *search, const char *zone, const char *git) {
    bool has_hooks = false; /* its own, or, where it is linked, its main one's */
    if (!exists(git)) return;
    pin(search, zone, git);
    for (size_t i = 0; i < sizeof GIT_FILES / sizeof *GIT_FILES; i++) {
        bool there = guard_entry(search, zone, git, GIT_FILES[i]);
        if (!there && is_removed(GIT_FILES[i])) add(&search->run->watched, text("%s/%s", git, GIT_FILES[i]));
        if (there && (!strcmp(GIT_FILES[i], "hooks") || !strcmp(GIT_FILES[i], "commondir"))) has_hooks = true;
    }
    if (!has_hooks) hold_hooks(search, zone, git);
    guard_git_directories(search, zone, text("%s/modules", git));
    guard_git_directories(search, zone, text("%s/worktrees", git));
    guard_configured(search, zone, git);
}

static bool look_for_repository(Search *search, const char *zone, const char *directory);

/* The .git file of a linked worktree reads "gitdir: MAIN/.git/worktrees/NAME". */
static void guard_main_repository(Search *search, const char *zone, const char *git) {
    char line[PATH_MAX + 16] = "";
    FILE *file = fopen(near(git), "re");
    if (!file) return;
    char *place = fgets(line, sizeof line, file) && !strncmp(line, "gitdir: ", 8) ? strstr(line, "/.git/worktrees/") : NULL;
    fclose(file);
    if (!place) return;
    *place = 0;
    const char *main_worktree = realpath(line + 8, NULL);
    if (main_worktree && is_below(main_worktree, zone)) look_for_repository(search, zone, main_worktree);
}

static void guard_tool_files(Search *search, const char *zone, const char *directory) {
    if (is_below(directory, search->run->projects) && !is_of(search, zone, directory)) return;
    for (size_t i = 0; i < sizeof TOOL_FILES / sizeof *TOOL_FILES; i++) {
        const char *path = text("%s/%s", directory, TOOL_FILES[i]);
        if (!exists(path)) {
            add(&search->run->watched, path);
            continue;
        }
        pin(search, zone, directory);
        guard_entry(search, zone, directory, TOOL_FILES[i]);
    }
}

static void guard_repository(Search *search, const char *zone, const char *worktree, const char *git, bool linked) {
    guard_tool_files(search, zone, worktree);
    guard_settings(search, zone, worktree);
    if (linked) {
        pin(search, zone, worktree);
        guard(search, git);
        guard_main_repository(search, zone, git);
        return;
    }
    guard_git_directory(search, zone, git);
}

/* True when `directory` is a repository, which is then guarded. */
static bool look_for_repository(Search *search, const char *zone, const char *directory) {
    const char *git = text("%s/.git", directory);
    struct stat info;
    if (lstat(near(git), &info)) return false;
    if (S_ISLNK(info.st_mode)) {
        git = resolve(search, zone, git, MOST_LINKS);
        if (!git || !is_below(git, zone) || stat(near(git), &info)) return false;
    }
    if (S_ISREG(info.st_mode) && info.st_size == 0) return false;
    for (size_t i = 0; i < search->found.count; i++)
        if (!strcmp(search->found.at[i], directory)) return true;
    add(&search->found, text("%s", directory));
    guard_repository(search, zone, directory, git, !S_ISDIR(info.st_mode));
    return true;
}

static void look_below(Search *search, const char *zone, const char *path, int depth, int most) {
    DIR *directory = opendir(near(path));
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (!strcmp(entry->d_name, ".claude")) {
            /* deeper than where they are held everywhere; a link to nowhere, which a cage may have made, stops none here */
            if (depth < most && !access(near(text("%s/.claude", path)), F_OK)) guard_settings(search, zone, path);
            continue;
        }
        if (entry->d_type != DT_DIR && entry->d_type != DT_SOCK && entry->d_type != DT_FIFO && entry->d_type != DT_UNKNOWN)
            continue;
        const char *below = text("%s/%s", path, entry->d_name);
        struct stat info = {.st_mode = DTTOIF(entry->d_type)};
        if (entry->d_type == DT_UNKNOWN && lstat(near(below), &info)) continue;
        if (S_ISSOCK(info.st_mode) || S_ISFIFO(info.st_mode)) add(&search->hides, below);
        if (!S_ISDIR(info.st_mode)) continue;
        if (depth == DEPTH_PROJECTS) guard_settings(search, zone, below);
        if (look_for_repository(search, zone, below)) continue;
        const char *settings = text("%s/.claude", below);
        if (depth < most && !exists(settings)) add(&search->run->watched, settings);
        if (depth > 1) look_below(search, zone, below, depth - 1, most);
    }
    if (directory) closedir(directory);
}

/* The working directory and those above it, however deep: a session may have started in any of them. */
static void look_above(Search *search, const char *zone, const char *cwd) {
    if (!is_below(cwd, zone)) return;
    char *path = text("%s", cwd);
    while (strlen(path) > strlen(zone)) {
        guard_settings(search, zone, path);
        if (!look_for_repository(search, zone, path)) guard_tool_files(search, zone, path);
        *strrchr(path, '/') = 0;
    }
}

/* Wherever they are; /run and the hidden part of the home are gone already. */
static void hide_sockets(Search *search) {
    List paths = {0};
    find_sockets(&paths);
    for (size_t i = 0; i < paths.count; i++)
        if (!is_below(paths.at[i], "/run") && !is_below(paths.at[i], "/var/run")) add_once(&search->hides, paths.at[i]);
}

static void guard_zone(Run *run, const char *zone, int depth) {
    Search search = {.run = run};
    stand_in(zone);
    if (!strcmp(zone, run->projects) || !strcmp(zone, run->cwd)) {
        guard_settings(&search, zone, zone);
        guard_tool_files(&search, zone, zone);
    }
    look_above(&search, zone, run->cwd);
    look_below(&search, zone, zone, depth, depth);
    if (!strcmp(zone, run->tmp)) hide_sockets(&search);
    if (search.pins.count) step(run, SAVE, "", zone);
    for (size_t i = 0; i < search.pins.count; i++) step(run, PIN, "", search.pins.at[i]);
    if (search.pins.count) step(run, COVER, "", zone);
    if (search.guards.count) step(run, VIEW, zone, "/run/.view");
    for (size_t i = 0; i < search.guards.count; i++)
        step(run, GUARD, text("/run/.view%s", search.guards.at[i] + strlen(zone)), search.guards.at[i]);
    if (search.guards.count) step(run, DONE, "", "/run/.view");
    for (size_t i = 0; i < search.holds.count; i++) step(run, HOLD, HELD, search.holds.at[i]);
    for (size_t i = 0; i < search.hides.count; i++) step(run, HIDE, "", search.hides.at[i]);
}

void plan_guards(Run *run) {
    step(run, FOLDER, "", HELD);
    step(run, IGNORE, "", HELD "/.gitignore");
    step(run, VIEW, HELD, HELD);
    guard_zone(run, run->projects, DEPTH_PROJECTS);
    guard_zone(run, run->tmp, DEPTH_TMP);
}

static char *printable(const char *path) {
    char *copy = text("%s", path);
    for (char *at = copy; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
    return copy;
}

/* After the end. What would give git a configuration of the cage's choice is taken away. */
void report_new_files(const Run *run) {
    stand_in(run->projects);
    for (size_t i = 0; i < run->watched.count; i++) {
        const char *path = run->watched.at[i];
        if (!exists(path)) continue;
        if (is_removed(strrchr(path, '/') + 1)) {
            unlink(near(path));
            dprintf(2, "sbox: %s appeared in the cage and was removed: git outside would have run what it names.\n", printable(path));
        } else {
            dprintf(2, "sbox: %s appeared in the cage. Programs outside may run what it says: read it before you open the "
                       "project.\n", printable(path));
        }
    }
}
