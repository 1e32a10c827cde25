"""The database and this home's log file together: nothing is told before its lines are in the file.

What the store does is in the classes built on this one, a file each: questions, decisions, ends, runs, rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import Connection, select

from slack_gate.core.ports import Clock
from slack_gate.errors import LogError, StoreError
from slack_gate.store.database import Database
from slack_gate.store.log import Journal, Line, chain_name
from slack_gate.store.schema import prepare
from slack_gate.store.tables import log
from slack_gate.store.transaction import Transaction, head_of

BATCH = 1000  # lines read at once

T = TypeVar("T")


class Ledger:
    """The database at `url` and the log file at `journal`. Use as an async context manager.

    `repair`: at opening, write the log lines that a crash left out; without it the log file is left as it is.
    `home`: the daemon that works here, as its requests name it.
    """

    def __init__(self, url: str, journal: Path, clock: Clock, repair: bool = True, home: str = "") -> None:
        self.database = Database(url)
        self.journal = Journal(journal)
        self._chain = chain_name(journal.parent) if self.database.shared else ""
        self._clock = clock
        self._repair = repair
        self._home = home
        self.fault: str | None = None  # why the last lines could not be put in the file
        self._untidy = True  # a run before this one may have left something
        self._late = False  # whether lines missed the file at their time
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

    async def log_head(self) -> tuple[int, str] | None:
        """Seq and hash of the newest log line, None for an empty log."""
        row = await self.read(lambda c: head_of(c, self._chain))
        return None if row is None else (row.seq, row.hash)

    async def log_lines(self, chain: str, after: int) -> list[str]:
        """Up to 1,000 lines of one daemon's log that follow line `after`."""
        query = select(log.c.line).where(log.c.chain == chain, log.c.seq > after).order_by(log.c.seq).limit(BATCH)
        return list(await self.read(lambda c: c.execute(query).scalars().all()))

    async def log_chains(self) -> list[str]:
        """The names of all daemons' logs; one empty name in SQLite."""
        return list(await self.read(lambda c: c.execute(select(log.c.chain).distinct()).scalars().all()))

    async def tidied(self) -> bool:
        """What could not be done at its time: lines that the file lacks are written (raises LogError while they cannot
        be), and after a request has ended no file holds what it masked. Cheap when there is nothing to do.

        Whether there were such lines since: what they tell is on file, and whoever waits for it may not know.
        """
        try:
            if self.fault is not None:
                await self.recorded()
        finally:
            if self._untidy:
                self._untidy = not await self.database.checkpoint()
        late, self._late = self._late, False
        return late

    async def recorded(self) -> None:
        """Returns when every log line of this home is in the file and synced; raises LogError."""
        tx, _ = await self.database.run(self._missing, self._write_out, alone=True)
        if tx.fault is not None:
            raise tx.fault

    async def read(self, query: Callable[[Connection], T]) -> T:
        return await self.database.run(query, alone=True)

    async def transact(self, work: Callable[[Transaction], T], now: float | None = None, alone: bool = False) -> T:
        """`work` in a transaction, then its log lines to the file. `alone`: it ends with its first change."""

        tries = itertools.count()

        def in_transaction(connection: Connection) -> tuple[Transaction, T]:
            moment = self._clock() if now is None else now
            tx = Transaction(connection, moment, self.database, self._chain, alone)
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
        rows = connection.execute(query.order_by(log.c.seq).limit(BATCH)).all() if known else []
        tx.lines = [Line(*row) for row in rows]
        tx.wants_all = not known or len(rows) == BATCH
        return tx, None

    def _looking(self, connection: Connection) -> tuple[Transaction, bool]:
        """A look at the log's table, and whether it is known where the file stands; else all of it is looked at."""
        known = self._written > 0 and self.journal.as_left()
        tx = Transaction(connection, 0.0, self.database, self._chain, wants_all=not known)
        return tx, known

    def _write_out(self, done: Sequence[tuple[Transaction, object]]) -> None:
        """What was committed together, synced together."""
        transactions = [tx for tx, _ in done]
        self._untidy = self._untidy or any(tx.masked for tx in transactions)
        # Read and made one after the other, perhaps while others wrote too: some twice, some written, none in order.
        read = {line.seq: line for tx in transactions for line in tx.lines}
        lines = [read[seq] for seq in sorted(read) if seq > self._written]
        looks = any(tx.wants_all for tx in transactions)
        try:
            if looks or not self._appended(lines):
                self._catch_up()
            if looks or lines:  # who had nothing to write has not tried
                self.fault = None
        except StoreError as error:
            self._written, self._late = 0, True
            self.fault = str(error).rstrip(".")
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
            missing = query.where(log.c.seq > self._written).limit(BATCH)
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


def _follow(lines: Sequence[Line], written: int) -> bool:
    """Whether these come next in the file, without a gap."""
    return all(line.seq == written + number for number, line in enumerate(lines, 1))
