/* The git directories of a zone, and what git outside would run because of what lies in one: hooks, and what a configuration
 * names. */
#define _GNU_SOURCE
#include "guard.h"
#include "sbox.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAMES = 100 };

static const char *const GIT_FILES[] = {"hooks", "config", "config.worktree", "commondir", "gitdir"};

/* Those that git would follow, and that can be missing. When one appears it is removed after the run. */
static bool is_removed(const char *name) {
    return !strcmp(name, "commondir") || !strcmp(name, "config") || !strcmp(name, "config.worktree");
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

/* Files that a line of a shell names with their whole path, most likely programs. */
static void guard_programs(const Configured *of, const char *line) {
    static const char BETWEEN[] = " \t\n'\"!=;|&()<>";
    struct stat info;
    for (size_t length; *(line += strspn(line, BETWEEN)); line += length) {
        length = strcspn(line, BETWEEN);
        bool at_home = line[0] == '~' && line[1] == '/';
        if (line[0] != '/' && !at_home) continue;
        const char *path = text("%s%.*s", at_home ? of->search->run->home : "", (int)length - at_home, line + at_home);
        if (is_below(path, of->zone) && !stat(near(path), &info) && S_ISREG(info.st_mode)) guard_named_once(of, "", path);
    }
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
    } else {
        guard_programs(of, value);
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

void guard_own_config(Search *search, const char *zone) {
    const char *home = search->run->home, *config = getenv("XDG_CONFIG_HOME");
    const char *global = getenv("GIT_CONFIG_GLOBAL"), *system = getenv("GIT_CONFIG_SYSTEM");
    List read = {0}, named = {0};
    const char *files[] = {
        text("%s/.gitconfig", home),
        config && *config == '/' ? text("%s/git/config", config) : text("%s/.config/git/config", home),
        global && *global == '/' ? global : NULL, system && *system == '/' ? system : "/etc/gitconfig"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i]) guard_config((Configured){search, zone, files[i], NULL, NULL, &read, &named});
    if (files[2]) guard_named(search, zone, "", files[2]); /* it may lie in the zone itself */
    free(read.at), free(named.at);
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

static void guard_git_directory(Search *search, const char *zone, const char *git, const char *worktree);

/* .git/modules and .git/worktrees; a submodule whose name has a slash lies a directory deeper. */
static void guard_git_directories(Search *search, const char *zone, const char *parent) {
    DIR *directory = list(search, parent);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        const char *below = text("%s/%s", parent, entry->d_name);
        if (entry->d_name[0] == '.') continue;
        if (entry->d_type != DT_DIR && !(below = resolve(search, zone, below))) continue;
        if (!exists(text("%s/HEAD", below))) {
            if (!hide_closed(search, below) && entry->d_type == DT_DIR) guard_git_directories(search, zone, below);
        } else if (!is_below(below, zone)) { /* a link */
            guard_configured(search, zone, below, text("%s/..", below));
        } else if (!is_in(&search->gits, below)) {
            guard_git_directory(search, zone, below, text("%s/..", below));
        }
    }
    if (directory) closedir(directory);
}

/* A hook that is a link is the file that it leads to. */
static void guard_linked_hooks(Search *search, const char *zone, const char *git) {
    const char *hooks = text("%s/hooks", git);
    DIR *directory = list(search, hooks);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        if (entry->d_type == DT_LNK) guard_named(search, zone, hooks, entry->d_name);
    if (directory) closedir(directory);
}

/* A file in the first two is a remote that git takes without a configuration; the third has the submodules' git directories. */
static void list_entries(Search *search, const char *zone, const char *git) {
    static const char *const PLACES[] = {"remotes", "branches", "modules"};
    for (int i = 0; i < 3; i++) {
        char *path = text("%s/%s", git, PLACES[i]), *names = text("/");
        struct stat info;
        if (!lstat(near(path), &info) && S_ISLNK(info.st_mode)) {
            guard_entry(search, zone, git, PLACES[i]);
            continue;
        }
        DIR *directory = opendir(near(path));
        struct dirent *entry;
        if (!directory && hide_closed(search, path)) continue;
        while (directory && (entry = readdir(directory)))
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) names = text("%s%s/", names, entry->d_name);
        if (directory) closedir(directory);
        add(&search->run->listed, path);
        add(&search->run->listed, names);
        if (i < 2 && names[1]) guard_entry(search, zone, git, PLACES[i]);
    }
}

