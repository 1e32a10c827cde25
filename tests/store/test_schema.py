"""Migrations: forward and back with every row kept, under a lock, and older programs on newer tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from slack_gate.core.ports import Entry
from slack_gate.core.request import State
from slack_gate.errors import StoreError
from slack_gate.store import engines, schema
from slack_gate.store.database import Database
from slack_gate.store.tables import SCHEMA_VERSION, metadata
from tests.store.place import ENDS, HOME, NOW, Place, click

OLD_REQUEST = {
    "id": "SG-1",
    "digest": "d1",
    "state": "pending",
    "agent": "claude-code",
    "session": "s1",
    "key": "toolu_1",
    "nonce": "n1",
    "tool": "Bash",
    "tool_input": json.dumps({"command": "git push"}),
    "command": "git push",
    "cwd": "/w",
    "host": "box",
    "home": HOME,
    "why": "not green",
    "created_at": NOW,
    "expires_at": ENDS,
    "decided_by": "",
    "decided_name": "",
    "reason": "",
}
OLD_CARD = {
    "request": "SG-1",
    "surface": "slack",
    "approver": "U0ANA",
    "channel": "D1",
    "message": "1.1",
    "drawn": "pending",
    "error": "",
    "attempts": 0,
    "due_at": 0.0,
}
OLD_RULE = {"id": "R-1", "tool": "Bash", "words": '["touch"]', "shown": "touch", "created_at": NOW}
OLD_RULE |= {"created_by": "U0ANA", "request": "SG-0"}
BACK = ["0008", "0005", "0003", "0002", "0001"]


async def run(place: Place, *works: Callable[[Connection], Any]) -> Any:
    """Each in a transaction of its own; what the last one returned."""
    database = Database(place.url)
    try:
        return [await database.run(work) for work in works][-1]
    finally:
        await database.close()


def to(revision: str) -> Callable[[Connection], None]:
    return lambda connection: schema.migrate(connection, revision)


def sql(statement: str, **values: Any) -> Callable[[Connection], Any]:
    def work(connection: Connection) -> Any:
        found = connection.execute(text(statement), values)
        return found.scalar() if found.returns_rows else None

    return work


def insert(table: str, values: dict[str, Any]) -> Callable[[Connection], Any]:
    """As an older program does it: without a word of columns that came later."""
    names = ", ".join(values)
    return sql(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in values)})", **values)


def shape(connection: Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


async def test_the_migrations_make_the_tables_that_the_program_uses(place: Place) -> None:
    assert await run(place, schema.prepare, shape) == []
    assert await run(place, sql("SELECT value FROM about WHERE name = 'schema'")) == str(SCHEMA_VERSION)


def test_the_newest_migration_is_known() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema._PLACE))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD


@pytest.mark.parametrize("start", ["0001", "0002", "0003"])
async def test_what_is_on_file_survives_the_way_forward(place: Place, start: str) -> None:
    old = [insert("requests", OLD_REQUEST), insert("cards", OLD_CARD), insert("rules", OLD_RULE)]
    await run(place, to(start), *old)
    async with place.store() as store:
        assert (await store.decided(click(), (), (), NOW + 1)).request is not None
        assert [rule.id for rule in await store.rules()] == ["R-1"]
        await store.answered(Entry("green", "policy"))
    assert place.decisions() == ["approved", "green"]


async def test_forward_and_back_and_forward(place: Place) -> None:
    old = [insert("requests", OLD_REQUEST), insert("cards", OLD_CARD), insert("rules", OLD_RULE)]
    await run(place, schema.prepare, *old)
    for revision in BACK:
        await run(place, to(revision))
        assert await run(place, sql("SELECT count(*) FROM requests")) == 1
    assert await run(place, sql("SELECT value FROM about WHERE name = 'schema'")) == "1"
    assert await run(place, schema.prepare, shape) == []
    async with place.store() as store:
        assert [request.id for request in await store.pending(HOME)] == ["SG-1"]


async def test_an_approval_that_was_none_is_none_after_the_way_forward_and_back(place: Place) -> None:
    """Until 0009 one that could not be recorded stood as approved, with the time at which that was found."""
    others = [OLD_REQUEST | {"id": f"SG-{number}", "key": f"toolu_{number}"} for number in (2, 3)]
    pending = [insert("requests", one) for one in others]
    approve = sql("UPDATE requests SET state = 'approved', decided_at = :at, decided_by = 'U0ANA'", at=NOW)
    lift = sql("UPDATE requests SET lifted_at = :at WHERE id = 'SG-2'", at=NOW)
    await run(place, to("0008"), *pending, approve, lift)
    async with place.store() as store:
        states = {one.id: (one.state, one.lifted_at) for one in await store.requests(9)}
        assert states == {"SG-2": (State.NOT_RUN, None), "SG-3": (State.APPROVED, None)}
        assert await store.claimed("SG-2", "run-2", "cage", NOW) is None
        assert await store.claimed("SG-3", "run-3", "cage", NOW) is not None
    await run(place, to("0008"))
    assert await run(place, sql("SELECT state FROM requests WHERE id = 'SG-2'")) == "finished"
    with pytest.raises(StoreError):
        await run(place, sql("UPDATE requests SET state = 'not-run' WHERE id = 'SG-3'"))


async def test_going_back_widens_no_rule(place: Place) -> None:
    await run(place, schema.prepare, insert("rules", OLD_RULE | {"session": "s1"}), to("0003"))
    assert await run(place, sql("SELECT count(*) FROM rules WHERE revoked_at IS NULL")) == 0


async def test_a_database_from_before_the_migrations_is_taken_over(place: Place) -> None:
    old = [insert("requests", OLD_REQUEST), sql("DROP TABLE alembic_version")]
    for start in ("0001", "0002"):
        await run(place, to(start), old[-1])
        async with place.store() as store:
            assert await store.pending(HOME) == []
        await run(place, to("0001"), sql("DROP TABLE alembic_version"))
    await run(place, old[0])
    async with place.store() as store:
        assert [request.id for request in await store.pending(HOME)] == ["SG-1"]


async def test_an_older_program_goes_on_with_newer_tables(place: Place) -> None:
    """Every statement of a program that knows the first tables only."""
    place_of = "'0' || seq"
    await run(
        place,
        schema.prepare,
        insert("requests", OLD_REQUEST),
        insert("cards", OLD_CARD),
        insert("rules", OLD_RULE),
        insert("log", {"seq": 1, "line": "{}", "hash": "h"}),
        sql(f"SELECT {place_of} FROM log ORDER BY seq DESC LIMIT 1"),
        sql(
            "UPDATE requests SET state = 'approved', decided_at = :at, decided_by = 'U0ANA' "
            "WHERE id = 'SG-1' AND digest = 'd1' AND state IN ('pending')",
            at=NOW + 1,
        ),
        sql("UPDATE cards SET drawn = 'approved' WHERE id = 1"),
        sql("UPDATE rules SET revoked_at = :at WHERE id = 'R-1' AND revoked_at IS NULL", at=NOW + 1),
    )


async def test_newer_tables_that_do_not_refuse_us_are_used_and_left(place: Place) -> None:
    newer = [sql("UPDATE alembic_version SET version_num = '9999'"), sql("ALTER TABLE requests ADD COLUMN later TEXT")]
    await run(place, schema.prepare, *newer)
    async with place.store() as store:
        await store.answered(Entry("green", "policy"))
    assert await run(place, sql("SELECT version_num FROM alembic_version")) == "9999"


async def test_newer_tables_that_refuse_us_are_not_touched(place: Place) -> None:
    await run(place, schema.prepare, sql("UPDATE about SET value = '99' WHERE name = 'schema'"))
    for revision in ("9999", schema.HEAD, "0003"):
        await run(place, sql("UPDATE alembic_version SET version_num = :to", to=revision))
        with pytest.raises(StoreError, match="newer"):
            async with place.store():
                pass
    assert await run(place, sql("SELECT version_num FROM alembic_version")) == "0003"


async def test_several_that_start_at_once_make_one_set_of_tables(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BUSY_S", 60.0)  # each waits for all before it, on whatever disk

    async def start() -> None:
        async with place.store() as store:
            await store.answered(Entry("green", "policy"))

    await asyncio.gather(*(start() for _ in range(6)))
    assert await run(place, shape) == []
    assert len(place.decisions()) == 6


async def test_a_migration_that_fails_leaves_nothing(place: Place) -> None:
    await run(place, to("0002"), sql("CREATE TABLE heartbeats (other TEXT)"))
    with pytest.raises(StoreError, match="heartbeats"):
        async with place.store():
            pass
    assert await run(place, sql("SELECT version_num FROM alembic_version")) == "0002"
    with pytest.raises(StoreError, match="chain"):
        await run(place, sql("SELECT chain FROM requests"))
    await run(place, sql("DROP TABLE heartbeats"))
    async with place.store():
        pass


async def test_going_back_by_hand(place: Place) -> None:
    await run(place, schema.prepare, insert("requests", OLD_REQUEST))
    await asyncio.to_thread(schema.back, place.url, "0002")
    assert await run(place, sql("SELECT version_num FROM alembic_version")) == "0002"
    async with place.store() as store:
        assert [request.id for request in await store.pending(HOME)] == ["SG-1"]
