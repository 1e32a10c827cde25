"""One method a transaction, named for what happened. Conditional UPDATEs decide; each method returns only when its
log lines are on disk."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import ColumnElement, Connection, Double, Row, Update, bindparam, delete, func, insert, select, update

from slack_gate.core.cord import Cord, Hand, Pull
from slack_gate.core.ports import Click, Clock, Entry, Verdict
from slack_gate.core.request import BY_RULES, BY_SLACK, BY_TERMINAL, ON_HOME, Choice, Decision, Request, State, may
from slack_gate.core.rules import Key, Rule
from slack_gate.core.run import Result, unknown
from slack_gate.core.secrets import mask, mask_value
from slack_gate.errors import LogError, NotFound, StoreError
from slack_gate.store.cord import cord_of, pull_cord
from slack_gate.store.database import Database
from slack_gate.store.log import Journal, Line, chain_name
from slack_gate.store.schema import prepare
from slack_gate.store.tables import cards, edits, log, requests, rules, runs
from slack_gate.store.transaction import SERVERS_TIME, Transaction, head_of

_BATCH = 1000
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
_newest = log.alias("newest")
_head = select(_newest).where(_newest.c.chain == requests.c.chain).order_by(_newest.c.seq.desc()).limit(1)
_TO_DECIDE = (
    select(
        requests,
        cards.c.approver.label("asked"),
        cards.c.channel,
        cards.c.message,
        _head.with_only_columns(_newest.c.seq).scalar_subquery().label("last_seq"),
        _head.with_only_columns(_newest.c.hash).scalar_subquery().label("last_hash"),
    )
    .outerjoin(cards, (cards.c.request == requests.c.id) & (cards.c.approver == bindparam("user")))
    .where(requests.c.id == bindparam("id"))
)
MAX_LOOK_BACK = 2000  # requests that a new rule is held against
MORE_S = 300.0  # what "more time" gives
_NAMELESS = ""  # who votes on the page or at the terminal: only Slack tells people apart
_NOBODY_ELSE = (
    "Several people must approve it, and here nobody can tell whether you are another one than who did. "
    "Approve it in Slack."
)

T = TypeVar("T")


class Store:
    """The database at `url` and the log file at `journal`. Use as an async context manager.

    `repair`: at opening, write the log lines that a crash left out; without it the log file is left as it is.
    `home`: the daemon that works here, so that others on the same database know what it did.
    """

    def __init__(self, url: str, journal: Path, clock: Clock, repair: bool = True, home: str = "") -> None:
        self.database = Database(url)
        self.journal = Journal(journal)
        self._chain = chain_name(journal.parent) if self.database.shared else ""
        self._clock = clock
        self._repair = repair
        self._home = home
        self._untidy = True  # a run before this one may have left something
        self._written = 0  # the last line known to be in the file; only the database's thread touches it

    async def __aenter__(self) -> Self:
        try:
            await self.database.run(prepare)
            if self._repair:
                await self.recorded()
        except BaseException:
            await self.database.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.database.close()

    # What happened

    async def answered(self, entry: Entry, used: Sequence[str] = ()) -> None:
        """An answer that needed no request: green, ungated, remembered, malformed, a late click.

        `used` are the rules of Always that it rests on.
        """

        def work(tx: Transaction) -> None:
            _used(tx, used)
            tx.log(entry)

        await self.transact(work)

    async def submitted(
        self, request: Request, approvers: Sequence[str], surface: str, escalate: float = 0.0
    ) -> Request:
        """Files a new pending request with a card for each approver, each `escalate` seconds after the one before.

        The same call again gets the row on file; what was denied before in its session gets that denial.
        """

        def work(tx: Transaction) -> Request:
            if (row := tx.one(requests, _same_call(request))) is not None:
                return as_request(row)
            if (row := tx.one(requests, _denied_before(request))) is not None:
                return as_request(row)
            tx.connection.execute(insert(requests).values(**_columns(request), chain=tx.chain))
            for number, approver in enumerate(approvers):
                due_at = request.created_at + number * escalate if escalate else 0.0
                card = {"request": request.id, "surface": surface, "approver": approver, "due_at": due_at}
                tx.connection.execute(insert(cards).values(**card))
            tx.log(_entry(request, "gate", tx.now))
            return request

        return await self.transact(work)

    async def decided(self, decision: Decision, keys: Sequence[Key], shown: Sequence[str], now: float) -> Click:
        """A person's answer, and for Always the rules it saves, if the request is still theirs to decide."""

        always = decision.choice is Choice.ALWAYS

        def work(tx: Transaction) -> Click:
            row = tx.connection.execute(_TO_DECIDE, {"id": decision.request, "user": decision.user}).first()
            if row is None:
                return Click(Verdict.UNKNOWN)
            request = as_request(row)
            if row.last_seq is not None:
                tx.heads[request.chain] = row.last_seq, row.last_hash
            if (verdict := _refusal(row, request, decision)) is not None:
                return Click(verdict, request)
            if now >= request.expires_at or request.state is not State.PENDING:
                return Click(Verdict.ENDED, request)
            if decision.choice is Choice.MORE:
                return _extended(tx, request, decision)
            if decision.choice is not Choice.DENY:
                if request.quorum > 1 and decision.by != BY_SLACK and request.votes:
                    return Click(Verdict.UNFIT, request, why=_NOBODY_ELSE)
                if (counted := _counted(tx, request, decision)) is not None:
                    return Click(Verdict.COUNTED, counted)
            state = _DECIDES[decision.choice]
            ended = _end(tx, request, state, decision, in_time=True)
            if ended is None:
                return Click(Verdict.ENDED, request)
            if decision.edited is not None and self.database.shared and request.home != self._home:
                made = {"request": request.id, "command": decision.edited, "made_at": tx.time}
                tx.connection.execute(insert(edits).values(**made))
            pairs = zip(keys, shown, strict=True) if always else ()
            saved = [_remember(tx, key, text, decision, request) for key, text in pairs]
            return Click(Verdict.DECIDED, ended, tuple(saved))

        return await self.transact(work, now, alone=not always and decision.edited is None)

    async def remembered(self, request: str, digest: str, rules: Sequence[str], now: float) -> Request | None:
        """A rule saved since covers what waits: approved by it. None when it had ended, or is not what was covered."""

        def work(tx: Transaction) -> Request | None:
            row = tx.one(requests, (requests.c.id == request) & (requests.c.digest == digest))
            if row is None or row.state != State.PENDING or now >= row.expires_at or row.quorum > 1:
                return None
            _used(tx, rules)
            return _end(tx, as_request(row), State.APPROVED, _decision(BY_RULES, ", ".join(rules)))

        return await self.transact(work, now)

    async def taken(self, request: str) -> str | None:
        """The text that a person put in place on another daemon, once; from then on it is on file no more."""
        query = delete(edits).where(edits.c.request == request).returning(edits.c.command)
        return await self.database.run(lambda connection: connection.execute(query).scalar())

    async def forgotten(self, kept: float) -> None:
        """Changed texts that no daemon has taken within `kept` seconds are on file no more."""
        query = delete(edits).where(edits.c.made_at < SERVERS_TIME - kept)
        await self.database.run(lambda connection: connection.execute(query), alone=True)

    async def lifted(self, request: str, by: str, user: str, name: str, now: float) -> Request | None:
        """A denial is taken back: the same may be asked again in its session. None when there is none."""

        def work(tx: Transaction) -> Request | None:
            denied = (requests.c.id == request) & (requests.c.state == State.DENIED) & requests.c.lifted_at.is_(None)
            query = update(requests).where(denied).values(lifted_at=now, revision=requests.c.revision + 1)
            row = tx.connection.execute(query.returning(requests)).first()
            if row is None:
                return None
            lifted = as_request(row)
            tx.connection.execute(update(cards).where(cards.c.request == request).values(drawn="", due_at=0.0))
            tx.log(replace(_entry(lifted, by, tx.now, user), decision="lifted", reason=None), lifted.chain)
            return lifted

        return await self.transact(work, now)

    async def renewed(self, request: str, now: float) -> Request | None:
        """What a waiting card shows beside the request has changed: it is to be drawn anew. None once it has ended."""

        def work(tx: Transaction) -> Request | None:
            row = tx.one(requests, (requests.c.id == request) & (requests.c.state == State.PENDING))
            return None if row is None or now >= row.expires_at else _changed(tx, as_request(row), None)

        return await self.transact(work, now)

    async def expired(self, home: str, now: float) -> list[Request]:
        """Ends every pending request of `home` whose time is over."""
        mine = requests.c.home == home
        return await self._end_all(lambda tx: mine & (requests.c.expires_at <= tx.time), State.EXPIRED, "timeout", now)

    async def cancelled(self, request: str, by: str, now: float) -> Request | None:
        """The caller is gone; None when the request had ended before."""
        return _first(await self._end_all(lambda tx: requests.c.id == request, State.CANCELLED, by, now))

    async def undeliverable(self, request: str, reason: str, now: float) -> Request | None:
        """No approver could be asked; None when the request had ended before."""
        return _first(
            await self._end_all(lambda tx: requests.c.id == request, State.UNDELIVERABLE, "gate", now, reason)
        )

    async def admitted(self, request: Request, run: str, executor: str) -> Request:
        """Files a request that needs no asking as running; `request.via` says what let it. Never the same call twice:
        then the row on file comes back."""

        def work(tx: Transaction) -> Request:
            if (row := tx.one(requests, _same_call(request))) is not None:
                return as_request(row)
            tx.connection.execute(insert(requests).values(**_columns(request), chain=tx.chain))
            admitted = _end(tx, request, State.APPROVED, _decision(request.via, request.reason), log=False)
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

    async def lost(self, home: str, now: float) -> list[Request]:
        """After a start: what ran when this home's daemon died. It is never run again."""

        return await self.transact(lambda tx: lose(tx, runs.c.home == home), now)

    async def revoked(self, rule: str, now: float, by: str = BY_TERMINAL, user: str = "") -> Rule:
        """Ends a rule at once; raises NotFound."""

        def work(tx: Transaction) -> Rule:
            active = (rules.c.id == rule) & rules.c.revoked_at.is_(None)
            row = tx.one(rules, active)
            if row is None:
                raise NotFound(f"There is no active rule {rule}.", "`slack-gate rules` lists them.")
            if not tx.connection.execute(update(rules).where(active).values(revoked_at=now)).rowcount:
                raise NotFound(f"The rule {rule} was revoked by somebody else just now.")
            tx.log(Entry("revoked", by, request=row.request, user=user or None, reason=row.shown))
            return _as_rule(row)

        return await self.transact(work, now)

    async def pulled(self, pull: Pull, hand: Hand, now: float) -> tuple[Cord, bool]:
        """The cord after a person pulled it, and whether that changed it."""
        return await self.transact(lambda tx: pull_cord(tx, pull, hand), now)

    # What is on file

    async def cord(self) -> Cord:
        return await self._read(cord_of)

    async def request(self, request: str) -> Request | None:
        row = await self._read(lambda c: c.execute(_BY_ID, {"id": request}).first())
        return None if row is None else as_request(row)

    async def settled(self, request: str) -> Request | None:
        """The row as it stands; what this home's log says of it is in the file."""

        def work(connection: Connection) -> tuple[Transaction, Request | None]:
            tx, known = self._looking(connection)
            found = {"id": request, "chain": self._chain, "written": self._written, "most": _BATCH if known else 1}
            rows = connection.execute(_WITH_LINES, found).all()
            if known:
                tx.lines = [Line(row.seq, row.line, row.hash) for row in rows if row.seq is not None]
                tx.wants_all = len(tx.lines) == _BATCH
            return tx, as_request(rows[0]) if rows else None

        tx, row = await self.database.run(work, self._write_out, alone=True)
        if tx.fault is not None:
            raise tx.fault
        return row

    async def requests(self, limit: int) -> list[Request]:
        """The newest requests, newest first."""
        query = select(requests).order_by(requests.c.created_at.desc()).limit(limit)
        return [as_request(row) for row in await self._read(lambda c: c.execute(query).all())]

    async def pending(self, home: str) -> list[Request]:
        """The requests that agents of this daemon wait for."""
        query = select(requests).where(requests.c.home == home, requests.c.state == State.PENDING)
        return [as_request(row) for row in await self._read(lambda c: c.execute(query).all())]

    async def since(self, tool: str, start: float) -> list[Request]:
        """What was asked with this tool since `start`, newest first."""
        query = (
            select(requests)
            .where(requests.c.tool == tool, requests.c.created_at >= start)
            .order_by(requests.c.created_at.desc())
            .limit(MAX_LOOK_BACK)
        )
        return [as_request(row) for row in await self._read(lambda c: c.execute(query).all())]

    async def session(self, agent: str, session: str, start: float) -> list[Request]:
        """What a person decided in this session since `start`, newest first; only the last few."""
        query = (
            select(requests)
            .where(requests.c.agent == agent, requests.c.session == session, requests.c.decided_at >= start)
            .where(requests.c.state.in_([State.APPROVED, State.DENIED]))
            .order_by(requests.c.decided_at.desc())
            .limit(20)
        )
        return [as_request(row) for row in await self._read(lambda c: c.execute(query).all())]

    async def ended(self, home: str, limit: int) -> list[Request]:
        """This daemon's newest requests that do not wait any more, newest first."""
        query = select(requests).where(requests.c.home == home, requests.c.state != State.PENDING)
        query = query.order_by(requests.c.created_at.desc()).limit(limit)
        return [as_request(row) for row in await self._read(lambda c: c.execute(query).all())]

    async def counted(self, home: str) -> dict[str, int]:
        """How many requests of this daemon are in each state."""
        query = select(requests.c.state, func.count()).where(requests.c.home == home).group_by(requests.c.state)
        found = await self._read(lambda c: c.execute(query).all())
        return {state.value: 0 for state in State} | {state: count for state, count in found}

    async def rules(self) -> list[Rule]:
        """Active rules, oldest first; those whose time is over stay on file and count no more."""
        over = rules.c.until.is_not(None) & (rules.c.until <= self._clock())
        query = select(rules).where(rules.c.revoked_at.is_(None), ~over).order_by(rules.c.created_at)
        return [_as_rule(row) for row in await self._read(lambda c: c.execute(query).all())]

    async def log_head(self) -> tuple[int, str] | None:
        """Seq and hash of the newest log line, None for an empty log."""
        row = await self._read(lambda c: head_of(c, self._chain))
        return None if row is None else (row.seq, row.hash)

    async def log_lines(self, chain: str, after: int) -> list[str]:
        """Up to 1,000 lines of one daemon's log that follow line `after`."""
        query = select(log.c.line).where(log.c.chain == chain, log.c.seq > after).order_by(log.c.seq).limit(_BATCH)
        return list(await self._read(lambda c: c.execute(query).scalars().all()))

    async def log_chains(self) -> list[str]:
        """The names of all daemons' logs; one empty name in SQLite."""
        return list(await self._read(lambda c: c.execute(select(log.c.chain).distinct()).scalars().all()))

    async def tidied(self) -> None:
        """After a request has ended: no file holds what it masked any more. Cheap when there is nothing to do."""
        if self._untidy:
            self._untidy = not await self.database.checkpoint()

    async def recorded(self) -> None:
        """Returns when every log line of this home is in the file and synced; raises LogError."""
        tx, _ = await self.database.run(self._missing, self._write_out, alone=True)
        if tx.fault is not None:
            raise tx.fault

    # How

    async def _read(self, query: Callable[[Connection], T]) -> T:
        return await self.database.run(query, alone=True)

    async def transact(self, work: Callable[[Transaction], T], now: float | None = None, alone: bool = False) -> T:
        """`work` in a transaction, then its log lines to the file. `alone`: it ends with its first change."""

        tries = itertools.count()

        def in_transaction(connection: Connection) -> tuple[Transaction, T]:
            moment = self._clock() if now is None else now
            tx = Transaction(connection, moment, self.database, self._chain, self._home, alone)
            if next(tries) > 1:
                tx.first()
            return tx, work(tx)

        tx, result = await self.database.run(in_transaction, self._write_out, alone)
        if tx.fault is not None:
            raise tx.fault
        return result

    def _missing(self, connection: Connection) -> tuple[Transaction, None]:
        """The lines that the file may lack: others decide what is logged here, a crash or a full disk leaves some out.

        Where the file stands is looked at again when that is not known, or when there are many.
        """
        tx, known = self._looking(connection)
        query = select(log.c.seq, log.c.line, log.c.hash).where(log.c.chain == self._chain, log.c.seq > self._written)
        rows = connection.execute(query.order_by(log.c.seq).limit(_BATCH)).all() if known else []
        tx.lines = [Line(*row) for row in rows]
        tx.wants_all = not known or len(rows) == _BATCH
        return tx, None

    def _looking(self, connection: Connection) -> tuple[Transaction, bool]:
        """A look at the log's table, and whether it is known where the file stands; else all of it is looked at."""
        known = self._written > 0 and self.journal.as_left()
        tx = Transaction(connection, 0.0, self.database, self._chain, self._home, wants_all=not known)
        return tx, known

    def _write_out(self, done: Sequence[tuple[Transaction, object]]) -> None:
        """What was committed together, synced together."""
        transactions = [tx for tx, _ in done]
        self._untidy = self._untidy or any(tx.masked for tx in transactions)
        lines = list({line.seq: line for tx in transactions for line in tx.lines}.values())
        try:
            if any(tx.wants_all for tx in transactions) or not self._appended(lines):
                self._catch_up()
        except StoreError as error:
            self._written = 0
            for tx in transactions:
                tx.fault = error if tx.lines or tx.wants_all else None

    def _appended(self, lines: Sequence[Line]) -> bool:
        """False when the file does not end where these begin: another process wrote to it, or took from it."""
        if not lines:
            return True
        if not _follow(lines, self._written):
            return False
        try:
            self._written = self.journal.append(lines)
        except LogError:
            return False
        return True

    def _catch_up(self) -> None:
        """From what stands in the file, with the table's help."""
        self._written, last = self.journal.last()
        self._refuse_another_database(last)
        query = select(log.c.seq, log.c.line, log.c.hash).where(log.c.chain == self._chain).order_by(log.c.seq)
        while True:
            missing = query.where(log.c.seq > self._written).limit(_BATCH)
            lines = self.database.transaction(lambda connection: connection.execute(missing).all(), True)  # noqa: B023
            self._written = self.journal.append([Line(*line) for line in lines])  # also makes the file
            if not lines:
                return

    def _refuse_another_database(self, last: str) -> None:
        """A new or restored database under an old file: its lines would be taken for written ones and be lost."""
        same = select(log.c.hash).where(log.c.chain == self._chain, log.c.seq == self._written)
        known = self.database.transaction(lambda connection: connection.execute(same).scalar(), True)
        if self._written and known != last:
            raise LogError(
                f"The log {self.journal.path} ends with line {self._written}, which is not in the database.",
                "Restore the database that belongs to it, or move the log away to begin a new one.",
            )

    async def _end_all(
        self,
        condition: Callable[[Transaction], ColumnElement[bool]],
        state: State,
        by: str,
        now: float,
        reason: str = "",
    ) -> list[Request]:
        return await self.transact(lambda tx: end_all(tx, condition(tx), state, by, reason), now)


