"""A Unix socket that is private from the moment it exists, and whose process is at its other end."""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path

from slack_gate.errors import SocketError

MAX_PATH = 107  # bytes of a Unix socket's path on Linux


def private_listener(path: Path) -> socket.socket:
    """A bound listener, mode 0600 from its first moment. Only a stale socket of ours is replaced."""
    if len(os.fsencode(path)) > MAX_PATH:
        raise SocketError(f"The socket's path is longer than {MAX_PATH} bytes: {path}.", "Set SLACK_GATE_SOCKET.")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise SocketError(f"{path} is there and is no socket.", "Move it away, or set SLACK_GATE_SOCKET.")
            path.unlink()
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise SocketError(f"The socket {path} cannot be made: {error.strerror}.") from error
    except SocketError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener


def peer_uid(connection: socket.socket) -> int:
    """The uid of the process at the other end, from the kernel."""
    return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
