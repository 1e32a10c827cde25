"""Redrawing: every message that shows a request is made to show it as it stands now, until its buttons are gone.

What is found late of a post whose answer was lost, or cannot be looked for, is redrawn when the request ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from slack_gate.core.ports import NO_ANSWER, RATELIMITED, Clock, Undelivered
from slack_gate.core.request import Request, State
from slack_gate.daemon.board import Board
from slack_gate.daemon.lanes import REDRAWING, Lanes, backed_off
from slack_gate.daemon.posts import POST_S, Posts
from slack_gate.store.cards import GIVEN_UP, Card, Cards, Drawing

DRAW_S = 45.0  # for all that one redraw calls: within its lease
REDRAW_S = 7 * 24 * 3600.0  # buttons not gone by then stay; pressed, they say that it is too late
LATE_S = 30.0  # a call whose answer was lost has been performed by then, or never will be
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

    async def redraw(self, cards: Sequence[Card]) -> None:
        """Every message that shows one of these, which stand on one message, as it stands now. Raises Undelivered."""
        limit = min(DRAW_S, POST_S) if any(card.unshown for card in cards) else DRAW_S
        try:
            async with asyncio.timeout(limit):
                drawings, beside = await self._drawings(cards)
        except TimeoutError:
            raise Undelivered(f"{NO_ANSWER} in {limit:.0f} s", 0.0) from None
        if drawings:
            self._lanes.passed(REDRAWING, self._clock())
            await self._cards.drawn(drawings, self._clock(), beside)

    async def _drawings(self, cards: Sequence[Card]) -> tuple[list[Drawing], list[Drawing]]:
        """What was drawn of these, and of others beside them; nothing when other messages were found, to be claimed
        first. Raises Undelivered."""
        looked = [await self._looked(card) for card in cards]
        if any(set(each.strays) > set(each.card.strays) for each in looked):
            for card in cards:
                await self._cards.released(card.id, self._clock())
            return [], []
        own = [message for card in cards for message in card.messages if message[1] == card.message]
        strays = [(each.channel, stray) for each in looked for stray in each.strays]
        drawn: dict[int, Card] = {}
        for channel, message in dict.fromkeys([*own, *strays]):
            for one in await self._message(channel, message):
                drawn.setdefault(one.id, one)
        drawings = [each.drawing(drawn.pop(each.card.id, each.card).request, self._clock()) for each in looked]
        beside = [
            one for one in drawn.values() if (one.channel, one.message) in own and not one.strays and not one.unclear
        ]
        return drawings, [_as_drawn(one.id, one.request) for one in beside]

    async def _looked(self, card: Card) -> _Looked:
        """Where else it may be shown. Raises Undelivered."""
        self._posts.forget(card)
        if card.request.state is State.PENDING:
            return _Looked(card, card.channel, list(card.strays))
        self._posts.turns.decided(card.request.id, self._clock())
        if not card.unclear:
            return _Looked(card, card.channel, list(card.strays))
        channel = await self._posts.channel(card)
        found = await self._posts.find(card, channel)
        strays = sorted({*card.strays, *(found or ())} - {card.message})
        again = self._look_again(card.request, found is not None)
        await self._cards.found(card.id, channel, strays, again is None)
        return _Looked(card, channel, strays, again)

    def again(self, card: Card, fault: Undelivered, now: float) -> float:
        """When a redraw that failed is tried again; GIVEN_UP: never."""
        if now > card.request.expires_at + REDRAW_S:
            return GIVEN_UP
        wait = MISSING_S if fault.retry_after is None else fault.retry_after
        return now + (wait if fault.error == RATELIMITED else backed_off(wait, card.attempts))

    async def _message(self, channel: str, message: str) -> list[Card]:
        """Draws it; all cards that it shows, as drawn. Raises Undelivered."""
        shown = await self._cards.sharing(channel, message)
        if shown:
            await self._draw(shown, channel, message)
        return shown

    async def _draw(self, shown: Sequence[Card], channel: str, message: str) -> None:
        requests = [one.request for one in shown]
        try:
            if len(requests) == 1:
                await self._surface.redraw(requests[0], channel, message)
            else:
                await self._surface.redraw_all(requests, channel, message)
        except Undelivered as fault:
            if fault.retry_after is not None or any(one.unshown for one in shown):
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


@dataclass(frozen=True, slots=True)
class _Looked:
    """A card to redraw, and its messages beside its own one."""

    card: Card
    channel: str
    strays: list[str]
    again: float | None = None  # when the channel is to be looked through once more

    def drawing(self, shown: Request, now: float) -> Drawing:
        if self.card.request.state is not State.PENDING:
            again = self.again
            if again is None and self.card.error.startswith(NO_ANSWER):
                again = now + LATE_S  # an earlier drawing may be performed after this one
            return Drawing(self.card.id, shown.state, shown.revision, self.strays, again)
        # Ended while it was drawn, with a copy somewhere: it is looked for in the next round.
        shown = self.card.request if self.card.unclear else shown
        return Drawing(self.card.id, shown.state, shown.revision)


def _as_drawn(card: int, request: Request) -> Drawing:
    """Of a card whose one message is drawn for another's sake: a copy that is seen meanwhile is drawn next."""
    return Drawing(card, request.state, request.revision, None if request.state is State.PENDING else ())
