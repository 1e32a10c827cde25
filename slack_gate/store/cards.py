"""What each approver has been shown, and what is still to be shown: the outbox's rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    ScalarSelect,
    Select,
    and_,
    case,
    exists,
    false,
    func,
    or_,
    select,
    tuple_,
    update,
)

from slack_gate.core.request import Request, State
from slack_gate.store.database import Database
from slack_gate.store.rows import as_request
from slack_gate.store.tables import cards, requests

GIVEN_UP = 1e18  # a `due_at` that never comes
SETTLED_S = 60.0  # what was approved begins to run by then, or never
_LAST = 1 << 40  # turns: behind all that ask
UNKNOWN = "?"  # among strays: a post that may have arrived, its ts not on file


@dataclass(frozen=True, slots=True)
class Card:
    """One approver's copy of a request.

    `message` is empty until a post was accepted. `strays` are other messages of the channel that may show this card
    too; `unclear`: there may be one more, from a post whose answer never came.
    """

    id: int
    approver: str
    channel: str
    message: str
    attempts: int
    request: Request
    strays: tuple[str, ...] = ()
    unclear: bool = False
    drawn: str = ""
    revision: int = 0  # of the request, as drawn
    error: str = ""  # of the last try, until one succeeds

    @property
    def unshown(self) -> bool:
        """It was put onto a message that does not show it yet: its approver has not been asked."""
        return self.request.state is State.PENDING and bool(self.message) and not self.drawn

    @property
    def messages(self) -> set[tuple[str, str]]:
        """Channel and ts of all on file that may show it."""
        return {(self.channel, message) for message in (self.message, *self.strays) if message}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A card's messages show it in this state and revision now, or are gone.

    `strays` are those that do beside its own one (None: all); one that became known meanwhile is drawn next. `again`:
    when the channel is to be looked through once more.
    """

    card: int
    state: State
    revision: int = 0
    strays: Collection[str] | None = None
    again: float | None = None


