"""PostgreSQL alone: away, back, restarted, locked, full of others; and its password nowhere."""

from __future__ import annotations

import asyncio
import signal
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, text

from slack_gate.core.ports import Entry, Verdict
from slack_gate.core.request import Choice, Request, State
from slack_gate.errors import StoreError
from slack_gate.store import database, engines
from slack_gate.store.database import Database
from slack_gate.store.log import verify
from slack_gate.store.notices import notices
from slack_gate.store.store import Store
from slack_gate.store.transaction import Transaction
from tests.ports import free_port
from tests.store.place import ENDS, HOME, NOW, REQUEST, Clock, Place, click, submitted
from tests.store.server import PASSWORD, Server, binaries, server

GREEN = Entry("green", "policy")


@pytest.fixture
def url(postgresql: Server) -> str:
    return postgresql.new_database()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may end."""
    if binaries() is None:
        pytest.skip("PostgreSQL's server is not installed (Debian package `postgresql`)")
    with server() as found:
        yield found


@pytest.mark.parametrize("crash", [signal.SIGINT, signal.SIGQUIT])
async def test_away_is_a_store_error_and_back_is_back(
    own: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: int
) -> None:
    monkeypatch.setattr(database, "AWAY_S", 0.0)
    place = Place(tmp_path, own.new_database())
    async with place.store() as store:
        await submitted(store)
        own.stop(crash)
        for _ in range(3):
            with pytest.raises(StoreError, match="cannot be used"):
                await store.decided(click(), (), (), NOW)
        own.start()
        assert (await store.decided(click(), (), (), NOW)).verdict is Verdict.DECIDED
        head = await store.log_head()
    with place.log.open("rb") as lines:
        assert verify(lines, head) is None


async def test_a_restart_between_two_works_costs_nobody_an_answer(own: Server, tmp_path: Path) -> None:
    async with Place(tmp_path, own.new_database()).store() as store:
        await submitted(store)
        own.stop()
        own.start()
        assert await store.request("SG-1") == REQUEST


async def test_what_waits_for_a_dead_address_fails_together(
    own: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "AWAY_S", 30.0)
    async with Place(tmp_path, own.new_database()).store() as store:
        own.stop()
        tried = []
        connect = store.database._engine.connect
        monkeypatch.setattr(store.database._engine, "connect", lambda: tried.append(1) or connect())
        ends = await asyncio.gather(*(store.answered(GREEN) for _ in range(50)), return_exceptions=True)
        assert all(isinstance(end, StoreError) for end in ends)
        assert len(tried) == 1


async def test_a_lock_that_another_holds_ends_in_an_error(
    postgresql: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_S", 1.0)
    async with place.store() as store:
        await submitted(store)
        with postgresql.connect(place.url.rpartition("/")[2]) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM requests FOR UPDATE")
            with pytest.raises(StoreError, match="lock timeout"):
                await store.decided(click(), (), (), NOW)
            other.execute("ROLLBACK")
        assert (await store.decided(click(), (), (), NOW)).verdict is Verdict.DECIDED


async def test_what_is_recorded_behind_a_lock_is_refused_together_and_reads_are_not(
    postgresql: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_S", 1.0)
    async with place.store() as store:
        await submitted(store)
        tried = []
        do = store.database._do
        monkeypatch.setattr(store.database, "_do", lambda work: tried.append(work.after) or do(work))
        with postgresql.connect(place.url.rpartition("/")[2]) as other:
            other.execute("BEGIN")
            other.execute("LOCK TABLE log IN EXCLUSIVE MODE")
            works = [store.answered(GREEN) for _ in range(20)]
            ends = await asyncio.gather(*works, store.request("SG-1"), return_exceptions=True)
            assert [isinstance(end, StoreError) for end in ends] == [True] * 20 + [False]
            assert len([after for after in tried if after is not None]) <= 2  # the first by itself, perhaps
            other.execute("ROLLBACK")
        await store.answered(GREEN)


async def test_opposite_clicks_on_two_daemons_decide_once(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other", place.url)
    async with place.store(home="a:/x") as a, other.store(home="b:/x") as b:
        for number in range(40):
            await submitted(a, _numbered(number))
        ends = await asyncio.gather(
            *(
                store.decided(click(choice, request=f"SG-{number}"), (), (), NOW)
                for number in range(40)
                for store, choice in ((a, Choice.APPROVE), (b, Choice.DENY))
            )
        )
        assert sum(end.verdict is Verdict.DECIDED for end in ends) == 40
        assert sum(end.verdict is Verdict.ENDED for end in ends) == 40
        await a.recorded()
        assert other.log.read_text() == ""
        with place.log.open("rb") as lines:
            assert verify(lines, await a.log_head()) is None


async def test_a_decision_for_another_daemon_is_two_statements_and_its_answer_one(place: Place, tmp_path: Path) -> None:
    async with place.store(home="a:/x") as a, _other(place, tmp_path).store(home="b:/x") as b:
        for number in (1, 2):
            await submitted(a, _numbered(number))
        await b.decided(click(request="SG-1"), (), (), NOW)
        await a.settled("SG-1")
        said: list[str] = []
        for store in (a, b):
            event.listen(store.database._engine, "before_cursor_execute", lambda *sent: said.append(sent[2][:6]))
        assert (await b.decided(click(request="SG-2"), (), (), NOW)).verdict is Verdict.DECIDED
        assert said == ["SELECT", "WITH c"]
        row = await a.settled("SG-2")
        assert row is not None and row.state is State.APPROVED
        assert said == ["SELECT", "WITH c", "SELECT"]
        assert place.decisions() == ["pending", "pending", "approved", "approved"]


async def test_however_many_lines_a_home_lacks_its_answer_follows_all_of_them(place: Place, tmp_path: Path) -> None:
    async with place.store(home="a:/x") as a, _other(place, tmp_path).store(home="b:/x") as b:
        for number in range(40):
            await submitted(a, _numbered(number))
        for number in range(40):
            await b.decided(click(request=f"SG-{number}"), (), (), NOW)
        assert len(place.decisions()) == 40
        row = await a.settled("SG-0")
        assert row is not None and row.state is State.APPROVED
        assert len(place.decisions()) == 80


async def test_lines_that_several_works_brought_stand_in_the_file_in_their_order(place: Place, tmp_path: Path) -> None:
    """One work has read a line, the next makes its own after one of another daemon's, a third reads all three."""
    async with place.store(home="a:/x") as a, _other(place, tmp_path).store(home="b:/x") as b:
        for number in range(2):
            await submitted(a, _numbered(number))
        await b.decided(click(request="SG-0"), (), (), NOW)
        together, between = threading.Event(), threading.Event()
        held = asyncio.create_task(a.transact(lambda tx: together.wait(60)))
        works = [
            a.settled("SG-0"),
            a.transact(lambda tx: between.wait(60)),
            a.answered(GREEN),
            a.settled("SG-1"),
            a.answered(GREEN),
        ]
        tasks = [asyncio.create_task(work) for work in works]
        await asyncio.sleep(0)  # all of them wait now
        together.set()
        await b.decided(click(request="SG-1"), (), (), NOW)
        between.set()
        await asyncio.gather(held, *tasks)
        with place.log.open("rb") as lines:
            assert verify(lines, await a.log_head()) is None
        assert place.decisions() == ["pending", "pending", "approved", "approved", "green", "green"]


