"""What the daemon asks of the system for its own process: a private home, no onlookers, room for many hooks."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import stat
from pathlib import Path

import structlog

from slack_gate.errors import ConfigError

PR_SET_DUMPABLE = 4
MAX_FILES = 65536

log = structlog.get_logger()


def make_private(home: Path) -> None:
    """The home exists, is ours, and is closed to others. Raises ConfigError."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
        if found.st_uid != os.geteuid():
            raise ConfigError(
                f"The home {home} belongs to another user.", "Set SLACK_GATE_HOME to a directory of yours."
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            home.chmod(0o700)
    except OSError as error:
        raise ConfigError(f"The home {home} cannot be used: {error.strerror}.", "Set SLACK_GATE_HOME.") from error


def not_traceable() -> None:
    """Other processes of our uid, the agent's among them, may neither trace us nor read our memory (tokens)."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise ConfigError("The kernel does not let slack-gate protect its memory.", "")


def for_many_hooks() -> None:
    """As many open connections as the system lets us have; the usual 1024 would be a thousand hooks that wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MAX_FILES)), hard))


def notify(state: str) -> None:
    """Tells systemd, where it started us."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
                notify.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError as error:  # gone, as in a shell that a service has left behind
            log.warning("systemd cannot be told", state=state, error=error.strerror)