class Cards:
    """Rows of one surface (`slack`). `home` is this daemon: what it draws is leased to it, and its agents' requests are
    ended when nobody can be asked."""

    def __init__(self, database: Database, surface: str, home: str) -> None:
        self._database = database
        self._surface = surface
        self._home = home

    async def due(
        self, now: float, limit: int = 100, blocked: Collection[str] = (), redraws: bool = True
    ) -> list[Card]:
        """Cards to post but those of `blocked` approvers, the first of each session before the second of any, oldest
        first; then, with `redraws`, the others whose message nobody draws now."""
        own = (cards.c.approver, requests.c.agent, requests.c.session)
        turn = func.row_number().over(partition_by=(_post, *own), order_by=(requests.c.created_at, cards.c.id))
        query = (
            _joined()
            .where(cards.c.surface == self._surface, _due_at <= now, *_stale(now))
            .where(or_(_post & cards.c.approver.not_in(blocked), ~_post & ~_drawn_now(now) if redraws else false()))
            .order_by(case((_post, turn), else_=_LAST), requests.c.created_at, cards.c.id)
            .limit(limit)
        )
        rows = await self._database.run(lambda connection: connection.execute(query).all())
        return [_as_card(row) for row in rows]

    async def sharing(self, channel: str, message: str) -> list[Card]:
        """All cards that this message shows, oldest request first, also those whose own message is another."""
        query = (
            _joined()
            .where(cards.c.surface == self._surface, cards.c.channel == channel, _on([message]))
            .order_by(requests.c.created_at, cards.c.id)
        )
        rows = await self._database.run(lambda connection: connection.execute(query).all())
        return [card for card in map(_as_card, rows) if (channel, message) in card.messages]

    async def twins(self, wanted: Sequence[Card]) -> dict[int, tuple[str, str]]:
        """By card, channel and message where the same approver is asked the very same in the same session already."""
        keys = {
            card.id: (card.approver, card.request.agent, card.request.session, card.request.form) for card in wanted
        }
        asked = cards.c.approver, requests.c.agent, requests.c.session, requests.c.form
        query = (
            select(*asked, cards.c.channel, cards.c.message)
            .join(requests, cards.c.request == requests.c.id)
            .where(cards.c.surface == self._surface, requests.c.state == State.PENDING, cards.c.message != "")
            .where(requests.c.form != "", tuple_(*asked).in_(set(keys.values())))
        )
        rows = await self._database.run(lambda connection: connection.execute(query).all())
        found = {tuple(row[:4]): (row.channel, row.message) for row in rows}
        return {card: found[key] for card, key in keys.items() if key in found}

    async def joined(self, card: int, channel: str, message: str) -> None:
        """It is to stand on this message, with those that are there: that is drawn next."""
        query = update(cards).where(cards.c.id == card, cards.c.message == "", cards.c.strays == "")
        await self._database.run(
            lambda connection: connection.execute(query.values(channel=channel, message=message, drawn="", due_at=0.0))
        )

    async def apart(self, card: int, error: str, now: float) -> None:
        """The message that it was `joined` to could not be drawn, or nobody knows: it is asked on its own, once."""
        query = update(cards).where(cards.c.id == card, cards.c.message != "", cards.c.drawn == "")
        strays = func.trim(cards.c.strays + " " + cards.c.message)
        await self._database.run(
            lambda connection: connection.execute(
                query.values(message="", strays=strays, error=error, due_at=now, **_RELEASED)
            )
        )

    async def claim(self, batches: Sequence[Sequence[Card]], now: float, until: float) -> set[int]:
        """Ids of the cards that are now ours alone to draw until then, and with them every message that shows one: two
        drawings of one message could arrive in the wrong order. Others may have been quicker.

        What another daemon drew since `batches` were read does not count as due. A card about to be posted is unclear
        from here on: after a kill, nobody knows whether it arrived.
        """

        def work(connection: Connection) -> set[int]:
            wanted = [set().union(*(card.messages for card in batch)) for batch in batches]
            taken = self._leased(connection, set().union(*wanted), now)
            as_read = []
            for batch, messages in zip(batches, wanted, strict=True):
                if not messages & taken:
                    taken |= messages
                    as_read += [(card.id, card.message, card.attempts) for card in batch]
            query = (
                update(cards)
                .where(cards.c.id.in_([id for id, *_ in as_read]))
                .where(tuple_(cards.c.id, cards.c.message, cards.c.attempts).in_(as_read))
                .where(or_(cards.c.due_at <= now, cards.c.due_at >= GIVEN_UP))
                .values(
                    due_at=until,
                    drawer=self._home,
                    strays=case((cards.c.message == "", _with_unknown()), else_=cards.c.strays),
                )
                .returning(cards.c.id)
            )
            return set(connection.execute(query).scalars().all())

        return await self._database.run(work)

    def _leased(
        self, connection: Connection, messages: Collection[tuple[str, str]], now: float
    ) -> set[tuple[str, str]]:
        """Messages that somebody draws now. Until the transaction ends, nobody begins with any of these."""
        if not messages:
            return set()
        query = (
            select(cards.c.channel, cards.c.message, cards.c.strays, _held(cards, now).label("held"))
            .where(cards.c.surface == self._surface, _on(sorted({message for _, message in messages})))
            .order_by(cards.c.id)
            .with_for_update()
        )
        held = [row for row in connection.execute(query).all() if row.held]
        return {(row.channel, message) for row in held for message in (row.message, *row.strays.split())}

    async def resumed(self, now: float) -> None:
        """After a start: what this daemon was drawing when it stopped is due again, and whatever shows this home's
        requests as they no longer are, however long ago it was drawn."""
        renewed = and_(requests.c.state == State.PENDING, cards.c.revision != requests.c.revision)
        behind = exists().where(
            requests.c.id == cards.c.request,
            requests.c.home == self._home,
            or_(cards.c.drawn != requests.c.state, renewed),
        )
        which = or_(cards.c.drawer == self._home, and_(cards.c.drawer == "", behind))
        query = update(cards).where(cards.c.due_at < GIVEN_UP, which).values(due_at=now, **_RELEASED)
        await self._database.run(lambda connection: connection.execute(query))

    async def next_due(self, now: float = 0.0) -> float | None:
        """When the next retry is due (seconds since the epoch), None when nothing is left to draw."""
        query = (
            select(func.min(_due_at))
            .join(requests, cards.c.request == requests.c.id)
            .where(cards.c.surface == self._surface, _due_at < GIVEN_UP, *_stale(now))
        )
        return await self._database.run(lambda connection: connection.execute(query).scalar())

    async def posted(
        self, card: int, channel: str, message: str, strays: Sequence[str] = (), revision: int = 0
    ) -> None:
        """The surface accepted the post; it shows the request as pending, in this revision. What a click, or another
        daemon that came to post it, has put on file meanwhile is kept."""

        await self._database.run(lambda connection: _put(connection, card, channel, message, strays, revision))

    async def listed(self, shown: Sequence[Card], channel: str, message: str) -> None:
        """As `posted`, of one message for all of these; after a kill all of them are on file, or none."""

        def work(connection: Connection) -> None:
            for card in sorted(shown, key=lambda card: card.id):
                _put(connection, card.id, channel, message, (), card.request.revision)

        await self._database.run(work)

    async def beside(self, card: Card, channel: str, found: Mapping[str, Collection[str]]) -> None:
        """Messages that show this card, newest first, show these requests: the other ones' cards get to know of it, so
        that nobody draws this one without them."""
        there = {request for requests in found.values() for request in requests} - {card.request.id}

        def work(connection: Connection) -> None:
            mine = and_(cards.c.surface == self._surface, cards.c.approver == card.approver)
            query = select(cards).where(mine, cards.c.request.in_(there)).order_by(cards.c.id).with_for_update()
            for row in connection.execute(query).all():
                ours = [message for message, requests in found.items() if row.request in requests]
                strays = dict.fromkeys([*row.strays.split(), *ours])
                values: dict[str, object] = {}
                if not row.message:  # it was posted, which nobody could put on file
                    values = {"channel": channel, "message": ours[0], "drawn": State.PENDING.value}
                new = [stray for stray in strays if stray != values.get("message", row.message)]
                values["strays"] = " ".join(new)
                connection.execute(update(cards).where(cards.c.id == row.id).values(**values))

        if there:
            await self._database.run(work)

    async def seen(self, request: str, approver: str, channel: str, message: str) -> None:
        """A message shows the card; one that is not on file yet becomes a stray, and is redrawn with the others."""
        which = and_(cards.c.request == request, cards.c.approver == approver, cards.c.surface == self._surface)

        def work(connection: Connection) -> None:
            row = connection.execute(select(cards).where(which).with_for_update()).one_or_none()
            if row is None or not message or row.message == message or row.channel not in ("", channel):
                return
            known = row.strays.split()
            if not row.message and UNKNOWN not in known:  # nothing was posted
                return
            if message not in known:
                # Without a message on file, this is its own one: still being posted, or never put on file.
                values = {"strays": " ".join([*known, message]), "channel": channel}
                connection.execute(update(cards).where(cards.c.id == row.id).values(**values))
                state = select(requests.c.state).where(requests.c.id == request).scalar_subquery()
                ended = update(cards).where(cards.c.id == row.id, state != State.PENDING.value)
                connection.execute(
                    ended.values(drawn="", due_at=case((cards.c.drawer == "", 0.0), else_=cards.c.due_at))
                )

        await self._database.run(work)

    async def found(self, card: int, channel: str, strays: Sequence[str], settled: bool) -> None:
        """Messages that show the card beside its own one; `settled`: no other one can come any more."""

        def work(connection: Connection) -> None:
            this = cards.c.id == card
            known = connection.execute(select(cards.c.strays).where(this).with_for_update()).scalar() or ""
            every = sorted({*known.split(), *strays} - ({UNKNOWN} if settled else set()))
            connection.execute(update(cards).where(this).values(channel=channel, strays=" ".join(every)))

        await self._database.run(work)

    async def drawn(self, drawings: Sequence[Drawing], now: float, beside: Sequence[Drawing] = ()) -> None:
        """Their message was drawn, and those `beside` with it, which were not claimed; after the lease's end all are
        drawn anew."""
        of = {drawing.card: drawing for drawing in (*beside, *drawings)}
        claimed = {drawing.card for drawing in drawings}

        def work(connection: Connection) -> None:
            rows = connection.execute(_locked(of)).all()
            alone = all(self._leases(row, now) for row in rows if row.id in claimed)
            for row in rows:
                drawing = of[row.id]
                if not alone:
                    shown = {"due_at": now, **_UNSURE}
                elif drawing.strays is not None and not {*row.strays.split()} <= {*drawing.strays, UNKNOWN}:
                    shown = {"due_at": now}
                elif drawing.again is not None:
                    shown = {"due_at": drawing.again}
                else:
                    shown = {"due_at": now, "drawn": drawing.state.value, "revision": drawing.revision}
                fresh = {**_FRESH}
                if drawing.state is State.PENDING:
                    fresh.pop("error")  # the lost try may still be performed after the drawing of its end
                connection.execute(update(cards).where(cards.c.id == row.id).values(**shown, **fresh))

        await self._database.run(work)

    def _leases(self, row: Row[*tuple[Any, ...]], now: float) -> bool:
        """Whether nobody but this daemon can have begun to draw the card's message since it was claimed."""
        return bool(row.drawer == self._home and row.due_at > now)

    async def failed(
        self, card: int, error: str, now: float, due_at: float, strays: Sequence[str] | None = None
    ) -> None:
        """The surface refused or was away; `due_at` is GIVEN_UP when posting again cannot help. `strays`: as known when
        it was claimed; what a click has told since is kept."""

        def work(connection: Connection) -> None:
            values: dict[str, Any] = {"error": error, "attempts": cards.c.attempts + 1, "due_at": due_at, **_RELEASED}
            row = connection.execute(_locked([card])).one()
            if not self._leases(row, now):
                values |= _UNSURE
            if strays is not None:
                values["strays"] = " ".join(dict.fromkeys([*_beside(row), *strays]))
            connection.execute(update(cards).where(cards.c.id == card).values(**values))

        await self._database.run(work)

    async def released(self, card: int, now: float) -> None:
        """What became of our drawing could not be recorded: it is due again."""
        query = update(cards).where(cards.c.id == card, cards.c.due_at < GIVEN_UP).values(due_at=now, **_RELEASED)
        await self._database.run(lambda connection: connection.execute(query))

    async def untaken(self) -> dict[str, str]:
        """Pending requests of this home that no approver was or can be asked about, and the surface's error."""
        query = select(requests.c.id, error_on(self._surface)).where(
            requests.c.home == self._home, requests.c.state == State.PENDING, given_up_on(self._surface)
        )
        rows = await self._database.run(lambda connection: connection.execute(query).all())
        return {row[0]: row[1] for row in rows}

    async def waiting(self) -> list[str]:
        """Pending requests of this home that approvers are asked about on this surface."""
        query = (
            select(requests.c.id)
            .join(cards, cards.c.request == requests.c.id)
            .where(requests.c.home == self._home, requests.c.state == State.PENDING, cards.c.surface == self._surface)
            .distinct()
        )
        return list(await self._database.run(lambda connection: connection.execute(query).scalars().all()))

    async def channel(self, approver: str) -> str:
        """Where this approver was last posted to, empty when never."""
        query = (
            select(cards.c.channel)
            .where(cards.c.surface == self._surface, cards.c.approver == approver, cards.c.channel != "")
            .order_by(cards.c.id.desc())
            .limit(1)
        )
        return await self._database.run(lambda connection: connection.execute(query).scalar()) or ""