/* Hooks that another cage holds, or a killed one left: they are to be held as long as this cage needs them. */
static bool is_placeholder(const char *git, const char *name) {
    struct stat info;
    return !strcmp(name, "hooks") && !lstat(near(text("%s/hooks", git)), &info) && S_ISDIR(info.st_mode) &&
           info.st_mode & S_ISVTX;
}

/* A directory that holds a git configuration: .git itself, and those of its submodules and linked worktrees. */
static void guard_git_directory(Search *search, const char *zone, const char *git, const char *worktree) {
    bool has_hooks = false; /* its own, or, where it is linked, its main one's */
    if (!exists(git)) return;
    add(&search->gits, git);
    watch_git_directory(search->run, git);
    pin(search, zone, git);
    if (access(near(git), R_OK | X_OK) && hide_closed(search, git)) return;
    for (size_t i = 0; i < sizeof GIT_FILES / sizeof *GIT_FILES; i++) {
        bool there = !is_placeholder(git, GIT_FILES[i]) && guard_entry(search, zone, git, GIT_FILES[i]);
        if (!there && is_removed(GIT_FILES[i])) add(&search->run->removed, text("%s/%s", git, GIT_FILES[i]));
        if (there && (!strcmp(GIT_FILES[i], "hooks") || !strcmp(GIT_FILES[i], "commondir"))) has_hooks = true;
    }
    list_entries(search, zone, git);
    has_hooks ? guard_linked_hooks(search, zone, git) : hold_hooks(search, zone, git);
    guard_git_directories(search, zone, text("%s/modules", git));
    guard_git_directories(search, zone, text("%s/worktrees", git));
    guard_configured(search, zone, git, worktree);
}

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
bool look_for_bare_repository(Search *search, const char *zone, const char *directory) {
    if (!exists(text("%s/HEAD", directory)) || !exists(text("%s/objects", directory))) return false;
    if (!is_in(&search->gits, directory)) guard_git_directory(search, zone, directory, directory);
    return true;
}

/* Git outside looks into the directory of each submodule, whoever made a repository there. */
static void watch_submodule(void *context, const char *key, const char *value) {
    const Configured *of = context;
    if (strcasecmp(key, "path")) return;
    const char *git = text("%s/%s/.git", of->worktree, value);
    if (*value && *value != '/' && !strstr(git, "/../") && !exists(git)) add(&of->search->run->watched, git);
}

static void guard_repository(Search *search, const char *zone, const char *worktree, const char *git, bool linked) {
    guard_tool_files(search, zone, worktree);
    guard_settings(search, zone, worktree);
    Configured of = {.search = search, .worktree = worktree};
    read_git_config(text("%s/.gitmodules", worktree), watch_submodule, &of);
    if (linked) {
        pin(search, zone, worktree);
        guard(search, git);
        guard_named_git_directory(search, zone, worktree, git);
        return;
    }
    guard_git_directory(search, zone, git, worktree);
}

/* True when `directory` is a repository, which is then guarded. */
bool look_for_repository(Search *search, const char *zone, const char *directory) {
    const char *git = text("%s/.git", directory);
    struct stat info;
    if (lstat(near(git), &info)) return hide_closed(search, directory);
    if (S_ISLNK(info.st_mode)) {
        git = resolve(search, zone, git);
        if (!git || !is_below(git, zone) || stat(near(git), &info)) return false;
    }
    if (S_ISREG(info.st_mode) && info.st_size == 0) return false;
    if (is_in(&search->found, directory)) return true;
    add(&search->found, text("%s", directory));
    guard_repository(search, zone, directory, git, !S_ISDIR(info.st_mode));
    return true;
}

/* A repository that appears around others: git outside finds it from directories that are in none. */
void watch_git(Search *search, const char *directory) {
    const char *git = text("%s/.git", directory);
    if (!exists(git)) add(&search->run->watched, git);
}
