"""Files that a command names as scripts: an approval is for what stands in them, not only for their names."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from itertools import pairwise

from cage import cage_policy
from slack_gate.core.event import ToolEvent

LARGE = 4 << 20  # bytes; of larger files size, inode and time of change stand for the content
MAX_PLACES = 16
_MARKS = re.compile(r"[\s'\";|&<>()`]+")
_RUNS_FILES = cage_policy.INTERPRETERS | {"sh", "bash", "zsh", "dash", "ksh", "fish", "source", "make", "pytest"}
_DOT = re.compile(r"(?:^|[;&|(\n])\s*\.\s")
_MOVES = frozenset({"cd", "pushd", "-C"})


def scripts_of(event: ToolEvent) -> Mapping[str, str]:
    """Path to SHA-256 (hex) of each file that the command could run; empty for another tool.

    Too many rather than too few: every existing file among the words where one of them is an interpreter, else the
    executable ones; relative to the working directory and to those that the command changes into.
    """
    text = event.command or ""
    words = [word for word in _MARKS.split(text) if word]
    interpreted = _DOT.search(text) or any(
        os.path.basename(word).rstrip("0123456789.") in _RUNS_FILES for word in words
    )
    moves = [_path(event.cwd, after) for word, after in pairwise(words) if word in _MOVES]
    paths = dict.fromkeys(_path(place, word) for place in [event.cwd, *moves[:MAX_PLACES]] for word in words)
    return {
        path: _hash(path)
        for path in paths
        if os.path.isfile(path) and (interpreted or os.access(path, os.X_OK)) and not _is_program(path)
    }


def _path(place: str, word: str) -> str:
    return os.path.join(place, os.path.expanduser(word))


def _is_program(path: str) -> bool:
    """/usr/bin/python3 itself: the agent cannot change it, and hashing it each time would cost."""
    return os.path.realpath(path).startswith(("/usr/", "/bin/", "/sbin/"))


def _hash(path: str) -> str:
    try:
        # Not to wait for a writer, should the file have become a FIFO since it was looked at.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size > LARGE:
                return f"{found.st_size} {found.st_ino} {found.st_mtime_ns}"
            return hashlib.sha256(file.read(LARGE + 1)).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
