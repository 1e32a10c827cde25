"""Files that calls would change, as they are when the call is asked about: read once, bounded, kept while it waits."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from cage import cage_policy
from slack_gate.core.change import FileNow
from slack_gate.core.event import ToolEvent
from slack_gate.core.opened import opened
from slack_gate.core.reach import may_hold_secrets
from slack_gate.core.request import Request

MAX_FILE = 256 * 1024  # bytes of a file that is shown
KEPT = 2000  # calls whose files are remembered; of more, the oldest are not shown


@dataclass(frozen=True, slots=True)
class _Seen:
    file: FileNow
    path: str
    state: str


class FilesNow:
    """`own` says of a resolved path whether it is never read."""

    def __init__(self, own: Callable[[str], bool]) -> None:
        self._own = own
        self._seen: dict[str, _Seen] = {}

    def look(self, request: Request) -> bool:
        """Reads the file that this call would change; False where it names none. May take a moment."""
        if (path := path_of(request.event)) is None:
            return False
        file, state = self._read(path)
        self._seen[request.id] = _Seen(file, path, state)
        while len(self._seen) > KEPT:
            del self._seen[next(iter(self._seen))]
        return True

    def of(self, request: Request) -> FileNow | None:
        """What was read; None for a call that changes no file, or that another daemon asked about."""
        seen = self._seen.get(request.id)
        return None if seen is None else seen.file

    def changed(self, request: Request) -> bool:
        """Whether the file is another one now, or not known any more as it was; it is read anew."""
        seen = self._seen.get(request.id)
        return self.look(request) and (seen is None or self._seen[request.id].state != seen.state)

    def differs(self, request: Request) -> bool:
        """As `changed`; what was seen stays."""
        seen = self._seen.get(request.id)
        return seen is None or self._read(seen.path)[1] != seen.state

    def forget(self, request: str) -> None:
        self._seen.pop(request, None)

    def _read(self, path: str) -> tuple[FileNow, str]:
        """The file, and what tells this content from another one."""
        try:
            # Not to wait for a writer, should it be a FIFO.
            with open(
                os.open(os.path.normpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb"
            ) as file:
                status = os.fstat(file.fileno())
                # Where the descriptor leads, not where the name did: links may have been changed since it was judged.
                real = os.readlink(f"/proc/self/fd/{file.fileno()}")
                if self._own(real) or real.startswith(("/proc/", "/sys/", "/dev/")):
                    return FileNow(why="no tool may read it"), "own"
                if may_hold_secrets(path) or may_hold_secrets(real):
                    return FileNow(why="it may hold credentials"), "secret"
                if not stat.S_ISREG(status.st_mode):
                    return FileNow(why="it is no regular file"), "irregular"
                if status.st_size > MAX_FILE:
                    return FileNow(why=f"it has {status.st_size} bytes"), f"{status.st_size} {status.st_mtime_ns}"
                content = file.read(MAX_FILE + 1)
        except FileNotFoundError:
            return FileNow(missing=True), "missing"
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its name cannot be one"
            return FileNow(why=reason or "it cannot be read"), f"unreadable {reason}"
        state = hashlib.sha256(content).hexdigest()
        if len(content) > MAX_FILE:
            return FileNow(why="it is growing"), state
        try:
            return FileNow(content.decode()), state
        except UnicodeDecodeError:
            return FileNow(why="it is not UTF-8"), state


def path_of(event: ToolEvent) -> str | None:
    """The file that the call would change, as its agent opens it; None where it names none."""
    field, _ = cage_policy.FILE_TOOLS.get(event.tool, ("", None))
    path = event.tool_input.get(field) if field else None
    if not isinstance(path, str) or not path or "\0" in path:
        return None
    path = opened(path)
    return os.path.join(event.cwd, os.path.expanduser(path) if path[:2] == "~/" else path)
