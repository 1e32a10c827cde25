"""What approvers see and do beside deciding: the overview, the cord, the rules. One place says who may."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from slack_gate.core.cord import Cord, Hand, Place, Pull, state
from slack_gate.core.overview import Overview, Waiting
from slack_gate.core.ports import Clock, Entry
from slack_gate.core.request import BY_SLACK, Request
from slack_gate.core.rules import Rule
from slack_gate.daemon.house import House
from slack_gate.errors import NotFound

SHOWN = 40  # of what waits
ENDED = 20

FOREIGN = "Only this slack-gate's approvers can do that. Nothing was changed."


class Store(Protocol):
    """The store, as the controls need it."""

    async def answered(self, entry: Entry) -> None: ...

    async def pulled(self, pull: Pull, hand: Hand, now: float) -> tuple[Cord, bool]: ...

    async def lifted(self, request: str, by: str, user: str, name: str, now: float) -> Request | None: ...

    async def revoked(self, rule: str, now: float, by: str = ..., user: str = ...) -> Rule: ...

    async def cord(self) -> Cord: ...

    async def rules(self) -> Sequence[Rule]: ...


class Seen(Protocol):
    """Some of what waits and of what ended, and how many there are of each."""

    @property
    def waiting(self) -> Sequence[Waiting]: ...

    @property
    def waiting_count(self) -> int: ...

    @property
    def ended(self) -> Sequence[Request]: ...

    @property
    def ended_count(self) -> int: ...


class Glance(Protocol):
    """What is on file at a glance (`store/glance.py`)."""

    async def look(self, approver: str, since: float, most_waiting: int, most_ended: int) -> Seen: ...

    async def card_at(self, channel: str, message: str) -> Request | None: ...


class Controls:
    """`health` is what `slack-gate status` prints; `changed` is called when something looks different now."""

    def __init__(
        self,
        store: Store,
        glance: Glance,
        house: House,
        health: Callable[[], Mapping[str, Any]],
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._glance = glance
        self._house = house
        self._health = health
        self._clock = clock
        self._changed = changed

    @property
    def approvers(self) -> Sequence[str]:
        return self._house.approvers

    def approves(self, user: str, team: str) -> bool:
        return user in self._house.approvers and team == self._house.team

    async def overview(self, approver: str) -> Overview:
        seen = await self._glance.look(approver, _midnight(self._clock()), SHOWN, ENDED)
        rules, cord = await self._store.rules(), await self._store.cord()
        health = self._health()
        return Overview(seen.waiting, seen.waiting_count, seen.ended, seen.ended_count, rules, cord, health)

    async def cord(self) -> Cord:
        return await self._store.cord()

    async def card_at(self, channel: str, message: str) -> Request | None:
        return await self._glance.card_at(channel, message)

    async def pull(self, pull: Pull, hand: Hand, team: str = "") -> str:
        if not self._may(hand, team):
            return await self._foreign(hand, pull.value)
        if (why := self._impossible(pull)) is not None:
            return f"Nothing was changed: {why}"
        cord, changed = await self._store.pulled(pull, hand, self._clock())
        if changed:
            self._changed()
        return state(cord) if changed else f"Nothing changed. {state(cord)}"

    async def revoke(self, rule: str, hand: Hand, team: str = "") -> str:
        if not self._may(hand, team):
            return await self._foreign(hand, f"revoke {rule[:40]}")
        try:
            await self._store.revoked(rule, self._clock(), hand.by, hand.user)
        except NotFound as error:
            return error.sentence
        self._changed()
        return ""

    async def lift(self, request: str, hand: Hand, team: str = "") -> str:
        if not self._may(hand, team):
            return await self._foreign(hand, f"lift {request[:40]}")
        lifted = await self._store.lifted(request, hand.by, hand.user, hand.name, self._clock())
        if lifted is None:
            return f"There is no denial {request[:40]} that could be taken back."
        self._changed()
        return f"The denial {lifted.id} is taken back: the same may be asked again in its session."

    def _may(self, hand: Hand, team: str) -> bool:
        """Who comes by the page or the terminal has shown the page's password there."""
        return hand.by != BY_SLACK or self.approves(hand.user, team)

    async def _foreign(self, hand: Hand, what: str) -> str:
        await self._store.answered(Entry("click-foreign", hand.by, user=hand.user, reason=what))
        return FOREIGN

    def _impossible(self, pull: Pull) -> str | None:
        house = self._house
        if pull.place is Place.WEB and not (house.page or house.terminal):
            return "this daemon was started without the approval page and without a terminal, so nobody could be asked."
        if pull.place is Place.SLACK and not (house.approvers or house.page or house.terminal):
            return "nobody could be asked."
        if pull.place is Place.CONSOLE and house.hook_executor != "agent":
            return (
                f"approved commands are run by the {house.hook_executor} executor here, and what the agent's own "
                "prompt allows, the agent runs."
            )
        return None


def _midnight(now: float) -> float:
    """When today began, on this machine's clock."""
    local = datetime.fromtimestamp(now)
    return time.mktime(local.replace(hour=0, minute=0, second=0, microsecond=0).timetuple())