_RELEASED: dict[str, Any] = {"drawer": ""}
_FRESH: dict[str, Any] = {"error": "", "attempts": 0, **_RELEASED}
# Another daemon's drawing may have come before ours or after it: what was posted is drawn once more.
_UNSURE: dict[str, Any] = {"drawn": case((cards.c.drawn == "", ""), else_=State.PENDING.value), "revision": -1}


def asked_on(surface: str) -> ColumnElement[bool]:
    """A card of the request there."""
    return and_(cards.c.request == requests.c.id, cards.c.surface == surface)


def given_up_on(surface: str) -> ColumnElement[bool]:
    """Whether no approver was or can be asked about the request there, though it was to be."""
    open_card = exists().where(asked_on(surface), or_(cards.c.message != "", cards.c.due_at < GIVEN_UP))
    return and_(exists().where(asked_on(surface)), ~open_card)


def error_on(surface: str) -> ScalarSelect[Any]:
    """The surface's error for the request, empty where there is none."""
    return select(func.max(cards.c.error)).where(asked_on(surface)).scalar_subquery()


def _put(connection: Connection, card: int, channel: str, message: str, strays: Sequence[str], revision: int) -> None:
    """The card stands on this message now, and what was on file before are its copies."""
    row = connection.execute(_locked([card])).one()
    every = " ".join(dict.fromkeys([*_beside(row, message), *strays]))
    values = {"strays": every, "revision": revision, **_shown(channel, message)}
    connection.execute(update(cards).where(cards.c.id == card).values(**values))


