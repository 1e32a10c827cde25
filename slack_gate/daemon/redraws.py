"""Redrawing: every message that shows a request is made to show it as it stands now, until its buttons are gone.

What is found late of a post whose answer was lost, or cannot be looked for, is redrawn when the request ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

import structlog

from slack_gate.core.ports import RATELIMITED, Clock, Undelivered
from slack_gate.core.request import Request, State
from slack_gate.daemon.board import Board
from slack_gate.daemon.lanes import REDRAWING, Lanes, backed_off
from slack_gate.daemon.posts import Posts
from slack_gate.store.cards import GIVEN_UP, Card, Cards

REDRAW_S = 7 * 24 * 3600.0  # buttons not gone by then stay; pressed, they say that it is too late
LATE_S = 30.0  # a post whose answer was lost has arrived by then, or never will
LOOK_AGAIN_S = 600.0  # where messages may not be looked for: until the right to has been given
MISSING_S = 1.0  # after a refusal: a token may be replaced, a scope given

log = structlog.get_logger()


class Redraws:
    def __init__(self, cards: Cards, surface: Board, lanes: Lanes, posts: Posts, clock: Clock) -> None:
        self._cards = cards
        self._surface = surface
        self._lanes = lanes
        self._posts = posts
        self._clock = clock
        self._sharing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # messages of several requests

    async def redraw(self, card: Card) -> None:
        """Every message that shows the request, as it stands now. Raises Undelivered."""
        strays, channel, again = list(card.strays), card.channel, None
        waits = card.request.state is State.PENDING
        self._posts.forget(card)
        if card.unclear and not waits:
            channel = await self._posts.channel(card)
            found = await self._posts.find(card, channel)
            again = self._look_again(card.request, found is not None)
            strays = sorted({*strays, *(found or ())} - {card.message})
            await self._cards.found(card.id, channel, strays, again is None)
        if not waits:
            self._posts.turns.decided(card.request.id, self._clock())
        drawn = await self._messages(card, channel, [one for one in (card.message, *strays) if one])
        self._lanes.passed(REDRAWING, self._clock())
        known = None if waits else strays
        await self._cards.drawn(card.id, drawn.state, self._clock(), known, again, drawn.revision)

    def again(self, card: Card, fault: Undelivered, now: float) -> float:
        """When a redraw that failed is tried again; GIVEN_UP: never."""
        if now > card.request.expires_at + REDRAW_S:
            return GIVEN_UP
        wait = MISSING_S if fault.retry_after is None else fault.retry_after
        return now + (wait if fault.error == RATELIMITED else backed_off(wait, card.attempts))

    async def _messages(self, card: Card, channel: str, messages: Sequence[str]) -> Request:
        """The request as it was drawn first; what stands on the same message is drawn with it."""
        drawn = [await self._message(card, channel, message) for message in messages]
        return drawn[0] if drawn else card.request

    async def _message(self, card: Card, channel: str, message: str) -> Request:
        stray = message != card.message
        if len(await self._cards.sharing(channel, message, stray)) < 2:
            await self._draw([card.request], channel, message)
            return card.request
        lock = self._sharing.get(message) or asyncio.Lock()
        self._sharing[message] = lock
        async with lock:
            shared = await self._cards.sharing(channel, message, stray)
            while stray or not all(one.current for one in shared):
                await self._draw([one.request for one in shared], channel, message)
                for one in shared:
                    if one.id != card.id and one.message == message and not one.strays and not one.unclear:
                        await self._cards.drawn(
                            one.id, one.request.state, self._clock(), None, None, one.request.revision
                        )
                after = await self._cards.sharing(channel, message, stray)
                if [one.request for one in after] == [one.request for one in shared]:
                    break
                shared = after  # something changed meanwhile, and another daemon may have drawn that before us
            return next((one.request for one in shared if one.id == card.id), card.request)

    async def _draw(self, requests: Sequence[Request], channel: str, message: str) -> None:
        try:
            if len(requests) == 1:
                await self._surface.redraw(requests[0], channel, message)
            else:
                await self._surface.redraw_all(requests, channel, message)
        except Undelivered as fault:
            if fault.retry_after is not None:
                raise
            log.info("a card is gone", request=requests[0].id, error=fault.error)

    def _look_again(self, request: Request, looked: bool) -> float | None:
        """When a message that is not on file may have arrived, or may be looked for; None: there is none any more."""
        now = self._clock()
        if looked:
            settled = (request.decided_at or now) + LATE_S
            return settled if now < settled else None
        log.warning(
            "another copy of a card may keep its buttons; pressed, they decide nothing",
            request=request.id,
            fix=self._surface.remedy("missing_scope"),
        )
        return now + LOOK_AGAIN_S if now < request.expires_at + REDRAW_S else None
