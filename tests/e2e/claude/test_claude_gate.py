"""The real client, our installed hook, our daemon, a person in local Slack: what was decided is what happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import ClientRun, give_away, run_client, throw_away_home
from .gate import install, running_gate
from .scripted_api import ScriptedApi, bash, scripted_api

pytestmark = pytest.mark.timeout(700)  # the first run may have to fetch 190 MB
BYPASS = "--dangerously-skip-permissions"
MODES = pytest.mark.parametrize("flags", [(), (BYPASS,)], ids=["default", "bypass"])
COMMAND = "touch made.txt"


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """A HOME, with a blank in its name, that our installer has been through."""
    with throw_away_home(prefix="slack gate home ") as home:
        install(home)
        yield home


@pytest.fixture
def home(installed: Path) -> Path:
    for file in (installed / "job").iterdir():
        file.unlink()
    return installed


def made(home: Path) -> set[str]:
    return {file.name for file in (home / "job").iterdir()}


def decisions(home: Path) -> list[tuple[str, str]]:
    """`(decision, command)` of every answer in the gate's log."""
    lines = map(json.loads, (home / "gate/gate-log.jsonl").read_text().splitlines())
    return [(line["decision"], line["command"]) for line in lines if line["decision"] != "pending"]


def start(claude: Path, api: ScriptedApi, home: Path, *flags: str, **env: str) -> asyncio.Task[ClientRun]:
    return asyncio.create_task(run_client(claude, api.url, home, *flags, timeout=120, **env))


@MODES
async def test_approved_it_runs(claude: Path, home: Path, flags: tuple[str, ...]) -> None:
    async with running_gate(home) as gate, scripted_api([bash(COMMAND)], "finished") as api:
        client = start(claude, api, home, *flags)
        card = await gate.card(COMMAND)
        assert made(home) == set()
        await gate.person.click(card, "Approve")
        run = await client
        redrawn = await card.wait_for_update(lambda version: not version.buttons)
    assert made(home) == {"made.txt"}, run
    assert run.result["result"] == "finished"
    assert "Approved by Ana" in redrawn.plain()
    assert decisions(home) == [("approved", COMMAND)]


@MODES
async def test_denied_it_does_not_run_and_the_model_reads_the_reason(
    claude: Path, home: Path, flags: tuple[str, ...]
) -> None:
    async with running_gate(home) as gate, scripted_api([bash(COMMAND)], "stopped") as api:
        client = start(claude, api, home, *flags)
        card = await gate.card(COMMAND)
        await gate.person.choose(card, "Deny with a reason")
        await gate.person.submit(await gate.person.wait_for_modal(), {"reason": "archive first"})
        run = await client
    assert made(home) == set(), run
    assert "Denied by Ana: archive first" in api.tool_results()["toolu_1"]
    assert run.result["result"] == "stopped"
    assert decisions(home) == [("denied", COMMAND)]


@MODES
async def test_unanswered_it_does_not_run_and_that_is_not_called_a_refusal(
    claude: Path, home: Path, flags: tuple[str, ...]
) -> None:
    async with running_gate(home, wait=2) as gate, scripted_api([bash(COMMAND)], "went on") as api:
        run = await start(claude, api, home, *flags)
        (card,) = gate.person.messages
        redrawn = await card.wait_for_update(lambda version: not version.buttons)
    assert made(home) == set(), run
    assert "This is not a refusal" in api.tool_results()["toolu_1"]
    assert "Nobody answered" in redrawn.plain()
    assert decisions(home) == [("expired", COMMAND)]


@MODES
async def test_with_the_daemon_killed_it_does_not_run(claude: Path, home: Path, flags: tuple[str, ...]) -> None:
    async with running_gate(home) as gate, scripted_api([bash(COMMAND)], "stopped") as api:
        await gate.kill()
        run = await start(claude, api, home, *flags)
    assert made(home) == set(), run
    assert "slack-gate: " in api.tool_results()["toolu_1"]
    assert run.result["result"] == "stopped"


async def test_with_the_daemon_killed_while_a_card_waits_it_does_not_run(claude: Path, home: Path) -> None:
    async with running_gate(home) as gate, scripted_api([bash(COMMAND)], "stopped") as api:
        client = start(claude, api, home, BYPASS)
        await gate.card(COMMAND)
        await gate.kill()
        run = await client
    assert made(home) == set(), run
    assert "slack-gate: " in api.tool_results()["toolu_1"]


async def test_always_lets_the_second_call_run_without_a_card(claude: Path, home: Path) -> None:
    turns = ([bash("touch first.txt", "a")], [bash("touch second.txt", "b")], [bash("chmod +x first.txt", "c")])
    async with running_gate(home) as gate, scripted_api(*turns, "finished") as api:
        client = start(claude, api, home, BYPASS)
        clicked = await gate.person.click(await gate.card("touch first.txt"), "Always")
        assert "touch" in str(clicked.confirm)
        await gate.person.click(await gate.card("chmod +x first.txt"), "Deny")
        run = await client
        assert len(gate.person.messages) == 2, "one for touch, one for chmod"
    assert made(home) == {"first.txt", "second.txt"}, run
    assert not (home / "job/first.txt").stat().st_mode & 0o111
    assert [decision for decision, _ in decisions(home)] == ["approved", "remembered", "denied"]


async def test_three_calls_in_one_turn_and_only_the_denied_one_does_not_run(claude: Path, home: Path) -> None:
    calls = [bash(f"touch {name}.txt", name) for name in ("a", "b", "c")]
    async with running_gate(home) as gate, scripted_api(calls, "finished") as api:
        client = start(claude, api, home, BYPASS)
        for name, label in (("a", "Approve"), ("b", "Deny"), ("c", "Approve")):
            await gate.person.click(await gate.card(f"touch {name}.txt"), label)
        run = await client
    assert made(home) == {"a.txt", "c.txt"}, run
    assert "Denied by Ana" in api.tool_results()["b"]


@pytest.mark.parametrize("changed", [False, True])
async def test_a_program_of_the_environment_that_it_was_started_in(claude: Path, home: Path, changed: bool) -> None:
    """Its shell finds by PATH what the card says, and not what was put there while a person read."""
    tool = home / "projects/app/venv/bin/tool"
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text("#!/bin/sh\ntouch shown\n")
    tool.chmod(0o755)
    give_away(home)
    async with running_gate(home) as gate, scripted_api([bash("tool x")], "finished") as api:
        client = start(claude, api, home, PATH=f"{tool.parent}:/usr/bin:/bin")
        card = await gate.card("tool x")
        assert f"tool is {tool}, which caged code can change" in card.plain()
        if changed:
            tool.write_text("#!/bin/sh\ntouch planted\n")
        await gate.person.click(card, "Approve")
        run = await client
    assert made(home) == (set() if changed else {"shown"}), run
