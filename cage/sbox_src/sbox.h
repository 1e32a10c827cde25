/* sbox: run one command in a cage. docs/cage.md says what the cage holds and why; main.c tells the life of a run. */
#ifndef SBOX_H
#define SBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

enum { EXIT_CAGE = 125, EXIT_NOT_RUNNABLE = 126, EXIT_NOT_FOUND = 127 };

/* Descriptors that what we start finds open: the program inside 7 to 9, with a network grant also 10; the launcher 11. */
enum { SELF_FD = 7, PLAN_FD, REPORT_FD, CONTROL_FD, GRANT_FD };

/* A growing list of strings; always ended by NULL. */
typedef struct {
    char **at;
    size_t count;
} List;

void add(List *list, const char *text);
void addf(List *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));                  /* one sentence on stderr */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2))); /* one sentence, exit 125 */

/* What one run knows. Paths are absolute and without symbolic links. */
typedef struct {
    const char *cwd, *home, *projects, *cache, *tmp, *state;
    const char *grant; /* the name of a network grant, NULL for none */
    int grant_fd;      /* a grant of this run alone, -1 for none */
    List env;      /* NAME=value, all that the command inherits */
    List steps;    /* mounts made inside, see steps.h */
    struct timespec began; /* when we were started; from begin() on, a time by which what the cage makes is told from the rest */
    List watched;  /* files that must not appear while the cage runs */
    List removed;  /* those of them that are taken away again: all in git directories */
    List listed;   /* directories where no new entry may appear, each followed by what it held: "/name/name/" */
    List open_to_tools; /* directories where editors and agents look for theirs, each followed by what of that it held */
    int made;      /* tells of what is made in git directories; 0 before the first one, -1 where the kernel tells nothing */
    List guarded;  /* what is read-only, each followed by its identity at the start */
    List hidden;   /* what reads as empty */
    List command;
    const char *yard;    /* for hold() below ~/projects; NULL where there is no state */
    const char *layer;   /* where the cage's writes to the cache go; NULL when there is nothing to lay them over */
    const char *scratch; /* the same, when it is this run's own and is removed at the end */
    long limit_processes, limit_file_size, limit_memory, limit_cpu; /* bytes and seconds; 0 is no limit */
    bool own_session; /* no stream is a terminal: nobody types at the command, so it need not be in the caller's group */
    unsigned default_signals; /* bit N: signal N had its default action when we were called */
} Run;

const char *bubblewrap(void); /* its path, looked for in system directories only; NULL when missing */

/* settings.c */
typedef struct {
    List env, show, hide;
} Settings;
void read_settings(Run *run, Settings *settings);
void keep_environment(Run *run, const Settings *settings, char **environ);

/* plan.c: fills the steps */
void find_places(Run *run);
void plan_cage(Run *run, const Settings *settings);
void plan_seals(Run *run); /* what comes after all other steps */
void step(Run *run, char kind, const char *source, const char *target);
bool is_below(const char *path, const char *directory); /* equal counts */
void stand_in(const char *directory);    /* work there: names below it are found faster */
const char *near(const char *path);      /* the same place, seen from there */
bool exists(const char *path);           /* errno tells why not: EACCES, that it cannot be known */
const char *directory_of(const char *path);
int open_plainly(const char *directory); /* with no symbolic link on the way; -1 with errno */
int open_again(const char *directory);   /* the same, its owner's rights given back: the cage may have taken them away */
bool is_empty(const char *path); /* a directory that can be read and holds nothing */
bool remove_entry(int parent, const char *name); /* with what is in it */
void remove_tree(const char *path);

/* guard.c: repositories and the host's sockets under the writable directories */
void plan_guards(Run *run);
void report_new_files(const Run *run);
void take_files_away(const Run *run); /* those that git would follow */

/* planted.c */
void watch_git_directory(Run *run, const char *git);
void begin(Run *run); /* right before the cage may run */
const char *misleads_git(const Run *run); /* when run->made tells something: what was made; NULL for nothing */
void take_links_away(const Run *run);

/* gitconfig.c: `take` gets the name of each key, "include" for the path of an included file, and its value, both its own
 * only for the call */
typedef void GitEntry(void *context, const char *key, const char *value);
void read_git_config(const char *path, GitEntry *take, void *context);
char *read_file(const char *path); /* NULL for what is no file of ordinary size: the cage may have put a FIFO there */

/* sockets.c */
void find_sockets(List *paths);

/* landlock.c */
bool knows_own_sockets(void);   /* whether the kernel has the rule */
bool keep_to_own_sockets(void); /* false when it has it and it could not be set */

/* net.c */
void launch_with_proxy(const Run *run, List *argv); /* the words before bubblewrap's that start it beside a proxy */
bool hand_out_listener(void);
const char *grants_file(const Run *run);
const char *no_grants(void); /* why there can be none here, and the fix; NULL when nothing stands in the way */

/* hold.c: keeps `path`, the .claude of `directory`, from being made while the cage runs, and lets go at exit; in `yard`, if
 * there is one, directories wait to be used again */
typedef enum {
    NOTHING,     /* it cannot be made there, or the directory is gone */
    PLACEHOLDER, /* an empty directory is there now, to be mounted over */
    FILES,       /* it was there */
    LINKED,      /* a symbolic link */
    UNWRITABLE,  /* it cannot be made before the directory's owner, which is us, changes its mode */
} Holding;
Holding hold(const char *directory, const char *path, const char *yard);
void let_go(void);

/* caretaker.c: does what is to be done after the cage when sbox is killed. It gives up the descriptors `not_its`. */
void start_caretaker(const Run *run, pid_t cage, const int *not_its, size_t count);
void tell_caretaker(pid_t first); /* the first process of the cage */
void dismiss_caretaker(void);
bool is_caretaker(pid_t pid);

/* inside.c: the last step before the command, inside the cage */
void inside(int plan_fd, int report_fd) __attribute__((noreturn));
void write_plan(const Run *run, int fd); /* what `inside` reads when it is told to go on */
int load_filter(void);          /* 0, or -1 with errno */

/* What `inside` reports, one message: the stage reached and errno. */
typedef struct {
    char stage; /* 'i' process 1 of the cage lives, 'm' a mount failed, 'n' the network, 'f' the filter, 'r' about to run the command, 'x' it could not be run */
    int error;
    char what[240];
} Report;

/* check.c */
void explain(const Run *run, const Report *report) __attribute__((noreturn));
int check(const Run *run);

/* limits.c */
bool by_cgroup(const Run *run);
void launch_in_scope(Run *run, List *argv); /* the words before bubblewrap's that put it into a control group */
int show_limits(const Run *run);

#endif
