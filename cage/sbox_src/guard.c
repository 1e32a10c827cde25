/* What the cage must not change although it lies where it may write: in every repository the files that make git run
 * something, and the files that make editors and agents run something; and the sockets of programs outside.
 *
 * A guarded file is mounted read-only. The directories above it are pinned, so that no rename can put another in its
 * place, and the pins are covered by the same tree, so that ordinary renames between directories go on working. */
#define _GNU_SOURCE
#include "guard.h"
#include "sbox.h"
#include "steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HELD "/run/.held" /* what placeholders show; git leaves alone a directory that ignores itself, `git clean` too */
enum { DEPTH_PROJECTS = 3, DEPTH_TMP = 1, MOST_LINKS = 20 };

/* What editors and agents run something from, besides .claude: read-only where it is; where it is not, its appearance is
 * reported. In the order of strcmp(). */
static const char *const TOOL_FILES[] = {
    ".agent", ".agents", ".aider.conf.yml", ".amazonq", ".antigravity", ".augment", ".autoenv", ".autoenv.zsh", ".claude-plugin", ".claude.json",
    ".cline", ".clinerules", ".codebuddy", ".codeium", ".codex", ".continue", ".copilot", ".crush", ".crush.json", ".cursor",
    ".devcontainer", ".devcontainer.json", ".dir-locals-2.el", ".dir-locals.el", ".direnv", ".envrc", ".exrc", ".factory", ".fleet", ".forge",
    ".gemini", ".goose", ".grok", ".helix", ".hermes", ".idea", ".iflow", ".junie", ".kilocode", ".kimi", ".kiro", ".lapce",
    ".lvimrc", ".mcp.json", ".nvim.lua", ".nvimrc", ".openclaw", ".opencode", ".pi", ".qoder", ".qwen", ".roo", ".rovodev",
    ".trae", ".vibe", ".vimrc", ".vscode", ".windsurf", ".zed", "crush.json", "opencode.json", "opencode.jsonc",
};

static int by_name(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static bool is_tool_file(const char *name) {
    return bsearch(&name, TOOL_FILES, sizeof TOOL_FILES / sizeof *TOOL_FILES, sizeof *TOOL_FILES, by_name);
}

bool is_in(const List *list, const char *path) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->at[i], path)) return true;
    return false;
}

void add_once(List *list, const char *path) {
    for (size_t i = list->count; i-- > 0 && list->count - i < 16;)
        if (!strcmp(list->at[i], path)) return;
    add(list, path);
}

void guard(Search *search, const char *path) {
    if (exists(path)) add(&search->guards, path);
}

/* What cannot be looked at can hold anything, and its owner, the command, can open it again: it reads as empty. */
bool hide_closed(Search *search, const char *directory) {
    struct stat info;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
        fail("%s cannot be looked at (%s). Nothing was run.", directory, strerror(errno));
    if (errno != EACCES) return false;
    if (!lstat(near(directory), &info) && info.st_uid != geteuid() && access(near(directory), X_OK)) return false;
    add_once(&search->hides, directory);
    return true;
}

DIR *list(Search *search, const char *directory) {
    DIR *opened = opendir(near(directory));
    if (!opened) hide_closed(search, directory);
    return opened;
}

/* Every directory from below the writable one down to `path`. */
void pin(Search *search, const char *zone, const char *path) {
    if (!is_below(path, zone) || !strcmp(path, zone)) return;
    for (const char *slash = path + strlen(zone) + 1; (slash = strchr(slash, '/')); slash++)
        add_once(&search->pins, text("%.*s", (int)(slash - path), path));
    add_once(&search->pins, path);
}

/* Where a path leads, whether something is there or not. Every symbolic link on the way is pinned. NULL in a circle. */
static const char *follow(Search *search, const char *zone, const char *path, int links) {
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
        return links ? follow(search, zone, next, links - 1) : NULL;
    }
    return at;
}

const char *resolve(Search *search, const char *zone, const char *path) {
    return follow(search, zone, path, MOST_LINKS);
}

