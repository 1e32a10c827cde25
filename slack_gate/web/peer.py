"""Whose process is at the other end of a connection over the loopback."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def tcp_peer_uid(connection: socket.socket, tables: tuple[Path, ...] = TABLES) -> int | None:
    """The uid that owns the other end, from the kernel's tables of this machine's sockets; None where none does.

    A socket that its process has closed keeps its line for a while, with uid 0 and no inode: that is nobody.
    """
    ends = connection.getpeername(), connection.getsockname()
    for table, spelled in zip(tables, (_ipv4, _mapped), strict=True):
        theirs, ours = (spelled(*end) for end in ends)
        for local, remote, uid, inode in _sockets(table):
            if (local, remote) == (theirs, ours) and inode != "0":
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
