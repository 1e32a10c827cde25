/* What guard.c and repositories.c share: what was found in one writable directory, the zone. */
#ifndef GUARD_H
#define GUARD_H

#include "sbox.h"

#include <dirent.h>

typedef struct {
    Run *run;
    List found, gits;         /* worktrees of the repositories; git directories */
    List hooks;               /* relative core.hooksPath of the user's own configuration: one in each worktree */
    List pins, guards, holds, hides; /* paths; written to the plan in this order, the cover between the first two */
} Search;

/* guard.c. Paths of what is guarded are absolute; what lies outside the zone is left alone. */
bool is_in(const List *list, const char *path);
void add_once(List *list, const char *path);
void pin(Search *search, const char *zone, const char *path); /* it and each directory above it */
const char *resolve(Search *search, const char *zone, const char *path); /* links on the way are pinned; NULL in a circle */
void guard(Search *search, const char *path);
bool hide_closed(Search *search, const char *directory); /* after a look into it failed: true when the command could take one */
DIR *list(Search *search, const char *directory);
bool guard_entry(Search *search, const char *zone, const char *directory, const char *name);
void guard_named(Search *search, const char *zone, const char *base, const char *value);
void guard_settings(Search *search, const char *zone, const char *directory);
void guard_tool_files(Search *search, const char *zone, const char *directory);
bool is_of(const Search *search, const char *zone, const char *directory);

/* repositories.c */
void guard_own_config(Search *search, const char *zone); /* comes before the repositories */
bool look_for_repository(Search *search, const char *zone, const char *directory);
bool look_for_bare_repository(Search *search, const char *zone, const char *directory);
void watch_git(Search *search, const char *directory);

#endif