def end_all(tx: Transaction, condition: ColumnElement[bool], state: State, by: str, reason: str = "") -> list[Request]:
    """Ends every pending request that the condition holds for, without a person."""
    how = _decision(by, reason)
    query = select(requests).where(condition, requests.c.state == State.PENDING)
    found = [as_request(row) for row in tx.connection.execute(query).all()]
    ended = [_end(tx, request, state, how) for request in found]
    return [request for request in ended if request is not None]


def lose(tx: Transaction, condition: ColumnElement[bool]) -> list[Request]:
    """Whatever runs and the condition holds for may have happened, and nobody can say how it ended."""
    query = select(runs).where(condition, runs.c.ended_at.is_(None))
    gone = unknown("slack-gate stopped while it ran;")
    ended = [_finish(tx, row, gone) for row in tx.connection.execute(query).all()]
    return [request for request in ended if request is not None]


def _follow(lines: Sequence[Line], written: int) -> bool:
    """Whether these come next in the file, without a gap."""
    return lines[0].seq == written + 1 and lines[-1].seq == written + len(lines)


_DECIDES = {
    Choice.DENY: State.DENIED,
    **dict.fromkeys((Choice.APPROVE, Choice.ALWAYS, Choice.CAGED), State.APPROVED),
}


def _decision(by: str, reason: str) -> Decision:
    """What decides without a person."""
    return Decision("", "", Choice.DENY, by=by, user="", name="", reason=reason)


