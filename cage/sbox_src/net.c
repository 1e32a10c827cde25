/* The network grant of one run. sbox_proxy.py, beside this program, reads the grant, serves it outside the cage, and
 * becomes bubblewrap; here the cage's side: the socket that listens on the cage's loopback goes out by a descriptor. */
#define _GNU_SOURCE
#include "sbox.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROXY_PORT = 3128 }; /* PORT in sbox_proxy.py */

/* NULL where there is none. */
static const char *python(void) {
    static const char *const PLACES[] = {"/usr/bin/python3", "/usr/local/bin/python3", "/run/current-system/sw/bin/python3"};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (!access(PLACES[i], X_OK)) return PLACES[i];
    return NULL;
}

static const char *proxy(void) {
    char self[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *name = length > 0 ? strrchr(self, '/') : NULL;
    if (!name) fail("the place of sbox cannot be found. Nothing was run.");
    return text("%.*s/sbox_proxy.py", (int)(name - self), self);
}

const char *grants_file(const Run *run) {
    const char *gate = getenv("SLACK_GATE_HOME");
    return text("%s/net-allow.txt", gate && gate[0] == '/' ? gate : text("%s/.config/slack-gate", run->home));
}

const char *no_grants(void) {
    if (!python()) return "a network grant needs Python. Install it: sudo apt-get install python3";
    if (access(proxy(), R_OK)) return text("%s is missing. Install it: cage/build-sbox DESTINATION", proxy());
    return NULL;
}

void launch_with_proxy(const Run *run, List *argv) {
    if (no_grants()) fail("%s. Nothing was run.", no_grants());
    add(argv, python());
    add(argv, "-I");
    add(argv, "-S");
    add(argv, proxy());
    if (run->grant_fd >= 0) {
        add(argv, "launch-fd");
        addf(argv, "%d", GRANT_FD);
    } else {
        add(argv, "launch");
        add(argv, grants_file(run));
        add(argv, run->grant);
        add(argv, run->projects);
        add(argv, run->cache);
        add(argv, run->tmp);
    }
    add(argv, "--");
}

/* Bound here, in the cage's network; accepted on outside. True when the proxy says that it has it. */
bool hand_out_listener(void) {
    struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(PROXY_PORT), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 256)) return false;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof listener)];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof listener), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.header), &listener, sizeof listener);
    char sign = '+';
    struct iovec part = {.iov_base = &sign, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    bool taken = sendmsg(CONTROL_FD, &message, MSG_NOSIGNAL) == 1 && read(CONTROL_FD, &sign, 1) == 1;
    close(listener);
    close(CONTROL_FD);
    return taken;
}
