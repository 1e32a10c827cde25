"""Rows to cards: whatever a surface shows that its row no longer says is drawn again; only the newest state counts.

A card is delivered when the surface took it and something came in on the link afterwards. A post that the surface
refuses, or does not take in time, makes its request undeliverable; so does a dead link, for every request that waits.

A post whose answer is lost may have arrived. It is marked on file before the call, and looked for before the next one:
one request, one card. What is found later, or cannot be looked for, is redrawn when the request ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Protocol
from weakref import WeakValueDictionary

import structlog

from slack_gate.core.ports import Clock, Surface, Undelivered
from slack_gate.core.request import Request, State
from slack_gate.daemon import turns
from slack_gate.daemon.turns import Turns
from slack_gate.errors import StoreError
from slack_gate.store.cards import GIVEN_UP, UNKNOWN, Card, Cards

POST_S = 14.0  # a post that has not arrived by then is given up, and the agent is told
LAST_TRY_S = 1.0  # a try needs at least so long
QUEUED_S = 5.0  # for a post that had to wait its turn longer than POST_S
WATCH_S = 0.5
LEASE_S = 60.0  # a card is drawn by one daemon alone for so long; longer than any call takes
POLL_S = 15.0  # between looks for what another daemon left undrawn
BATCH = 50
SEEN = 1000  # messages that were clicked on and not looked up yet; of more, the oldest are forgotten
GATHER = 3  # as many new ones that have to wait their turn stand on one message
MOST = 20  # of them at most are tried for one message
AT_ONCE = 4  # posts to one approver, until the surface complains of too many
REDRAWS_AT_ONCE = 16
PACE_S = 1.0  # at most, between posts to one approver once it has complained
REDRAW_PACE_S = 1.2  # the same between redraws, which Slack counts over all channels: 50 a minute
PACED_S = 60.0
REDRAW_S = 7 * 24 * 3600.0  # buttons not gone by then stay; pressed, they say that it is too late
MAX_RETRY_S = 60.0
LATE_S = 30.0  # a post whose answer was lost has arrived by then, or never will
LOOK_AGAIN_S = 600.0  # where messages may not be looked for: until the right to has been given
AWAY_S = 1.0  # between tries while the database is away
RATELIMITED = "ratelimited"
ANY_REVISION = -1  # drawn, but nobody knows in which: it is drawn anew
REDRAWING = ""  # the lane of redraws; those of posts are named by their approver

log = structlog.get_logger()


class Desk(Protocol):
    """The gate, as the outbox needs it."""

    async def undeliverable(self, request: str, reason: str) -> None: ...


class Board(Surface, Protocol):
    """A surface whose messages can be found again."""

    async def complete(self, request: Request, channel: str, message: str) -> None:
        """Puts what a new message cannot hold below it, and then the buttons that approve; again if need be.

        Raises Undelivered.
        """
        ...

    def fitting(self, requests: Sequence[Request]) -> int:
        """How many of the first of these may stand on one message, each whole: 0 when the first needs its own."""
        ...

    async def post_all(self, requests: Sequence[Request], approver: str) -> tuple[str, str]:
        """Channel and id of a new message that asks for all of them. Raises Undelivered."""
        ...

    async def redraw_all(self, requests: Sequence[Request], channel: str, message: str) -> None:
        """As `redraw`, of a message that shows all of these."""
        ...

    async def find(self, request: Request, channel: str) -> dict[str, tuple[str, ...]] | None:
        """All messages in the channel that show the request, newest first, each with the ids of all requests that it
        shows; None when it lets nobody look.

        Raises Undelivered.
        """
        ...

    def remedy(self, error: str) -> str:
        """What a person can do about an error, empty when it passes by itself or nothing is known."""
        ...


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
        self._turns = Turns(turns.BURST, turns.EVERY_S)
        self._sharing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # messages of several requests
        self._cards = cards
        self._surface = surface
        self._down = down
        self._clock = clock
        self._elsewhere = elsewhere
        self._changed = asyncio.Event()
        self._drawing: set[int] = set()  # cards
        self._posting: set[int] = set()  # the first card of each message that is on its way
        self._lanes = _Lanes()
        self._placed: dict[int, tuple[str, str]] = {}  # cards that were posted, which could not be put on file yet
        self._refused: str | None = None
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
        if self._refused is None:
            return None
        return f"the last card could not be posted: {self._refused}. {self._surface.remedy(self._refused)}".rstrip(". ")

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
        blocked = [*self._lanes.all_closed(now), *self._turns.full(now)]
        due = await self._cards.due(now, BATCH, blocked, redraws)
        due = [card for card in due if card.id not in self._drawing]
        if joined := await self._join([card for card in due if _asks(card) and not card.unclear]):
            due = [card for card in due if card.id not in joined]
        chosen = [batch for batch in self._batches(due, now) if self._lanes.take(_lane(batch[0]), now)]
        won: set[int] = set()
        try:
            won = await self._cards.claim([card for batch in chosen for card in batch], now, now + LEASE_S)
        finally:
            for batch in chosen:
                if not won.intersection(card.id for card in batch):
                    self._lanes.leave(_lane(batch[0]))
        for batch in chosen:
            if ours := [card for card in batch if card.id in won]:
                self._drawing.update(card.id for card in ours)
                if _asks(ours[0]):
                    self._turns.take(ours[0].approver, now, ours[0].request.id if len(ours) == 1 else "")
                    self._posting.add(ours[0].id)
                group.create_task(self._draw(ours[0], desk) if len(ours) == 1 else self._draw_all(ours, desk))
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
        for card in due:
            if _asks(card):
                asking.setdefault(card.approver, []).append(card)
        for approver, cards in asking.items():
            free, left = self._turns.free(approver, now), list(cards)
            while free > 0 and left:
                number = 1
                if len(left) > free and len(left) >= GATHER:
                    clear = list(takewhile(lambda card: not card.unclear, left))
                    number = max(1, self._surface.fitting([card.request for card in clear[:MOST]])) if clear else 1
                yield left[:number]
                left, free = left[number:], free - 1
        yield from ([card] for card in due if not _asks(card))

    async def _rest(self) -> None:
        """Until something changed, or the next retry is due; what is due already is being drawn and will say so."""
        now = self._clock()
        next_due = await self._cards.next_due(now) or 0.0
        times = [time for time in (next_due, self._lanes.next(now), self._turns.next(now)) if now < time]
        try:
            async with asyncio.timeout(min(POLL_S, *(time - now for time in times)) if times else POLL_S):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _draw(self, card: Card, desk: Desk) -> None:
        try:
            await self._try(card, desk)
        except StoreError as error:
            log.error("a card's drawing cannot be recorded", request=card.request.id, error=str(error))
            await asyncio.sleep(AWAY_S)
            await self._release(card)
        finally:
            self._arrived(card)
            self._drawing.discard(card.id)
            self._lanes.leave(_lane(card))
            self.wake()

    async def _draw_all(self, cards: Sequence[Card], desk: Desk) -> None:
        """As `_draw`, for new cards that stand on one message."""
        try:
            await self._try_all(cards, desk)
        except StoreError as error:
            log.error("a message's drawing cannot be recorded", error=str(error))
            await asyncio.sleep(AWAY_S)
            for card in cards:
                await self._release(card)
        finally:
            self._arrived(cards[0])
            self._drawing.difference_update(card.id for card in cards)
            self._lanes.leave(_lane(cards[0]))
            self.wake()

    def _arrived(self, card: Card) -> None:
        """Its message is there, or never will be: once, whoever says it first."""
        if card.id in self._posting:
            self._posting.discard(card.id)
            self._turns.arrived(card.approver, self._clock())

    async def _try_all(self, cards: Sequence[Card], desk: Desk) -> None:
        oldest = cards[0].request
        try:
            if (why := self._down()) is not None:
                raise Undelivered(why, None)
            limit = self._limit(oldest)
            try:
                async with asyncio.timeout(limit):
                    place = await self._surface.post_all([card.request for card in cards], cards[0].approver)
            except TimeoutError:
                raise Undelivered(f"no answer in {limit:.0f} s", 0.0) from None
        except Undelivered as fault:
            unclear = fault.retry_after is not None and fault.error != RATELIMITED
            for card in cards:
                await self._failed(card, fault, desk, unclear)
            return
        except StoreError:
            raise
        except Exception as error:  # a fault of ours: these requests end, the others are still asked
            log.exception("a message could not be drawn")
            for card in cards:
                await self._failed(card, Undelivered(f"slack-gate failed ({type(error).__name__})", None), desk, True)
            return
        self._refused = None
        self._lanes.passed(cards[0].approver, self._clock())
        self._placed.update((card.id, place) for card in cards)
        await self._cards.listed(cards, *place)
        for card in cards:
            self._placed.pop(card.id, None)

    def _limit(self, request: Request) -> float:
        left = request.created_at + POST_S - self._clock()
        return left if left >= LAST_TRY_S else QUEUED_S

    async def _release(self, card: Card) -> None:
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

    async def _try(self, card: Card, desk: Desk) -> None:
        try:
            if _asks(card):
                await self._ask(card)
            else:
                await self._redraw(card)
        except Undelivered as fault:
            # Only a refusal says for sure that nothing was posted.
            there = isinstance(fault, _Incomplete)
            await self._failed(
                card, fault, desk, there or (fault.retry_after is not None and fault.error != RATELIMITED)
            )
        except StoreError:
            raise
        except Exception as error:  # a fault of ours: this request ends, the others are still asked
            log.exception("a card could not be drawn", request=card.request.id)
            await self._failed(card, Undelivered(f"slack-gate failed ({type(error).__name__})", None), desk, True)

    # Posting

    async def _ask(self, card: Card) -> None:
        """One message that asks the approver: a new one, or the one of an earlier try that arrived after all."""
        if (why := self._down()) is not None:
            raise Undelivered(why, None)
        limit = self._limit(card.request)
        channel = await self._channel(card) if card.unclear else ""
        try:
            async with asyncio.timeout(limit):
                found, revision = await self._find(card, channel), card.request.revision
                if not found and (placed := self._placed.get(card.id)):
                    channel, found, revision = placed[0], [placed[1]], ANY_REVISION
                if not found:
                    channel, message = await self._surface.post(card.request, card.approver)
                    self._arrived(card)  # what follows goes into its thread
                    self._placed[card.id] = channel, message
                await self._complete(card, channel, found[0] if found else message)
        except TimeoutError:
            raise Undelivered(f"no answer in {limit:.0f} s", 0.0) from None
        self._refused = None
        self._lanes.passed(card.approver, self._clock())
        if found:
            message, *others = found
            more = card.attempts > 1  # several tries may have arrived, one of them not yet
        else:
            others, more = [], card.unclear
        strays = [*others, *([UNKNOWN] if more else [])]
        await self._cards.posted(card.id, channel, message, strays, revision)
        self._placed.pop(card.id, None)

    async def _complete(self, card: Card, channel: str, message: str) -> None:
        try:
            await self._surface.complete(card.request, channel, message)
        except BaseException as fault:
            await self._cards.found(card.id, channel, (), False)  # where to look for it
            if isinstance(fault, Undelivered):
                raise _Incomplete(fault.error, fault.retry_after) from fault
            raise

    async def _find(self, card: Card, channel: str) -> list[str] | None:
        """Messages that show the card, newest first; None when that cannot be known."""
        found = await self._surface.find(card.request, channel) if channel else None
        if found:
            await self._cards.beside(card, channel, found)
        return None if found is None else list(found)

    async def _channel(self, card: Card) -> str:
        return card.channel or await self._cards.channel(card.approver)

    # Redrawing

    async def _redraw(self, card: Card) -> None:
        """Every message that shows the request, as it stands now."""
        strays, channel, again = list(card.strays), card.channel, None
        waits = card.request.state is State.PENDING
        self._placed.pop(card.id, None)
        if card.unclear and not waits:
            channel = await self._channel(card)
            found = await self._find(card, channel)
            again = self._look_again(card.request, found is not None)
            strays = sorted({*strays, *(found or ())} - {card.message})
            await self._cards.found(card.id, channel, strays, again is None)
        if not waits:
            self._turns.decided(card.request.id, self._clock())
        drawn = await self._draw_messages(card, channel, [one for one in (card.message, *strays) if one])
        self._lanes.passed(REDRAWING, self._clock())
        known = None if waits else strays
        await self._cards.drawn(card.id, drawn.state, self._clock(), known, again, drawn.revision)

    async def _draw_messages(self, card: Card, channel: str, messages: Sequence[str]) -> Request:
        """The request as it was drawn first; what stands on the same message is drawn with it."""
        drawn = [await self._draw_message(card, channel, message) for message in messages]
        return drawn[0] if drawn else card.request

    async def _draw_message(self, card: Card, channel: str, message: str) -> Request:
        stray = message != card.message
        if len(await self._cards.sharing(channel, message, stray)) < 2:
            await self._redraw_one([card.request], channel, message)
            return card.request
        lock = self._sharing.get(message) or asyncio.Lock()
        self._sharing[message] = lock
        async with lock:
            shared = await self._cards.sharing(channel, message, stray)
            while stray or not all(one.current for one in shared):
                await self._redraw_one([one.request for one in shared], channel, message)
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

    async def _redraw_one(self, requests: Sequence[Request], channel: str, message: str) -> None:
        try:
            if len(requests) == 1:
                await self._surface.redraw(requests[0], channel, message)
            else:
                await self._surface.redraw_all(requests, channel, message)
        except Undelivered as fault:
            if fault.retry_after is not None:
                raise
            log.info("a card is gone", request=requests[0].id, error=fault.error)

    # Failing

    async def _failed(self, card: Card, fault: Undelivered, desk: Desk, unclear: bool) -> None:
        posting = _asks(card)
        fix = self._surface.remedy(fault.error)
        log.warning(
            "a card could not be drawn", request=card.request.id, error=fault.error, **({"fix": fix} if fix else {})
        )
        now = self._clock()
        due = self._post_again(card, fault, now) if posting else self._redraw_again(card, fault, now)
        if fault.error == RATELIMITED:
            self._lanes.refused(_lane(card), now, min(now + (fault.retry_after or 0.0), now + MAX_RETRY_S))
        strays = [*card.strays, *([UNKNOWN] if card.unclear or (posting and unclear) else [])]
        await self._cards.failed(card.id, fault.error, due, strays if posting else None)
        if due < GIVEN_UP:
            asyncio.get_running_loop().call_later(due - now, self.wake)
        elif posting:
            self._refused = fault.error
            await self._hopeless(card, desk)
        else:
            log.error("buttons of a card could not be taken away", request=card.request.id, error=fault.error)
            await self._cards.drawn(card.id, card.request.state, now)

    async def _hopeless(self, card: Card, desk: Desk) -> None:
        error = await self._cards.hopeless(card.request.id)
        if error is not None and not self._elsewhere():
            await desk.undeliverable(card.request.id, f"{error}.")

    def _post_again(self, card: Card, fault: Undelivered, now: float) -> float:
        if fault.retry_after is None:
            return GIVEN_UP
        if fault.error == RATELIMITED:
            due, last = now + fault.retry_after, card.request.expires_at
        else:
            due, last = now + _backed_off(fault.retry_after, card.attempts), card.request.created_at + POST_S
        return due if due + LAST_TRY_S <= last else GIVEN_UP

    def _redraw_again(self, card: Card, fault: Undelivered, now: float) -> float:
        if now > card.request.expires_at + REDRAW_S:
            return GIVEN_UP
        wait = AWAY_S if fault.retry_after is None else fault.retry_after  # a token may be replaced, a scope given
        return now + (wait if fault.error == RATELIMITED else _backed_off(wait, card.attempts))

    async def _watch(self, desk: Desk) -> None:
        """While the link is dead, nobody's answer can arrive: whoever waits is told."""
        while True:
            await asyncio.sleep(WATCH_S)
            why = self._down()
            if why is None or self._elsewhere():
                continue
            try:
                for request in await self._cards.waiting():
                    await desk.undeliverable(request, f"{why}.")
            except StoreError as error:
                log.error("requests cannot be ended", error=str(error))