def _same_call(request: Request) -> ColumnElement[bool]:
    return (
        (requests.c.agent == request.agent) & (requests.c.session == request.session) & (requests.c.key == request.key)
    )


def _start(tx: Transaction, request: str, run: str, executor: str) -> Request | None:
    """Approved to running, and the run's row: one conditional UPDATE and one unique row, so it happens once."""
    row = _moved(tx, request, State.RUNNING)
    if row is None:
        return None
    started = as_request(row)
    values = {"id": run, "request": request, "home": started.home, "executor": executor, "started_at": tx.now}
    tx.connection.execute(insert(runs).values(**values))
    tx.log(_entry(started, started.via, tx.now), started.chain)
    return started


def _finish(
    tx: Transaction, run: Row[*tuple[Any, ...]], result: Result, stdout: str = "", stderr: str = ""
) -> Request | None:
    row = _moved(tx, run.request, State.FINISHED if result.known else State.LOST)
    if row is None:
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
    ended = as_request(row)
    entry = _entry(ended, ended.via, tx.now)
    tx.log(replace(entry, reason=result.error, command_id=result.command_id, exit_code=result.exit_code), ended.chain)
    return ended


def _moved(tx: Transaction, request: str, state: State) -> Row[*tuple[Any, ...]] | None:
    """A step after the decision: only from where the table of transitions allows it."""
    query = (
        update(requests)
        .where(requests.c.id == request)
        .where(requests.c.state.in_([start for start in State if may(start, state)]))
        .values(state=state)
        .returning(requests)
    )
    return tx.connection.execute(query).first()


