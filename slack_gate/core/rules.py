"""Always: what is remembered of an approved call, and which later calls it covers.

The key of a shell rule is the literal words of one simple command's name (`git push`), as `cage_policy` reads them; a
compound is covered only if each of its commands is. For any other tool the key is the exact input that was shown.
"""

# ruff: noqa: SIM905  (words in a string are easier to review and to diff than a list of quoted words)
from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from cage import cage_policy
from slack_gate.core import network_git
from slack_gate.core.event import APPROVAL, SHELL_TOOLS, ToolEvent
from slack_gate.core.opened import opened
from slack_gate.core.request import canonical
from slack_gate.core.respell import is_slow
from slack_gate.core.secrets import mask

RUN_FIELDS = frozenset({"command", "reason", "timeoutSeconds"})


@dataclass(frozen=True, slots=True)
class Key:
    """`words` are compared one by one, literally: nothing is stripped, folded or expanded."""

    tool: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.words) if self.tool in SHELL_TOOLS else f"{self.tool} with exactly this input"


@dataclass(frozen=True, slots=True)
class Rule:
    """One remembered key. `id` is short and shown to people; times are seconds since the epoch."""

    id: str
    key: Key
    shown: str
    created_at: float
    created_by: str
    request: str
    session: str = ""  # counts in this session alone, empty: in any
    cwd: str = ""  # in this directory alone, empty: in any
    until: float | None = None
    used_at: float | None = None
    uses: int = 0

    def counts(self, event: ToolEvent, now: float) -> bool:
        """Whether it has anything to say about this call, its key apart. A directory that has become a link is not the
        one that it was saved for."""
        here = self.session in ("", event.session) and self.cwd in ("", event.cwd)
        return here and (self.until is None or now < self.until) and (not self.cwd or not is_linked(self.cwd))


def is_linked(directory: str) -> bool:
    """Whether a link leads to this directory, so that its name may be another one's at any time."""
    return os.path.realpath(directory.replace("\0", "")) != directory


@dataclass(frozen=True, slots=True)
class Coverage:
    """The rules that allow a call, and the shell text to run instead of it, None when it runs as it stands. `remotes`:
    those that they allow its git to speak to."""

    rules: tuple[str, ...]
    command: str | None
    remotes: tuple[tuple[str, ...], ...] = ()


def keys_to_remember(event: ToolEvent) -> tuple[Key, ...]:
    """What Always would save for this call; empty when nothing of it may be remembered, or could be honoured.

    A key is kept as it is, so none holds a secret."""
    keys = _keys(event)
    return () if any(mask(str(key)) != str(key) for key in keys) else keys


def _keys(event: ToolEvent) -> tuple[Key, ...]:
    if event.unusual_flags or event.tool == APPROVAL:
        return ()
    if event.tool in cage_policy.UNGATED:  # reading tools are asked only near the gate's files
        return ()
    if event.tool not in SHELL_TOOLS:
        return (Key(event.tool, (_exact(event),)),) if _means_the_same_anywhere(event) else ()
    fields = cage_policy.BASH_FIELDS if event.executor is None else RUN_FIELDS
    if event.command is None or not fields.issuperset(event.tool_input):
        return ()
    if remotes := network_git.remotes(event):  # allowed by address
        beside = network_git.beside(event) or ()
        return tuple(Key(event.tool, words) for words in dict.fromkeys((*remotes, *beside)))
    if network_git.uses_network(event):
        return ()
    if event.executor is None and is_slow(event.command, cage_policy.read(event.command) or ()):
        return ()  # what cannot be pinned to the trusted files is asked again
    words = dict.fromkeys(cage_policy.keys(event.command))
    return tuple(Key(event.tool, key) for key in words) if words and released(event, event.command) else ()


