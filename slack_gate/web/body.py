"""What a caller of the agent endpoint sends, read strictly: a field that is not known or not right is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cage import cage_policy
from slack_gate.core.display import one_line
from slack_gate.core.run import MAX_TIMEOUT_S
from slack_gate.core.strict_json import NotStrict, strict_object

MAX_BODY = 1 << 20
MAX_WAIT_S = 24 * 3600
MAX_AGENT = 40  # characters of a caller's name
DEFAULT_CWD = "~/projects"
DEFAULT_TIMEOUT_S = 30

_RUN = frozenset({"command", "reason", "timeoutSeconds", "cwd"})
_OURS = frozenset({"agent", "wait"})
_APPROVED = frozenset({"approved", "agent", "wait"})
_QUESTION = frozenset({"text", "reason", "agent"})


class Bad(Exception):
    """What was sent cannot be taken; the message is the sentence the caller gets, `status` HTTP's."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Asked:
    """A command to run, times in seconds; or with `approved` the request that was approved for it."""

    command: str = ""
    reason: str = ""
    timeout: int = DEFAULT_TIMEOUT_S
    cwd: str = ""
    agent: str = ""
    wait: int | None = None
    approved: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    reason: str
    agent: str


def read_asked(data: bytes, ours: bool) -> Asked:
    """`ours`: one of our own programs sends it, on the Unix socket. Raises Bad."""
    fields = _object(data)
    if ours and "approved" in fields:
        _known(fields, _APPROVED)
        return Asked(approved=_text(fields, "approved"), agent=_agent(fields))
    _known(fields, _RUN | _OURS if ours else _RUN)
    return Asked(
        _text(fields, "command"),
        _text(fields, "reason", ""),
        min(_whole(fields, "timeoutSeconds", DEFAULT_TIMEOUT_S), MAX_TIMEOUT_S),
        _directory(fields),
        _agent(fields),
        min(_whole(fields, "wait", 1), MAX_WAIT_S) if "wait" in fields else None,
    )


def read_question(data: bytes) -> Question:
    """Raises Bad."""
    fields = _object(data)
    _known(fields, _QUESTION)
    return Question(_text(fields, "text"), _text(fields, "reason", ""), _agent(fields))


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        return strict_object(data)
    except NotStrict as error:
        raise Bad(f"The body {error}.") from None


def _known(fields: Mapping[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(set(fields) - known):
        raise Bad(f"The body holds the unknown field {unknown[0][:40]!r}.")


def _text(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """With a default the text may be empty."""
    value = fields.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise Bad(f"{name} must be {'a text that is not empty' if default is None else 'a text'}.")
    return value


def _whole(fields: Mapping[str, Any], name: str, default: int) -> int:
    value = fields.get(name, default)
    if type(value) is not int or value < 1:
        raise Bad(f"{name} must be a whole number of seconds, at least 1.")
    return value


def _agent(fields: Mapping[str, Any]) -> str:
    name = _text(fields, "agent", "")
    if len(name) > MAX_AGENT or not name.isprintable():
        raise Bad(f"agent must be a name of at most {MAX_AGENT} printable characters.")
    return name


def _directory(fields: Mapping[str, Any]) -> str:
    """The working directory with every link followed; the green zone is where it must lie."""
    named = _text(fields, "cwd", DEFAULT_CWD)
    if problem := cage_policy.settings_problem():
        raise Bad(f"The working directory cwd cannot be judged: {one_line(problem, 300)}.")
    place = cage_policy.current_place()
    written = place.absolute(named)
    if written == place.absolute(DEFAULT_CWD) and written and not os.path.lexists(written):
        os.makedirs(written, exist_ok=True)
    real = os.path.realpath(written) if written else ""
    if not real or not place.holds(real):
        raise Bad(
            f"The working directory cwd must lie in ~/projects, /tmp or ~/.cache; {one_line(named, 200)} does not."
        )
    if not os.path.isdir(real):
        raise Bad(f"The working directory cwd, {one_line(named, 200)}, is no directory.")
    return real
