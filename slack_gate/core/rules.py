"""Always: what is remembered of an approved call, and which later calls it covers.

The key of a shell rule is the literal words of one simple command's name (`git push`), as `cage_policy` reads them; a
compound is covered only if each of its commands is. For any other tool the key is the exact input that was shown.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from cage import cage_policy
from slack_gate.core.event import SHELL_TOOLS, ToolEvent
from slack_gate.core.request import canonical


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


@dataclass(frozen=True, slots=True)
class Coverage:
    """The rules that allow a call, and the shell text to run instead of it, None when it runs as it stands."""

    rules: tuple[str, ...]
    command: str | None


def keys_to_remember(event: ToolEvent) -> tuple[Key, ...]:
    """What Always would save for this call; empty when nothing of it may be remembered."""
    if event.unusual_flags:
        return ()
    if event.tool not in SHELL_TOOLS:
        return (Key(event.tool, (_exact(event),)),)
    command = event.command
    if command is None:
        return ()
    return tuple(Key(event.tool, words) for words in dict.fromkeys(cage_policy.keys(command)))


def covered(event: ToolEvent, rules: Iterable[Rule]) -> Coverage | None:
    """The coverage of this call by `rules`, or None if any part of it was never remembered."""
    by_key = {rule.key: rule.id for rule in rules}
    keys = keys_to_remember(event)
    if not keys or not all(key in by_key for key in keys):
        return None
    return Coverage(tuple(by_key[key] for key in keys), _caged(event))


def _caged(event: ToolEvent) -> str | None:
    """Caged code may have rewritten what a project runner runs since Always was pressed: release it into the cage."""
    if event.command is None:
        return None
    segments = cage_policy.read(event.command) or []
    if not any(cage_policy.is_project_runner(segment.argv) for segment in segments):
        return None
    if len(segments) == 1 and not segments[0].redirected:
        return f"sbox {shlex.join(segments[0].argv)}"
    return f"sbox bash -c {shlex.quote(event.command)}"


def runs_caged(event: ToolEvent) -> bool:
    """Whether a remembered form of this call would be released into the cage."""
    return _caged(event) is not None


def _exact(event: ToolEvent) -> str:
    return hashlib.sha256(canonical([event.tool, dict(event.tool_input)]).encode()).hexdigest()