@pytest.mark.parametrize(("choice", "verdict"), [(Choice.MORE, Verdict.EXTENDED), (Choice.APPROVE, Verdict.COUNTED)])
async def test_what_decides_nothing_yet_is_one_change_with_its_line(
    place: Place, choice: Choice, verdict: Verdict
) -> None:
    async with place.store() as store:
        await submitted(store, replace(REQUEST, latest_at=ENDS + 900, quorum=2))
        said: list[str] = []
        event.listen(store.database._engine, "before_cursor_execute", lambda *sent: said.append(sent[2][:6]))
        assert (await store.decided(click(choice), (), (), NOW)).verdict is verdict
        assert said == ["SELECT", "WITH c"]
        assert len(place.decisions()) == 2


async def test_decisions_of_others_and_a_busy_home_make_one_chain(place: Place, tmp_path: Path) -> None:
    """Both number the lines of one log, in transactions and in single statements, and nobody's click is lost."""
    async with place.store(home="a:/x") as a, _other(place, tmp_path).store(home="b:/x") as b:
        for number in range(40):
            await submitted(a, _numbered(number))
        clicks, *_ = await asyncio.gather(
            asyncio.gather(*(b.decided(click(request=f"SG-{number}"), (), (), NOW) for number in range(40))),
            *(a.answered(GREEN) for _ in range(120)),
        )
        assert {made.verdict for made in clicks} == {Verdict.DECIDED}
        assert (await a.settled("SG-39")) is not None
        with place.log.open("rb") as lines:
            assert verify(lines, await a.log_head()) is None
        assert len(place.decisions()) == 40 + 40 + 120


