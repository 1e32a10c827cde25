"""The engine: how the database is opened, and the one transaction that everything else is written in."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event, insert, make_url, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from slack_gate.errors import StoreError
from slack_gate.store.tables import SCHEMA_VERSION, about, metadata

BUSY_S = 5.0  # how long a writer waits for another process's transaction


def open_engine(url: str) -> AsyncEngine:
    """An engine for a SQLite URL; the file is created readable by its owner alone."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise StoreError(
            f"This version keeps its state in SQLite only, not in {parsed.get_backend_name()}.",
            "Leave SLACK_GATE_DATABASE_URL empty.",
        )
    _create_private(parsed)
    engine = create_async_engine(
        parsed.set(drivername="sqlite+aiosqlite"),
        pool_size=1,  # SQLite has one writer; queueing here keeps transactions short and in order
        max_overflow=0,
        connect_args={"timeout": BUSY_S},
    )
    event.listen(engine.sync_engine, "connect", _on_connect)
    event.listen(engine.sync_engine, "begin", _on_begin)
    return engine


def _create_private(url: URL) -> None:
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


@asynccontextmanager
async def transaction(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """Commits at the end of the block; any database fault becomes a StoreError and nothing of the block remains."""
    try:
        async with engine.begin() as connection:
            yield connection
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise StoreError(
            f"The database cannot be used: {cause}.",
            "Nothing is allowed until it can; free the disk, mend the rights, or restore a backup.",
        ) from error


async def create_tables(engine: AsyncEngine) -> None:
    """Makes the tables of a new database; refuses one made by a newer version. Nothing of a damaged file is changed."""
    async with transaction(engine) as connection:
        await connection.run_sync(metadata.create_all)
        version = (await connection.execute(select(about.c.value).where(about.c.name == "schema"))).scalar()
        if version is None:
            await connection.execute(insert(about).values(name="schema", value=str(SCHEMA_VERSION)))
        elif int(version) > SCHEMA_VERSION:
            raise StoreError(
                f"The database was written by a newer slack-gate (schema {version}, this one knows {SCHEMA_VERSION}).",
                "Start the newer program, or restore the backup made before the upgrade.",
            )
