"""Rows to cards: whatever a surface shows that its row no longer says is drawn again; only the newest state counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from slack_gate.core.ports import Clock, Surface, Undelivered
from slack_gate.core.request import State
from slack_gate.errors import StoreError
from slack_gate.store.cards import GIVEN_UP, Card, Cards

POST_S = 14.0  # a post that has not arrived by then is given up, and the agent is told
REDRAW_TRIES = 200
MAX_RETRY_S = 60.0
AWAY_S = 1.0  # between tries while the database is away

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

    def wake(self) -> None:
        self._changed.set()

    async def run(self, desk: Desk) -> None:
        """Draws until cancelled."""
        while True:
            try:
                await self._round(desk)
            except StoreError as error:
                log.error("cards cannot be drawn", error=str(error))
                await asyncio.sleep(AWAY_S)

    async def _round(self, desk: Desk) -> None:
        self._changed.clear()
        due = await self._cards.due(self._clock())
        await asyncio.gather(*(self._draw(card, desk) for card in due))
        if not due:
            await self._rest()

    async def _rest(self) -> None:
        next_due = await self._cards.next_due()
        delay = None if next_due is None else max(next_due - self._clock(), 0.0)
        try:
            async with asyncio.timeout(delay):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _draw(self, card: Card, desk: Desk) -> None:
        request = card.request
        try:
            if card.message:
                await self._surface.redraw(request, card.channel, card.message)
                await self._cards.drawn(card.id, request.state)
            else:
                self._refuse_while_down()
                channel, message = await self._surface.post(request, card.approver)
                await self._cards.posted(card.id, channel, message)
        except Undelivered as fault:
            await self._failed(card, fault, desk)

    def _refuse_while_down(self) -> None:
        if (why := self._down()) is not None:
            raise Undelivered(why, None)

    async def _failed(self, card: Card, fault: Undelivered, desk: Desk) -> None:
        log.warning("a card could not be drawn", request=card.request.id, error=fault.error)
        await self._cards.failed(card.id, fault.error, self._due_again(card, fault))
        error = await self._cards.hopeless(card.request.id)
        if error is not None and card.request.state is State.PENDING:
            await desk.undeliverable(card.request.id, f"{error}.")

    def _due_again(self, card: Card, fault: Undelivered) -> float:
        now = self._clock()
        if fault.retry_after is None:
            return GIVEN_UP
        due = now + min(max(fault.retry_after, 0.0) * (1 + card.attempts // 4), MAX_RETRY_S)
        if not card.message and fault.error != "ratelimited" and due > card.request.created_at + POST_S:
            return GIVEN_UP
        return due if card.attempts < REDRAW_TRIES else GIVEN_UP
