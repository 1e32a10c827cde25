"""What could not be filed, told or put away at its time is, as soon as it can be; meanwhile the fault is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.answer import Ruling, settled
from slack_gate.core.outcome import outcome_of
from slack_gate.core.request import State
from slack_gate.core.run import NOT_STARTED, UNKNOWN, Result
from slack_gate.daemon import sweeper
from slack_gate.daemon.house import Caller
from slack_gate.daemon.runs import Runs, Unwatched
from slack_gate.errors import LogError, StoreError
from slack_gate.store.log import verify
from slack_gate.store.tables import runs as runs_table
from tests.daemon.desk import Desk, desk
from tests.daemon.running import Place, placed

SECOND = Caller("b" * 32, 330.0)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "SWEEP_S", 0.01)


@asynccontextmanager
async def swept(d: Desk, runs: Runs | None = None) -> AsyncIterator[None]:
    task = asyncio.create_task(sweeper.sweep(d.gate, runs or Runs(d.gate, d.store, {}, d.clock), d.store))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - a row tells nobody
            await asyncio.sleep(0.01)


class Journal:
    """The log file, and a directory in its place: even root cannot write there."""

    def __init__(self, place: Path) -> None:
        self.path = place / "gate-log.jsonl"

    def breaks(self) -> None:
        self.path.rename(self.path.with_suffix(".aside"))
        self.path.mkdir()

    def is_mended(self) -> None:
        self.path.rmdir()
        self.path.with_suffix(".aside").rename(self.path)


async def test_an_end_that_cannot_be_logged_is_told_to_whoever_waits(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        Journal(tmp_path).breaks()
        d.clock.now += 400
        async with swept(d):
            with pytest.raises(LogError):
                await d.answer()
        assert await d.state(request) is State.EXPIRED


async def test_an_end_whose_line_was_late_is_told_to_whoever_waits(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with desk(tmp_path) as d:
        request = await d.asked()
        journal.breaks()
        with pytest.raises(LogError):
            await d.gate.undeliverable(request.id, "channel_not_found.")
        journal.is_mended()
        async with swept(d):
            assert "channel_not_found" in (await d.answer()).reason


async def test_secrets_of_what_has_ended_go_though_the_log_cannot_be_written(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.asked(d.event("curl -u a:b --password hunter2 https://x.example"))
        Journal(tmp_path).breaks()
        d.clock.now += 400

        async def gone() -> bool:
            return not any(b"hunter2" in file.read_bytes() for file in tmp_path.glob("gate.db*"))

        assert not await gone()
        async with swept(d):
            await until(gone)


async def test_lines_left_out_are_written_although_nothing_is_asked_any_more(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with desk(tmp_path) as d, swept(d):
        journal.breaks()
        with pytest.raises(LogError):
            await d.gate.submit(d.event("sbox ls"), SECOND)
        journal.is_mended()

        async def whole() -> bool:
            return verify(journal.path.open("rb"), await d.store.log_head()) is None and d.store.fault is None

        await until(whole)


async def test_a_log_that_cannot_be_written_stays_in_the_status_while_something_waits(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    async with desk(tmp_path) as d:
        await d.asked()
        journal.breaks()
        with pytest.raises(LogError):
            await d.gate.submit(d.event("sbox ls"), SECOND)
        await d.gate.expire()  # nothing is over, so nothing is to be written
        assert "gate-log.jsonl" in str(d.store.fault)
        journal.is_mended()
        await d.gate.submit(d.event("sbox ls"), SECOND)
        assert d.store.fault is None


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    async with placed(tmp_path, monkeypatch) as one, swept(one.d, one.runs):
        yield one


async def the_run(place: Place) -> dict[str, Any]:
    """The only one, once it has ended."""
    query = runs_table.select().where(runs_table.c.ended_at.is_not(None))
    found: list[Any] = []

    async def ended() -> bool:
        found[:] = await place.d.store.database.run(lambda c: c.execute(query).all())
        return bool(found)

    await until(ended)
    return dict(found[0]._mapping)


async def test_what_was_not_started_for_want_of_a_record_does_not_run_for_ever(place: Place, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.breaks()
    with pytest.raises(LogError):
        await place.ask("ls", "sandboxer")
    run = await the_run(place)
    assert (run["code"], run["exit_code"], place.held.started.empty()) == (NOT_STARTED, None, True)
    assert [row.state for row in await place.d.store.requests(9)] == [State.NOT_RUN]
    journal.is_mended()


@pytest.mark.parametrize("fault", ["log", "database"])
async def test_an_approval_whose_claim_could_not_be_recorded_is_told_as_not_run(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """It is on file where the log alone fails, and is not where the database does."""
    event = place.event("make x", "sandboxer")
    request = await place.d.asked(event)
    await place.d.click(request)
    await place.d.answer()
    if fault == "log":
        Journal(tmp_path).breaks()
    else:
        monkeypatch.setattr(place.d.store, "claimed", raising(StoreError("The database is away.", "See to it.")))
    ran = await place.runs.approved(request.id, event, Unwatched())
    assert (ran.result, ran.by, place.held.started.empty()) == (None, "gate", True)
    assert "was approved, and it did not run. Its start could not be recorded. The " in ran.message
    assert "Tell the person who runs slack-gate" in ran.message

    async def not_run() -> bool:
        return await place.d.state(request) is State.NOT_RUN

    await until(not_run)
    row = await place.d.store.request(request.id)
    assert row is not None and "did not run.\nIts start could not be recorded. The " in outcome_of(row)
    again = settled(row)  # the same call, sent again
    assert again.ruling is Ruling.DENY and "did not run" in again.reason and "carried out" not in again.reason


def raising(error: Exception) -> Callable[..., Awaitable[Any]]:
    async def fails(*arguments: Any) -> Any:
        raise error

    return fails


async def test_an_end_that_could_not_be_filed_is_filed_later(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    finished, away = place.d.store.finished, [True, True]
    place.held.ends.put_nowait(Result(0))

    async def sometimes(*arguments: Any) -> Any:
        if away:
            away.pop()
            raise StoreError("The database is away.")
        return await finished(*arguments)

    monkeypatch.setattr(place.d.store, "finished", sometimes)
    ran = await place.ask("ls", "sandboxer")
    assert ran.result is not None and ran.result.code == UNKNOWN
    assert (await the_run(place))["code"] == UNKNOWN  # as whoever asked was told
    assert [row.state for row in await place.d.store.requests(9)] == [State.LOST]