/* What a name leads to, when it lies in the zone; watched while it is not there. */
void guard_named(Search *search, const char *zone, const char *base, const char *value) {
    const char *path = resolve(search, zone, value[0] == '/' ? value : text("%s/%s", base, value));
    if (!path || !is_below(path, zone) || !strcmp(path, zone)) return;
    if (!exists(path)) {
        const char *above = directory_of(path);
        while (errno == EACCES && !exists(above)) above = directory_of(above);
        if (!hide_closed(search, above)) add(&search->run->watched, path);
        return;
    }
    size_t length = strlen(path);
    if (length > 9 && !strcmp(path + length - 9, "/.husky/_")) path = text("%.*s", (int)length - 2, path); /* runs its parent's */
    pin(search, zone, path);
    guard(search, path);
}

/* What lies in a directory, or what it leads to when it is a link. False when it is not there. */
bool guard_entry(Search *search, const char *zone, const char *directory, const char *name) {
    const char *path = text("%s/%s", directory, name);
    struct stat info;
    if (lstat(near(path), &info)) return hide_closed(search, directory);
    if (S_ISLNK(info.st_mode))
        guard_named(search, zone, directory, name);
    else
        add(&search->guards, path);
    return true;
}

/* Whether this zone's cover is the one that counts for what lies in the directory. */
bool is_of(const Search *search, const char *zone, const char *directory) {
    const char *home = search->run->home, *projects = search->run->projects;
    if (is_below(directory, projects)) return !strcmp(zone, projects);
    return !is_below(directory, home); /* there the cage writes nothing */
}

/* The .claude of a directory. See hold.c. */
void guard_settings(Search *search, const char *zone, const char *directory) {
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

void guard_tool_files(Search *search, const char *zone, const char *directory) {
    if (is_below(directory, search->run->projects) && !is_of(search, zone, directory)) return;
    const char *names = "/";
    DIR *opened = list(search, directory);
    struct dirent *entry;
    while (opened && (entry = readdir(opened))) {
        if (!is_tool_file(entry->d_name)) continue;
        names = text("%s%s/", names, entry->d_name);
        pin(search, zone, directory);
        guard_entry(search, zone, directory, entry->d_name);
    }
    if (opened) closedir(opened);
    add(&search->run->open_to_tools, directory);
    add(&search->run->open_to_tools, names);
}

/* Repositories in a repository. Not as deep as elsewhere: it can hold any number of directories. */
static void look_inside(Search *search, const char *zone, const char *path, int depth) {
    DIR *directory = list(search, path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || !strcmp(entry->d_name, ".git") ||
            !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        const char *below = text("%s/%s", path, entry->d_name);
        if (!look_for_repository(search, zone, below) && depth > 1) look_inside(search, zone, below, depth - 1);
    }
    if (directory) closedir(directory);
}

static void look_below(Search *search, const char *zone, const char *path, int depth, int most) {
    DIR *directory = list(search, path);
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
        if (look_for_repository(search, zone, below)) {
            look_inside(search, zone, below, 1);
            continue;
        }
        if (look_for_bare_repository(search, zone, below)) continue;
        const char *settings = text("%s/.claude", below);
        if (depth < most && !exists(settings)) add(&search->run->watched, settings);
        if (depth > 1) look_below(search, zone, below, depth - 1, most);
    }
    if (directory) closedir(directory);
}

/* The working directory and those above it, however deep: a session may have started in any of them. */
static void look_above(Search *search, const char *zone, const char *cwd) {
    if (!is_below(cwd, zone)) return;
    for (const char *path = cwd; strlen(path) > strlen(zone); path = directory_of(path)) {
        guard_settings(search, zone, path);
        if (look_for_repository(search, zone, path)) {
            look_inside(search, zone, path, 2);
        } else {
            look_for_bare_repository(search, zone, path);
            guard_tool_files(search, zone, path);
            if (strcmp(path, cwd)) watch_git(search, path);
        }
    }
}

/* A server may have given its socket another name since. */
static void hide_sockets_beside(Search *search, const char *path) {
    const char *place = realpath(text("%.*s/", (int)(strrchr(path, '/') - path), path), NULL);
    DIR *directory = place ? opendir(place) : NULL;
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (entry->d_type == DT_SOCK) add_once(&search->hides, text("%s/%s", place, entry->d_name));
    if (directory) closedir(directory);
}

