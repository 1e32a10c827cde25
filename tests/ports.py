"""Ports of 127.0.0.1 for what a test starts, ends and starts again."""

import secrets
import socket
from contextlib import suppress
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody uses, another one each time, below those that the kernel gives to outgoing connections.

    One of theirs may be taken by any connection of the machine while its server is down.
    """
    first = max(int(RANGE.read_text().split()[0]), 20_000)
    while True:
        port = 10_000 + secrets.randbelow(first - 10_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
