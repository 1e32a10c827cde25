"""What the database itself refuses, whatever the code does."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import IntegrityError

from slack_gate.core.request import Choice, State, may
from slack_gate.store.database import Database
from tests.store.place import REQUEST, TOUCH, Place, click, submitted


async def refused(place: Place, statement: str) -> bool:
    """Whether the database refuses it as a breach of its rules; nothing of it stays."""

    def work(connection: Connection) -> bool:
        inner = connection.begin_nested()
        try:
            assert connection.execute(text(statement)).rowcount > 0, "the statement meets no row"
        except IntegrityError:
            return True
        finally:
            inner.rollback()
        return False

    database = Database(place.url)
    try:
        return await database.run(work)
    finally:
        await database.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE requests SET state = 'sleeping'",
        "UPDATE requests SET state = 'approved'",
        "UPDATE requests SET state = 'approved', decided_at = 1.0",
        "UPDATE requests SET state = 'running', decided_at = 1.0",
        "UPDATE requests SET expires_at = 0",
        "INSERT INTO cards (request, surface, approver, channel, message, drawn, error, attempts, due_at) "
        "VALUES ('SG-1', 'slack', 'U0ANA', '', '', '', '', 0, 0)",
        "INSERT INTO cards (request, surface, approver, channel, message, drawn, error, attempts, due_at) "
        "VALUES ('SG-none', 'slack', 'U0ANA', '', '', '', '', 0, 0)",
        "INSERT INTO runs (id, request, home, executor, started_at, timed_out, stdout, stderr) "
        "VALUES ('run-1', 'SG-1', 'h', 'cage', 1, 0, '', '')",
        "UPDATE log SET line = '{}'",
        "DELETE FROM log",
        "INSERT INTO log (chain, seq, line, hash) SELECT chain, seq, '{}', 'h' FROM log",
        "INSERT INTO rules (id, tool, words, shown, created_at, created_by, request) "
        "SELECT 'R-2', tool, words, shown, 1, 'U0BOB', request FROM rules",
    ],
)
async def test_the_database_itself_refuses(place: Place, statement: str) -> None:
    async with place.store() as store:
        await submitted(store, replace(REQUEST, id="SG-0", key="toolu_0"))
        await store.decided(click(Choice.ALWAYS, request="SG-0"), TOUCH, ["touch"], REQUEST.created_at)
        await submitted(store)
    one = " WHERE id = 'SG-1'" if statement.startswith("UPDATE requests") else ""
    assert await refused(place, statement + one)


async def test_no_request_is_filed_as_decided(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
    columns = "digest, agent, session, nonce, tool, tool_input, cwd, host, home, why, created_at, expires_at"
    for state in State:
        ended = "NULL" if state is State.PENDING else "1.0"
        statement = (
            f"INSERT INTO requests (id, key, state, decided_at, decided_by, decided_name, reason, {columns}) "
            f"SELECT 'SG-2', 'toolu_2', '{state.value}', {ended}, 'U0ANA', '', '', {columns} FROM requests"
        )
        assert await refused(place, statement) is (state is not State.PENDING), state


async def test_every_move_that_the_table_does_not_name_is_refused(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)

    way = {
        State.PENDING: [],
        State.RUNNING: [State.APPROVED, State.RUNNING],
        State.FINISHED: [State.APPROVED, State.RUNNING, State.FINISHED],
        State.LOST: [State.APPROVED, State.RUNNING, State.LOST],
        State.NOT_RUN: [State.APPROVED, State.NOT_RUN],
    }

    def moves(connection: Connection) -> list[tuple[State, State]]:
        accepted = []
        for start, end in itertools.product(State, State):
            outer = connection.begin_nested()
            for step in way.get(start, [start]):
                connection.execute(_move(step))
            inner = connection.begin_nested()
            try:
                connection.execute(_move(end))
                inner.commit()
                accepted.append((start, end))
            except IntegrityError:
                inner.rollback()
            outer.rollback()
        return accepted

    database = Database(place.url)
    found = await database.run(moves)
    await database.close()
    assert set(found) == {(start, end) for start, end in itertools.product(State, State) if may(start, end)}


def _move(state: State) -> TextClause:
    ended = "NULL" if state is State.PENDING else "1.0"
    return text(f"UPDATE requests SET state = '{state.value}', decided_at = {ended}, decided_by = 'U0ANA'")
