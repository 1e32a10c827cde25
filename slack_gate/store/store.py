"""One method a transaction, named for what happened. Conditional UPDATEs decide; each method returns only when its
log lines are on disk."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, insert, select, update

from slack_gate.core.ports import Click, Clock, Entry, Verdict
from slack_gate.core.request import BY_SLACK, Choice, Decision, Request, State, may
from slack_gate.core.rules import Key, Rule
from slack_gate.core.run import Result, unknown
from slack_gate.core.secrets import mask, mask_value
from slack_gate.errors import LogError, NotFound, StoreError
from slack_gate.store.database import Database, create_tables
from slack_gate.store.log import FIRST, Journal, Line, chained
from slack_gate.store.tables import cards, log, requests, rules, runs

_BATCH = 1000
# Every answer runs these two; building a statement costs more than running it.
_HEAD = select(log.c.seq, log.c.hash).order_by(log.c.seq.desc()).limit(1)
_NEW_LINE = insert(log)

T = TypeVar("T")


@dataclass(slots=True)
class _Transaction:
    """The connection and the log lines made in it; `now` is one moment for all of it."""

    connection: Connection
    now: float
    lines: list[Line] = field(default_factory=list)
    masked: bool = False

    def log(self, entry: Entry) -> None:
        head = log_head(self.connection)
        seq, previous = (head.seq + 1, head.hash) if head else (1, FIRST)
        line = chained(entry, seq, previous, self.now)
        self.connection.execute(_NEW_LINE, {"seq": line.seq, "line": line.text, "hash": line.hash})
        self.lines.append(line)

    def one(self, table: Any, condition: ColumnElement[bool]) -> Row[*tuple[Any, ...]] | None:
        return self.connection.execute(select(table).where(condition)).first()


class Store:
    """The database at `url` and the log file at `journal`. Use as an async context manager.

    `repair`: at opening, write the log lines that a crash left out; without it the log file is left as it is.
    """

    def __init__(self, url: str, journal: Path, clock: Clock, repair: bool = True) -> None:
        self.database = Database(url)
        self.journal = Journal(journal)
        self._clock = clock
        self._repair = repair
        self._untidy = True  # a run before this one may have left something
        self._written = 0  # the last line known to be in the file; only the database's thread touches it

    async def __aenter__(self) -> Self:
        try:
            await self.database.run(create_tables)
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

    async def answered(self, entry: Entry) -> None:
        """An answer that needed no request: green, ungated, remembered, malformed, a late click."""
        await self._run(lambda tx: tx.log(entry))

    async def submitted(self, request: Request, approvers: Sequence[str], surface: str) -> Request:
        """Files a new pending request with a card for each approver; the same call again gets the row on file."""

        def work(tx: _Transaction) -> Request:
            if (row := tx.one(requests, _same_call(request))) is not None:
                return as_request(row)
            tx.connection.execute(insert(requests).values(**_columns(request)))
            for approver in approvers:
                tx.connection.execute(insert(cards).values(request=request.id, surface=surface, approver=approver))
            tx.log(_entry(request, "gate", tx.now))
            return request

        return await self._run(work)

    async def decided(self, decision: Decision, keys: Sequence[Key], shown: Sequence[str], now: float) -> Click:
        """A person's answer, and for Always the rules it saves, if the request is still theirs to decide."""

        def work(tx: _Transaction) -> Click:
            row = tx.one(requests, requests.c.id == decision.request)
            if row is None:
                return Click(Verdict.UNKNOWN)
            request = as_request(row)
            if (verdict := _refusal(tx, request, decision)) is not None:
                return Click(verdict, request)
            state = State.DENIED if decision.choice is Choice.DENY else State.APPROVED
            ended = _end(tx, request, state, decision) if now < request.expires_at else None
            if ended is None:
                return Click(Verdict.ENDED, request)
            always = decision.choice is Choice.ALWAYS
            saved = [_remember(tx, key, text, decision) for key, text in zip(keys, shown, strict=True) if always]
            return Click(Verdict.DECIDED, ended, tuple(saved))

        return await self._run(work, now)

    async def expired(self, home: str, now: float) -> list[Request]:
        """Ends every pending request of `home` whose time is over."""
        condition = (requests.c.home == home) & (requests.c.expires_at <= now)
        return await self._end_all(condition, State.EXPIRED, "timeout", "", now)

    async def cancelled(self, request: str, by: str, now: float) -> Request | None:
        """The caller is gone; None when the request had ended before."""
        return _first(await self._end_all(requests.c.id == request, State.CANCELLED, by, "", now))

    async def undeliverable(self, request: str, reason: str, now: float) -> Request | None:
        """No approver could be asked; None when the request had ended before."""
        return _first(await self._end_all(requests.c.id == request, State.UNDELIVERABLE, "gate", reason, now))

    async def admitted(self, request: Request, run: str, executor: str) -> Request:
        """Files a request that needs no asking as running; `request.via` says what let it. Never the same call twice:
        then the row on file comes back."""

        def work(tx: _Transaction) -> Request:
            if (row := tx.one(requests, _same_call(request))) is not None:
                return as_request(row)
            tx.connection.execute(insert(requests).values(**_columns(request)))
            admitted = _end(tx, request, State.APPROVED, _decision(request.via, request.reason), log=False)
            started = admitted and _start(tx, admitted.id, run, executor)
            if started is None:
                raise StoreError(f"The request {request.id} could not be started.")
            return started

        return await self._run(work)

    async def claimed(self, request: str, run: str, executor: str, now: float) -> Request | None:
        """The right to run an approved request, given once: from now on it may have run. None when it is not there."""
        return await self._run(lambda tx: _start(tx, request, run, executor), now)

    async def finished(self, run: str, result: Result, stdout: str, stderr: str, now: float) -> Request | None:
        """How a run ended, its output masked and printable; None when it had been declared lost."""

        def work(tx: _Transaction) -> Request | None:
            row = tx.one(runs, (runs.c.id == run) & runs.c.ended_at.is_(None))
            return None if row is None else _finish(tx, row, result, stdout, stderr)

        return await self._run(work, now)

    async def lost(self, home: str, now: float) -> list[Request]:
        """After a start: what ran when this home's daemon died. It is never run again."""

        def work(tx: _Transaction) -> list[Request]:
            query = select(runs).where(runs.c.home == home, runs.c.ended_at.is_(None))
            gone = unknown("slack-gate stopped while it ran;")
            ended = [_finish(tx, row, gone) for row in tx.connection.execute(query).all()]
            return [request for request in ended if request is not None]

        return await self._run(work, now)

    async def revoked(self, rule: str, now: float) -> Rule:
        """Ends a rule at once; raises NotFound."""

        def work(tx: _Transaction) -> Rule:
            active = (rules.c.id == rule) & rules.c.revoked_at.is_(None)
            row = tx.one(rules, active)
            if row is None:
                raise NotFound(f"There is no active rule {rule}.", "`slack-gate rules` lists them.")
            tx.connection.execute(update(rules).where(active).values(revoked_at=now))
            tx.log(Entry("revoked", "human-cli", request=row.request, reason=row.shown))
            return _as_rule(row)

        return await self._run(work, now)

    # What is on file

    async def request(self, request: str) -> Request | None:
        row = await self._run(lambda tx: tx.one(requests, requests.c.id == request))
        return None if row is None else as_request(row)

    async def requests(self, limit: int) -> list[Request]:
        """The newest requests, newest first."""
        query = select(requests).order_by(requests.c.created_at.desc()).limit(limit)
        return [as_request(row) for row in await self._run(lambda tx: tx.connection.execute(query).all())]

    async def pending(self, home: str) -> list[Request]:
        """The requests that agents of this daemon wait for."""
        query = select(requests).where(requests.c.home == home, requests.c.state == State.PENDING)
        return [as_request(row) for row in await self._run(lambda tx: tx.connection.execute(query).all())]

    async def rules(self) -> list[Rule]:
        """Active rules, oldest first."""
        query = select(rules).where(rules.c.revoked_at.is_(None)).order_by(rules.c.created_at)
        return [_as_rule(row) for row in await self._run(lambda tx: tx.connection.execute(query).all())]

    async def log_head(self) -> tuple[int, str] | None:
        """Seq and hash of the newest log line, None for an empty log."""
        row = await self._run(lambda tx: log_head(tx.connection))
        return None if row is None else (row.seq, row.hash)

    async def tidied(self) -> None:
        """After a request has ended: no file holds what it masked any more. Cheap when there is nothing to do."""
        if self._untidy:
            self._untidy = not await self.database.checkpoint()

    async def recorded(self) -> None:
        """Returns when every log line of the database is in the file and synced; raises LogError."""
        await self._run(lambda tx: None, recorded=True)

    # How

    async def _run(self, work: Callable[[_Transaction], T], now: float | None = None, recorded: bool = False) -> T:
        """`work` in a transaction, then its log lines to the file; `recorded`: every line that the file lacks."""
        opened: list[_Transaction] = []

        def in_transaction(connection: Connection) -> T:
            opened.append(_Transaction(connection, self._clock() if now is None else now))
            return work(opened[-1])

        def write_out(_result: T) -> None:
            self._untidy = self._untidy or opened[-1].masked
            if recorded:
                self._catch_up()
            elif opened[-1].lines:
                self._write_out(opened[-1].lines)

        return await self.database.run(in_transaction, write_out)

    def _write_out(self, lines: list[Line]) -> None:
        if lines[0].seq == self._written + 1:
            self._written = self.journal.append(lines)
        else:
            self._catch_up()

    def _catch_up(self) -> None:
        """Another process wrote lines between ours, a crash or a full disk left some out: take them from the table."""
        self._written, last = self.journal.last()
        self._refuse_another_database(last)
        query = select(log.c.seq, log.c.line, log.c.hash).order_by(log.c.seq).limit(_BATCH)
        while True:
            missing = query.where(log.c.seq > self._written)
            lines = self.database.transaction(lambda connection: connection.execute(missing).all())  # noqa: B023
            if not lines:
                return
            self._written = self.journal.append([Line(*line) for line in lines])

    def _refuse_another_database(self, last: str) -> None:
        """A new or restored database under an old file: its lines would be taken for written ones and be lost."""
        same = select(log.c.hash).where(log.c.seq == self._written)
        known = self.database.transaction(lambda connection: connection.execute(same).scalar())
        if self._written and known != last:
            raise LogError(
                f"The log {self.journal.path} ends with line {self._written}, which is not in the database.",
                "Restore the database that belongs to it, or move the log away to begin a new one.",
            )

    async def _end_all(
        self, condition: ColumnElement[bool], state: State, by: str, reason: str, now: float
    ) -> list[Request]:
        how = _decision(by, reason)

        def work(tx: _Transaction) -> list[Request]:
            query = select(requests).where(condition, requests.c.state == State.PENDING)
            found = [as_request(row) for row in tx.connection.execute(query).all()]
            ended = [_end(tx, request, state, how) for request in found]
            return [request for request in ended if request is not None]

        return await self._run(work, now)