def _shown(channel: str, message: str) -> dict[str, Any]:
    return {"channel": channel, "message": message, "drawn": State.PENDING.value, "due_at": 0.0, **_FRESH}


_post = and_(requests.c.state == State.PENDING, cards.c.message == "")
# Given up is the post: once the request has ended, a message that arrived after all is still to be redrawn.
_due_at: ColumnElement[float] = case((and_(~_post, cards.c.due_at >= GIVEN_UP), 0.0), else_=cards.c.due_at)


def _held(table: FromClause, now: float) -> ColumnElement[bool]:
    """Whether somebody draws this card now: until its `due_at`, when it is anybody's again."""
    return and_(table.c.drawer != "", table.c.due_at > now, table.c.due_at < GIVEN_UP)


def _drawn_now(now: float) -> ColumnElement[bool]:
    """Whether somebody draws the card's message now, for this card or for another one that stands on it."""
    other = cards.alias()
    same = and_(other.c.message == cards.c.message, other.c.message != "", other.c.channel == cards.c.channel)
    return exists().where(same, _held(other, now))


def _beside(row: Row[*tuple[Any, ...]], message: str = "") -> list[str]:
    """Messages on file that may show the card, but this one."""
    strays = [row.message, *row.strays.split()] if message else row.strays.split()
    return [stray for stray in strays if stray not in ("", UNKNOWN, message)]


