"""SQLite alone: one private file, without secrets once a request has ended, refused and kept when it is not ours."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from slack_gate.core.ports import Entry
from slack_gate.errors import StoreError
from slack_gate.store.store import Store
from tests.store.place import NOW, Clock, Place, click, submitted


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'gate.db'}"


async def test_an_ended_request_keeps_no_secret(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        made = await store.decided(click(), (), (), NOW + 1)
        assert made.request is not None
        assert made.request.command == "curl -u a:b --password [masked 7]"
        assert made.request.digest == "d1"
    assert not [path for path in place.path.iterdir() if b"hunter2" in path.read_bytes()]


async def test_a_corrupt_database_is_refused_and_kept(place: Place) -> None:
    (place.path / "gate.db").write_bytes(b"this is not a database, and long enough to be sure of it" * 40)
    before = (place.path / "gate.db").read_bytes()
    with pytest.raises(StoreError, match="cannot be used"):
        async with place.store():
            pass
    assert (place.path / "gate.db").read_bytes() == before


async def test_other_databases_are_refused_by_name(place: Place) -> None:
    with pytest.raises(StoreError, match="not in mysql"):
        Store("mysql://x/y", place.path / "log", Clock())
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(f"sqlite:///{place.path}/missing/gate.db", place.path / "log", Clock())


async def test_files_are_private(place: Place) -> None:
    async with place.store() as store:
        await store.answered(Entry("green", "policy"))
        assert {path.stat().st_mode & 0o777 for path in place.path.iterdir()} == {0o600}


async def test_what_waits_for_a_lock_is_refused_together(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack_gate.store.engines.BUSY_S", 0.1)
    async with place.store() as store:
        with sqlite3.connect(place.path / "gate.db", isolation_level=None) as database:
            database.execute("BEGIN IMMEDIATE")
            tried = []
            once = store.database._once
            monkeypatch.setattr(store.database, "_once", lambda *work: tried.append(1) or once(*work))
            ends = await asyncio.gather(
                *(store.answered(Entry("green", "policy")) for _ in range(30)), return_exceptions=True
            )
            assert [str(end).count("locked") for end in ends] == [1] * 30
            assert 1 <= len(tried) <= 2  # the first by itself, perhaps, and the others together
            database.execute("ROLLBACK")
        await store.answered(Entry("green", "policy"))


async def test_a_locked_database_is_a_store_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack_gate.store.engines.BUSY_S", 0.1)
    async with place.store() as store:
        with sqlite3.connect(place.path / "gate.db", isolation_level=None) as database:
            database.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                await store.answered(Entry("green", "policy"))
            database.execute("ROLLBACK")
        await store.answered(Entry("green", "policy"))
