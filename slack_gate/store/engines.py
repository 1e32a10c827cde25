"""How each kind of database is opened: private, durable, and never waited for without end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from slack_gate.errors import StoreError

BUSY_S = 5.0  # how long a writer waits for another process's transaction
CONNECT_S = 5
GONE_S = 8  # without a word from the server for so long, the connection is taken for lost
SQLITE, POSTGRESQL = "sqlite", "postgresql"


def parsed(url: str) -> URL:
    """Raises StoreError; the URL, which may hold a password, stands in no error."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError(
            "SLACK_GATE_DATABASE_URL is no URL.", "It looks like postgresql+psycopg://user:password@host/database."
        ) from None
    if found.get_backend_name() == POSTGRESQL:
        return found.set(drivername="postgresql+psycopg")
    if found.get_backend_name() != SQLITE:
        raise StoreError(
            f"slack-gate keeps its state in SQLite or PostgreSQL, not in {found.get_backend_name()}.",
            "Leave SLACK_GATE_DATABASE_URL empty, or name a PostgreSQL database.",
        )
    return found


def is_shared(url: str) -> bool:
    """Whether daemons of several machines can be on it."""
    return parsed(url).get_backend_name() == POSTGRESQL


def opened(url: URL) -> Engine:
    """The engine; nothing is connected yet, but SQLite's file exists. Raises StoreError."""
    return _sqlite(url) if url.get_backend_name() == SQLITE else _postgresql(url)


def connect_arguments(url: URL) -> dict[str, Any]:
    """What libpq is told beside the URL. A server that goes silent is noticed within GONE_S, a stuck statement or lock
    ends, and a commit that was acknowledged is on disk whatever the server's default is."""
    options = {
        "statement_timeout": f"{GONE_S}s",
        "lock_timeout": f"{BUSY_S:.0f}s",
        "idle_in_transaction_session_timeout": f"{2 * GONE_S}s",
        "synchronous_commit": "on",
        "default_transaction_isolation": r"read\ committed",
        "timezone": "UTC",
    }
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_S,
        "keepalives_idle": GONE_S // 2,
        "keepalives_interval": 1,
        "keepalives_count": GONE_S // 2,
        "tcp_user_timeout": GONE_S * 1000,
        "target_session_attrs": "read-write",
        "application_name": "slack-gate",
        "client_encoding": "utf8",
        "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
    }
    return {name: value for name, value in arguments.items() if name not in url.query}


def _postgresql(url: URL) -> Engine:
    try:
        return create_engine(
            url,
            connect_args=connect_arguments(url),
            isolation_level="AUTOCOMMIT",  # `Database` begins what needs a transaction
            poolclass=NullPool,
            hide_parameters=True,
            use_native_hstore=False,
        )
    except ModuleNotFoundError:
        fix = "Run `.venv/bin/pip install -c scripts/constraints.txt -e '.[postgres]'` in slack-gate's clone."
        raise StoreError("PostgreSQL's driver is not installed.", fix) from None


def _sqlite(url: URL) -> Engine:
    _create_private(url)
    engine = create_engine(url, connect_args={"timeout": BUSY_S}, hide_parameters=True)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _create_private(url: URL) -> None:
    """The file is readable by its owner alone from the moment it exists.

    A file that is there is never opened but by SQLite: closing it would drop the locks that SQLite holds on it for this
    whole process, and the next program to look at the database would take its write-ahead file away.
    """
    path = Path(url.database or "")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
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
