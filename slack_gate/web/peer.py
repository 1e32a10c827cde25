"""Whose process is at the other end of a connection over the loopback, as the kernel knows it.

The kernel's answer about one socket costs some microseconds; its tables of all sockets cost milliseconds, so they are
read only where it has no such answer.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ANSWER_S = 1.0

# linux/sock_diag.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_ANY_INTERFACE, _NO_COOKIE, _ANY_STATE = 0, 0xFFFFFFFF, 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_SOCKET = struct.Struct("=2s2s4s12x4s12xIII")  # ports, addresses, interface, cookie
_ANSWER = struct.Struct("=4s48sIIIII")  # family and state, socket, expires, queues, uid, inode

End = tuple[str, int]


def tcp_peer_uid(connection: socket.socket) -> int | None:
    """The uid that owns the other end; None where no process holds it.

    A socket that its process has closed is known for a while, with uid 0 and no inode: that is nobody.
    """
    theirs, ours = connection.getpeername(), connection.getsockname()
    uid = asked_uid(theirs, ours)
    return uid if uid is not None else listed_uid(theirs, ours)


def asked_uid(theirs: End, ours: End) -> int | None:
    """From the kernel's answer about this one socket; None also where the kernel cannot tell."""
    (their_host, their_port), (our_host, our_port) = theirs, ours
    one = _SOCKET.pack(
        *(struct.pack("!H", port) for port in (their_port, our_port)),
        *(socket.inet_aton(host) for host in (their_host, our_host)),
        *(_ANY_INTERFACE, _NO_COOKIE, _NO_COOKIE),
    )
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + one
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(ANSWER_S)
            kernel.sendto(header + request, (0, 0))
            answer = kernel.recv(4096)
    except OSError:
        return None
    if len(answer) < _HEADER.size + _ANSWER.size or _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None  # an error: no such socket, or no such question
    _, found, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return int(uid) if inode and found[:4] == one[:4] else None


def listed_uid(theirs: End, ours: End, tables: tuple[Path, ...] = TABLES) -> int | None:
    """From the tables of all sockets of this machine."""
    for table, spelled in zip(tables, (_ipv4, _mapped), strict=True):
        ends = spelled(*theirs), spelled(*ours)
        for local, remote, uid, inode in _sockets(table):
            if (local, remote) == ends and inode != "0":
                return int(uid)
    return None


def _sockets(table: Path) -> Iterator[tuple[str, str, str, str]]:
    """Local and remote address as the kernel writes them, uid, inode."""
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except FileNotFoundError:  # a kernel without IPv6
        return
    for line in lines:
        fields = line.split()
        yield fields[1], fields[2], fields[7], fields[9]


def _ipv4(host: str, port: int) -> str:
    """The address as a number in this machine's byte order, and the port."""
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"


def _mapped(host: str, port: int) -> str:
    """The same for a socket of both families: ::ffff:127.0.0.1, four numbers."""
    (mark,) = struct.unpack("=I", b"\0\0\xff\xff")
    return f"{0:016X}{mark:08X}{_ipv4(host, port)}"