def _denied_before(request: Request) -> ColumnElement[bool]:
    """The latest denial in this session of exactly what is asked now, unless it was taken back."""
    same = (requests.c.agent == request.agent) & (requests.c.session == request.session)
    denied = (requests.c.state == State.DENIED) & requests.c.lifted_at.is_(None)
    return same & (requests.c.form == request.form) & denied & (requests.c.form != "")


def _used(tx: Transaction, used: Sequence[str]) -> None:
    if used:
        query = update(rules).where(rules.c.id.in_(used)).values(used_at=tx.now, uses=rules.c.uses + 1)
        tx.connection.execute(query)


def _extended(tx: Transaction, request: Request, decision: Decision) -> Click:
    """More time, as far as the client can wait."""
    until = min(request.expires_at + MORE_S, request.latest_at)
    if until <= request.expires_at:
        return Click(Verdict.LATEST, request)
    entry = replace(_entry(request, decision.by, tx.now, decision.user), decision="extended")
    return Click(Verdict.EXTENDED, _changed(tx, request, entry, expires_at=until))


def _counted(tx: Transaction, request: Request, decision: Decision) -> Request | None:
    """One approval of several, on file; None when it is the last one that was missing."""
    votes = dict(request.votes)
    if decision.by == BY_SLACK:
        votes.pop(_NAMELESS, None)  # may have been this very person
    votes[decision.user if decision.by == BY_SLACK else _NAMELESS] = decision.name
    if len(votes) >= request.quorum:
        return None
    entry = replace(_entry(request, decision.by, tx.now, decision.user), decision="vote")
    return _changed(tx, request, entry, votes=json.dumps(list(votes.items())))


