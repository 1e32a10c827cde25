"""Any daemon decides, only the one that was asked answers; nothing hangs on a daemon, a notice or a database that is
away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from slack_gate.cli.status import _ask, _read
from slack_gate.core.ports import Click
from slack_gate.core.request import Decision, State
from slack_gate.daemon import fleet, outbox, serve
from slack_gate.daemon.gate import Gate
from slack_gate.errors import StoreError
from slack_gate.store.heartbeats import Beat, Heartbeats
from slack_gate.store.log import verify
from slack_gate.store.tables import cards
from tests.daemon.house import House
from tests.fleet.street import Street, street
from tests.ports import free_port
from tests.store.server import Server, server


@pytest.fixture
def url(postgresql: Server) -> str:
    return postgresql.new_database()


async def holds(town: Street, name: str) -> None:
    """The log of that daemon is whole."""
    daemon = town.houses[name].running
    head = await daemon.store.log_head()
    path = daemon.settings.log_path
    assert verify(path.read_bytes().splitlines(keepends=True) if path.exists() else [], head) is None


async def status(house: House) -> dict[str, Any]:
    return _read(await asyncio.to_thread(_ask, house.settings.socket_path))


def _note(gate: Gate, name: str, decided: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    decide = gate.decide

    async def noted(decision: Decision) -> Click:
        decided.add(name)
        return await decide(decision)

    monkeypatch.setattr(gate, "decide", noted)


async def test_any_daemon_decides_and_the_home_answers(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with street(url, seed=7) as town:
        for name in "abc":
            await town.start(name)
        decided = set()
        for name, house in town.houses.items():
            _note(house.running.gate, name, decided, monkeypatch)
        for number in range(9):
            home = "abc"[number % 3]
            hook, card = await town.asked(home, f"git push origin b{number}")
            label = "Deny" if number % 4 == 3 else "Approve"
            await town.houses[home].press(card, label)
            ended = await town.houses[home].ended(hook)
            assert ended.decision == ("deny" if label == "Deny" else "allow")
            [row] = await town.houses[home].running.store.requests(1)
            last = town.houses[home].log()[-1]
            assert (last["request"], last["decision"], last["user"]) == (row.id, row.state.value, "U0ANA")
        assert len(decided) > 1, "one daemon decided everything"
        for name in "abc":
            await holds(town, name)


async def test_a_lost_notice_costs_a_sweep_and_no_more(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def deaf(*_: object) -> AsyncIterator[str]:
        yield ""
        await asyncio.Event().wait()

    monkeypatch.setattr(fleet, "notices", deaf)
    monkeypatch.setattr(fleet, "SWEEP_S", 0.2)
    async with street(url) as town:
        a, b = await town.start("a"), await town.start("b")
        hook, _ = await town.asked("a", "git push origin x")
        [row] = await a.running.store.requests(1)
        assert await b.running.store.cancelled(row.id, "caller", row.created_at + 1)
        assert (await a.ended(hook)).decision == "deny"


async def on_file(house: House) -> None:
    """Returns once it knows where its card stands; until then no other daemon draws it."""
    database, known = house.running.store.database, select(cards.c.message)
    async with asyncio.timeout(100):
        while not await database.run(lambda c: c.execute(known).scalar()):  # noqa: ASYNC110 - a row tells nobody
            await asyncio.sleep(0.05)


async def test_what_a_dead_daemon_left_is_ended_by_another(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "DEAD_S", 8.0)
    monkeypatch.setattr(fleet, "SWEEP_S", 0.3)
    async with street(url) as town:
        a, b = await town.start("a"), await town.start("b")
        hook, card = await town.asked("a", "git push origin x")
        row = (await a.running.store.requests(1))[0]
        await on_file(a)
        hook.kill()
        await town.stop("a")

        async def state() -> State:
            found = await b.running.store.request(row.id)
            assert found is not None
            return found.state

        async with asyncio.timeout(100):
            while await state() is State.PENDING:  # noqa: ASYNC110 - a row tells nobody
                await asyncio.sleep(0.1)
        assert await state() is State.CANCELLED
        await town.ana.wait_for_message(lambda m: m.ts == card.ts and not m.has_button("Approve"))
        back = await town.start("a")
        assert back.log()[-1]["decision"] == "cancelled"
        for name in "ab":
            await holds(town, name)


async def test_a_daemon_without_slack_is_asked_for_by_the_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "SWEEP_S", 0.3)
    async with street(url) as town:
        await town.start("a")
        b = await town.start("b", "terminal", slack_bot_token="", slack_app_token="")
        hook, card = await town.asked("b", "git push origin x")
        await b.press(card, "Approve")
        assert (await b.ended(hook)).decision == "allow"
        await holds(town, "b")


async def test_when_nobody_hears_slack_any_more_whoever_waits_is_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "SWEEP_S", 0.3)
    async with street(url) as town:
        await town.start("a")
        b = await town.start("b", "web", page_port=free_port())
        hook, _ = await town.asked("b", "git push origin x")
        await town.stop("a")
        ended = await b.ended(hook)
        assert ended.decision == "deny"
        assert "no daemon on this database hears Slack" in ended.reason
        assert "127.0.0.1" in ended.reason


async def test_a_beat_that_fails_says_nothing_of_who_hears_slack(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "SWEEP_S", 0.1)
    monkeypatch.setattr(fleet, "BEAT_S", 0.3)
    async with street(url) as town:
        await town.start("a")
        b = await town.start("b", "web", page_port=free_port())
        hook, card = await town.asked("b", "git push origin x")
        beat, failed = Heartbeats.beat, asyncio.Event()

        async def fails(beats: Heartbeats, hears: bool, fresh: float) -> Beat | None:
            if not hears and not failed.is_set():
                failed.set()
                raise StoreError("The connection was lost.")
            return await beat(beats, hears, fresh)

        monkeypatch.setattr(Heartbeats, "beat", fails)
        await failed.wait()
        looked, look = asyncio.Event(), Gate.look_again

        async def noted(gate: Gate) -> None:
            await look(gate)
            looked.set()

        monkeypatch.setattr(Gate, "look_again", noted)
        for _ in range(4):  # sweeps of both, the last of them with a beat again
            looked.clear()
            await looked.wait()
        await b.press(card, "Approve")
        assert (await b.ended(hook)).decision == "allow"


async def test_what_another_daemon_could_not_post_is_told_by_the_home(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "UNTAKEN_S", 0.3)
    async with street(url) as town:
        a = await town.start("a")
        await town.start("b")
        town.ana.user.deleted = True
        for name in range(6):  # either may be the one that tries
            ended = await a.bash(f"git push origin x{name}")
            assert (ended.decision, "U0ANA is deactivated" in ended.reason) == ("deny", True), ended


async def test_two_daemons_of_one_name_do_not_run(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with street(url) as town:
        a = await town.start("a")
        monkeypatch.setattr(fleet, "_place", lambda lock: "another-machine/1-1")
        make, name = serve._house, a.running.gate._house.home
        monkeypatch.setattr(serve, "_house", lambda *arguments: replace(make(*arguments), home=name))
        with pytest.raises(StoreError, match="is called"):
            await town.start("b")


async def test_a_database_that_is_away_means_no_and_comes_back() -> None:
    with server() as own:
        async with street(own.new_database()) as town:
            a = await town.start("a")
            await town.start("b")
            hook, card = await town.asked("a", "git push origin waits")
            own.stop()
            refused = await a.bash("git push origin away")
            assert refused.decision == "deny"
            assert "database" in refused.reason
            told = await status(a)
            assert told["healthy"] is False
            assert "database" in told["fault"]
            own.start()
            async with asyncio.timeout(100):
                while not all([(await status(town.houses[name]))["healthy"] for name in "ab"]):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            await a.press(card, "Approve")
            ended = await a.ended(hook)
            assert ended.decision == "allow", ended.reason
            for name in "ab":
                await holds(town, name)
