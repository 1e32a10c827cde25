/* Where the kernel has the rule (Linux 7.1), processes of the cage can connect to sockets by path of their own alone: those
 * that were made under the same Landlock domain. So what a program outside opens later is out of reach as well. */
#define _GNU_SOURCE
#include "sbox.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not in the headers of every system that this is built on. */
#define RESOLVE_UNIX (1ULL << 16) /* LANDLOCK_ACCESS_FS_RESOLVE_UNIX, Linux 7.1 */
#define REFER (1ULL << 13)        /* LANDLOCK_ACCESS_FS_REFER, Linux 5.19 */
enum { ABI_WITH_RULE = 9 };

bool knows_own_sockets(void) {
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= ABI_WITH_RULE;
}

bool keep_to_own_sockets(void) {
    if (!knows_own_sockets()) return true;
    /* every such domain forbids renames between directories that no rule allows */
    struct landlock_ruleset_attr handled = {.handled_access_fs = RESOLVE_UNIX | REFER};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    struct landlock_path_beneath_attr all = {.allowed_access = REFER, .parent_fd = open("/", O_PATH | O_CLOEXEC)};
    bool kept = rules >= 0 && all.parent_fd >= 0 &&
                !syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &all, 0) &&
                !syscall(SYS_landlock_restrict_self, rules, 0);
    if (rules >= 0) close(rules);
    if (all.parent_fd >= 0) close(all.parent_fd);
    return kept;
}