class _Incomplete(Undelivered):
    """The message is there, without all that belongs to it."""


def _asks(card: Card) -> bool:
    """Whether its approver has not been asked yet."""
    return card.request.state is State.PENDING and not card.message


def _lane(card: Card) -> str:
    return card.approver if _asks(card) else REDRAWING


def _backed_off(retry_after: float, attempts: int) -> float:
    return min(max(retry_after, 0.0) * (1 + attempts // 4), MAX_RETRY_S)


class _Lanes:
    """Turns to call the surface: a few at once in a lane, until it complains of too many; then one by one, slowly."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()
        self._open_at: dict[str, float] = {}
        self._pace: dict[str, float] = {}
        self._paced_until: dict[str, float] = {}

    def closed(self, lane: str, now: float) -> bool:
        most = 1 if self._paced(lane, now) else REDRAWS_AT_ONCE if lane == REDRAWING else AT_ONCE
        return now < self._open_at.get(lane, 0.0) or self._inside[lane] >= most

    def all_closed(self, now: float) -> list[str]:
        return [lane for lane in {*self._inside, *self._open_at} if self.closed(lane, now)]

    def take(self, lane: str, now: float) -> bool:
        """Whether a call may start now; it then has a turn until `leave`."""
        if self.closed(lane, now):
            return False
        self._inside[lane] += 1
        return True

    def leave(self, lane: str) -> None:
        self._inside[lane] -= 1

    def passed(self, lane: str, now: float) -> None:
        if self._paced(lane, now):
            self._open_at[lane] = max(self._open_at.get(lane, 0.0), now + self._pace[lane])

    def refused(self, lane: str, now: float, open_at: float) -> None:
        """Too many; a surface that wants a shorter wait than our pace has a quicker one."""
        self._open_at[lane] = open_at
        self._pace[lane] = min(REDRAW_PACE_S if lane == REDRAWING else PACE_S, open_at - now)
        self._paced_until[lane] = now + PACED_S

    def next(self, now: float) -> float:
        """When the next lane that had to wait opens."""
        return min((time for time in self._open_at.values() if time > now), default=0.0)

    def _paced(self, lane: str, now: float) -> bool:
        return now < self._paced_until.get(lane, 0.0)
