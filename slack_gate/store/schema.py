"""The tables brought to the revision that this program knows; alembic is loaded only when they are not."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, select, text

from slack_gate.errors import StoreError
from slack_gate.store.database import Database
from slack_gate.store.tables import SCHEMA_VERSION, about

HEAD = "0009"  # the newest migration
FIRST = "0001"
_PLACE = Path(__file__).with_name("migrations")
_KNOWN = tuple(f"{number:04}" for number in range(1, int(HEAD) + 1))
_LOCK = 0x51AC6A7E  # of ours alone among PostgreSQL's advisory locks; any number would do


def prepare(connection: Connection) -> None:
    """Makes the tables of a new database, changes those of an older one, leaves those of a newer one that this program
    can use. In one transaction: of a migration that fails nothing stays. Raises StoreError.
    """
    if _revision(connection) != HEAD:
        _lock(connection)  # several daemons may start at once
        revision = _revision(connection)
        _refuse_newer(connection)
        if revision is None or revision in _KNOWN:
            migrate(connection, HEAD)
    _refuse_newer(connection)


def migrate(connection: Connection, revision: str) -> None:
    """Forward or back to `revision`."""
    from alembic import command  # loaded late: most starts need none of it
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_PLACE).replace("%", "%%"))
    now = _revision(connection)
    if now is None and inspect(connection).has_table("about"):  # made before there were migrations
        command.stamp(config, FIRST)
        now = FIRST
    if now is None or revision >= now:
        command.upgrade(config, revision)
    else:
        command.downgrade(config, revision)


def back(url: str, revision: str) -> None:
    """Back to an older program's tables, for the database at `url`; every daemon must be stopped. Raises StoreError."""
    database = Database(url)
    try:
        database.transaction(lambda connection: migrate(connection, revision))
    finally:
        database.dispose()


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _lock(connection: Connection) -> None:
    """Others wait until our transaction ends. SQLite's write lock is held already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = '60s'"))
        connection.execute(text("SET LOCAL statement_timeout = '60s'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _refuse_newer(connection: Connection) -> None:
    if not inspect(connection).has_table("about"):
        return
    version = connection.execute(select(about.c.value).where(about.c.name == "schema")).scalar()
    if version is not None and int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"The database was written by a newer slack-gate (schema {version}, this one knows {SCHEMA_VERSION}).",
            "Start the newer program, or restore the backup made before the upgrade.",
        )
