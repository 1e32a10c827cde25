"""What is asked: filed once a call, with its cards; and what is on file of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, bindparam, func, insert, select, update

from slack_gate.core.ports import Entry
from slack_gate.core.request import Request, State
from slack_gate.errors import StoreError
from slack_gate.store.ledger import Ledger
from slack_gate.store.log import Line
from slack_gate.store.rows import as_request, columns_of, entry_of
from slack_gate.store.tables import cards, log, requests
from slack_gate.store.transaction import Transaction

# Building these costs more than running them.
_BY_ID = select(requests).where(requests.c.id == bindparam("id"))
_own_line = (log.c.chain == bindparam("chain")) & (log.c.seq > bindparam("written"))
_WITH_LINES = (
    select(requests, log.c.seq, log.c.line, log.c.hash)
    .outerjoin(log, _own_line)
    .where(requests.c.id == bindparam("id"))
    .order_by(log.c.seq)
    .limit(bindparam("most"))
)
_FEW = 16  # lines that are read beside a row, which comes with each of them; of more, all are read by themselves
LOOK_BACK_PAGE = 100  # requests read at once; each may hold a megabyte


class Questions(Ledger):
    """Requests, from the moment they are filed; who ends them is said elsewhere."""

    async def submitted(
        self, request: Request, approvers: Sequence[str], surface: str, escalate: float = 0.0
    ) -> Request:
        """Files a new pending request with a card for each approver, each `escalate` seconds after the one before.

        The same call again gets the row on file; what was denied before in its session gets that denial.
        """

        def work(tx: Transaction) -> Request:
            if (row := tx.one(requests, same_call(request))) is not None:
                return as_request(row)
            if (row := tx.one(requests, denied_before(request.agent, request.session, request.form))) is not None:
                return as_request(row)
            tx.connection.execute(insert(requests).values(**columns_of(request), chain=tx.chain))
            for number, approver in enumerate(approvers):
                due_at = request.created_at + number * escalate if escalate else 0.0
                card = {"request": request.id, "surface": surface, "approver": approver, "due_at": due_at}
                tx.connection.execute(insert(cards).values(**card))
            tx.log(entry_of(request, "gate", tx.now))
            return request

        return await self.transact(work)

    async def renewed(self, request: str, now: float) -> Request | None:
        """What a waiting card shows beside the request has changed: it is to be drawn anew, and whoever approved it so
        far approved something else. None once it has ended."""

        def work(tx: Transaction) -> Request | None:
            row = tx.one(requests, (requests.c.id == request) & (requests.c.state == State.PENDING))
            if row is None or now >= row.expires_at:
                return None
            known = as_request(row)
            entry = replace(entry_of(known, "gate", tx.now), decision="renewed") if known.votes else None
            return changed(tx, known, entry, votes="[]")

        return await self.transact(work, now)

    async def request(self, request: str) -> Request | None:
        row = await self.read(lambda c: c.execute(_BY_ID, {"id": request}).first())
        return None if row is None else as_request(row)

    async def settled(self, request: str) -> Request | None:
        """The row as it stands; what this home's log says of it is in the file."""

        def work(connection: Connection) -> tuple[Transaction, Request | None]:
            tx, known = self._looking(connection)
            found = {"id": request, "chain": self._chain, "written": self._written, "most": _FEW if known else 1}
            rows = connection.execute(_WITH_LINES, found).all()
            if known:
                tx.lines = [Line(row.seq, row.line, row.hash) for row in rows if row.seq is not None]
                tx.wants_all = len(tx.lines) == _FEW
            return tx, as_request(rows[0]) if rows else None

        tx, row = await self.database.run(work, self._write_out, alone=True)
        if tx.fault is not None:
            raise tx.fault
        return row

    async def requests(self, limit: int) -> list[Request]:
        """The newest requests, newest first."""
        query = select(requests).order_by(requests.c.created_at.desc()).limit(limit)
        return [as_request(row) for row in await self.read(lambda c: c.execute(query).all())]

    async def pending(self, home: str) -> list[Request]:
        """The requests that agents of this daemon wait for."""
        query = select(requests).where(requests.c.home == home, requests.c.state == State.PENDING)
        return [as_request(row) for row in await self.read(lambda c: c.execute(query).all())]

    async def waiting(self, home: str) -> set[str]:
        """Ids of the same."""
        query = select(requests.c.id).where(requests.c.home == home, requests.c.state == State.PENDING)
        return set(await self.read(lambda c: c.execute(query).scalars().all()))

    async def left(self, home: str) -> list[str]:
        """Ids of requests that wait under another name of this daemon, in a database that it has for itself."""
        if self.database.shared:
            return []
        query = select(requests.c.id).where(requests.c.home != home, requests.c.state == State.PENDING)
        return list(await self.read(lambda c: c.execute(query).scalars().all()))

    async def since(self, tool: str, start: float, skip: int = 0, denied: bool = False) -> list[Request]:
        """A page of what was asked with this tool since `start`, newest first; with `denied` of what was denied."""
        query = (
            select(requests)
            .where(requests.c.tool == tool, requests.c.created_at >= start)
            .order_by(requests.c.created_at.desc(), requests.c.id)
            .offset(skip)
            .limit(LOOK_BACK_PAGE)
        )
        if denied:
            query = query.where(requests.c.state == State.DENIED)
        return [as_request(row) for row in await self.read(lambda c: c.execute(query).all())]

    async def denied(self, agent: str, session: str, form: str) -> Request | None:
        """The denial in this session of what has this form (`core/request.py`), unless it was taken back."""
        query = select(requests).where(denied_before(agent, session, form))
        row = await self.read(lambda c: c.execute(query).first())
        return None if row is None else as_request(row)

    async def session(self, agent: str, session: str, start: float) -> list[Request]:
        """What a person decided in this session since `start`, newest first; only the last few."""
        query = (
            select(requests)
            .where(requests.c.agent == agent, requests.c.session == session, requests.c.decided_at >= start)
            .where(requests.c.state.in_([State.APPROVED, State.DENIED]))
            .order_by(requests.c.decided_at.desc())
            .limit(20)
        )
        return [as_request(row) for row in await self.read(lambda c: c.execute(query).all())]

    async def ended(self, home: str, limit: int) -> list[Request]:
        """This daemon's newest requests that do not wait any more, newest first."""
        query = select(requests).where(requests.c.home == home, requests.c.state != State.PENDING)
        query = query.order_by(requests.c.created_at.desc()).limit(limit)
        return [as_request(row) for row in await self.read(lambda c: c.execute(query).all())]

    async def counted(self, home: str) -> dict[str, int]:
        """How many requests of this daemon are in each state."""
        query = select(requests.c.state, func.count()).where(requests.c.home == home).group_by(requests.c.state)
        found = await self.read(lambda c: c.execute(query).all())
        return {state.value: 0 for state in State} | {state: count for state, count in found}