/* Wherever they are; /run and the hidden part of the home are gone already. */
static void hide_sockets(Search *search) {
    List paths = {0};
    find_sockets(&paths);
    for (size_t i = 0; i < paths.count; i++) {
        const char *path = paths.at[i];
        if (is_below(path, "/run") || is_below(path, "/var/run")) continue;
        const char *real = realpath(path, NULL); /* a server may have written it with `..`, by links, with slashes to spare */
        if (real)
            add_once(&search->hides, real);
        else
            hide_sockets_beside(search, path);
    }
}

/* What is hidden must still be where it is when the next cage hides it. */
static void pin_around(Search *search, const char *zone, const List *hidden) {
    for (size_t i = 0; i < hidden->count; i++)
        pin(search, zone, text("%.*s", (int)(strrchr(hidden->at[i], '/') - hidden->at[i]), hidden->at[i]));
}

/* Files that programs outside take from the home, kept among the projects and linked there. */
static void guard_linked_from_home(Search *search, const char *zone) {
    static const char *const PLACES[] = {"", "/.config", "/.config/git", "/.claude", "/.codex", "/.gemini", "/.ssh"};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        const char *place = text("%s%s", search->run->home, PLACES[i]);
        DIR *directory = opendir(place);
        struct dirent *entry;
        while (directory && (entry = readdir(directory)))
            if (entry->d_type == DT_LNK && (*PLACES[i] || entry->d_name[0] == '.') && strcmp(entry->d_name, ".cache"))
                guard_named(search, zone, place, entry->d_name);
        if (directory) closedir(directory);
    }
}

static bool is_hidden(const Run *run, const char *path) {
    for (size_t i = 0; i < run->hidden.count; i++)
        if (is_below(path, run->hidden.at[i])) return true;
    return false;
}

/* Of the file itself; a number alone is given to the next file at once. NULL where there is none. */
static const char *identity(const char *path) {
    struct statx info;
    if (statx(AT_FDCWD, near(path), AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &info)) return NULL;
    return text("%llx %llx.%x", (unsigned long long)info.stx_ino, (unsigned long long)info.stx_btime.tv_sec,
                info.stx_btime.tv_nsec);
}

static void guard_zone(Run *run, const char *zone, int depth) {
    Search search = {.run = run};
    stand_in(zone);
    guard_own_config(&search, zone);
    guard_linked_from_home(&search, zone);
    if (!strcmp(zone, run->projects) || is_below(run->cwd, zone)) {
        guard_settings(&search, zone, zone);
        guard_tool_files(&search, zone, zone);
    }
    if (!look_for_repository(&search, zone, zone)) watch_git(&search, zone);
    look_above(&search, zone, run->cwd);
    look_below(&search, zone, zone, depth, depth);
    if (!strcmp(zone, run->tmp)) hide_sockets(&search);
    pin_around(&search, zone, &search.hides);
    pin_around(&search, zone, &run->hidden);
    if (search.pins.count) step(run, SAVE, "", zone);
    /* each once, and what is above others first: a pin takes along the mounts that lie below it already */
    if (search.pins.count) qsort(search.pins.at, search.pins.count, sizeof *search.pins.at, by_name);
    for (size_t i = 0; i < search.pins.count; i++)
        if (!i || strcmp(search.pins.at[i], search.pins.at[i - 1])) step(run, PIN, "", search.pins.at[i]);
    if (search.pins.count) step(run, COVER, "", zone);
    if (search.guards.count) step(run, VIEW, zone, "/run/.view");
    for (size_t i = 0; i < search.guards.count; i++) {
        const char *path = search.guards.at[i], *now = identity(path);
        step(run, GUARD, text("/run/.view%s", path + strlen(zone)), path);
        if (now) add(&run->guarded, path), add(&run->guarded, now);
    }
    if (search.guards.count) step(run, DONE, "", "/run/.view");
    for (size_t i = 0; i < search.holds.count; i++)
        if (!is_hidden(run, search.holds.at[i])) step(run, HOLD, HELD, search.holds.at[i]);
    for (size_t i = 0; i < search.hides.count; i++) step(run, HIDE, "", search.hides.at[i]);
}

void plan_guards(Run *run) {
    step(run, FOLDER, "", HELD);
    step(run, IGNORE, "", HELD "/.gitignore");
    step(run, VIEW, HELD, HELD);
    guard_zone(run, run->projects, DEPTH_PROJECTS);
    guard_zone(run, run->tmp, DEPTH_TMP);
}

