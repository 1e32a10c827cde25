"""Notes in threads: what is to be said now, each claimed before it is said, so that nothing is said twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select

from slack_gate.core import notes as names
from slack_gate.core.notes import AHEAD_S, ENDED, STARTED, Note, reminder
from slack_gate.core.request import State
from slack_gate.core.run import Carried
from slack_gate.store.database import Database
from slack_gate.store.rows import as_request
from slack_gate.store.tables import cards, notes, requests, runs

LOST_S = 120.0  # what ended so long before a start is still told


class Notes:
    """Of one surface's cards (`slack`), for the requests of one daemon's agents."""

    def __init__(self, database: Database, surface: str, home: str) -> None:
        self._database = database
        self._surface = surface
        self._home = home

    async def open_runs(self) -> set[str]:
        """Requests that are being carried out."""
        query = select(runs.c.request).where(runs.c.home == self._home, runs.c.ended_at.is_(None))
        return set(await self._database.run(lambda connection: connection.execute(query).scalars().all(), alone=True))

    async def ended_since(self, start: float) -> set[str]:
        """Requests whose run ended since then. Reads all runs: for the start."""
        query = select(runs.c.request).where(runs.c.home == self._home, runs.c.ended_at >= start)
        return set(await self._database.run(lambda connection: connection.execute(query).scalars().all(), alone=True))

    async def reminders(self, now: float) -> list[Note]:
        """Reminders that are due and were not given; if any, with those that will be due in a moment."""
        waits = (requests.c.home == self._home) & (requests.c.state == State.PENDING)
        found = await self._found(waits & (requests.c.expires_at > now))
        waiting = [(row, as_request(row)) for row in found]
        due = await self._unsaid([_note(name, row) for row, one in waiting if (name := reminder(one, now))])
        if due:
            soon = [_note(name, row) for row, one in waiting if (name := reminder(one, now, AHEAD_S))]
            names_due = {(note.approver, note.name) for note in due}
            due = [note for note in await self._unsaid(soon) if (note.approver, note.name) in names_due]
        return due

    async def of_runs(self, wanted: Collection[str]) -> list[Note]:
        """What was not said yet about the runs of these requests."""
        found = await self._found(requests.c.id.in_(wanted)) if wanted else []
        started = [row for row in found if row.started_at is not None]
        due = [_note(STARTED, row) for row in started if row.state != State.NOT_RUN]
        due += [_note(ENDED, row) for row in found if row.ended_at is not None]
        return await self._unsaid(due)

    async def claim(self, note: Note, now: float) -> bool:
        """The right to say it, given once. Only the daemon whose agent asked says anything, so there is no race."""
        this = (notes.c.card == note.card) & (notes.c.name == note.name)

        def work(connection: Connection) -> bool:
            if connection.execute(select(notes.c.card).where(this)).first() is not None:
                return False
            connection.execute(insert(notes).values(card=note.card, name=note.name, said_at=now))
            return True

        return await self._database.run(work)

    async def unsaid(self, note: Note) -> None:
        """It is sure that it was not said."""
        this = (notes.c.card == note.card) & (notes.c.name == note.name)
        await self._database.run(lambda connection: connection.execute(delete(notes).where(this)))

    async def _found(self, which: ColumnElement[bool]) -> Sequence[Row[*tuple[Any, ...]]]:
        columns = (cards.c.id.label("card_id"), cards.c.approver, cards.c.channel, cards.c.message)
        query = (
            select(requests, *columns, *(column.label(name) for name, column in _RUN.items()))
            .join(cards, cards.c.request == requests.c.id)
            .outerjoin(runs, runs.c.request == requests.c.id)
            .where(which, cards.c.surface == self._surface, cards.c.message != "")
            .order_by(requests.c.created_at, cards.c.id)
        )
        return await self._database.run(lambda connection: connection.execute(query).all(), alone=True)

    async def _unsaid(self, due: list[Note]) -> list[Note]:
        query = select(notes.c.card, notes.c.name).where(notes.c.card.in_([note.card for note in due]))
        if not due:
            return []
        said = await self._database.run(lambda connection: connection.execute(query).all(), alone=True)
        known = {tuple(row) for row in said}
        # A late first reminder is not followed by an earlier one.
        known |= {(card, names.HALF) for card, name in known if name == names.NEARLY}
        return [note for note in due if (note.card, note.name) not in known]


_RUN = {
    "executor": runs.c.executor,
    "started_at": runs.c.started_at,
    "ended_at": runs.c.ended_at,
    "exit_code": runs.c.exit_code,
    "timed_out": runs.c.timed_out,
    "run_error": runs.c.error,
    "stdout": runs.c.stdout,
    "stderr": runs.c.stderr,
}


def _note(name: str, row: Row[*tuple[Any, ...]]) -> Note:
    run = None
    if row.started_at is not None:
        times = row.started_at, row.ended_at, row.exit_code
        run = Carried(row.executor, *times, bool(row.timed_out), row.run_error or "", row.stdout, row.stderr)
    return Note(name, row.card_id, row.approver, row.channel, row.message, as_request(row), run)
