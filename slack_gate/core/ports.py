"""What the gate needs from the outside, as Protocols; `daemon/serve.py` plugs the real things in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from slack_gate.core.cord import Cord
from slack_gate.core.request import Decision, Request
from slack_gate.core.rules import Key, Rule
from slack_gate.core.run import Result

Clock = Callable[[], float]  # seconds since the epoch, a clock that counts sleep


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log before it is chained; the fields of gate-log.jsonl (docs/log.md)."""

    decision: str
    by: str
    request: str | None = None
    digest: str | None = None
    agent: str | None = None
    session: str | None = None
    tool: str | None = None
    command: str | None = None
    edited: str | None = None
    cwd: str | None = None
    latency: float | None = None
    user: str | None = None
    reason: str | None = None
    command_id: str | None = None
    exit_code: int | None = None


class Verdict(StrEnum):
    """What became of a click."""

    DECIDED = "decided"
    OPEN = "open"  # still to be decided
    ENDED = "ended"  # someone or something decided before
    UNKNOWN = "unknown"
    STALE = "stale"  # another message or another content than the one on file
    FOREIGN = "foreign"  # not an approver of this request, or another team
    UNREMEMBERABLE = "unrememberable"
    DENIED_BEFORE = "denied-before"  # what Always would save covers something that was denied
    COUNTED = "counted"  # one approval of several
    EXTENDED = "extended"
    LATEST = "latest"  # the waiting client cannot wait longer
    LIFTED = "lifted"
    UNFIT = "unfit"  # the text put in its place, or the cage, cannot be


@dataclass(frozen=True, slots=True)
class Click:
    """The gate's answer to a click: what became of it, and the request as it stands now."""

    verdict: Verdict
    request: Request | None = None
    rules: tuple[Rule, ...] = ()
    why: str = ""  # for UNFIT and DENIED_BEFORE: one sentence


@dataclass(frozen=True, slots=True)
class LookBack:
    """What a rule would have meant in the last 30 days: how many requests it covers, and those that were denied."""

    matched: int
    denied: tuple[Request, ...]


RATELIMITED = "ratelimited"  # the error of a call that came too soon
NO_ANSWER = "no answer"  # how the error of a call begins that may still be performed


class Undelivered(Exception):
    """A surface did not take a card: its own error code, and in how many seconds to try again (None: never)."""

    def __init__(self, error: str, retry_after: float | None) -> None:
        super().__init__(error)
        self.error = error
        self.retry_after = retry_after


class Surface(Protocol):
    """Where approvers are asked. Both methods raise Undelivered."""

    async def post(self, request: Request, approver: str) -> tuple[str, str]:
        """Channel and message id of the new card."""
        ...

    async def redraw(self, request: Request, channel: str, message: str) -> None: ...


class Store(Protocol):
    """One method a transaction, named for what happened; each returns only when its log lines are on disk."""

    async def answered(self, entry: Entry, used: Sequence[str] = ()) -> None:
        """Raises RuleGone when a rule of `used` does not count any more."""
        ...

    async def submitted(
        self, request: Request, approvers: Sequence[str], surface: str, escalate: float = 0.0
    ) -> Request: ...

    async def decided(self, decision: Decision, keys: Sequence[Key], shown: Sequence[str], now: float) -> Click: ...

    async def undone(self, decision: Decision, filed_at: float, now: float) -> None: ...

    async def remembered(self, request: str, digest: str, rules: Sequence[str], now: float) -> Request | None: ...

    async def taken(self, request: str) -> str | None: ...

    async def lifted(self, request: str, by: str, user: str, name: str, now: float) -> Request | None: ...

    async def since(self, tool: str, start: float, skip: int = 0, denied: bool = False) -> list[Request]: ...

    async def session(self, agent: str, session: str, start: float) -> list[Request]: ...

    async def denied(self, agent: str, session: str, form: str) -> Request | None: ...

    async def renewed(self, request: str, now: float) -> Request | None: ...

    async def expired(self, home: str, now: float) -> list[Request]: ...

    async def cancelled(self, request: str, by: str, now: float) -> Request | None: ...

    async def undeliverable(self, request: str, reason: str, now: float) -> Request | None: ...

    async def admitted(self, request: Request, run: str, executor: str, used: Sequence[str] = ()) -> Request:
        """Raises as `answered`."""
        ...

    async def claimed(self, request: str, run: str, executor: str, now: float) -> Request | None: ...

    async def finished(self, run: str, result: Result, stdout: str, stderr: str, now: float) -> Request | None: ...

    async def not_run(self, request: str, run: str, result: Result, now: float) -> Request | None: ...

    async def lost(self, home: str, now: float) -> list[Request]: ...

    async def tidied(self) -> bool:
        """Whether what is on file may not have been told, for its line was late."""
        ...

    async def request(self, request: str) -> Request | None: ...

    async def settled(self, request: str) -> Request | None: ...

    async def pending(self, home: str) -> list[Request]: ...

    async def waiting(self, home: str) -> set[str]: ...

    async def left(self, home: str) -> list[str]: ...

    async def rules(self) -> Sequence[Rule]: ...

    async def cord(self) -> Cord: ...


class Files(Protocol):
    """The files that calls would change, as they are when they are asked about."""

    def look(self, request: Request) -> bool:
        """Whether the call names one, which is read."""
        ...

    def changed(self, request: Request) -> bool:
        """Whether it is another one since; it is then looked at anew."""
        ...

    def differs(self, request: Request) -> bool:
        """As `changed`, and what was seen stays."""
        ...

    def forget(self, request: str) -> None: ...


class Event(Protocol):
    """As asyncio's."""

    async def wait(self) -> object: ...

    def is_set(self) -> bool: ...

    def clear(self) -> None: ...


class Executor(Protocol):
    """Carries commands out. `output` is told each piece as it comes: stream name, bytes."""

    @property
    def name(self) -> str: ...

    async def run(
        self, command: str, cwd: str, timeout: float, stop: Event, output: Callable[[str, bytes], None]
    ) -> Result:
        """Never raises for what the command or the executor does. `timeout` in seconds; `stop` set ends it early,
        where that can be done. Cancelling ends it too, without a result."""
        ...


class Waiting(Protocol):
    """Who waits for a request to end (`store/wakeups.py`)."""

    def listening(self, request: str) -> AbstractContextManager[Event]: ...

    def listened(self) -> set[str]: ...

    def wake(self, request: str) -> None: ...


class Judgement(Protocol):
    """A verdict ("ungated", "green", "gated"), the part of the call and the rule that decided, the green way if any."""

    @property
    def verdict(self) -> str: ...

    @property
    def segment(self) -> str: ...

    @property
    def rule(self) -> str: ...

    @property
    def hint(self) -> str: ...


class Classifier(Protocol):
    """`cage_policy`, or anything with its `explain`."""

    def explain(self, tool: str, tool_input: dict[str, Any] | None, cwd: str | None = None) -> Judgement: ...