def covered(event: ToolEvent, rules: Iterable[Rule], now: float) -> Coverage | None:
    """The coverage of this call by `rules`, or None if any part of it was never remembered."""
    by_key = {rule.key: rule.id for rule in rules if rule.counts(event, now)}
    keys = keys_to_remember(event)
    if not keys or not all(key in by_key for key in keys):
        return None
    found = tuple(by_key[key] for key in keys)
    if remotes := tuple(key.words for key in keys if network_git.is_remote(key.words)):
        return Coverage(found, None, remotes)
    command = released(event, event.command) if event.command is not None else None
    return Coverage(found, None if command == event.command else command)


def missing(event: ToolEvent, rules: Iterable[Rule], now: float) -> tuple[Key, ...]:
    """The keys of this call that no rule has, where rules have others of it; empty where they have none or all."""
    known = {rule.key for rule in rules if rule.counts(event, now)}
    keys = keys_to_remember(event) if known else ()
    return tuple(key for key in keys if key not in known) if known.intersection(keys) else ()


def runs_caged(event: ToolEvent) -> bool:
    """Whether a remembered form of this call would be released into the cage."""
    return event.command is not None and released(event, event.command) not in (event.command, "")


def released(event: ToolEvent, command: str) -> str:
    """The text to run for a remembered command, empty when it must be asked each time.

    Caged code may have rewritten what a project runner runs since Always was pressed, so that goes into the cage; where
    the cage cannot do it (git that needs the network), or would not be the trusted one, a person looks again.
    What the gate runs itself is confined already.
    """
    if event.executor is not None:
        return command
    segments = cage_policy.read(command) or []
    runners = [segment.argv for segment in segments if cage_policy.is_project_runner(segment.argv, event.cwd)]
    if not runners:
        return command
    git = [segment.argv for segment in segments if segment.argv[0] == "git"]
    if not all(map(cage_policy.is_project_runner, [*runners, *git])):  # without a directory: git that stays local
        return ""
    if len(segments) == 1 and not segments[0].redirected:
        caged = f"sbox {shlex.join(segments[0].argv)}"
    else:
        caged = f"sbox bash -c {shlex.quote(command)}"
    return caged if cage_policy.classify("Bash", {"command": caged}, event.cwd) == "green" else ""


_READS = frozenset("ls cat head tail grep egrep fgrep rg wc cut tr sort uniq jq echo printf pwd true false".split())


def leaves_git(event: ToolEvent) -> bool:
    """Whether git of this line works where caged code can write, and more than what is there now decides what it does:
    another command of the line, a remote that no rule names, the files of a commit."""
    line = [segment.argv for segment in cage_policy.read(event.command or "") or []]
    try:
        calls = [cage_policy.parse_git(argv) for argv in line if argv[0] == "git"]
        if not calls or not cage_policy.current_place().reached(event.cwd):
            return False
    except (cage_policy.Gated, OSError):
        return True
    speaks = any(call.table is cage_policy.NETWORK for call in calls) and not network_git.uses_network(event)
    others = {argv[0] for argv in line} - _READS - {"git"}
    return speaks or bool(others) or any(map(cage_policy.moves_files, calls))


def _means_the_same_anywhere(event: ToolEvent) -> bool:
    """A file named from the working directory is another one elsewhere, and the key does not hold the directory. One
    behind a link that caged code can write is another one as soon as that leads elsewhere."""
    field, _ = cage_policy.FILE_TOOLS.get(event.tool, ("", None))
    path = str(event.tool_input.get(field, "")).partition("\0")[0]
    plain = path.startswith("/") and cage_policy.composed(path) == opened(path)
    return not field or (plain and all(map(_stays, cage_policy.readings(path))))


def _stays(path: str) -> bool:
    """Whether caged code has no say in where it leads."""
    try:
        return not (is_linked(path) and cage_policy.current_place().reached(path))
    except (cage_policy.Gated, OSError, ValueError):
        return False


def _exact(event: ToolEvent) -> str:
    return hashlib.sha256(canonical([event.tool, dict(event.tool_input)]).encode()).hexdigest()
