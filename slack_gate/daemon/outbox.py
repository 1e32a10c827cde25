"""Rows to cards: whatever a surface shows that its row no longer says is drawn again; only the newest state counts.

A card is delivered when the surface took it and something came in on the link afterwards. A post that the surface
refuses, or does not take in time, makes its request undeliverable; so does a dead link, for every request that waits.
How a message is posted is in `posts`, how it is redrawn in `redraws`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Protocol

import structlog

from slack_gate.core.ports import RATELIMITED, Clock, Undelivered
from slack_gate.daemon.board import Board
from slack_gate.daemon.lanes import REDRAWING, Lanes
from slack_gate.daemon.posts import Incomplete, NoWayBack, Posts, asks
from slack_gate.daemon.redraws import Redraws
from slack_gate.errors import StoreError
from slack_gate.store.cards import GIVEN_UP, UNKNOWN, Card, Cards, Drawing

WATCH_S = 0.5
UNTAKEN_S = 5.0  # between looks for what nobody could be asked about
LEASE_S = 60.0  # a message is drawn by one daemon alone for so long; longer than any drawing takes
POLL_S = 15.0  # between looks for what another daemon left undrawn
BATCH = 50
SEEN = 1000  # messages that were clicked on and not looked up yet; of more, the oldest are forgotten
GATHER = 3  # as many new ones that have to wait their turn stand on one message
MOST = 20  # of them at most are tried for one message
AWAY_S = 1.0  # between tries while the database is away

log = structlog.get_logger()


class Desk(Protocol):
    """The gate, as the outbox needs it."""

    async def undeliverable(self, request: str, reason: str) -> None: ...


class Outbox:
    """`down` says why the surface cannot bring answers back (None: it can); posts are refused while it does.

    `elsewhere` tells whether requests can be decided without it: then they wait on.
    """

    def __init__(
        self,
        cards: Cards,
        surface: Board,
        down: Callable[[], str | None],
        clock: Clock,
        elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        self._lanes = Lanes()
        self._posts = Posts(cards, surface, self._lanes, down, clock)
        self._redraws = Redraws(cards, surface, self._lanes, self._posts, clock)
        self._cards = cards
        self._surface = surface
        self._down = down
        self._clock = clock
        self._elsewhere = elsewhere
        self._changed = asyncio.Event()
        self._drawing: set[int] = set()  # cards
        self._seen: dict[tuple[str, str, str, str], None] = {}

    def seen(self, request: str, approver: str, channel: str, message: str) -> None:
        """The approver pressed a button of the request in this message, which may be a copy that is not on file."""
        self._seen[request, approver, channel, message] = None
        if len(self._seen) > SEEN:
            del self._seen[next(iter(self._seen))]
        self.wake()

    def wake(self) -> None:
        self._changed.set()

    def fault(self) -> str | None:
        """The surface's own error for the newest post, and what to do; None when it was taken."""
        if (refused := self._posts.refused) is None:
            return None
        return f"the last card could not be posted: {refused}. {self._surface.remedy(refused)}".rstrip(". ")

    async def run(self, desk: Desk) -> None:
        """Draws until cancelled."""
        resumed = False
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(desk))
            while True:
                try:
                    if not resumed:
                        await self._cards.resumed(self._clock())
                        resumed = True
                    self._changed.clear()
                    await self._look_up()
                    while await self._start(desk, group):
                        pass
                    await self._rest()
                except StoreError as error:
                    log.error("cards cannot be drawn", error=str(error))
                    await asyncio.sleep(AWAY_S)

    async def _look_up(self) -> None:
        """What was clicked on until now; what comes meanwhile is for the next time, or clicks would hold up cards."""
        clicked = list(self._seen)
        await asyncio.gather(*(self._cards.seen(*each) for each in clicked))
        for each in clicked:
            self._seen.pop(each, None)

    async def _start(self, desk: Desk, group: asyncio.TaskGroup) -> bool:
        """Begins what may be drawn now; whether there was any. One task a message: a slow call holds up no other."""
        now = self._clock()
        redraws = not self._lanes.closed(REDRAWING, now)
        blocked = [*self._lanes.all_closed(now), *self._posts.turns.full(now)]
        due = await self._cards.due(now, BATCH, blocked, redraws)
        due = [card for card in due if card.id not in self._drawing]
        alike = [card for card in due if asks(card) and not card.strays and not card.unclear] if redraws else []
        if joined := await self._join(alike):
            due = [card for card in due if card.id not in joined]
        chosen = [batch for batch in self._batches(due, now) if self._lanes.take(_lane(batch[0]), now)]
        won: set[int] = set()
        try:
            won = await self._cards.claim(chosen, now, now + LEASE_S)
        finally:
            for batch in chosen:
                if not won.intersection(card.id for card in batch):
                    self._lanes.leave(_lane(batch[0]))
        for batch in chosen:
            if ours := [card for card in batch if card.id in won]:
                self._drawing.update(card.id for card in ours)
                if asks(ours[0]):
                    self._posts.begins(ours)
                group.create_task(self._draw(ours, desk))
        return bool(won or joined)

    async def _join(self, asking: Sequence[Card]) -> set[int]:
        """Cards whose approver is asked the very same already: they go onto that message."""
        able = [card for card in asking if card.request.form and self._surface.fitting([card.request])]
        found = await self._cards.twins(able) if able else {}
        joined: set[int] = set()
        for card in [card for card in able if card.id in found]:
            channel, message = found[card.id]
            there = [one.request for one in await self._cards.sharing(channel, message)]
            if self._surface.fitting([*there, card.request]) > len(there):
                await self._cards.joined(card.id, channel, message)
                joined.add(card.id)
        return joined

    def _batches(self, due: Sequence[Card], now: float) -> Iterator[list[Card]]:
        """One message each. More new ones than may go out now stand together, as many as fit."""
        asking: dict[str, list[Card]] = {}
        standing: dict[tuple[str, str], list[Card]] = {}
        for card in due:
            if asks(card):
                asking.setdefault(card.approver, []).append(card)
            else:
                standing.setdefault((card.channel, card.message or f"{UNKNOWN}{card.id}"), []).append(card)
        for approver, cards in asking.items():
            free, left = self._posts.turns.free(approver, now), list(cards)
            while free > 0 and left:
                number = 1
                if len(left) > free and len(left) >= GATHER:
                    clear = list(takewhile(lambda card: not card.unclear, left))
                    number = max(1, self._surface.fitting([card.request for card in clear[:MOST]])) if clear else 1
                yield left[:number]
                left, free = left[number:], free - 1
        yield from standing.values()

    async def _rest(self) -> None:
        """Until something changed, or the next retry is due; what is due already is being drawn and will say so."""
        now = self._clock()
        next_due = await self._cards.next_due(now) or 0.0
        times = [time for time in (next_due, self._lanes.next(now), self._posts.turns.next(now)) if now < time]
        try:
            async with asyncio.timeout(min(POLL_S, *(time - now for time in times)) if times else POLL_S):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _draw(self, cards: Sequence[Card], desk: Desk) -> None:
        """One message: of one card, or of several."""
        try:
            await self._try(cards, desk)
        except StoreError as error:
            log.error("what was drawn cannot be recorded", request=cards[0].request.id, error=str(error))
            await asyncio.sleep(AWAY_S)
            for card in cards:
                await self._posts.release(card)
        finally:
            self._posts.arrived(cards[0])
            self._drawing.difference_update(card.id for card in cards)
            self._lanes.leave(_lane(cards[0]))
            self.wake()

    async def _try(self, cards: Sequence[Card], desk: Desk) -> None:
        try:
            if not asks(cards[0]):
                await self._redraws.redraw(cards)
            elif len(cards) == 1:
                await self._posts.ask(cards[0])
            else:
                await self._posts.ask_together(cards)
        except Undelivered as fault:
            # Only a refusal says for sure that nothing was posted.
            refused = fault.retry_after is None or fault.error == RATELIMITED
            for card in cards:
                await self._failed(card, fault, desk, isinstance(fault, Incomplete) or not refused)
        except StoreError:
            raise
        except Exception as error:  # a fault of ours: these requests end, the others are still asked
            log.exception("a card could not be drawn", request=cards[0].request.id)
            for card in cards:
                await self._failed(card, Undelivered(f"slack-gate failed ({type(error).__name__})", None), desk, True)

    async def _failed(self, card: Card, fault: Undelivered, desk: Desk, unclear: bool) -> None:
        posting = asks(card)
        fix = self._surface.remedy(fault.error)
        log.warning(
            "a card could not be drawn", request=card.request.id, error=fault.error, **({"fix": fix} if fix else {})
        )
        now = self._clock()
        due = (self._posts if posting else self._redraws).again(card, fault, now)
        if isinstance(fault, NoWayBack) and self._elsewhere():
            due = now  # for another daemon
        if fault.error == RATELIMITED:
            self._lanes.refused(_lane(card), now, fault.retry_after or 0.0)
        if card.unshown:
            await self._cards.apart(card.id, fault.error, now)
            return
        if not posting and due >= GIVEN_UP:
            log.error("buttons of a card could not be taken away", request=card.request.id, error=fault.error)
            await self._cards.drawn([Drawing(card.id, card.request.state, card.request.revision)], now)
            return
        strays = [*card.strays, *([UNKNOWN] if card.unclear or (posting and unclear) else [])]
        await self._cards.failed(card.id, fault.error, now, due, strays if posting else None)
        if due < GIVEN_UP:
            asyncio.get_running_loop().call_later(due - now, self.wake)
        else:
            if not isinstance(fault, NoWayBack):
                self._posts.refused = fault.error
            await self._end_untaken(desk)

    async def _end_untaken(self, desk: Desk) -> None:
        for request, error in (await self._cards.untaken()).items():
            await desk.undeliverable(request, f"{error}.")

    async def _watch(self, desk: Desk) -> None:
        """While the link is dead, nobody's answer can arrive; what was given up may have been so by a daemon that could
        not say it any more, or by another one, and who could see it elsewhere may have gone: whoever waits is told."""
        looked, time = 0.0, asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(WATCH_S)
            why = self._down()
            try:
                if why is not None and not self._elsewhere():
                    for request in await self._cards.waiting():
                        await desk.undeliverable(request, f"{why}.")
                elif time() - looked >= UNTAKEN_S:
                    looked = time()
                    await self._end_untaken(desk)
            except StoreError as error:
                log.error("requests cannot be ended", error=str(error))


def _lane(card: Card) -> str:
    return card.approver if asks(card) else REDRAWING