def _changed(tx: Transaction, request: Request, entry: Entry | None, **values: object) -> Request:
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


_SET_AT_THE_END = (
    *("state", "decided_at", "decided_by", "decided_name", "reason", "via", "edited", "caged"),
    *("tool_input", "command"),
)


@cache
def _ending(state: State, in_time: bool, shared: bool) -> Update:
    """The conditional UPDATE that ends a request; what is set comes with the call. Building it costs more than running
    it."""
    query = update(requests).where(
        requests.c.id == bindparam("this"),
        requests.c.digest == bindparam("shown"),
        requests.c.state.in_([start for start in State if may(start, state)]),
    )
    query = query.values({name: bindparam(f"to_{name}", type_=requests.c[name].type) for name in _SET_AT_THE_END})
    if in_time:
        query = query.where(requests.c.expires_at > (SERVERS_TIME if shared else bindparam("moment", type_=Double)))
    return query.returning(requests)


def _end(
    tx: Transaction, request: Request, state: State, how: Decision, in_time: bool = False, log: bool = True
) -> Request | None:
    """The conditional UPDATE that decides: the first one wins. Masks what was asked, logs, returns the ended row."""
    query = _ending(state, in_time, tx.database.shared)
    command = None if request.command is None else mask(request.command)
    reason = mask(how.reason)
    values: dict[str, Any] = {
        "this": request.id,
        "shown": request.digest,
        "to_state": state,
        "to_decided_at": tx.now,
        "to_decided_by": how.user or how.by,
        "to_decided_name": how.name,
        "to_reason": reason,
        "to_via": how.by,
        "to_edited": None if how.edited is None else mask(how.edited),
        "to_caged": int(request.caged or how.choice is Choice.CAGED),
        "to_tool_input": json.dumps(mask_value(dict(request.tool_input))),
        "to_command": command,
    }
    if in_time and not tx.database.shared:
        values["moment"] = tx.now
    if log:
        entry = _entry(replace(request, state=state, command=command, reason=reason), how.by, tx.now, how.user)
        row = tx.changed(query, values, entry, request.chain)
    else:
        row = tx.connection.execute(query, values).first()
    tx.masked = tx.masked or row is not None
    return None if row is None else as_request(row)