def _on(messages: Sequence[str]) -> ColumnElement[bool]:
    """Cards whose own message is one of these; with them more than those that have one among their strays.

    Two ways to the rows, an index each; an OR of them would read every card that there ever was.
    """
    here = cards.alias()
    own = select(here.c.id).where(here.c.message != "", here.c.message.in_(messages))
    stray = or_(*(here.c.strays.contains(message, autoescape=True) for message in messages))
    return cards.c.id.in_(own.union_all(select(here.c.id).where(here.c.strays != "", stray)))


def _joined() -> Select[Any]:
    return select(requests, *(column.label(f"card_{column.name}") for column in cards.columns)).join(
        requests, cards.c.request == requests.c.id
    )


def _stale(now: float) -> tuple[ColumnElement[bool], ...]:
    """Cards that show another state than their row, or an earlier revision of one that waits or was taken back. Most
    rows have ended for good and must cost nothing here."""
    unfinished = cards.c.drawn.in_(("", State.PENDING.value, State.RUNNING.value))
    may_run = and_(cards.c.drawn == State.APPROVED.value, cards.c.due_at > now - SETTLED_S)
    changes = or_(requests.c.state == State.PENDING, requests.c.lifted_at.is_not(None))
    changed = and_(changes, cards.c.revision != requests.c.revision)
    return or_(unfinished, may_run), or_(cards.c.drawn != requests.c.state, changed)


def _locked(ids: Collection[int]) -> Select[Any]:
    """These cards; nobody changes them until the transaction ends."""
    return select(cards).where(cards.c.id.in_(ids)).order_by(cards.c.id).with_for_update()


def _with_unknown() -> ColumnElement[str]:
    marked = func.trim(cards.c.strays + f" {UNKNOWN}")
    return case((cards.c.strays.contains(UNKNOWN, autoescape=True), cards.c.strays), else_=marked)


def _as_card(row: Row[*tuple[Any, ...]]) -> Card:
    strays = row.card_strays.split()
    return Card(
        id=row.card_id,
        approver=row.card_approver,
        channel=row.card_channel,
        message=row.card_message,
        attempts=row.card_attempts,
        request=as_request(row),
        strays=tuple(stray for stray in strays if stray != UNKNOWN),
        unclear=UNKNOWN in strays,
        drawn=row.card_drawn,
        revision=row.card_revision,
        error=row.card_error,
    )
