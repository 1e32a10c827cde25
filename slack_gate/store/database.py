"""The database and the one thread that talks to it: works are done in the order they came, each once or not at all.

What waits while the thread is busy is done together: SQLite commits it at once, and what must follow the commits (log
lines to the file) follows for all of them at once. So a thousand answers a second need no thousand syncs of the disk.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from slack_gate.errors import StoreError
from slack_gate.store.engines import SQLITE, opened, parsed

TOGETHER = 64  # works at most in one commit
TRIES = 5  # for a transaction that another daemon's got in the way of
AWAY_S = 1.0  # after a failed connection, what waits fails at once for so long
_IN_THE_WAY = frozenset({"40001", "40P01"})  # SQLSTATE: serialization failure, deadlock
_WAITED = frozenset({"55P03", "57014"})  # SQLSTATE: lock timeout, statement timeout

T = TypeVar("T")
After = Callable[[Sequence[Any]], None]


@dataclass(slots=True)
class _Work:
    do: Callable[[Connection], Any]
    after: After | None
    alone: bool
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class _Stuck(StoreError):
    """Somebody else holds what this work needs, and it has waited for that as long as it may."""


class Database:
    """SQLite or PostgreSQL at `url`. A thread of its own keeps the event loop free at the cost of one hop a
    transaction; an asynchronous driver pays one a statement."""

    def __init__(self, url: str) -> None:
        self.url = parsed(url)
        self.shared = self.url.get_backend_name() != SQLITE
        self._engine = opened(self.url)
        self._thread = ThreadPoolExecutor(1, "database")
        self._connection: Connection | None = None  # the thread's own, kept: a pool's hand-over costs each time
        self._waiting: deque[_Work] = deque()
        self._away_until = 0.0
        self._committing = False
        self._closed = False
        self.backend = 0  # the server's process that does our work: what it notifies of, we know
        self.fault: str | None = None  # why the last work could not be done
        self.kept: dict[str, Any] = {}  # what works know of the last state, emptied when that may not hold any more
        event.listen(self._engine, "rollback", lambda _: self.kept.clear())

    async def run(self, work: Callable[[Connection], T], after: After | None = None, alone: bool = False) -> T:
        """`work` in one transaction. Raises StoreError. `alone`: of its statements only the last one may change
        anything; it commits itself then (`commits`), so nothing has to be begun or committed around it.

        `work` may be called again when another transaction got in its way. `after` is called in the same thread once
        for all works with an equal `after` that were committed together, with their results; its error is theirs.
        """
        if self._closed:  # a click can come in while the daemon stops
            raise StoreError("The database is closed: slack-gate is stopping.", "Ask again when it runs again.")
        found = _Work(work, after, alone, asyncio.get_running_loop().create_future())
        self._waiting.append(found)
        self._thread.submit(self._drain)
        return cast(T, await found.future)

    def transaction(self, work: Callable[[Connection], T], alone: bool = False) -> T:
        """For callers already in the thread (`after`): commits, or leaves nothing of `work`. Raises StoreError."""
        for left in range(TRIES - 1, -1, -1):
            try:
                result = self._once(work, alone)
            except SQLAlchemyError as error:
                lost = isinstance(error, DBAPIError) and error.connection_invalidated
                again = _in_the_way(error) or (lost and not self._committing)
                if lost or not again:
                    self._forget_connection()
                if not again or not left:
                    raise self._unusable(error) from None  # the cause would show what was to be written
            else:
                self.fault = None
                return result
        raise AssertionError("unreachable")

    def _once(self, work: Callable[[Connection], T], alone: bool = False) -> T:
        self._committing = False
        if self._connection is None:
            self._connection = self._connected()
        with self._connection.begin():
            if self.shared and not alone:
                self._connection.exec_driver_sql("BEGIN")
            result = work(self._connection)
            self.commits()
            return result

    def commits(self) -> None:
        """What follows in this work commits it: should the connection be lost now, it is open what happened."""
        self._committing = True

    def _connected(self) -> Connection:
        if time.monotonic() < self._away_until:
            raise StoreError(self.fault or "The database is away.")
        try:
            connection = self._engine.connect()
            if self.shared:
                driver: Any = connection.connection.dbapi_connection
                self.backend = driver.info.backend_pid
            return connection
        except SQLAlchemyError:
            if self.shared:
                self._away_until = time.monotonic() + AWAY_S
            raise

    def _drain(self) -> None:
        """Everything that waits now. What comes later submits another drain; one that finds nothing does nothing."""
        works: list[_Work] = []
        while self._waiting and len(works) < TOGETHER:
            work = self._waiting.popleft()
            if not work.future.cancelled():
                works.append(work)
        if not works:
            return
        if self.shared or len(works) == 1 or not self._done_together(works):
            self._do_each(works)
        for after, done in itertools.groupby((work for work in works if not work.error), lambda work: work.after):
            if after is not None:
                _follow(after, list(done))
        works[0].future.get_loop().call_soon_threadsafe(partial(_deliver, works))

    def _done_together(self, works: Sequence[_Work]) -> bool:
        """One commit for all; False when any of them failed, and then none of them has happened."""
        try:
            results = self._once(lambda connection: [work.do(connection) for work in works])
        except OperationalError as error:
            if not _has_waited(error):
                return False
            for work in works:
                work.error = self._unusable(error)
            return True
        except Exception:  # noqa: BLE001 - each is tried alone next, and tells its own error
            return False
        for work, result in zip(works, results, strict=True):
            work.result = result
        return True

    def _do_each(self, works: Sequence[_Work]) -> None:
        """One after the other. What is recorded behind one that waited in vain would wait for the same, and the
        refusals of all of them for the last."""
        stuck: _Work | None = None
        for work in works:
            if stuck is not None and stuck.after is not None and work.after == stuck.after:
                work.error = stuck.error
                continue
            self._do(work)
            if isinstance(work.error, _Stuck):
                stuck = work

    def _do(self, work: _Work) -> None:
        try:
            work.result = self.transaction(work.do, work.alone)
        except BaseException as error:  # noqa: BLE001 - it is whoever asked for the work that must hear of it
            work.error = error

    def _unusable(self, error: SQLAlchemyError) -> StoreError:
        self.fault = f"The database cannot be used: {self._told(error)}."
        mend = "see to the server" if self.shared else "free the disk, mend the rights, or restore a backup"
        kind = _Stuck if _has_waited(error) else StoreError
        return kind(self.fault, f"Nothing is allowed until it can; {mend}.")

    def _told(self, error: SQLAlchemyError) -> str:
        """The error in the database's own words, without rows, statements or the password."""
        cause = getattr(error, "orig", None) or error
        text = getattr(getattr(cause, "diag", None), "message_primary", None) or str(cause)
        password = self.url.password or ""
        for secret in {password, quote(password), quote_plus(password)} - {""}:
            text = text.replace(secret, "[masked]")
        return " ".join(text.split()).rstrip(".")

    async def checkpoint(self) -> bool:
        """Moves what was committed from SQLite's write-ahead file into the database and empties that file.

        Until then the file holds the pages as they were before. False when another process was reading: try again.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._checkpoint)

    def _checkpoint(self) -> bool:
        if self._connection is None or self.shared:
            return True
        cursor = self._connection.connection.cursor()  # outside a transaction, where alone it works
        try:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            busy, *_ = cursor.fetchone() or (1,)
            return not busy
        except sqlite3.Error as error:
            raise StoreError(f"The database cannot be tidied: {error}.") from error
        finally:
            cursor.close()

    def _forget_connection(self) -> None:
        connection, self._connection = self._connection, None
        self.kept.clear()
        if connection is not None:
            connection.invalidate()
            connection.close()

    async def close(self) -> None:
        """After what was asked of it before; what comes later is refused."""
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self.dispose)
        self._thread.shutdown()

    def dispose(self) -> None:
        """Without the thread: for who has used `transaction` alone."""
        if self._connection is not None:
            self._connection.close()
        self._engine.dispose()


def _in_the_way(error: SQLAlchemyError) -> bool:
    """Whether another transaction was first with a row or a lock: the same work may succeed at once."""
    if isinstance(error, IntegrityError):
        return True
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _IN_THE_WAY


def _has_waited(error: SQLAlchemyError) -> bool:
    cause = getattr(error, "orig", None)
    busy = (getattr(cause, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_BUSY
    return busy or getattr(cause, "sqlstate", None) in _WAITED


def _follow(after: After, works: Sequence[_Work]) -> None:
    try:
        after([work.result for work in works])
    except BaseException as error:  # noqa: BLE001 - as above
        for work in works:
            work.error = error


def _deliver(works: Sequence[_Work]) -> None:
    for work in works:
        if work.future.cancelled():
            continue
        if work.error is not None:
            work.future.set_exception(work.error)
        else:
            work.future.set_result(work.result)