def _refusal(row: Row[*tuple[Any, ...]], request: Request, decision: Decision) -> Verdict | None:
    """Why this click cannot decide this request, None when it can: digest, approver and message must all match."""
    if decision.digest != request.digest:
        return Verdict.STALE
    if decision.by != BY_SLACK:  # the page and the terminal know who is there, and show no messages
        return None
    if row.asked is None:
        return Verdict.FOREIGN
    if decision.surface == ON_HOME:  # no message: it shows each request whole, and the digest binds the button to that
        return None
    # A click can overtake the reply to our post: then the message is not on file yet, and the digest binds it.
    if row.message and (row.channel, row.message) != (decision.channel, decision.message):
        return Verdict.STALE
    return None


def _remember(tx: Transaction, key: Key, text: str, decision: Decision, request: Request) -> Rule:
    """The rule of this key and scope; one that is there already gets the new end."""
    words = json.dumps(key.words)
    scope = decision.scope
    session, cwd = request.session if scope.session else "", request.cwd if scope.directory else ""
    until = None if scope.seconds is None else tx.now + scope.seconds
    same = (rules.c.tool == key.tool) & (rules.c.words == words) & rules.c.revoked_at.is_(None)
    same &= (rules.c.session == session) & (rules.c.cwd == cwd)
    if tx.one(rules, same) is not None:
        row = tx.connection.execute(update(rules).where(same).values(until=until).returning(rules)).one()
        return _as_rule(row)
    identity = f"R-{secrets.token_hex(4)}"
    rule = Rule(identity, key, mask(text), tx.now, decision.user or decision.by, decision.request, session, cwd, until)
    tx.connection.execute(
        insert(rules).values(
            id=rule.id,
            tool=key.tool,
            words=words,
            shown=rule.shown,
            created_at=rule.created_at,
            created_by=rule.created_by,
            request=rule.request,
            session=session,
            cwd=cwd,
            until=until,
        )
    )
    return rule