def _decision(by: str, reason: str) -> Decision:
    """What decides without a person."""
    return Decision("", "", Choice.DENY, by=by, user="", name="", reason=reason)


def _same_call(request: Request) -> ColumnElement[bool]:
    return (
        (requests.c.agent == request.agent) & (requests.c.session == request.session) & (requests.c.key == request.key)
    )


def _start(tx: _Transaction, request: str, run: str, executor: str) -> Request | None:
    """Approved to running, and the run's row: one conditional UPDATE and one unique row, so it happens once."""
    row = _moved(tx, request, State.RUNNING)
    if row is None:
        return None
    started = as_request(row)
    values = {"id": run, "request": request, "home": started.home, "executor": executor, "started_at": tx.now}
    tx.connection.execute(insert(runs).values(**values))
    tx.log(_entry(started, started.via, tx.now))
    return started


def _finish(
    tx: _Transaction, run: Row[*tuple[Any, ...]], result: Result, stdout: str = "", stderr: str = ""
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
    tx.log(replace(entry, reason=result.error, command_id=result.command_id, exit_code=result.exit_code))
    return ended


def _moved(tx: _Transaction, request: str, state: State) -> Row[*tuple[Any, ...]] | None:
    """A step after the decision: only from where the table of transitions allows it."""
    query = (
        update(requests)
        .where(requests.c.id == request)
        .where(requests.c.state.in_([start for start in State if may(start, state)]))
        .values(state=state)
        .returning(requests)
    )
    return tx.connection.execute(query).first()


def _end(tx: _Transaction, request: Request, state: State, how: Decision, log: bool = True) -> Request | None:
    """The conditional UPDATE that decides: the first one wins. Masks what was asked, logs, returns the ended row."""
    query = (
        update(requests)
        .where(requests.c.id == request.id)
        .where(requests.c.digest == request.digest)
        .where(requests.c.state.in_([start for start in State if may(start, state)]))
        .values(
            state=state,
            decided_at=tx.now,
            decided_by=how.user or how.by,
            decided_name=how.name,
            reason=mask(how.reason),
            via=how.by,
            tool_input=json.dumps(mask_value(dict(request.tool_input))),
            command=None if request.command is None else mask(request.command),
        )
        .returning(requests)
    )
    row = tx.connection.execute(query).first()
    if row is None:
        return None
    ended = as_request(row)
    tx.masked = True
    if log:
        tx.log(_entry(ended, how.by, tx.now, how.user))
    return ended


def _refusal(tx: _Transaction, request: Request, decision: Decision) -> Verdict | None:
    """Why this click cannot decide this request, None when it can: digest, approver and message must all match."""
    if decision.digest != request.digest:
        return Verdict.STALE
    if decision.by != BY_SLACK:  # the page and the terminal know who is there, and show no messages
        return None
    card = tx.one(cards, (cards.c.request == request.id) & (cards.c.approver == decision.user))
    if card is None:
        return Verdict.FOREIGN
    # A click can overtake the reply to our post: then the message is not on file yet, and the digest binds it.
    if card.message and (card.channel, card.message) != (decision.channel, decision.message):
        return Verdict.STALE
    return None


def _remember(tx: _Transaction, key: Key, text: str, decision: Decision) -> Rule:
    words = json.dumps(key.words)
    same = (rules.c.tool == key.tool) & (rules.c.words == words) & rules.c.revoked_at.is_(None)
    if (row := tx.one(rules, same)) is not None:
        return _as_rule(row)
    rule = Rule(f"R-{secrets.token_hex(4)}", key, mask(text), tx.now, decision.user, decision.request)
    tx.connection.execute(
        insert(rules).values(
            id=rule.id,
            tool=key.tool,
            words=words,
            shown=rule.shown,
            created_at=rule.created_at,
            created_by=rule.created_by,
            request=rule.request,
        )
    )
    return rule


def log_head(connection: Connection) -> Row[int, str] | None:
    return connection.execute(_HEAD).first()


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
    values = {column.name: getattr(request, column.name) for column in requests.columns}
    values["tool_input"] = json.dumps(dict(request.tool_input))
    return values


def as_request(row: Row[*tuple[Any, ...]]) -> Request:
    values = {column.name: getattr(row, column.name) for column in requests.columns}
    values["state"] = State(row.state)
    values["tool_input"] = json.loads(row.tool_input)
    return Request(**values)


def _as_rule(row: Row[*tuple[Any, ...]]) -> Rule:
    key = Key(row.tool, tuple(json.loads(row.words)))
    return Rule(row.id, key, row.shown, row.created_at, row.created_by, row.request)
