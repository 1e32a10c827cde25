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
enum { DEPTH_PROJECTS = 3, DEPTH_TMP = 1, MOST_LINKS = 20, MOST_NAMES = 100 };

/* Read-only where they are; where they are not, their appearance is reported. */
static const char *const TOOL_FILES[] = {".mcp.json", ".vscode", ".idea", ".envrc", ".cursor", ".codex", ".gemini"};
static const char *const GIT_FILES[] = {"hooks", "config", "config.worktree", "commondir", "gitdir"};

/* Those that git would follow, and that can be missing. When one appears it is removed after the run. */
static bool is_removed(const char *name) {
    return !strcmp(name, "commondir") || !strcmp(name, "config") || !strcmp(name, "config.worktree");
}

typedef struct {
    Run *run;
    List found, gits;         /* worktrees of the repositories; git directories */
    List hooks;               /* relative core.hooksPath of the user's own configuration: one in each worktree */
    List pins, guards, holds, hides; /* paths; written to the plan in this order, the cover between the first two */
} Search;

static bool is_in(const List *list, const char *path) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->at[i], path)) return true;
    return false;
}

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

typedef struct {
    Search *search;
    const char *zone, *file, *git, *worktree; /* the configuration, and whose it is: NULL for the user's own */
    List *read, *named;                       /* files; each once, and not without end: the cage may have written it */
} Configured;

static void guard_config(Configured of);

static void guard_named_once(const Configured *of, const char *base, const char *value) {
    const char *path = value[0] == '/' ? value : text("%s/%s", base, value);
    if (of->named->count >= MOST_NAMES || is_in(of->named, path)) return;
    add(of->named, path);
    guard_named(of->search, of->zone, "", path);
}

/* Relative names of files count from the configuration that has them, hooks from the worktree. */
static void guard_entry_of_config(void *context, const char *key, const char *value) {
    Configured *of = context;
    Search *search = of->search;
    const char *file = value + (*value == '!');
    const char *path = file[0] == '~' && file[1] == '/' ? text("%s%s", search->run->home, file + 1) : text("%s", file);
    if (!strcasecmp(key, "include")) {
        if (*path != '/') path = text("%.*s/%s", (int)(strrchr(of->file, '/') - of->file), of->file, path);
        guard_named_once(of, "", path);
        guard_config((Configured){search, of->zone, path, of->git, of->worktree, of->read, of->named});
    } else if (!strcasecmp(key, "hookspath") && (*path == '/' || of->worktree)) {
        guard_named_once(of, of->worktree ? of->worktree : "", path);
    } else if (!strcasecmp(key, "hookspath") && *path) {
        add(&search->hooks, path);
    } else if (!strcasecmp(key, "worktree") && of->git && *path) { /* of a submodule */
        const char *worktree = realpath(*path == '/' ? path : text("%s/%s", of->git, path), NULL);
        if (!worktree || !is_below(worktree, of->zone)) return;
        of->worktree = worktree;
        pin(search, of->zone, worktree);
        guard(search, text("%s/.git", worktree));
    } else if (*path == '/') { /* a program, most likely */
        struct stat info;
        char *program = text("%.*s", (int)strcspn(path, " \t"), path);
        if (is_below(program, of->zone) && !stat(near(program), &info) && S_ISREG(info.st_mode))
            guard_named_once(of, "", program);
    }
}

static void guard_config(Configured of) {
    if (of.read->count >= MOST_NAMES || is_in(of.read, of.file)) return;
    add(of.read, of.file);
    read_git_config(of.file, guard_entry_of_config, &of);
}

/* What the configuration of a git directory names, and what the user's own does for every repository. */
static void guard_configured(Search *search, const char *zone, const char *git, const char *worktree) {
    List read = {0}, named = {0};
    guard_config((Configured){search, zone, text("%s/config", git), git, worktree, &read, &named});
    for (size_t i = 0; i < search->hooks.count; i++) guard_named(search, zone, worktree, search->hooks.at[i]);
    free(read.at), free(named.at);
}

