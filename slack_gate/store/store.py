"""One method a transaction, named for what happened. Conditional UPDATEs decide; each method returns only when its
log lines are on disk."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Row, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from slack_gate.core.ports import Click, Clock, Entry, Verdict
from slack_gate.core.request import Choice, Decision, Request, State, may
from slack_gate.core.rules import Key, Rule
from slack_gate.core.secrets import mask, mask_value
from slack_gate.errors import NotFound
from slack_gate.store.database import create_tables, open_engine, transaction
from slack_gate.store.log import FIRST, Journal, Line, chained
from slack_gate.store.tables import cards, log, requests, rules

_BATCH = 1000


class Store:
    """The database at `url` and the log file at `journal`. Use as an async context manager.

    `repair`: at opening, write the log lines that a crash left out; without it the log file is left as it is.
    """

    def __init__(self, url: str, journal: Path, clock: Clock, repair: bool = True) -> None:
        self.engine = open_engine(url)
        self.journal = Journal(journal)
        self._clock = clock
        self._repair = repair
        self._unwritten: list[Line] = []
        self._written = 0
        self._writing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            await create_tables(self.engine)
            if self._repair:
                self._written = await asyncio.to_thread(self.journal.last_seq)
                await self.recorded()
        except BaseException:
            await self.engine.dispose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.engine.dispose()

    # What happened

    async def answered(self, entry: Entry) -> None:
        """An answer that needed no request: green, ungated, remembered, malformed, a late click."""
        async with transaction(self.engine) as tx:
            line = await self._log(tx, entry)
        await self._write_out(line)

    async def submitted(self, request: Request, approvers: Sequence[str], surface: str) -> Request:
        """Files a new pending request with a card for each approver; the same call again gets the row on file."""
        async with transaction(self.engine) as tx:
            same_call = (
                select(requests)
                .where(requests.c.agent == request.agent)
                .where(requests.c.session == request.session)
                .where(requests.c.key == request.key)
            )
            if (row := (await tx.execute(same_call)).first()) is not None:
                return as_request(row)
            await tx.execute(insert(requests).values(**_columns(request)))
            for approver in approvers:
                await tx.execute(insert(cards).values(request=request.id, surface=surface, approver=approver))
            line = await self._log(tx, entry_of(request, State.PENDING, "gate", self._clock()))
        await self._write_out(line)
        return request

    async def decided(self, decision: Decision, keys: Sequence[Key], shown: Sequence[str], now: float) -> Click:
        """A person's answer, and for Always the rules it saves, if the request is still theirs to decide."""
        lines: list[Line] = []
        async with transaction(self.engine) as tx:
            row = (await tx.execute(select(requests).where(requests.c.id == decision.request))).first()
            if row is None:
                return Click(Verdict.UNKNOWN)
            request = as_request(row)
            if (verdict := await self._refusal(tx, request, decision)) is not None:
                return Click(verdict, request)
            state = State.DENIED if decision.choice is Choice.DENY else State.APPROVED
            in_time = now < request.expires_at
            ended = await self._end(tx, request, state, decision, now, lines) if in_time else None
            if ended is None:
                return Click(Verdict.ENDED, request)
            saved = []
            if decision.choice is Choice.ALWAYS:
                for key, text in zip(keys, shown, strict=True):
                    saved.append(await self._remember(tx, key, text, decision, now))
        await self._write_out(*lines)
        return Click(Verdict.DECIDED, ended, tuple(saved))

    async def expired(self, home: str, now: float) -> list[Request]:
        """Ends every pending request of `home` whose time is over."""
        condition = (requests.c.home == home) & (requests.c.expires_at <= now)
        return await self._end_all(condition, State.EXPIRED, "timeout", "", now)

    async def cancelled(self, request: str, by: str, now: float) -> Request | None:
        """The caller is gone; None when the request had ended before."""
        return await self._end_one(request, State.CANCELLED, by, "", now)

    async def undeliverable(self, request: str, reason: str, now: float) -> Request | None:
        """No approver could be asked; None when the request had ended before."""
        return await self._end_one(request, State.UNDELIVERABLE, "gate", reason, now)

    async def revoked(self, rule: str, now: float) -> Rule:
        """Ends a rule at once; raises NotFound."""
        async with transaction(self.engine) as tx:
            active = (rules.c.id == rule) & rules.c.revoked_at.is_(None)
            row = (await tx.execute(select(rules).where(active))).first()
            if row is None:
                raise NotFound(f"There is no active rule {rule}.", "`slack-gate rules` lists them.")
            await tx.execute(update(rules).where(active).values(revoked_at=now))
            line = await self._log(tx, Entry("revoked", "human-cli", request=row.request, reason=row.shown))
        await self._write_out(line)
        return _as_rule(row)

    # What is on file

    async def request(self, request: str) -> Request | None:
        async with transaction(self.engine) as tx:
            row = (await tx.execute(select(requests).where(requests.c.id == request))).first()
        return None if row is None else as_request(row)

    async def requests(self, limit: int) -> list[Request]:
        """The newest requests, newest first."""
        async with transaction(self.engine) as tx:
            rows = (await tx.execute(select(requests).order_by(requests.c.created_at.desc()).limit(limit))).all()
        return [as_request(row) for row in rows]

    async def pending(self, home: str) -> list[Request]:
        """The requests that agents of this daemon wait for."""
        async with transaction(self.engine) as tx:
            query = select(requests).where(requests.c.home == home).where(requests.c.state == State.PENDING)
            rows = (await tx.execute(query)).all()
        return [as_request(row) for row in rows]

    async def rules(self) -> list[Rule]:
        """Active rules, oldest first."""
        async with transaction(self.engine) as tx:
            query = select(rules).where(rules.c.revoked_at.is_(None)).order_by(rules.c.created_at)
            rows = (await tx.execute(query)).all()
        return [_as_rule(row) for row in rows]

    async def log_head(self) -> tuple[int, str] | None:
        """Seq and hash of the newest log line, None for an empty log."""
        async with transaction(self.engine) as tx:
            row = await _log_head(tx)
        return None if row is None else (row.seq, row.hash)

    async def recorded(self) -> None:
        """Returns when every log line of the database is in the file and synced; raises LogError."""
        while True:
            async with self._writing:
                async with transaction(self.engine) as tx:
                    query = select(log).where(log.c.seq > self._written).order_by(log.c.seq).limit(_BATCH)
                    lines = [Line(*row) for row in (await tx.execute(query)).all()]
                if not lines:
                    self._unwritten.clear()
                    return
                self._written = await asyncio.to_thread(self.journal.append, lines)

    # How

    async def _end_one(self, request: str, state: State, by: str, reason: str, now: float) -> Request | None:
        ended = await self._end_all(requests.c.id == request, state, by, reason, now)
        return ended[0] if ended else None

    async def _end_all(self, condition: Any, state: State, by: str, reason: str, now: float) -> list[Request]:
        lines: list[Line] = []
        async with transaction(self.engine) as tx:
            query = select(requests).where(condition).where(requests.c.state == State.PENDING)
            found = [as_request(row) for row in (await tx.execute(query)).all()]
            how = Decision("", "", Choice.DENY, by=by, user="", name="", reason=reason)
            ended = [await self._end(tx, request, state, how, now, lines) for request in found]
        await self._write_out(*lines)
        return [request for request in ended if request is not None]

    async def _end(
        self, tx: AsyncConnection, request: Request, state: State, how: Decision, now: float, lines: list[Line]
    ) -> Request | None:
        """The conditional UPDATE that decides: first one wins. Masks what was asked, logs, returns the ended row."""
        starts = [start for start in State if may(start, state)]
        query = (
            update(requests)
            .where(requests.c.id == request.id)
            .where(requests.c.digest == request.digest)
            .where(requests.c.state.in_(starts))
            .values(
                state=state,
                decided_at=now,
                decided_by=how.user or how.by,
                decided_name=how.name,
                reason=mask(how.reason),
                tool_input=json.dumps(mask_value(dict(request.tool_input))),
                command=None if request.command is None else mask(request.command),
            )
            .returning(requests)
        )
        row = (await tx.execute(query)).first()
        if row is None:
            return None
        ended = as_request(row)
        lines.append(await self._log(tx, entry_of(ended, state, how.by, now, how.user)))
        return ended

    async def _refusal(self, tx: AsyncConnection, request: Request, decision: Decision) -> Verdict | None:
        """Why this click cannot decide this request, None when it can: digest, approver and message must all match."""
        if decision.digest != request.digest:
            return Verdict.STALE
        query = select(cards).where(cards.c.request == request.id).where(cards.c.approver == decision.user)
        card = (await tx.execute(query)).first()
        if card is None:
            return Verdict.FOREIGN
        # A click can overtake the reply to our post: then the message is not on file yet, and the digest binds it.
        if card.message and (card.channel, card.message) != (decision.channel, decision.message):
            return Verdict.STALE
        return None

    async def _remember(self, tx: AsyncConnection, key: Key, text: str, decision: Decision, now: float) -> Rule:
        words = json.dumps(key.words)
        same = (rules.c.tool == key.tool) & (rules.c.words == words) & rules.c.revoked_at.is_(None)
        if (row := (await tx.execute(select(rules).where(same))).first()) is not None:
            return _as_rule(row)
        rule = Rule(f"R-{secrets.token_hex(4)}", key, mask(text), now, decision.user, decision.request)
        await tx.execute(
            insert(rules).values(
                id=rule.id,
                tool=key.tool,
                words=words,
                shown=rule.shown,
                created_at=now,
                created_by=rule.created_by,
                request=rule.request,
            )
        )
        return rule

    async def _log(self, tx: AsyncConnection, entry: Entry) -> Line:
        head = await _log_head(tx)
        seq, previous = (head.seq + 1, head.hash) if head else (1, FIRST)
        line = chained(entry, seq, previous, self._clock())
        await tx.execute(insert(log).values(seq=line.seq, line=line.text, hash=line.hash))
        return line

    async def _write_out(self, *lines: Line) -> None:
        """Group commit: whoever gets the lock writes and syncs everything that was committed meanwhile."""
        if not lines:
            return
        self._unwritten.extend(lines)
        async with self._writing:
            if self._written >= lines[-1].seq:
                return
            batch = sorted(self._unwritten, key=lambda line: line.seq)
            batch = [line for line in batch if line.seq > self._written]
            if [line.seq for line in batch] == list(range(self._written + 1, self._written + 1 + len(batch))):
                self._written = await asyncio.to_thread(self.journal.append, batch)
                self._unwritten = [line for line in self._unwritten if line.seq > self._written]
                return
        await self.recorded()  # another process wrote lines between ours: take them all from the table


async def _log_head(tx: AsyncConnection) -> Row[int, str] | None:
    return (await tx.execute(select(log.c.seq, log.c.hash).order_by(log.c.seq.desc()).limit(1))).first()


def entry_of(request: Request, decision: State, by: str, now: float, user: str = "") -> Entry:
    return Entry(
        decision=decision.value,
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
