/* A git configuration, read as git reads it as far as names of files are concerned: sections, quotes, escapes, comments. */
#define _GNU_SOURCE
#include "sbox.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 1 << 20 };

static char *skip_blanks(char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\r') at++;
    return at;
}

/* Writes the value in its place, ended by NUL, and returns what follows its line. */
static char *take_value(char *at, char **value) {
    at = skip_blanks(at);
    char *to = *value = at, *end = at; /* `end`: behind the last that is not a blank */
    bool quoted = false, comment = false;
    for (; *at && *at != '\n'; at++) {
        if (*at == '"' && !comment) {
            quoted = !quoted, end = to;
        } else if (*at == '\\' && !comment && at[1]) {
            at += at[1] == '\r' && at[2] == '\n' ? 2 : 1;
            if (*at == '\n') continue;
            *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == 'b' ? '\b' : *at, end = to;
        } else if (!quoted && (*at == '#' || *at == ';')) {
            comment = true;
        } else if (!comment) {
            bool blank = !quoted && (*at == ' ' || *at == '\t' || *at == '\r');
            *to++ = *at;
            if (!blank) end = to;
        }
    }
    char *next = *at ? at + 1 : at;
    *end = 0;
    return next;
}

static void read_entries(char *at, GitEntry *take, void *context) {
    bool including = false;
    while (*(at = skip_blanks(at))) {
        if (*at == '[') {
            including = !strncasecmp(at, "[include", 8);
            for (bool quoted = false; *at && *at != '\n' && (quoted || *at != ']'); at++) {
                if (*at == '"') quoted = !quoted;
                if (*at == '\\' && at[1] && at[1] != '\n') at++;
            }
            if (*at == ']') at++;
            continue;
        }
        char *key = at, *value;
        while (isalnum((unsigned char)*at) || *at == '-') at++;
        char *behind = at;
        at = skip_blanks(at);
        if (behind == key || *at != '=') { /* a blank line, a comment, a switch without a value */
            at += strcspn(at, "\n");
            if (*at) at++;
            continue;
        }
        at = take_value(at + 1, &value);
        *behind = 0;
        take(context, including && !strcasecmp(key, "path") ? "include" : key, value);
    }
}

char *read_file(const char *path) {
    int fd = open(near(path), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat info;
    bool readable = fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size < LARGEST;
    size_t room = readable ? (size_t)info.st_size + 1 : 0, used = 0;
    char *all = readable ? malloc(room + 1) : NULL;
    for (ssize_t count; all && (count = read(fd, all + used, room - used)) > 0;)
        if ((used += (size_t)count) == room && room < LARGEST) all = realloc(all, (room = LARGEST) + 1); /* it has grown */
    if (all) all[used] = 0;
    if (fd >= 0) close(fd);
    return all;
}

void read_git_config(const char *path, GitEntry *take, void *context) {
    char *all = read_file(path);
    if (all) read_entries(all, take, context);
    free(all);
}
