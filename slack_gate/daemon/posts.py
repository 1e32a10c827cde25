"""Asking: a new message for one card, or one for several.

A post whose answer is lost may have arrived. It is marked on file before the call, and looked for before the next one:
one request, one card.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from slack_gate.core.ports import NO_ANSWER, RATELIMITED, Clock, Undelivered
from slack_gate.core.request import Request, State
from slack_gate.daemon import turns
from slack_gate.daemon.board import Board
from slack_gate.daemon.lanes import Lanes, backed_off
from slack_gate.errors import StoreError
from slack_gate.store.cards import GIVEN_UP, UNKNOWN, Card, Cards

POST_S = 14.0  # a post that has not arrived by then is given up, and the agent is told
LAST_TRY_S = 1.0  # a try needs at least so long
QUEUED_S = 5.0  # for a post that had to wait its turn longer than POST_S
ANY_REVISION = -1  # drawn, but nobody knows in which: it is drawn anew

log = structlog.get_logger()


class NoWayBack(Undelivered):
    """Nothing was posted, for no answer could come back: the link's fault, which the link tells."""


class Incomplete(Undelivered):
    """The message is there, without all that belongs to it."""


def asks(card: Card) -> bool:
    """Whether its approver has not been asked yet."""
    return card.request.state is State.PENDING and not card.message


class Posts:
    """`down` says why the surface cannot bring answers back (None: it can); nothing is posted while it does."""

    def __init__(
        self, cards: Cards, surface: Board, lanes: Lanes, down: Callable[[], str | None], clock: Clock
    ) -> None:
        self.turns = turns.Turns(turns.BURST, turns.EVERY_S)
        self.refused: str | None = None  # the surface's own error for the newest post; None when it was taken
        self._cards = cards
        self._surface = surface
        self._lanes = lanes
        self._down = down
        self._clock = clock
        self._under_way: set[int] = set()  # the first card of each message
        self._placed: dict[int, tuple[str, str]] = {}  # cards that were posted, which could not be put on file yet

    def begins(self, cards: Sequence[Card]) -> None:
        """One message for these is on its way, until `arrived`."""
        first = cards[0]
        self.turns.take(first.approver, self._clock(), first.request.id if len(cards) == 1 else "")
        self._under_way.add(first.id)

    def arrived(self, first: Card) -> None:
        """Its message is there, or never will be: once, whoever says it first."""
        if first.id in self._under_way:
            self._under_way.discard(first.id)
            self.turns.arrived(first.approver, self._clock())

    async def ask(self, card: Card) -> None:
        """One message that asks the approver: a new one, or the one of an earlier try that arrived after all.

        Raises Undelivered.
        """
        limit = self._limit(card.request)
        channel = await self.channel(card) if card.unclear else ""
        try:
            async with asyncio.timeout(limit):
                found, revision = await self.find(card, channel), card.request.revision
                if not found and (placed := self._placed.get(card.id)):
                    channel, found, revision = placed[0], [placed[1]], ANY_REVISION
                if not found:
                    channel, message = await self._surface.post(card.request, card.approver)
                    self.arrived(card)  # what follows goes into its thread
                    self._placed[card.id] = channel, message
                await self._complete(card, channel, found[0] if found else message)
        except TimeoutError:
            raise Undelivered(f"{NO_ANSWER} in {limit:.0f} s", 0.0) from None
        self._taken(card)
        if found:
            message, *others = found
            more = card.attempts > 1  # several tries may have arrived, one of them not yet
        else:
            others, more = [], card.unclear
        strays = [*others, *([UNKNOWN] if more else [])]
        await self._cards.posted(card.id, channel, message, strays, revision)
        self.forget(card)

    async def ask_together(self, cards: Sequence[Card]) -> None:
        """One new message that asks the approver of all of them. Raises Undelivered."""
        first = cards[0]
        limit = self._limit(first.request)
        try:
            async with asyncio.timeout(limit):
                place = await self._surface.post_all([card.request for card in cards], first.approver)
        except TimeoutError:
            raise Undelivered(f"{NO_ANSWER} in {limit:.0f} s", 0.0) from None
        self._taken(first)
        self._placed.update((card.id, place) for card in cards)
        await self._cards.listed(cards, *place)
        for card in cards:
            self.forget(card)

    def again(self, card: Card, fault: Undelivered, now: float) -> float:
        """When a post that failed is tried again; GIVEN_UP: never."""
        if fault.retry_after is None:
            return GIVEN_UP
        if fault.error == RATELIMITED:
            due, last = now + fault.retry_after, card.request.expires_at
        else:
            due, last = now + backed_off(fault.retry_after, card.attempts), card.request.created_at + POST_S
        return due if due + LAST_TRY_S <= last else GIVEN_UP

    async def release(self, card: Card) -> None:
        """The database may be back: where the card stands, else that it is due, before another daemon asks again."""
        try:
            if (placed := self._placed.get(card.id)) is None:
                await self._cards.released(card.id, self._clock())
                return
            strays = (UNKNOWN,) if card.unclear else ()
            await self._cards.posted(card.id, *placed, strays, ANY_REVISION)
            del self._placed[card.id]
        except StoreError as error:
            log.error("a card waits for its lease to end", request=card.request.id, error=str(error))

    def forget(self, card: Card) -> None:
        """It is on file where the card stands."""
        self._placed.pop(card.id, None)

    async def find(self, card: Card, channel: str) -> list[str] | None:
        """Messages that show the card, newest first; None when that cannot be known. Raises Undelivered."""
        found = await self._surface.find(card.request, channel) if channel else None
        if found:
            await self._cards.beside(card, channel, found)
        return None if found is None else list(found)

    async def channel(self, card: Card) -> str:
        """Where its messages would be; empty when nothing was ever posted to its approver."""
        return card.channel or await self._cards.channel(card.approver)

    def _limit(self, request: Request) -> float:
        """Seconds for this try. Raises Undelivered while no answer could come back."""
        if (why := self._down()) is not None:
            raise NoWayBack(why, None)
        left = request.created_at + POST_S - self._clock()
        return left if left >= LAST_TRY_S else QUEUED_S

    def _taken(self, first: Card) -> None:
        self.refused = None
        self._lanes.passed(first.approver, self._clock())

    async def _complete(self, card: Card, channel: str, message: str) -> None:
        try:
            await self._surface.complete(card.request, channel, message)
        except BaseException as fault:
            await self._cards.found(card.id, channel, (), False)  # where to look for it
            if isinstance(fault, Undelivered):
                raise Incomplete(fault.error, fault.retry_after) from fault
            raise
