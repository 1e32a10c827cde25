"""What daemons on one database know of each other: who lives, who hears Slack, and what the dead have left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, func, literal, or_, select
from sqlalchemy.dialects.postgresql import insert

from slack_gate.core.request import Request, State
from slack_gate.store.cards import asked_on, error_on, given_up_on
from slack_gate.store.ends import end_all
from slack_gate.store.runs import lose
from slack_gate.store.store import Store
from slack_gate.store.tables import cards, heartbeats, requests, runs
from slack_gate.store.transaction import SERVERS_TIME, Transaction

GONE = "The daemon that asked for it is gone."


@dataclass(frozen=True, slots=True)
class Beat:
    """`now` is the database's time, seconds since the epoch; `alive` and `hearing` count the other daemons."""

    now: float
    alive: int
    hearing: int


class Heartbeats:
    """The row of one daemon: `home` is its name among all, `instance` this start of it."""

    def __init__(self, store: Store, home: str, instance: str) -> None:
        self._store = store
        self._home = home
        self._instance = instance
        self._beat_at = 0.0  # our newest beat, by the database's clock
        self._since = 0.0  # from when on we have beaten without a gap

    async def holder(self) -> tuple[str, float, float] | None:
        """Whose row it is now: instance, its last beat, and the database's time."""
        query = select(heartbeats.c.instance, heartbeats.c.beat_at, SERVERS_TIME).where(heartbeats.c.home == self._home)
        row = await self._store.database.run(lambda connection: connection.execute(query).first(), alone=True)
        return None if row is None else (row[0], row[1], row[2])

    async def taken(self) -> float:
        """The row is this start's from now on; the database's time."""
        return await self._store.database.run(lambda connection: self._written(connection, False, True)) or 0.0

    async def beat(self, hears: bool, fresh: float) -> Beat | None:
        """Says that this daemon lives. None when another start has taken its row. `fresh`: seconds a beat counts."""

        def work(connection: Connection) -> Beat | None:
            now = self._written(connection, hears, False)
            if now is None:
                return None
            if not 0 <= now - self._beat_at < fresh:
                self._since = now
            self._beat_at = now
            others = (heartbeats.c.home != self._home) & _is_within(fresh)
            count = select(func.count(), func.coalesce(func.sum(heartbeats.c.hears), 0)).where(others)
            alive, hearing = connection.execute(count).one()
            return Beat(now, alive, hearing)

        return await self._store.database.run(work)

    def _written(self, connection: Connection, hears: bool, take: bool) -> float | None:
        values = {"instance": self._instance, "beat_at": SERVERS_TIME, "hears": int(hears)}
        new = insert(heartbeats).values(home=self._home, **values)
        mine = None if take else heartbeats.c.instance == self._instance
        query = new.on_conflict_do_update(index_elements=["home"], set_=values, where=mine)
        return connection.execute(query.returning(heartbeats.c.beat_at)).scalar()

    async def buried(self, dead: float, fresh: float, now: float) -> list[Request]:
        """Ends what waits or runs in daemons that have not been heard of for `dead` seconds. Whoever is first does it;
        conditional UPDATEs let nothing be ended twice.

        Only who was there to hear them may say so: where the database or all of us were away, or its clock was set,
        everybody's last beat is old, and each comes back in its own time.
        """
        we_are_there = exists().where(heartbeats.c.home == self._home, _is_within(fresh))

        def work(tx: Transaction) -> list[Request]:
            if self._beat_at - self._since < dead:  # as of now: a beat may have come in between
                return []
            ended = end_all(tx, and_(we_are_there, _not_alive(requests.c.home, dead)), State.CANCELLED, "gate", GONE)
            return ended + lose(tx, and_(we_are_there, _not_alive(runs.c.home, dead)))

        open_rows = or_(
            exists().where(requests.c.state == State.PENDING, _not_alive(requests.c.home, dead)),
            exists().where(runs.c.ended_at.is_(None), _not_alive(runs.c.home, dead)),
        )
        query = select(open_rows)
        if not await self._store.database.run(lambda connection: connection.execute(query).scalar(), alone=True):
            return []
        return await self._store.transact(work, now)

    async def unasked(self, surface: str, within: float, anyone: bool) -> list[tuple[str, str]]:
        """This daemon's waiting requests that no person can see: id, and the surface's error where there is one.

        Their cards were given up, or not posted `within` seconds; with `anyone` False (nobody hears the surface): all.
        """
        mine = (requests.c.home == self._home) & (requests.c.state == State.PENDING)
        asked = exists().where(asked_on(surface))
        posted = exists().where(asked_on(surface), cards.c.message != "")
        late: ColumnElement[bool] = requests.c.created_at < SERVERS_TIME - within
        unseen = or_(given_up_on(surface), and_(late, ~posted)) if anyone else literal(True)
        query: Any = select(requests.c.id, error_on(surface)).where(mine, asked, unseen)
        rows = await self._store.database.run(lambda connection: connection.execute(query).all(), alone=True)
        return [(row[0], row[1]) for row in rows]


def _not_alive(home: ColumnElement[str], dead: float) -> ColumnElement[bool]:
    return home.not_in(select(heartbeats.c.home).where(_is_within(dead)))


def _is_within(seconds: float) -> ColumnElement[bool]:
    """Whether its last beat is no older; one of the time to come is from before the server's clock was set back."""
    return func.abs(heartbeats.c.beat_at - SERVERS_TIME) < seconds
