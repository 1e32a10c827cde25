"""Where paths lead: each step of the way is looked at, through every symlink, with a bound on the work for one call."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_LINKS = 40  # as many as the kernel follows in one path
MAX_WORK = 150_000  # steps of one call, about a quarter of a second
MAX_PLACES = 32  # directories that one command may be followed into
LONGEST = 4095  # bytes, Linux's PATH_MAX without the closing zero
_LONGEST_NAME = 255
_USER = 50  # steps that looking up a user's home counts for
# What leads to another place for each process that opens it.
_PROCESS = re.compile(r"/proc/(?:self|thread-self|[0-9]+)")
_STANDARD = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr"})


class Unclear(Exception):
    """Nobody can say where a path leads, or not in time. The message is the sentence the agent gets."""


@dataclass(frozen=True, slots=True)
class Place:
    """A working directory: as a shell writes it in `$PWD`, and where it really is."""

    written: str
    real: str


class Paths:
    """Resolves the paths of one call; what a link holds is read once. Every method raises Unclear."""

    def __init__(self) -> None:
        self._left = MAX_WORK
        self._links: dict[str, str | None] = {}

    def place(self, directory: str) -> Place:
        """The place that a call starts in; a relative one is taken to lie in the root directory."""
        written = os.path.normpath("/" + directory.partition("\0")[0])
        return Place(written, self._walk("", written))

    def found(self, text: str, place: Place) -> Iterator[str]:
        """Where `text` leads from `place`: `..` as a step up from where links led, and as a name struck out before."""
        if text[:1] == "~" and text[1:2] not in ("", "/"):
            self._spend(_USER)
        text = expanded(text.partition("\0")[0])  # C programs end at a zero byte
        written = _joined(place.written, text)
        if len(written.encode(errors="surrogatepass")) <= LONGEST:
            yield written
            if ".." in text or len(text) > LONGEST:  # without `..` the other walk ends at the same file
                yield self._walk("", written)
        if len(text.encode(errors="surrogatepass")) <= LONGEST:
            yield self._walk(place.real.rstrip("/"), text)

    def places(self, start: Place, lines: Iterable[tuple[str, ...]]) -> tuple[list[Place], bool]:
        """The directories a shell may be in after some of the moves in each of `lines`, `start` first; whether all.

        Moves are not all made (`a || cd b`, a subshell), so each is tried from every place found before it.
        """
        found, complete = {start: None}, True
        for moves in lines:
            reached = {start: None}
            for move in moves:
                for place in list(reversed(reached)):  # where the moves so far lead is followed first
                    moved = self._moved(place, move)
                    complete = complete and moved != []
                    for after in moved:
                        if len(found) >= MAX_PLACES and after not in found:
                            return list(found), False
                        reached[after] = found[after] = None
        return list(found), complete

    def _moved(self, place: Place, move: str) -> list[Place]:
        """As a shell goes, which strikes names out before `..`, and as the kernel does; nothing if too far down."""
        move = expanded(move.partition("\0")[0])
        written, moved = _joined(place.written, move), []
        if len(written) <= LONGEST:
            moved.append(Place(written, self._walk("", written)))
        if len(move) <= LONGEST and len(real := self._walk(place.real.rstrip("/"), move)) <= LONGEST:
            moved.append(Place(real, real))
        return list(dict.fromkeys(moved))

    def _walk(self, here: str, path: str) -> str:
        """Where `path` leads from `here`, a resolved directory without a slash at its end ("" is the root)."""
        pending, links, missing = path.split("/")[::-1], 0, 0
        if path.startswith("/"):
            here = ""
        self._spend(len(pending))
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                here, missing = here.rpartition("/")[0], max(0, missing - 1)
                continue
            here = f"{here}/{part}"
            if missing or (target := self._target(here, part)) is None:
                missing += 1  # nothing below it can be a link
            elif target and not (here in _STANDARD and not pending):
                links += 1
                if links > MAX_LINKS:
                    raise Unclear(f"A path in this call passes more than {MAX_LINKS} links; name the file itself.")
                here = "" if target.startswith("/") else here.rpartition("/")[0]
                pending.extend(target.split("/")[::-1])
                self._spend(len(pending))
        return here or "/"

    def _target(self, path: str, name: str) -> str | None:
        """What the link `path` holds: "" where it is no link, None where nothing is there."""
        if _PROCESS.fullmatch(path):
            raise Unclear(
                "A path in this call goes through /proc/self or another process's /proc, which may lead into "
                "slack-gate's own files; name the file itself."
            )
        if path not in self._links:
            self._spend(1 + len(path) // 64)  # the kernel walks all of it each time
            self._links[path] = _read_link(path, name)
        return self._links[path]

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise Unclear("This call holds too many paths to check in time; split it into smaller calls.")


def expanded(text: str) -> str:
    """`~` as a shell takes it; what the working directory was before (`~-`) is taken for what it is."""
    if text[:2] in ("~+", "~-") and text[2:3] in ("", "/"):
        return "." + text[2:]
    return os.path.expanduser(text) if text.startswith("~") else text


def is_inside(path: str, place: str) -> bool:
    """Whether `path` is `place` or lies below it; both are resolved."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def _joined(start: str, text: str) -> str:
    joined = os.path.normpath(os.path.join(start, text))
    return joined[1:] if joined.startswith("//") else joined


def _read_link(path: str, name: str) -> str | None:
    try:
        return os.readlink(path)
    except ValueError:  # a surrogate: no bytes of a file name are read as that
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG and len(os.fsencode(name)) <= _LONGEST_NAME:
            raise Unclear("A directory in this call lies too deep to be followed; name a shorter path.") from None
        return "" if error.errno == errno.EINVAL else None
