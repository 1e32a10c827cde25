/* The sockets by path that programs outside wait on. The kernel is asked for these alone: its list for people, with every
 * connection of a desktop, takes as long to read as a quarter of a cage's start. It is read where the kernel answers not. */
#define _GNU_SOURCE
#include "sbox.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void add_name(List *paths, const struct nlmsghdr *header) {
    const struct unix_diag_msg *one = NLMSG_DATA(header);
    const struct rtattr *part = (const void *)(one + 1);
    int length = (int)NLMSG_PAYLOAD(header, sizeof *one);
    for (; RTA_OK(part, length); part = RTA_NEXT(part, length))
        if (part->rta_type == UNIX_DIAG_NAME && *(const char *)RTA_DATA(part) == '/')
            add(paths, text("%.*s", (int)RTA_PAYLOAD(part), (const char *)RTA_DATA(part)));
}

/* False where the kernel does not tell, or not all. */
static bool ask_kernel(List *paths) {
    struct {
        struct nlmsghdr header;
        struct unix_diag_req wanted;
    } question = {
        {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        {.sdiag_family = AF_UNIX,
         .udiag_states = 1u << TCP_LISTEN | 1u << TCP_CLOSE, /* datagram sockets that take from anyone are in the latter */
         .udiag_show = UDIAG_SHOW_NAME}};
    static char answer[1 << 15] __attribute__((aligned(8)));
    int socket_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    bool asked = socket_fd >= 0 && send(socket_fd, &question, sizeof question, 0) == sizeof question, done = false;
    while (asked && !done) {
        ssize_t count = recv(socket_fd, answer, sizeof answer, MSG_TRUNC);
        if (count <= 0 || (size_t)count > sizeof answer) break;
        for (struct nlmsghdr *part = (void *)answer; asked && NLMSG_OK(part, count); part = NLMSG_NEXT(part, count)) {
            if (part->nlmsg_type == NLMSG_ERROR || part->nlmsg_flags & NLM_F_DUMP_INTR) asked = false;
            if (part->nlmsg_type == NLMSG_DONE) done = true;
            if (part->nlmsg_type == SOCK_DIAG_BY_FAMILY) add_name(paths, part);
        }
    }
    if (socket_fd >= 0) close(socket_fd);
    return asked && done;
}

static void read_list(List *paths) {
    FILE *file = fopen("/proc/net/unix", "re");
    char *line = NULL;
    size_t room = 0;
    while (file && getline(&line, &room, file) >= 0) {
        char *path = strchr(line, '/');
        if (!path || path == line || path[-1] != ' ') continue;
        path[strcspn(path, "\n")] = 0;
        add(paths, text("%s", path));
    }
    free(line);
    if (file) fclose(file);
}

void find_sockets(List *paths) {
    if (!ask_kernel(paths)) read_list(paths);
}