static void guard_own_config(Search *search, const char *zone) {
    const char *home = search->run->home, *config = getenv("XDG_CONFIG_HOME");
    List read = {0}, named = {0};
    guard_config((Configured){search, zone, text("%s/.gitconfig", home), NULL, NULL, &read, &named});
    config = config && *config == '/' ? text("%s/git/config", config) : text("%s/.config/git/config", home);
    guard_config((Configured){search, zone, config, NULL, NULL, &read, &named});
    free(read.at), free(named.at);
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

static void guard_git_directory(Search *search, const char *zone, const char *git, const char *worktree);

/* .git/modules and .git/worktrees; a submodule whose name has a slash lies a directory deeper. */
static void guard_git_directories(Search *search, const char *zone, const char *parent) {
    DIR *directory = opendir(near(parent));
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        const char *below = text("%s/%s", parent, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        if (exists(text("%s/HEAD", below)))
            guard_git_directory(search, zone, below, text("%s/..", below));
        else if (entry->d_type == DT_DIR)
            guard_git_directories(search, zone, below);
    }
    if (directory) closedir(directory);
}

/* A hook that is a link is the file that it leads to. */
static void guard_linked_hooks(Search *search, const char *zone, const char *git) {
    const char *hooks = text("%s/hooks", git);
    DIR *directory = opendir(near(hooks));
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (entry->d_type == DT_LNK) guard_named(search, zone, hooks, entry->d_name);
    if (directory) closedir(directory);
}

/* A directory that holds a git configuration: .git itself, and those of its submodules and linked worktrees. */
static void guard_git_directory(Search *search, const char *zone, const char *git, const char *worktree) {
    bool has_hooks = false; /* its own, or, where it is linked, its main one's */
    if (!exists(git)) return;
    add(&search->gits, git);
    pin(search, zone, git);
    for (size_t i = 0; i < sizeof GIT_FILES / sizeof *GIT_FILES; i++) {
        bool there = guard_entry(search, zone, git, GIT_FILES[i]);
        if (!there && is_removed(GIT_FILES[i])) add(&search->run->removed, text("%s/%s", git, GIT_FILES[i]));
        if (there && (!strcmp(GIT_FILES[i], "hooks") || !strcmp(GIT_FILES[i], "commondir"))) has_hooks = true;
    }
    has_hooks ? guard_linked_hooks(search, zone, git) : hold_hooks(search, zone, git);
    guard_git_directories(search, zone, text("%s/modules", git));
    guard_git_directories(search, zone, text("%s/worktrees", git));
    guard_configured(search, zone, git, worktree);
}

static bool look_for_repository(Search *search, const char *zone, const char *directory);

/* The directory that the line of a file names after `word`, or NULL. */
static const char *place_in(const char *base, const char *file, const char *word) {
    char *line = read_file(file);
    if (!line || strncmp(line, word, strlen(word))) return free(line), NULL;
    const char *name = line + strlen(word);
    line[strcspn(line, "\r\n")] = 0;
    const char *path = realpath(*name == '/' ? name : text("%s/%s", base, name), NULL);
    struct stat info;
    return path && !stat(path, &info) && S_ISDIR(info.st_mode) ? path : NULL;
}

/* A .git that is a file names the git directory: that of a linked worktree, of a submodule, or one that lies apart. A
 * linked one shares that of its main repository, which may be a bare one. */
static void guard_named_git_directory(Search *search, const char *zone, const char *worktree, const char *file) {
    const char *git = place_in(worktree, file, "gitdir: ");
    const char *common = git ? place_in(git, text("%s/commondir", git), "") : NULL;
    const char *name = common ? strrchr(common, '/') : NULL;
    if (name && !strcmp(name, "/.git") && is_below(common, zone))
        look_for_repository(search, zone, text("%.*s", (int)(name - common), common));
    const char *both[] = {git, common};
    for (int i = 0; i < 2; i++) {
        if (both[i] && is_below(both[i], zone) && strcmp(both[i], zone) && !is_in(&search->gits, both[i]))
            guard_git_directory(search, zone, both[i], worktree);
        else if (both[i])
            guard_configured(search, zone, both[i], worktree);
    }
}

/* A directory that is a git directory without a worktree of its own. */
static bool look_for_bare_repository(Search *search, const char *zone, const char *directory) {
    if (!exists(text("%s/HEAD", directory)) || !exists(text("%s/objects", directory))) return false;
    if (!is_in(&search->gits, directory)) guard_git_directory(search, zone, directory, directory);
    return true;
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
        guard_named_git_directory(search, zone, worktree, git);
        return;
    }
    guard_git_directory(search, zone, git, worktree);
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
    if (is_in(&search->found, directory)) return true;
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
        if (look_for_repository(search, zone, below) || look_for_bare_repository(search, zone, below)) continue;
        const char *settings = text("%s/.claude", below);
        if (depth < most && !exists(settings)) add(&search->run->watched, settings);
        if (depth > 1) look_below(search, zone, below, depth - 1, most);
    }
    if (directory) closedir(directory);
}

/* A repository that appears around others: git outside finds it from directories that are in none. */
static void watch_git(Search *search, const char *directory) {
    const char *git = text("%s/.git", directory);
    if (!exists(git)) add(&search->run->watched, git);
}

/* The working directory and those above it, however deep: a session may have started in any of them. */
static void look_above(Search *search, const char *zone, const char *cwd) {
    if (!is_below(cwd, zone)) return;
    char *path = text("%s", cwd);
    while (strlen(path) > strlen(zone)) {
        guard_settings(search, zone, path);
        if (!look_for_repository(search, zone, path)) {
            look_for_bare_repository(search, zone, path);
            guard_tool_files(search, zone, path);
            if (strcmp(path, cwd)) watch_git(search, path);
        }
        *strrchr(path, '/') = 0;
    }
}

/* A server may have given its socket another name since. */
static void hide_sockets_beside(Search *search, const char *path) {
    const char *place = text("%.*s", (int)(strrchr(path, '/') - path), path);
    DIR *directory = opendir(place);
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
        if (is_below(paths.at[i], "/run") || is_below(paths.at[i], "/var/run")) continue;
        if (exists(paths.at[i]))
            add_once(&search->hides, paths.at[i]);
        else
            hide_sockets_beside(search, paths.at[i]);
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

static void guard_zone(Run *run, const char *zone, int depth) {
    Search search = {.run = run};
    stand_in(zone);
    guard_own_config(&search, zone);
    guard_linked_from_home(&search, zone);
    if (!strcmp(zone, run->projects) || !strcmp(zone, run->cwd)) {
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

static bool remove_file(const char *path) {
    int directory = open_plainly(text("%.*s", (int)(strrchr(path, '/') - path), path));
    bool removed = directory >= 0 && !unlinkat(directory, strrchr(path, '/') + 1, 0);
    if (directory >= 0) close(directory);
    return removed;
}

/* After the end. What would give git a configuration of the cage's choice is taken away. */
void report_new_files(const Run *run) {
    stand_in(run->projects);
    for (size_t i = 0; i < run->removed.count; i++)
        if (exists(run->removed.at[i]))
            say("%s appeared in the cage and %s: git outside would have run what it names.", run->removed.at[i],
                remove_file(run->removed.at[i]) ? "was removed" : "must be removed by you");
    for (size_t i = 0; i < run->watched.count; i++)
        if (exists(run->watched.at[i]))
            say("%s appeared in the cage. Programs outside may run what it says: read it before you open the project.",
                run->watched.at[i]);
}
