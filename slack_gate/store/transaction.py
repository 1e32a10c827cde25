"""One transaction of the store: the connection, one moment, and the log lines made in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Row,
    Select,
    Update,
    bindparam,
    cast,
    exists,
    extract,
    func,
    insert,
    literal,
    select,
    text,
)

from slack_gate.core.ports import Entry
from slack_gate.errors import StoreError
from slack_gate.store.database import Database
from slack_gate.store.log import FIRST, Line, chained
from slack_gate.store.tables import log

# Every answer runs these; building a statement costs more than running it.
_HEAD = select(log.c.seq, log.c.hash).where(log.c.chain == bindparam("chain")).order_by(log.c.seq.desc()).limit(1)
_NEW_LINE = insert(log)
_LOCK = text("LOCK TABLE log IN SHARE ROW EXCLUSIVE MODE")
SERVERS_TIME: ColumnElement[float] = cast(extract("epoch", func.clock_timestamp()), Double)
_LAST = "last log line"


@dataclass(slots=True)
class Transaction:
    """`now` is one moment for all of it, in seconds since the epoch; `chain` names this home's log.

    `alone`: it ends with its first change (`Database.run`).
    """

    connection: Connection
    now: float
    database: Database
    chain: str
    alone: bool = False
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)  # newest lines of logs, as read in it
    lines: list[Line] = field(default_factory=list)
    masked: bool = False
    wants_all: bool = False  # every line that the file lacks, not only those made here
    fault: StoreError | None = None  # why the lines could not be written to the file after the commit

    @property
    def time(self) -> ColumnElement[float]:
        """What deadlines are compared with: on a shared database its own clock, whichever daemon asks."""
        return SERVERS_TIME if self.database.shared else literal(self.now, Double)

    def log(self, entry: Entry, chain: str = "") -> None:
        """Adds the line to a log: this home's, or the one of the daemon whose request it is about. That daemon writes
        it to its file before it answers.
        """
        if self.alone and self.database.shared:
            raise StoreError("A line of its own, where a change and its line are one statement.")
        chain = chain or self.chain
        line = self._next(entry, chain)
        # Another process may have been first: then this number is taken, and the work begins anew.
        self.connection.execute(_NEW_LINE, {"chain": chain, "seq": line.seq, "line": line.text, "hash": line.hash})
        self._logged(line, chain)

    def changed(
        self, query: Update, values: Mapping[str, Any], entry: Entry, chain: str = ""
    ) -> Row[*tuple[Any, ...]] | None:
        """What an UPDATE of one row returns, with its line in that log; None, and no line, where it changes nothing."""
        if not self.database.shared:
            if (row := self.connection.execute(query, values).first()) is not None:
                self.log(entry, chain)
            return row
        chain = chain or self.chain
        line = self._next(entry, chain)
        new = {"new_chain": chain, "new_seq": line.seq, "new_line": line.text, "new_hash": line.hash}
        if self.alone:
            self.database.commits()
        row = self.connection.execute(_with_line(query), {**values, **new}).first()
        if row is not None:
            self._logged(line, chain)
        return row

    def _next(self, entry: Entry, chain: str) -> Line:
        known = self.heads.get(chain) or (self.database.kept.get(_LAST) if chain == self.chain else None)
        seq, previous = known or _last(self.connection, chain)
        return chained(entry, seq + 1, previous, self.now)

    def _logged(self, line: Line, chain: str) -> None:
        self.heads[chain] = line.seq, line.hash
        if chain == self.chain:
            self.database.kept[_LAST] = line.seq, line.hash
            self.lines.append(line)

    def first(self) -> None:
        """Nobody else takes the next number before this transaction has. For the rare case that somebody did."""
        if self.database.shared:
            if self.alone:
                self.connection.exec_driver_sql("BEGIN")
                self.alone = False
            self.connection.execute(_LOCK)

    def one(self, table: Any, condition: ColumnElement[bool]) -> Row[*tuple[Any, ...]] | None:
        return self.connection.execute(select(table).where(condition)).first()


@lru_cache(64)
def _with_line(query: Update) -> Select[Any]:
    """The UPDATE and, if it changes a row, the new line, in one statement: one way to the server instead of two."""
    changed = query.cte("changed")
    new = {column.name: bindparam(f"new_{column.name}", type_=column.type) for column in log.columns}
    line = insert(log).from_select(list(new), select(*new.values()).where(exists(select(changed)))).cte("line")
    return select(changed).add_cte(line)


def _last(connection: Connection, chain: str) -> tuple[int, str]:
    head = head_of(connection, chain)
    return (head.seq, head.hash) if head else (0, FIRST)


def head_of(connection: Connection, chain: str) -> Row[int, str] | None:
    """Number and hash of the newest line of a log."""
    return connection.execute(_HEAD, {"chain": chain}).first()
