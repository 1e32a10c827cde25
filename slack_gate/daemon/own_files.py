"""The gate's own files: no tool of an agent, not even a reading one, gets a path inside them.

`refusal` finds paths that lead inside, `reached_by` calls that could get there from above. Both look at the words of
a shell text and at every text of another tool's input that could be a path, after symlinks, `..` and `~` are resolved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cage import cage_policy
from slack_gate.core.event import ToolEvent

# These read everything below the directory they are given.
_RECURSIVE = frozenset({"Grep", "Glob", "LS"})
MAX_TEXTS = 10_000
_LONGEST_PATH = 4096  # bytes, Linux's PATH_MAX
_GLOB = re.compile(r"[*?\[{]")
_SHELL_MARKS = re.compile(r"[\s'\";|&<>()`,]+")


class OwnFiles:
    """`places` are directories or files; they are compared after symlinks are resolved."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = tuple(os.path.realpath(place) for place in places)

    def refusal(self, event: ToolEvent) -> str | None:
        """Why a call is denied that works inside one of the places or names a path into one; None when it does not."""
        texts = _texts_of(event)
        if len(texts) > MAX_TEXTS:
            return f"This call holds more than {MAX_TEXTS} different texts, too many to look through for paths."
        paths = [os.path.realpath(event.cwd), *_resolved_all(texts, event.cwd), *_searched(event)]
        if any(_inside(path, place) for path in paths for place in self._places):
            return "These are slack-gate's own files; no tool may read or change them."
        return None

    def reached_by(self, event: ToolEvent) -> bool:
        """Whether the call names, or a command works in, a directory that holds one of the places."""
        if event.command is not None:
            paths = [os.path.realpath(event.cwd), *_resolved_all(_texts_of(event), event.cwd)]
        else:
            paths = _searched(event)
        return any(_inside(place, path) for path in paths for place in self._places)


def _texts_of(event: ToolEvent) -> list[str]:
    """What could be a path in this call, each once."""
    texts = _words(event.command) if event.command is not None else _texts(dict(event.tool_input))
    return list(dict.fromkeys(texts))


def _resolved_all(texts: list[str], cwd: str) -> list[str]:
    return [_resolved(path, cwd) for text in texts for path in _spelled(text)]


def _searched(event: ToolEvent) -> list[str]:
    """The directories that a searching tool starts from; none for any other tool."""
    if event.tool not in _RECURSIVE:
        return []
    start = event.tool_input.get("path")
    root = _resolved(start, event.cwd) if isinstance(start, str) else os.path.realpath(event.cwd)
    pattern = event.tool_input.get("pattern") if event.tool == "Glob" else ""
    return [root, _resolved(_literal(pattern), root)] if isinstance(pattern, str) and pattern else [root]


def _words(command: str) -> Iterator[str]:
    """The words of a shell text; where it cannot be read exactly, everything between blanks, quotes and operators."""
    if len(command) > cage_policy.MAX_COMMAND:
        return  # no shell can be started with it, and no card shows it
    segments = cage_policy.read(command)
    words = _SHELL_MARKS.split(command) if segments is None else [word for one in segments for word in one.argv]
    for word in words:
        yield word
        yield word.partition("=")[2]
        if word[:1] in ("-", "@"):  # -C/path, @/path
            yield word[min((at for at in (word.find("/"), word.find("~")) if at > 0), default=len(word)) :]


def _texts(value: object) -> Iterator[str]:
    """Every string of a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _spelled(text: str) -> Iterator[str]:
    """What `text` could mean as a path: itself, a glob's literal beginning, a file URL's path; nothing if too long."""
    if not 0 < len(text.encode()) <= _LONGEST_PATH:
        return
    yield text
    if _GLOB.search(text):
        yield _literal(text)
    if text[:5].lower() == "file:":
        yield unquote(urlsplit(text).path)


def _literal(pattern: str) -> str:
    """The directory above the first part of a glob pattern that is no plain name; all of it if there is none."""
    mark = _GLOB.search(pattern)
    return pattern if mark is None else pattern[: pattern.rfind("/", 0, mark.start()) + 1]


def _resolved(path: str, start: str) -> str:
    return os.path.realpath(os.path.join(start, os.path.expanduser(path)))


def _inside(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")
