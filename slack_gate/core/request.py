"""A question to a human: its states, the table of its transitions, and the digest that binds an answer to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slack_gate.core.event import ToolEvent


class State(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    UNDELIVERABLE = "undeliverable"
    RUNNING = "running"
    FINISHED = "finished"
    LOST = "lost"
    NOT_RUN = "not-run"


# From each state, where it may go. The store's CHECKs and conditional UPDATEs hold the same table.
TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.PENDING: frozenset(
        {State.APPROVED, State.DENIED, State.EXPIRED, State.CANCELLED, State.UNDELIVERABLE},
    ),
    State.APPROVED: frozenset({State.RUNNING, State.NOT_RUN}),
    State.RUNNING: frozenset({State.FINISHED, State.LOST, State.NOT_RUN}),
    **{
        end: frozenset()
        for end in (
            State.DENIED,
            State.EXPIRED,
            State.CANCELLED,
            State.UNDELIVERABLE,
            State.FINISHED,
            State.LOST,
            State.NOT_RUN,
        )
    },
}


def may(start: State, end: State) -> bool:
    return end in TRANSITIONS[start]


@dataclass(frozen=True, slots=True)
class Request:
    """One row. Times are seconds since the epoch (UTC); `key` is the host's call id or the hook's nonce."""

    id: str
    digest: str
    state: State
    agent: str
    session: str
    key: str
    nonce: str
    tool: str
    tool_input: Mapping[str, Any]
    command: str | None
    cwd: str
    host: str
    home: str
    why: str
    created_at: float
    expires_at: float
    decided_at: float | None = None
    decided_by: str = ""
    decided_name: str = ""
    reason: str = ""
    via: str = ""  # how the log names what decided it: `human-slack`, `allowlist`, `timeout`
    chain: str = field(default="", compare=False)  # the log that it stands in, among those of a fleet: its home's
    form: str = ""  # what a denial of it is remembered by in its session
    lifted_at: float | None = None  # when a denial was taken back
    quorum: int = 1  # people who must approve
    latest_at: float = 0.0  # how far `expires_at` can be moved: until then its client can wait
    votes: tuple[tuple[str, str], ...] = ()  # user and name of those who approved so far
    revision: int = 0  # grows when a card that waits must be drawn anew
    rewritable: bool = False  # its client runs another text where the answer holds one
    edited: str | None = None  # masked: the text that the approver put in place of the agent's
    caged: bool = False  # approved for the cage only
    search_path: str = ""  # the PATH by which its agent finds programs

    @property
    def event(self) -> ToolEvent:
        """The call that was asked about; exact only while pending, masked after."""
        own = (self.agent, self.session, self.key, self.tool, self.tool_input, self.cwd)
        return ToolEvent(*own, rewritable=self.rewritable, search_path=self.search_path)


BY_RULES = "always"
ON_CARD, ON_HOME = "card", "home"  # where in Slack a button was pressed: below a card, or on the app's Home tab
BY_SLACK = "human-slack"
BY_PAGE = "human-web"
BY_TERMINAL = "human-cli"


class Choice(StrEnum):
    APPROVE = "approve"
    DENY = "deny"
    ALWAYS = "always"
    CAGED = "caged"  # approve, in the cage
    MORE = "more"  # more time, nothing decided
    LIFT = "lift"  # a denial is taken back


@dataclass(frozen=True, slots=True)
class Scope:
    """How far what Always saves reaches: this session, this directory, so many seconds; by default everywhere."""

    session: bool = False
    directory: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer to one request; `by` is how the log names the surface (`human-slack`)."""

    request: str
    digest: str
    choice: Choice
    by: str
    user: str
    name: str
    reason: str = ""
    team: str = ""
    channel: str = ""
    message: str = ""
    surface: str = ON_CARD
    edited: str | None = None  # the text to run instead of the agent's
    scope: Scope = Scope()
    revision: int | None = None  # of the request, as drawn where it was pressed; None: as its card was drawn last
    until: int | None = None  # until when it waited, as drawn where more time was asked for; None: not known


def canonical(value: object) -> str:
    """JSON that is equal exactly when the values are: sorted keys, ASCII, no blanks."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def form_of(event: ToolEvent) -> str:
    """SHA-256 (hex) of what would run and where, whatever the agent says about it."""
    what = dict(event.tool_input) if event.command is None else event.command
    return hashlib.sha256(canonical([event.tool, what, event.cwd]).encode()).hexdigest()


def digest(event: ToolEvent, key: str, host: str, scripts: Mapping[str, str] | None = None) -> str:
    """SHA-256 (hex) over everything an approval is bound to; `scripts` are the hashes of files the command runs."""
    bound = [event.agent, event.session, key, event.tool, dict(event.tool_input), event.cwd, host, dict(scripts or {})]
    return hashlib.sha256(canonical(bound).encode()).hexdigest()
