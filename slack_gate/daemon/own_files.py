"""The gate's own files: no tool of an agent, not even a reading one, gets a path inside them.

`refusal` finds paths that lead inside; `reached_by` calls that could get there from above, and calls that name what the
gate's enforcement rests on, which are asked each time. Both look at the words of a shell text and at every text of
another tool's input that could be a path. Both depend only on the event and the file system, and may run in a thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from cage import cage_policy
from slack_gate.core.event import ToolEvent
from slack_gate.core.opened import opened
from slack_gate.daemon import words
from slack_gate.daemon.paths import Paths, Unclear, is_inside
from slack_gate.install.layout import Layout

# These read everything below the directory they are given.
_RECURSIVE = frozenset({"Grep", "Glob", "LS"})
MAX_TEXTS = 10_000
_MAX_VALUES = 400_000  # of a JSON input, about a tenth of a second
_GLOB = re.compile(r"[*?\[{]")
_FILE_URL = re.compile(r"file:(?://[^/]*)?([^?#]*)", re.IGNORECASE)
_SETTINGS = re.compile(r".*/\.claude(?:/settings[^/]*\.json)?", re.DOTALL)
_TOO_MANY = f"This call holds more than {MAX_TEXTS} different texts, too many to look through for paths."


def guarded_places(home: Path) -> list[Path]:
    """What decides whether the gate is asked: its program, `sbox`, the policy, the agent's settings below `home`."""
    layout = Layout(home)
    settings = [home / ".claude" / name for name in ("settings.json", "settings.local.json")]
    tools = Path(os.environ.get("AGENT_TOOLS_DIR") or home / "work") / "gh-issue"
    mine = [layout.root, layout.command, layout.sbox, layout.sbox_proxy, layout.policy, layout.helper, tools]
    return [*mine, *settings, home / ".claude.json"]


class OwnFiles:
    """`places` are directories or files no tool gets into, `guarded` those that are asked each time."""

    def __init__(self, places: Sequence[Path], guarded: Sequence[Path] = ()) -> None:
        self._places = tuple(os.path.realpath(place) for place in places)
        self._guarded = tuple({spelled for place in guarded for spelled in (str(place), os.path.realpath(place))})

    def refusal(self, event: ToolEvent) -> str | None:
        """Why a call is denied that works inside one of the places or names a path into one; None when it does not.

        Also why it is denied when that cannot be said, or not with a bounded number of steps.
        """
        try:
            here, named, _ = _named(event)
            paths = [*here, *named, *_searched(event)]
        except Unclear as unclear:
            return str(unclear)
        if any(is_inside(path, place) for path in paths for place in self._places):
            return "These are slack-gate's own files; no tool may read or change them."
        return None

    def holds(self, path: str) -> bool:
        """Whether this resolved path leads into one of the places."""
        return any(is_inside(path, place) for place in self._places)

    def reached_by(self, event: ToolEvent) -> bool:
        """Whether the call names, or a command works in, a directory that holds one of the places, or a guarded file.

        A reading tool may name what is guarded. True as well where it cannot be said.
        """
        try:
            if event.tool in cage_policy.UNGATED:
                return self._is_above(_searched(event))
            here, named, complete = _named(event)
        except Unclear:
            return True
        if event.command is not None:
            named = [*here, *named]
            if not complete or self._is_above(named):
                return True
        return any(_SETTINGS.fullmatch(path) or self._is_guarded(path) for path in named)

    def _is_above(self, paths: Iterable[str]) -> bool:
        return any(is_inside(place, path) for path in paths for place in (*self._places, "/proc/self"))

    def _is_guarded(self, path: str) -> bool:
        return any(is_inside(path, place) or is_inside(place, path) for place in self._guarded)


def _named(event: ToolEvent) -> tuple[list[str], list[str], bool]:
    """The directories a call works in, every path it names from there, whether these are all. Raises Unclear."""
    paths = Paths()
    places, complete, texts = [paths.place(event.cwd)], True, _texts(dict(event.tool_input))
    if event.command is not None:
        if len(event.command) > cage_policy.MAX_COMMAND:
            return [places[0].real], [], True  # no shell can be started with it, and no card shows it
        exact = words.certain(event.command)
        lines = words.readings(event.command) if exact is None else [[word for argv in exact for word in argv]]
        home = ["~"] if words.goes_home(event.command) else []
        places, complete = paths.places(places[0], dict.fromkeys((*home, *words.moves(line)) for line in lines))
        texts = (meaning for line in lines for word in line for meaning in words.meanings(word))
    spelled = [path for text in _different(texts) for path in _spelled(text)]
    here = [path for place in places for path in (place.written, place.real)]
    found: dict[str, None] = {}
    for place in places:
        for text in spelled:
            if place is places[0] or text[:1] not in ("/", "~"):
                found.update(dict.fromkeys(paths.found(text, place)))
    return here, list(found), complete


def _searched(event: ToolEvent) -> list[str]:
    """The directories that a searching tool starts from; none for any other tool. Raises Unclear."""
    if event.tool not in _RECURSIVE:
        return []
    paths, start, pattern = Paths(), event.tool_input.get("path"), event.tool_input.get("pattern")
    here = paths.place(event.cwd)
    if isinstance(start, str):
        roots = [path for text in _spelled(start) for path in paths.found(text, here)]
    else:
        roots = [here.written, here.real]
    if event.tool == "Glob" and isinstance(pattern, str):
        roots += [path for root in roots[:] for path in paths.found(_literal(pattern), paths.place(root))]
    return roots


def _texts(value: object) -> Iterator[str]:
    """Every string of a JSON value, keys too. Raises Unclear where there are too many."""
    pending, seen = [value], 0
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            pending += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            pending += one
        seen += 1
        if seen + len(pending) > _MAX_VALUES:
            raise Unclear(_TOO_MANY)


def _different(texts: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for text in texts:
        if text:
            found[text] = None
            if len(found) > MAX_TEXTS:
                raise Unclear(_TOO_MANY)
    return list(found)


def _spelled(text: str) -> Iterator[str]:
    """What `text` could mean as a path: itself, a glob's literal beginning, a file URL's path; each as it stands, and
    as agents open it, without blanks around it and with accents composed."""
    for spelled in dict.fromkeys((text, opened(text))):
        yield spelled
        if _GLOB.search(spelled):
            yield _literal(spelled)
        if url := _FILE_URL.match(spelled):
            yield unquote(url[1])


def _literal(pattern: str) -> str:
    """The directory above the first part of a glob pattern that is no plain name; all of it if there is none."""
    mark = _GLOB.search(pattern)
    return pattern if mark is None else pattern[: pattern.rfind("/", 0, mark.start()) + 1]
