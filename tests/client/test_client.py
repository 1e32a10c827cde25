"""The Python client against the daemon, and against things in its place that do what a daemon must not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from slack_gate import client
from slack_gate.client import NotAsked, OutcomeUnknown, ask, async_run_command, decision, follow, run_command
from slack_gate.config import Settings
from slack_gate.errors import ConfigError
from slack_gate.whereabouts import agent_socket, hook_socket
from tests.client.asking import Handler, double
from tests.daemon.house import House, house


@pytest.fixture
async def h(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.chdir(tmp_path)
    async with house(tmp_path) as one:
        monkeypatch.setenv("SLACK_GATE_SOCKET", str(one.settings.socket_path))
        yield one


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a daemon that is not there."""
    found = Settings(home=tmp_path / "home", socket=tmp_path / "run" / "gate.sock")
    monkeypatch.setenv("SLACK_GATE_SOCKET", str(found.socket_path))
    return found


def lines(*events: dict[str, Any] | bytes) -> Handler:
    """Answers /run with these lines, and then hangs up."""

    async def run(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            await response.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        return response

    return run


# With the daemon


async def test_a_person_approves_and_the_answer_is_the_endpoints(h: House) -> None:
    asking = asyncio.create_task(async_run_command("echo a; echo b >&2; exit 3", "look", 20))
    card = await h.card("echo a; echo b")
    assert "look" in card.plain()
    await h.ana.click(card, "Approve")
    answer = await asking
    assert {name: answer[name] for name in ("decision", "by", "exitCode", "stdout", "stderr", "timedOut")} == {
        "decision": "ran", "by": "human-slack", "exitCode": 3, "stdout": "a\n", "stderr": "b\n", "timedOut": False,
    }  # fmt: skip


async def test_a_person_denies(h: House) -> None:
    asking = asyncio.create_task(async_run_command("make deploy"))
    await h.ana.click(await h.card("make deploy"), "Deny")
    answer = await asking
    assert (answer["decision"], answer["by"]) == ("denied", "human-slack")
    assert "Denied by Ana" in answer["message"]


async def test_without_a_loop(h: House, tmp_path: Path) -> None:
    answer = await asyncio.to_thread(run_command, "sbox pwd", cwd=str(tmp_path))
    assert (answer["by"], answer["exitCode"], answer["stdout"]) == ("green", 0, f"{tmp_path}\n")


async def test_cancelled_it_withdraws(h: House) -> None:
    asking = asyncio.create_task(async_run_command("make deploy"))
    card = await h.card("make deploy")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await card.wait_for_update(lambda version: "Withdrawn" in version.plain())


async def test_events_come_in_order(h: House) -> None:
    events: list[dict[str, Any]] = []
    body = {"command": "echo one; echo two", "cwd": os.getcwd()}
    asking = asyncio.create_task(follow(body, events.append))
    await h.ana.click(await h.card("echo one"), "Approve")
    end = await asking
    assert [event["event"] for event in events][:2] == ["asked", "started"]
    assert events[0]["where"] == ["Slack (Ana)"]
    assert events[0]["request"] == end["request"]
    told = b"".join(base64.b64decode(event["data"]) for event in events if event["event"] == "output")
    assert told.decode() == end["stdout"] == "one\ntwo\n"


async def test_a_directory_outside_the_zone_is_not_taken(h: House) -> None:
    with pytest.raises(NotAsked, match="cwd must lie in"):
        await async_run_command("ls", cwd="/etc")


async def test_a_question_of_yes_or_no(h: House) -> None:
    asked = await ask("Publish release 1.4.2?", "the tests are green")
    assert asked["state"] == "pending"
    assert (await decision(asked["request"]))["decision"] is None
    card = await h.card("Publish release 1.4.2?")
    await h.ana.click(card, "Approve")
    answered = await decision(asked["request"])
    assert (answered["state"], answered["decision"], answered["by"]) == ("approved", "approved", "human-slack")


@pytest.mark.parametrize("request_id", ["SG-0", "../run", "SG-0?a=b", "\N{SNOWMAN}"])
async def test_an_unknown_request(h: House, request_id: str) -> None:
    with pytest.raises(NotAsked, match="no such request"):
        await decision(request_id)


# Without it


async def test_no_daemon(settings: Settings) -> None:
    with pytest.raises(NotAsked, match=r"No slack-gate daemon listens at .*agent.sock, so nothing ran"):
        await async_run_command("ls")


async def test_a_dead_daemon(settings: Settings) -> None:
    path = settings.socket_path.with_name("agent.sock")
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    with pytest.raises(NotAsked, match="nothing ran"):
        await async_run_command("ls")


@pytest.mark.parametrize("mode", [0o755, 0o770])
async def test_a_directory_that_others_can_enter(settings: Settings, mode: int) -> None:
    async with double(settings, run=lines()):
        settings.socket_path.parent.chmod(mode)
        with pytest.raises(NotAsked, match="cannot be used"):
            await async_run_command("ls")


async def test_nothing_is_said_to_another_users_process(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    async def run(request: web.Request) -> web.StreamResponse:
        heard.append(await request.text())
        return web.Response()

    async with double(settings, run=run):
        monkeypatch.setattr(client, "check_folder", lambda path: None)
        monkeypatch.setattr(client, "check_socket", lambda path: None)
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        with pytest.raises(NotAsked, match="in the daemon's place"):
            await async_run_command("ls")
    assert heard == []


BROKEN = {
    "nothing": [],
    "no end": [{"event": "started", "request": "SG-1"}],
    "half an end": [b'{"event": "end", "decision": "ran", "exitCode": 0'],
    "no JSON": [b"hello\n"],
    "no object": [b"[1]\n"],
    "not UTF-8": [b'{"event": "\xff"}\n'],
}


@pytest.mark.parametrize("events", BROKEN.values(), ids=BROKEN.keys())
async def test_an_answer_without_an_end_is_no_success(settings: Settings, events: list[Any]) -> None:
    async with double(settings, run=lines(*events)):
        with pytest.raises(OutcomeUnknown, match="do not start it again"):
            await async_run_command("ls")


async def test_a_daemon_that_falls_silent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    over = asyncio.Event()

    async def run(request: web.Request) -> web.StreamResponse:
        response = await lines({"event": "waiting"})(request)
        await over.wait()
        return response

    monkeypatch.setattr(client, "SILENT_S", 0.2)
    async with double(settings, run=run):
        with pytest.raises(OutcomeUnknown, match="went away"):
            await async_run_command("ls")
        over.set()


async def test_a_line_without_an_end(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_LINE", 1000)
    async with double(settings, run=lines(b"x" * 100_000)):
        with pytest.raises(OutcomeUnknown, match="a line without an end"):
            await async_run_command("ls")


async def test_what_the_daemon_refuses_is_told_in_its_words(settings: Settings) -> None:
    async def run(request: web.Request) -> web.StreamResponse:
        return web.json_response({"decision": "denied", "message": "The body is odd."}, status=400)

    async def ask_(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>", status=502)

    async with double(settings, run=run, ask=ask_):
        with pytest.raises(NotAsked, match=r"^The body is odd\.$"):
            await async_run_command("ls")
        with pytest.raises(NotAsked, match=r"HTTP 502.*<html>"):
            await ask("Now?")


async def test_lines_may_come_in_any_pieces(settings: Settings) -> None:
    end = {"event": "end", "decision": "ran", "exitCode": 0, "stdout": "x" * 300_000}
    whole = b'{"event":"waiting"}\n' * 3 + json.dumps(end).encode() + b"\n"
    pieces = [whole[:1], whole[1:25], whole[25:60], *(whole[at : at + 50_001] for at in range(60, len(whole), 50_001))]
    told: list[Any] = []
    async with double(settings, run=lines(*pieces)):
        answer = await follow({"command": "ls"}, told.append)
    assert told == [{"event": "waiting"}] * 3
    assert answer == {name: value for name, value in end.items() if name != "event"}


# Where the daemon is


def test_found_as_the_settings_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLACK_GATE_SOCKET", "XDG_RUNTIME_DIR", "SLACK_GATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / ".config" / "slack-gate"
    home.mkdir(parents=True)
    for text, runtime, given in [
        ("", None, None),
        ("", "/run/user/7", None),
        ("wait = 9", "/run/user/7", None),
        ('socket = "/srv/a/gate.sock"', "/run/user/7", None),
        ('slack_gate_socket = "/srv/b/gate.sock"', None, None),
        ('socket = "/srv/a/gate.sock"', None, "/srv/c/gate.sock"),
    ]:
        (home / "config.toml").write_text(text)
        for name, value in (("XDG_RUNTIME_DIR", runtime), ("SLACK_GATE_SOCKET", given)):
            monkeypatch.delenv(name, raising=False)
            if value:
                monkeypatch.setenv(name, value)
        assert hook_socket() == Settings().socket_path, (text, runtime, given)
        assert agent_socket() == Settings().socket_path.with_name("agent.sock")


def test_a_config_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACK_GATE_SOCKET", raising=False)
    monkeypatch.setenv("SLACK_GATE_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text("socket = 3")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        hook_socket()
    (tmp_path / "config.toml").write_text("=")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        hook_socket()
