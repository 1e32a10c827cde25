"""What a person decides on one daemon and another one answers: a changed text, a rule that covers what waits there."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.ports import Verdict
from slack_gate.core.request import Choice, Decision, Request
from slack_gate.daemon import fleet
from slack_gate.errors import StoreError
from slack_gate.store.tables import edits
from tests.daemon.house import House
from tests.fleet.street import street
from tests.store.server import Server

SECRET = "ghp_" + "a1B2" * 8


@pytest.fixture
def url(postgresql: Server) -> str:
    return postgresql.new_database()


async def newest(house: House) -> Request:
    return (await house.running.store.requests(1))[0]


async def press(decider: House, card: Any, request: Request, choice: Choice, edited: str | None = None) -> Verdict:
    """A click that Slack has sent to this daemon."""
    who: dict[str, Any] = {"by": "human-slack", "user": "U0ANA", "name": "Ana", "team": decider.slack.team_id}
    where = {"channel": card.channel, "message": card.ts}
    click = await decider.running.gate.decide(
        Decision(request.id, request.digest, choice, **who, **where, edited=edited)
    )
    assert click.verdict is Verdict.DECIDED, click
    return click.verdict


async def kept(house: House) -> list[str]:
    """The texts that wait to be taken."""
    query = edits.select()
    rows = await house.running.store.database.run(lambda connection: connection.execute(query).all())
    return [row.command for row in rows]


async def test_a_text_changed_on_another_daemon_is_what_runs(url: str) -> None:
    async with street(url) as town:
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        hook, card = await town.asked("a", "git push --tags origin main")
        request = await newest(a)
        await press(b, card, request, Choice.APPROVE, f"GH_TOKEN={SECRET} git push origin main")
        ended = await a.ended(hook)
        assert ended.decision == "allow", ended.reason
        assert ended.output["updatedInput"]["command"] == f"GH_TOKEN={SECRET} git push origin main"
        assert "Ana changed the command" in ended.output["additionalContext"]
        row = await newest(a)
        assert row.edited is not None and row.edited.endswith("git push origin main") and SECRET not in row.edited
        assert await kept(b) == []
        assert all(SECRET.encode() not in house.settings.log_path.read_bytes() for house in (a, b))


async def test_a_changed_text_must_please_the_policy_of_the_daemon_that_answers(url: str) -> None:
    async with street(url) as town:
        home = town.settings("a").home
        home.mkdir(mode=0o700, parents=True)
        (home / "policy.toml").write_text('[[gate.rule]]\ncommand = "deploy ..."\ndo = "deny"\n')
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        hook, card = await town.asked("a", "git push origin main")
        await press(b, card, await newest(a), Choice.APPROVE, "deploy --now")
        ended = await a.ended(hook)
        assert ended.decision == "deny"
        assert "approved with a change that cannot run here" in ended.reason
        assert [line["decision"] for line in a.log()][-2:] == ["approved", "refused"]


async def test_a_changed_text_that_nobody_takes_is_not_kept(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "TAKEN_S", 1.0)
    monkeypatch.setattr(fleet, "SWEEP_S", 0.2)
    async with street(url) as town:
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        hook, card = await town.asked("a", "git push origin main")
        request = await newest(a)
        hook.kill()
        await hook.wait()
        async with asyncio.timeout(100):
            while a.running.gate._attendance._callers:  # noqa: ASYNC110 - the daemon notices that it has gone
                await asyncio.sleep(0.02)
        await press(b, card, request, Choice.APPROVE, f"GH_TOKEN={SECRET} git push")
        async with asyncio.timeout(100):
            while await kept(b):  # noqa: ASYNC110 - a row tells nobody
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("change", [True, False])
async def test_a_file_that_changed_is_not_written_whoever_approved(url: str, change: bool) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # no place where writing is green
        file = Path(place) / "app.ini"
        file.write_text("a = 1\n")
        await _approved_elsewhere(url, file, change)


async def _approved_elsewhere(url: str, file: Path, change: bool) -> None:
    async with street(url) as town:
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        hook = await a.start(a.event("Write", file_path=str(file), content="a = 2\n"))
        card = await a.card("app.ini")
        if change:
            file.write_text("a = 3\n")
        await press(b, card, await newest(a), Choice.APPROVE)
        ended = await a.ended(hook)
        assert ended.decision == ("deny" if change else "allow")
        assert ("the file has changed since" in ended.reason) == change
        assert a.running.gate._shown_files == set()


@pytest.mark.parametrize("notice", ["heard", "lost"])
async def test_a_rule_saved_on_another_daemon_lets_go_what_it_covers(
    url: str, monkeypatch: pytest.MonkeyPatch, notice: str
) -> None:
    async def deaf(*_: object) -> AsyncIterator[str]:
        yield ""
        await asyncio.Event().wait()

    if notice == "lost":
        monkeypatch.setattr(fleet, "notices", deaf)
    monkeypatch.setattr(fleet, "SWEEP_S", 0.3 if notice == "lost" else 600.0)
    async with street(url) as town:
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        waits, _ = await town.asked("a", "mkdir /srv/waits")
        other, _ = await town.asked("a", "chmod +x /srv/other")
        asked, card = await town.asked("b", "mkdir /srv/asked")
        await press(b, card, await newest(b), Choice.ALWAYS)
        assert (await b.ended(asked)).decision == "allow"
        ended = await a.ended(waits)
        assert ended.decision == "allow", ended.reason
        assert other.returncode is None
        last = [line for line in a.log() if line["decision"] == "approved"]
        assert [line["by"] for line in last] == ["always"]


async def test_a_remote_is_not_remembered_where_its_repository_is_not(url: str) -> None:
    async with street(url) as town:
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        hook, card = await town.asked("a", "git push origin main")
        request = await newest(a)
        who: dict[str, Any] = {"by": "human-slack", "user": "U0ANA", "name": "Ana", "team": b.slack.team_id}
        where = {"channel": card.channel, "message": card.ts}
        click = await b.running.gate.decide(Decision(request.id, request.digest, Choice.ALWAYS, **who, **where))
        assert click.verdict is Verdict.UNFIT and "its agent waits for" in click.why, click
        assert await b.running.store.rules() == [] and hook.returncode is None
        await press(b, card, request, Choice.APPROVE)
        assert (await a.ended(hook)).decision == "allow"


async def test_a_rule_lets_nothing_go_that_the_policy_there_has_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "SWEEP_S", 0.3)
    async with street(url) as town:
        home = town.settings("a").home
        home.mkdir(mode=0o700, parents=True)
        (home / "policy.toml").write_text('[[gate.rule]]\ncommand = "mkdir ..."\ndo = "ask"\n')
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        waits, waiting = await town.asked("a", "mkdir /srv/waits")
        asked, card = await town.asked("b", "mkdir /srv/asked")
        await press(b, card, await newest(b), Choice.ALWAYS)
        assert (await b.ended(asked)).decision == "allow"
        looked = asyncio.Event()
        look = a.running.store.rules

        async def rules() -> Any:
            found = await look()
            looked.set()
            return found

        monkeypatch.setattr(a.running.store, "rules", rules)
        async with asyncio.timeout(100):
            await looked.wait()
        assert waits.returncode is None
        await a.press(waiting, "Deny")
        assert (await a.ended(waits)).decision == "deny"


async def test_a_press_whose_record_seemed_to_fail_and_did_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is lost with the answer to the commit on its way: the other daemon lets go what is on file."""
    async with street(url) as town:
        a, b = await town.start("a", wait=300), await town.start("b", wait=300)
        hook, card = await town.asked("a", "git push origin main")
        decided = b.running.store.decided

        async def cut(*arguments: Any) -> Any:
            await decided(*arguments)
            raise StoreError("The database cannot be used: the connection was lost.")

        monkeypatch.setattr(b.running.store, "decided", cut)
        await press(b, card, await newest(a), Choice.APPROVE)
        assert (await a.ended(hook)).decision == "allow"
        _, other = await town.asked("a", "git push origin next")
        monkeypatch.setattr(b.running.store, "decided", _lost)
        with pytest.raises(StoreError):
            await press(b, other, await newest(a), Choice.APPROVE)


async def _lost(*_: Any) -> Any:
    raise StoreError("The database cannot be used: the connection was lost.")
