"""Rows to cards: whatever a surface shows that its row no longer says is drawn again; only the newest state counts.

A card is delivered when the surface took it and something came in on the link afterwards. A post that the surface
refuses, does not take in time, or that was followed by silence makes its request undeliverable.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import structlog

from slack_gate.core.ports import Clock, Surface, Undelivered
from slack_gate.core.request import State
from slack_gate.errors import StoreError
from slack_gate.store.cards import GIVEN_UP, Card, Cards

POST_S = 14.0  # a post that has not arrived by then is given up, and the agent is told
LAST_TRY_S = 1.0  # a try needs at least so long
QUEUED_S = 5.0  # for a post that had to wait its turn longer than POST_S
CONFIRM_S = 25.0  # a link that is dead when a card is posted is known to be by then
WATCH_S = 0.5
PACE_S = 1.0  # between posts to one approver, once the surface has complained of too many
PACED_S = 60.0
REDRAW_TRIES = 200
MAX_RETRY_S = 60.0
AWAY_S = 1.0  # between tries while the database is away
RATELIMITED = "ratelimited"

log = structlog.get_logger()


class Desk(Protocol):
    """The gate, as the outbox needs it."""

    async def undeliverable(self, request: str, reason: str) -> None: ...


class Outbox:
    """`down` says why the surface cannot bring answers back (None: it can); posts are refused while it does."""

    def __init__(self, cards: Cards, surface: Surface, down: Callable[[], str | None], clock: Clock) -> None:
        self._cards = cards
        self._surface = surface
        self._down = down
        self._clock = clock
        self._changed = asyncio.Event()
        self._drawing: set[int] = set()  # cards
        self._turns = _Turns()
        self._unconfirmed: dict[str, float] = {}  # request → when its card was posted

    def wake(self) -> None:
        self._changed.set()

    async def run(self, desk: Desk) -> None:
        """Draws until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(desk))
            while True:
                try:
                    self._changed.clear()
                    for card in await self._cards.due(self._clock()):
                        self._start(card, desk, group)
                    await self._rest()
                except StoreError as error:
                    log.error("cards cannot be drawn", error=str(error))
                    await asyncio.sleep(AWAY_S)

    def _start(self, card: Card, desk: Desk, group: asyncio.TaskGroup) -> None:
        """One task a card, so a slow call holds up no other card."""
        if card.id in self._drawing or not (card.message or self._turns.take(card.approver, self._clock())):
            return
        self._drawing.add(card.id)
        group.create_task(self._draw(card, desk))

    async def _rest(self) -> None:
        """Until something changed, or the next retry is due; what is due already is being drawn and will say so."""
        next_due = await self._cards.next_due() or 0.0
        now = self._clock()
        times = [time for time in (next_due, self._turns.next(now)) if now < time < GIVEN_UP]
        try:
            async with asyncio.timeout(min(times) - now if times else None):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _draw(self, card: Card, desk: Desk) -> None:
        try:
            await self._try(card, desk)
        except StoreError as error:
            log.error("cards cannot be drawn", error=str(error))
            await asyncio.sleep(AWAY_S)
        finally:
            self._drawing.discard(card.id)
            if not card.message:
                self._turns.leave(card.approver)
            self.wake()

    async def _try(self, card: Card, desk: Desk) -> None:
        try:
            if card.message:
                await self._surface.redraw(card.request, card.channel, card.message)
            else:
                channel, message = await self._post(card)
        except Undelivered as fault:
            await self._failed(card, fault, desk)
        except StoreError:
            raise
        except Exception as error:  # a fault of ours: this request ends, the others are still asked
            log.exception("a card could not be drawn", request=card.request.id)
            await self._failed(card, Undelivered(f"slack-gate failed ({type(error).__name__})", None), desk)
        else:
            if card.message:
                await self._cards.drawn(card.id, card.request.state)
            else:
                await self._cards.posted(card.id, channel, message)

    async def _post(self, card: Card) -> tuple[str, str]:
        if (why := self._down()) is not None:
            raise Undelivered(why, None)
        left = card.request.created_at + POST_S - self._clock()
        limit = left if left >= LAST_TRY_S else QUEUED_S
        try:
            async with asyncio.timeout(limit):
                posted = await self._surface.post(card.request, card.approver)
        except TimeoutError:
            raise Undelivered(f"no answer in {limit:.0f} s", 0.0) from None
        now = self._clock()
        self._unconfirmed[card.request.id] = now
        self._turns.posted(card.approver, now)
        return posted

    async def _failed(self, card: Card, fault: Undelivered, desk: Desk) -> None:
        log.warning("a card could not be drawn", request=card.request.id, error=fault.error)
        due = self._due_again(card, fault)
        if fault.error == RATELIMITED and not card.message:
            self._turns.refused(card.approver, self._clock(), due)
        await self._cards.failed(card.id, fault.error, due)
        if due < GIVEN_UP:
            asyncio.get_running_loop().call_later(due - self._clock(), self.wake)
        error = await self._cards.hopeless(card.request.id)
        if error is not None and card.request.state is State.PENDING:
            await desk.undeliverable(card.request.id, f"{error}.")

    def _due_again(self, card: Card, fault: Undelivered) -> float:
        if fault.retry_after is None or card.attempts >= REDRAW_TRIES:
            return GIVEN_UP
        if fault.error == RATELIMITED:
            due = self._clock() + fault.retry_after
            last = card.request.expires_at
        else:
            due = self._clock() + min(max(fault.retry_after, 0.0) * (1 + card.attempts // 4), MAX_RETRY_S)
            last = card.request.created_at + POST_S
        return due if card.message or due + LAST_TRY_S <= last else GIVEN_UP

    async def _watch(self, desk: Desk) -> None:
        """A link found dead had brought nothing in since the newest posts: those have not been delivered."""
        while True:
            await asyncio.sleep(WATCH_S)
            why = self._down()
            late = self._clock() - CONFIRM_S - 2 * WATCH_S
            found = [request for request, posted in self._unconfirmed.items() if why is not None or posted < late]
            for request in found:
                try:
                    if why is not None:
                        await desk.undeliverable(request, f"{why}.")
                    del self._unconfirmed[request]
                except StoreError as error:
                    log.error("a request cannot be ended", request=request, error=str(error))


class _Turns:
    """Posts to one approver: all at once, until the surface complains of too many; then one at a time, and slowly."""

    def __init__(self) -> None:
        self._posting: Counter[str] = Counter()
        self._free_at: dict[str, float] = {}
        self._paced_until: dict[str, float] = {}

    def take(self, approver: str, now: float) -> bool:
        """Whether a post to the approver may start now; it then has a turn until `leave`."""
        if now < self._free_at.get(approver, 0.0) or (self._posting[approver] and self._paced(approver, now)):
            return False
        self._posting[approver] += 1
        return True

    def leave(self, approver: str) -> None:
        self._posting[approver] -= 1

    def posted(self, approver: str, now: float) -> None:
        if self._paced(approver, now):
            self._free_at[approver] = max(self._free_at.get(approver, 0.0), now + PACE_S)

    def refused(self, approver: str, now: float, free_at: float) -> None:
        self._free_at[approver] = min(free_at, now + MAX_RETRY_S)
        self._paced_until[approver] = now + PACED_S

    def next(self, now: float) -> float:
        """When the next approver who had to wait may be posted to again."""
        return min((time for time in self._free_at.values() if time > now), default=GIVEN_UP)

    def _paced(self, approver: str, now: float) -> bool:
        return now < self._paced_until.get(approver, 0.0)
