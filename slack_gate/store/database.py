"""The database and the one thread that talks to it: each piece of work is one transaction, in the order it came."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import SQLAlchemyError

from slack_gate.errors import StoreError
from slack_gate.store.tables import SCHEMA_VERSION, about, metadata

BUSY_S = 5.0  # how long a writer waits for another process's transaction

T = TypeVar("T")


class Database:
    """SQLite at `url`. A thread of its own keeps the event loop free at the cost of one hop a transaction; an
    asynchronous driver pays one a statement."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._thread = ThreadPoolExecutor(1, "database")
        self._connection: Connection | None = None  # the thread's own, kept: a pool's hand-over costs each time

    async def run(self, work: Callable[[Connection], T], after: Callable[[T], object] | None = None) -> T:
        """`work` in one transaction; `after` it, in the same thread, what must follow the commit. Raises StoreError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work, after)

    def _run(self, work: Callable[[Connection], T], after: Callable[[T], object] | None) -> T:
        result = self.transaction(work)
        if after is not None:
            after(result)
        return result

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """For callers already in the thread (`after`): commits, or leaves nothing of `work`. Raises StoreError."""
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            with self._connection.begin():
                return work(self._connection)
        except SQLAlchemyError as error:
            self._forget_connection()
            raise StoreError(
                f"The database cannot be used: {getattr(error, 'orig', None) or error}.",
                "Nothing is allowed until it can; free the disk, mend the rights, or restore a backup.",
            ) from error

    async def checkpoint(self) -> bool:
        """Moves what was committed from the write-ahead file into the database and empties that file.

        Until then the file holds the pages as they were before. False when another process was reading: try again.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._checkpoint)

    def _checkpoint(self) -> bool:
        if self._connection is None:
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
        if connection is not None:
            connection.invalidate()
            connection.close()

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._engine.dispose()


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise StoreError(
            f"This version keeps its state in SQLite only, not in {parsed.get_backend_name()}.",
            "Leave SLACK_GATE_DATABASE_URL empty.",
        )
    _create_private(parsed)
    engine = create_engine(parsed, connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _create_private(url: URL) -> None:
    """The file is readable by its owner alone from the moment it exists."""
    path = Path(url.database or "")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"The database {path} cannot be opened: {error.strerror}.") from error


def _on_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not open transactions of its own
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # a reader that turns writer would fail when another writes first


def create_tables(connection: Connection) -> None:
    """Makes the tables of a new database; refuses one made by a newer version. Nothing of a damaged file is changed."""
    metadata.create_all(connection)
    version = connection.execute(select(about.c.value).where(about.c.name == "schema")).scalar()
    if version is None:
        connection.execute(insert(about).values(name="schema", value=str(SCHEMA_VERSION)))
    elif int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"The database was written by a newer slack-gate (schema {version}, this one knows {SCHEMA_VERSION}).",
            "Start the newer program, or restore the backup made before the upgrade.",
        )
