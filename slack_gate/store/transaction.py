"""One transaction of the store: the connection, one moment, and the log lines made in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Row,
    bindparam,
    cast,
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
    """`now` is one moment for all of it, in seconds since the epoch; `chain` names the log, `home` the daemon."""

    connection: Connection
    now: float
    database: Database
    chain: str
    home: str
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
        chain = chain or self.chain
        own = chain == self.chain
        seq, previous = (own and self.database.kept.get(_LAST)) or _last(self.connection, chain)
        line = chained(entry, seq + 1, previous, self.now)
        values = {"chain": chain, "seq": line.seq, "line": line.text, "hash": line.hash}
        # Another process may have been first: then this number is taken, and the work begins anew.
        self.connection.execute(_NEW_LINE, values)
        if own:
            self.database.kept[_LAST] = (line.seq, line.hash)
            self.lines.append(line)

    def first(self) -> None:
        """Nobody else takes the next number before this transaction has. For the rare case that somebody did."""
        if self.database.shared:
            self.connection.execute(_LOCK)

    def one(self, table: Any, condition: ColumnElement[bool]) -> Row[*tuple[Any, ...]] | None:
        return self.connection.execute(select(table).where(condition)).first()


def _last(connection: Connection, chain: str) -> tuple[int, str]:
    head = head_of(connection, chain)
    return (head.seq, head.hash) if head else (0, FIRST)


def head_of(connection: Connection, chain: str) -> Row[int, str] | None:
    """Number and hash of the newest line of a log."""
    return connection.execute(_HEAD, {"chain": chain}).first()