/* Whether it is there now. The cage may have closed a directory over it, which was open when we looked at first. */
static bool appeared(const char *path) {
    if (exists(path)) return true;
    int directory = errno == EACCES ? open_again(directory_of(path)) : -1;
    if (directory >= 0) close(directory);
    return directory >= 0 && exists(path);
}

static void take_away(const char *path) {
    if (!appeared(path)) return;
    int directory = open_again(directory_of(path));
    bool removed = directory >= 0 && remove_entry(directory, strrchr(path, '/') + 1);
    if (directory >= 0) close(directory);
    say("%s appeared in the cage and %s: git outside would have run what it names.", path,
        removed ? "was removed" : "must be removed by you");
}

static void report_appeared(const char *path) {
    say("%s appeared in the cage. Programs outside may run what it says: read it before you open the project.", path);
}

static void report_tool_files(const char *directory, const char *names) {
    int place = open_again(directory), fd = place < 0 ? -1 : openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *opened = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (opened && (entry = readdir(opened)))
        if (is_tool_file(entry->d_name) && !strstr(names, text("/%s/", entry->d_name)))
            report_appeared(text("%s/%s", directory, entry->d_name));
    if (opened) closedir(opened);
    if (place >= 0) close(place);
}

/* New submodules are the work of `git submodule update`: they stay. */
static void take_new_away(const char *path, const char *names) {
    bool stays = !strcmp(strrchr(path, '/'), "/modules");
    struct stat info;
    if (!appeared(path)) return;
    if (!lstat(near(path), &info) && S_ISLNK(info.st_mode)) return take_away(path);
    DIR *directory = opendir(near(path));
    if (!directory) return stays ? report_appeared(path) : take_away(path); /* git finds a name in it without a list */
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && !strstr(names, text("/%s/", entry->d_name)))
            stays ? report_appeared(text("%s/%s", path, entry->d_name)) : take_away(text("%s/%s", path, entry->d_name));
    if (directory) closedir(directory);
}

/* What git writes for a linked worktree, of a repository that is guarded. */
static bool leads_to_its_own(const Run *run, const char *commondir) {
    char *line = read_file(commondir);
    bool up = line && !strcmp(line, "../..\n");
    free(line);
    return up && is_in(&run->guarded, text("%s/config", directory_of(directory_of(directory_of(commondir)))));
}

/* Who replaces a file takes the mount off it in every cage. A commondir is replaced by the next of two cages, or by git
 * outside that made a worktree anew. */
static void look_at_guarded(const Run *run, const char *path, const char *before) {
    const char *now = appeared(path) ? identity(path) : NULL;
    if (!now || !strcmp(now, before)) return;
    if (!strcmp(strrchr(path, '/'), "/commondir") && !leads_to_its_own(run, path)) return take_away(path);
    say("%s was replaced while the cage ran, which could write to the new one. Programs outside may run what it says: read it.", path);
}

void take_files_away(const Run *run) {
    struct stat info;
    for (size_t i = 0; i < run->removed.count; i++)
        if (!lstat(near(run->removed.at[i]), &info) && !S_ISDIR(info.st_mode)) take_away(run->removed.at[i]);
    take_links_away(run);
}

/* After the end. What would give git a configuration of the cage's choice is taken away. */
void report_new_files(const Run *run) {
    stand_in(run->projects);
    take_files_away(run); /* before directories, which can take long */
    for (size_t i = 0; i < run->removed.count; i++) take_away(run->removed.at[i]);
    for (size_t i = 0; i < run->guarded.count; i += 2) look_at_guarded(run, run->guarded.at[i], run->guarded.at[i + 1]);
    for (size_t i = 0; i < run->listed.count; i += 2) take_new_away(run->listed.at[i], run->listed.at[i + 1]);
    for (size_t i = 0; i < run->open_to_tools.count; i += 2)
        report_tool_files(run->open_to_tools.at[i], run->open_to_tools.at[i + 1]);
    for (size_t i = 0; i < run->watched.count; i++)
        if (appeared(run->watched.at[i])) report_appeared(run->watched.at[i]);
}