def same_call(request: Request) -> ColumnElement[bool]:
    return (
        (requests.c.agent == request.agent) & (requests.c.session == request.session) & (requests.c.key == request.key)
    )


def denied_before(agent: str, session: str, form: str) -> ColumnElement[bool]:
    """The latest denial in this session of exactly what is asked now, unless it was taken back."""
    same = (requests.c.agent == agent) & (requests.c.session == session)
    denied = (requests.c.state == State.DENIED) & requests.c.lifted_at.is_(None)
    return same & (requests.c.form == form) & denied & (requests.c.form != "")


def changed(tx: Transaction, request: Request, entry: Entry | None, **values: object) -> Request:
    """A request that still waits, and whose card is to be drawn anew; `entry` is its line in the log, if it gets one.
    Nobody else changed it meanwhile."""
    same = (requests.c.id == request.id) & (requests.c.revision == request.revision)
    query = (
        update(requests)
        .where(same & (requests.c.state == State.PENDING) & (requests.c.expires_at > tx.time))
        .values(revision=requests.c.revision + 1, **values)
        .returning(requests)
    )
    row = tx.connection.execute(query).first() if entry is None else tx.changed(query, {}, entry, request.chain)
    if row is None:
        raise StoreError(f"The request {request.id} was changed by someone else at the same moment.", "Press again.")
    return as_request(row)