async def test_a_decision_whose_connection_is_lost_is_not_made_again(
    postgresql: Server, place: Place, tmp_path: Path
) -> None:
    """Nobody knows whether it was made: whoever clicked hears that, and no second try decides anew."""
    async with place.store(home="a:/x") as a, _other(place, tmp_path).store(home="b:/x") as b:
        await submitted(a)
        with postgresql.connect(place.url.rpartition("/")[2]) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM requests FOR UPDATE")
            click_ = asyncio.create_task(b.decided(click(), (), (), NOW))
            blocked = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            async with asyncio.timeout(100):
                while (found := other.execute(blocked).fetchone()) is None:  # noqa: ASYNC110 - a lock tells nobody
                    await asyncio.sleep(0.02)
            other.execute("SELECT pg_terminate_backend(%s)", found)
            other.execute("ROLLBACK")
            with pytest.raises(StoreError):
                await click_
        assert await a.request("SG-1") == REQUEST
        assert (await b.decided(click(), (), (), NOW)).verdict is Verdict.DECIDED


async def test_a_daemon_whose_clock_lags_decides_nothing_late_and_logs_nothing(place: Place) -> None:
    async with place.store() as store:
        await submitted(store, replace(REQUEST, created_at=NOW - 20, expires_at=NOW - 10))
        assert (await store.decided(click(), (), (), NOW - 15)).verdict is Verdict.ENDED
        row = await store.settled("SG-1")
        assert row is not None and row.state is State.PENDING
        assert place.decisions() == ["pending"]


def _other(place: Place, tmp_path: Path) -> Place:
    """Another daemon's home on the same database."""
    (tmp_path / "other").mkdir()
    return Place(tmp_path / "other", place.url)


def _numbered(number: int) -> Request:
    return replace(REQUEST, id=f"SG-{number}", key=f"toolu_{number}")


async def test_a_daemon_hears_of_what_others_committed_and_of_nothing_else(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with place.store(home="a:/x") as a, Place(tmp_path / "other", place.url).store(home="b:/x") as b:
        heard = notices(b.database)
        assert await anext(heard) == ""
        await b.submitted(_numbered(1), [], "slack")
        with pytest.raises(StoreError):
            await a.transact(_told_and_failed)
        await a.submitted(_numbered(2), [], "slack")
        async with asyncio.timeout(100):
            assert await anext(heard) == "SG-2"
        await heard.aclose()


def _told_and_failed(tx: Transaction) -> None:
    tx.connection.execute(text("UPDATE requests SET why = 'another'"))
    raise StoreError("rolled back")


async def test_characters_that_it_cannot_hold_are_shown(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        made = await store.decided(click(Choice.DENY, reason="a\0b", name="A\ud800na"), (), (), NOW)
        assert made.request is not None
        assert (made.request.reason, made.request.decided_name) == ("a\\x00b", "A\\ud800na")


@pytest.mark.parametrize("wrong", ["user", "port", "database", "host", "url", "option"])
async def test_no_error_holds_the_password(postgresql: Server, tmp_path: Path, wrong: str) -> None:
    url = postgresql.url("nowhere")
    quoted = url.partition("gate:")[2].partition("@")[0]
    urls = {
        "user": url.replace("gate:", "stranger:"),
        "port": url.replace(str(postgresql.port), str(free_port())),
        "database": url,
        "host": url.replace("127.0.0.1", "nowhere.invalid"),
        "url": url.replace("://", ":/"),
        "option": url + "?sslmode=sometimes",
    }
    with pytest.raises(StoreError) as caught:
        async with Store(urls[wrong], tmp_path / "gate-log.jsonl", Clock()):
            pass
    told = "".join(traceback.format_exception(caught.value))
    assert PASSWORD not in told
    assert quoted not in told
    assert "gate-pg" not in told


async def test_no_error_holds_what_was_asked(place: Place) -> None:
    async with place.store() as store:
        with pytest.raises(StoreError) as caught:
            await store.submitted(replace(REQUEST, expires_at=NOW - 5), ["U0ANA"], "slack")
    told = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in told
    assert "expires_later" in told


async def test_commits_are_durable_whatever_the_server_says(postgresql: Server, place: Place) -> None:
    with postgresql.connect() as other:
        other.execute(f"ALTER DATABASE {place.url.rpartition('/')[2]} SET synchronous_commit = off")
    async with place.store() as store:
        found = await store.database.run(lambda c: c.execute(text("SHOW synchronous_commit")).scalar())
        assert found == "on"


async def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("psycopg")

    monkeypatch.setattr(engines, "create_engine", missing)
    with pytest.raises(StoreError, match=r"\[postgres\]"):
        Database("postgresql+psycopg://x/y")


async def test_only_its_home_has_the_name_of_a_log(place: Place, tmp_path: Path) -> None:
    async with place.store() as store:
        await store.answered(GREEN)
        [name] = await store.log_chains()
        assert name == (tmp_path / "gate-log.name").read_text()
    async with place.store(home=HOME) as store:
        await store.answered(GREEN)
        assert await store.log_chains() == [name]
