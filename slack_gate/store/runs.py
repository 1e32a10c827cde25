"""Runs: what the gate carries out itself, claimed once before it starts, never a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Row, insert, select, update

from slack_gate.core.event import RUNS
from slack_gate.core.request import Request, State
from slack_gate.core.run import Result, not_started, unknown
from slack_gate.core.secrets import mask
from slack_gate.errors import RuleGone, StoreError
from slack_gate.store.ends import decision_of, end, moved
from slack_gate.store.ledger import Ledger
from slack_gate.store.questions import same_call
from slack_gate.store.rows import as_request, columns_of, entry_of
from slack_gate.store.rules import count_use
from slack_gate.store.tables import requests, runs
from slack_gate.store.transaction import Transaction

_STOPPED = not_started("slack-gate stopped before it was started.")


class Runs(Ledger):
    """From approved to running, and to an end: finished, lost, or not run at all."""

    async def admitted(self, request: Request, run: str, executor: str, used: Sequence[str] = ()) -> Request:
        """Files a request that needs no asking as running; `request.via` says what let it, `used` are the rules of
        Always. Never the same call twice: then the row on file comes back. Raises RuleGone as `answered` does."""

        def work(tx: Transaction) -> Request:
            if (row := tx.one(requests, same_call(request))) is not None:
                return as_request(row)
            if not count_use(tx, used):
                raise RuleGone("What it was allowed by does not count any more.")
            tx.connection.execute(insert(requests).values(**columns_of(request), chain=tx.chain))
            admitted = end(tx, request, State.APPROVED, decision_of(request.via, request.reason), log=False)
            started = admitted and _start(tx, admitted.id, run, executor)
            if started is None:
                raise StoreError(f"The request {request.id} could not be started.")
            return started

        return await self.transact(work)

    async def claimed(self, request: str, run: str, executor: str, now: float) -> Request | None:
        """The right to run an approved request, given once: from now on it may have run. None when it is not there."""
        return await self.transact(lambda tx: _start(tx, request, run, executor), now)

    async def finished(self, run: str, result: Result, stdout: str, stderr: str, now: float) -> Request | None:
        """How a run ended, its output masked and printable; None when it had been declared lost."""

        def work(tx: Transaction) -> Request | None:
            row = tx.one(runs, (runs.c.id == run) & runs.c.ended_at.is_(None))
            return None if row is None else _finish(tx, row, result, stdout, stderr)

        return await self.transact(work, now)

    async def not_run(self, request: str, run: str, result: Result, now: float) -> Request | None:
        """What was approved, or filed as this run, was not started; None when neither stands so on file."""

        def work(tx: Transaction) -> Request | None:
            row = tx.one(runs, (runs.c.id == run) & runs.c.ended_at.is_(None))
            return _not_run(tx, request, result) if row is None else _finish(tx, row, result)

        return await self.transact(work, now)

    async def lost(self, home: str, now: float) -> list[Request]:
        """After a start: what ran when this home's daemon died, and what it was about to. Neither is run again."""
        mine = (requests.c.home == home) & (requests.c.state == State.APPROVED)
        approved = select(requests.c.id).where(mine, requests.c.tool.in_(RUNS.values()))

        def work(tx: Transaction) -> list[Request]:
            late = [_not_run(tx, request, _STOPPED) for request in tx.connection.execute(approved).scalars().all()]
            return [*filter(None, late), *lose(tx, runs.c.home == home)]

        return await self.transact(work, now)


def lose(tx: Transaction, condition: ColumnElement[bool]) -> list[Request]:
    """Whatever runs and the condition holds for may have happened, and nobody can say how it ended."""
    query = select(runs).where(condition, runs.c.ended_at.is_(None))
    gone = unknown("slack-gate stopped while it ran;")
    ended = [_finish(tx, row, gone) for row in tx.connection.execute(query).all()]
    return [request for request in ended if request is not None]


def _start(tx: Transaction, request: str, run: str, executor: str) -> Request | None:
    """Approved to running, and the run's row: one conditional UPDATE and one unique row, so it happens once."""
    started = moved(tx, requests.c.id == request, State.RUNNING)
    if started is None:
        return None
    values = {"id": run, "request": request, "home": started.home, "executor": executor, "started_at": tx.now}
    tx.connection.execute(insert(runs).values(**values))
    tx.log(entry_of(started, started.via, tx.now), started.chain)
    return started


def _finish(
    tx: Transaction, run: Row[*tuple[Any, ...]], result: Result, stdout: str = "", stderr: str = ""
) -> Request | None:
    state = State.NOT_RUN if not result.started else State.FINISHED if result.known else State.LOST
    ended = moved(tx, requests.c.id == run.request, state, None if result.started else result.error)
    if ended is None:
        return None
    values = {
        "ended_at": tx.now,
        "exit_code": result.exit_code,
        "timed_out": int(result.timed_out),
        "command_id": result.command_id,
        "code": result.code,
        "error": None if result.error is None else mask(result.error),
        "stdout": stdout,
        "stderr": stderr,
    }
    tx.connection.execute(update(runs).where(runs.c.id == run.id).values(**values))
    entry = entry_of(ended, ended.via, tx.now)
    tx.log(replace(entry, reason=result.error, command_id=result.command_id, exit_code=result.exit_code), ended.chain)
    return ended


def _not_run(tx: Transaction, request: str, result: Result) -> Request | None:
    approved = (requests.c.id == request) & (requests.c.state == State.APPROVED)
    ended = moved(tx, approved, State.NOT_RUN, result.error)
    if ended is not None:
        tx.log(entry_of(ended, ended.via, tx.now), ended.chain)
    return ended