def _entry(request: Request, by: str, now: float, user: str = "") -> Entry:
    return Entry(
        decision=request.state.value,
        by=by,
        request=request.id,
        digest=request.digest,
        agent=request.agent,
        session=request.session,
        tool=request.tool,
        command=request.command,
        cwd=request.cwd,
        latency=round(now - request.created_at, 3),
        user=user or None,
        reason=request.reason or None,
    )


def _first(ended: Sequence[Request]) -> Request | None:
    return ended[0] if ended else None


def _columns(request: Request) -> dict[str, Any]:
    values = {column.name: getattr(request, column.name) for column in requests.columns if column.name != "chain"}
    values["tool_input"] = json.dumps(dict(request.tool_input))
    values["votes"] = json.dumps(list(request.votes))
    values |= {name: int(getattr(request, name)) for name in ("rewritable", "caged")}
    return values


def as_request(row: Row[*tuple[Any, ...]]) -> Request:
    """The request of a row that begins with the columns of `requests`, in their order."""
    values = dict(zip(_NAMES, row, strict=False))
    values["state"] = State(values["state"])
    values["tool_input"] = json.loads(values["tool_input"])
    values["votes"] = tuple((user, name) for user, name in json.loads(values["votes"]))
    values |= {name: bool(values[name]) for name in ("rewritable", "caged")}
    return Request(**values)


_NAMES = tuple(requests.columns.keys())


def _as_rule(row: Row[*tuple[Any, ...]]) -> Rule:
    key = Key(row.tool, tuple(json.loads(row.words)))
    scope = row.session, row.cwd, row.until
    return Rule(row.id, key, row.shown, row.created_at, row.created_by, row.request, *scope, row.used_at, row.uses)
