/* ~/.config/slack-gate/sbox.conf, which the cage cannot see, let alone write:
 *
 *   env NAME          pass this variable on            show .NAME   bind this hidden entry of the home back, read-only
 *   hide /PATH        make this directory or file empty
 *   limit processes|file-size|memory|cpu NUMBER        bytes and seconds; 0 takes the limit away; see limits.c
 *
 * A word that begins with # and what follows it is a comment. */
#define _GNU_SOURCE
#include "sbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Passed on when set. A name that ends in * is a beginning; names that speak of secrets never are. */
static const char *const KEPT[] = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES",
    "LANG", "LANGUAGE", "LC_*", "TZ", "CI", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "JAVA_HOME", "GOPATH",
    "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "CUDA_*", "NODE_*", "PYTHON*",
};
static const char *const SECRET_WORDS[] = {"TOKEN", "SECRET", "PASS", "AUTH", "CRED", "KEY"};

static bool is_kept(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++) {
        size_t wanted = strlen(KEPT[i]);
        if (KEPT[i][wanted - 1] != '*') {
            if (wanted == length && !memcmp(name, KEPT[i], length)) return true;
        } else if (length >= wanted - 1 && !memcmp(name, KEPT[i], wanted - 1)) {
            for (size_t j = 0; j < sizeof SECRET_WORDS / sizeof *SECRET_WORDS; j++)
                if (memmem(name, length, SECRET_WORDS[j], strlen(SECRET_WORDS[j]))) return false;
            return true;
        }
    }
    return false;
}

static bool is_set(const List *env, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < env->count; i++)
        if (!strncmp(env->at[i], name, length) && env->at[i][length] == '=') return true;
    return false;
}

void keep_environment(Run *run, const Settings *settings, char **environ) {
    for (char **entry = environ; *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        bool keep = is_kept(*entry, length);
        for (size_t i = 0; i < settings->env.count && !keep; i++)
            keep = strlen(settings->env.at[i]) == length && !memcmp(*entry, settings->env.at[i], length);
        if (keep && strncmp(*entry, "HOME=", 5)) add(&run->env, *entry);
    }
    const char *home = getenv("HOME");
    addf(&run->env, "HOME=%s", home && home[0] == '/' && home[1] ? home : run->home);
    /* ~/.npm, where it would be otherwise, is hidden and cannot be made */
    if (!is_set(&run->env, "npm_config_cache")) addf(&run->env, "npm_config_cache=%s/.cache/npm", run->home);
    if (!is_set(&run->env, "PATH")) add(&run->env, "PATH=/usr/local/bin:/usr/bin:/bin");
}

static void set_limit(Run *run, const char *name, const char *value, int line) {
    char *end;
    long number = strtol(value, &end, 10);
    long *limit = !strcmp(name, "processes")   ? &run->limit_processes
                  : !strcmp(name, "file-size") ? &run->limit_file_size
                  : !strcmp(name, "memory")    ? &run->limit_memory
                  : !strcmp(name, "cpu")       ? &run->limit_cpu
                                               : NULL;
    if (!limit || *end || number < 0)
        fail("line %d of sbox.conf is not understood. Write: limit processes|file-size|memory|cpu NUMBER", line);
    *limit = number;
}

/* A hidden entry of the home, or what lies in one; nothing of .ssh, however it is written. */
static bool is_shown(const char *name) {
    size_t first = strcspn(name, "/");
    return name[0] == '.' && first > 1 && !strstr(name, "..") && (first != 4 || strncmp(name, ".ssh", 4));
}

void read_settings(Run *run, Settings *settings) {
    run->limit_processes = 4096;
    const char *path = text("%s/.config/slack-gate/sbox.conf", run->home), *real = realpath(path, NULL);
    FILE *file = real ? fopen(real, "re") : NULL;
    if (!file) return;
    if (is_below(real, run->projects) || is_below(real, run->cache) ||
        (is_below(real, run->tmp) && !is_below(real, run->home)))
        fail("%s leads to %s, which the cage can write. Make it a file of its own.", path, real);
    char *line = NULL, word[32], name[4096], value[64], more[2];
    size_t room = 0;
    for (int number = 1; getline(&line, &room, file) >= 0; number++) {
        char *comment = line;
        while ((comment = strchr(comment, '#')) && comment > line && comment[-1] != ' ' && comment[-1] != '\t') comment++;
        if (comment) *comment = 0;
        int words = sscanf(line, "%31s %4095s %63s %1s", word, name, value, more);
        if (words <= 0) continue;
        if (words == 2 && !strcmp(word, "env"))
            add(&settings->env, text("%s", name));
        else if (words == 2 && !strcmp(word, "show") && is_shown(name))
            add(&settings->show, text("%s", name));
        else if (words == 2 && !strcmp(word, "hide") && name[0] == '/')
            add(&settings->hide, text("%s", name));
        else if (words == 3 && !strcmp(word, "limit"))
            set_limit(run, name, value, number);
        else
            fail("line %d of sbox.conf is not understood. Use env NAME, show .NAME, hide /PATH or limit KIND NUMBER.", number);
    }
    fclose(file);
}
