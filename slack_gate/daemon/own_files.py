"""The gate's own files: no tool of an agent, not even a reading one, gets a path inside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slack_gate.core.event import ToolEvent

_PATH_FIELDS = ("file_path", "notebook_path", "path")
# These read everything below the path they are given, so a directory above the home reaches into it.
_RECURSIVE = frozenset({"Grep", "Glob", "LS"})


class OwnFiles:
    """`places` are directories or files; they are compared after symlinks are resolved."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = tuple(os.path.realpath(place) for place in places)

    def touched_by(self, event: ToolEvent) -> bool:
        """Whether a path of this call resolves to one of the places or into it."""
        return any(_inside(path, place) for path in _paths(event) for place in self._places)

    def reached_by(self, event: ToolEvent) -> bool:
        """Whether this call searches a directory that holds one of the places."""
        if event.tool not in _RECURSIVE:
            return False
        paths = _paths(event) or [os.path.realpath(event.cwd)]
        return any(_inside(place, path) for path in paths for place in self._places)


def _paths(event: ToolEvent) -> list[str]:
    found = (event.tool_input.get(name) for name in _PATH_FIELDS)
    return [_resolved(path, event.cwd) for path in found if isinstance(path, str) and path]


def _resolved(path: str, cwd: str) -> str:
    return os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))


def _inside(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")
