"""What people see beside the cards: what waits, what was decided, the rules, the link's health, the cord."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slack_gate.core.cord import Cord, Hand, Pull
from slack_gate.core.request import Request
from slack_gate.core.rules import Rule


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending request as one approver sees it; `asked`: a card is for them, which has a place once it is posted."""

    request: Request
    asked: bool
    channel: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Overview:
    """The counts are of all there are; `waiting` has those that end soonest, `ended` today's newest."""

    waiting: Sequence[Waiting]
    waiting_count: int
    ended: Sequence[Request]
    ended_count: int
    rules: Sequence[Rule]
    cord: Cord
    health: Mapping[str, Any]


class Controls(Protocol):
    """What an approver can see and do beside deciding. Everything is refused to others, in a sentence."""

    @property
    def approvers(self) -> Sequence[str]: ...

    def approves(self, user: str, team: str) -> bool: ...

    async def overview(self, approver: str) -> Overview: ...

    async def pull(self, pull: Pull, hand: Hand, team: str) -> str:
        """One sentence on how the cord stands now, or on why it was not pulled."""
        ...

    async def revoke(self, rule: str, hand: Hand, team: str) -> str:
        """One sentence; empty when the rule has ended."""
        ...

    async def lift(self, request: str, hand: Hand, team: str) -> str:
        """One sentence on the denial that was taken back, or on why there is none."""
        ...

    async def card_at(self, channel: str, message: str) -> Request | None:
        """The request that a message shows, None for any other message."""
        ...
