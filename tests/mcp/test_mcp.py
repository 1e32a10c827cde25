"""`slack-gate mcp` as a process of its own, spoken to by the MCP SDK's client over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from aiohttp import web
from mcp import Client, StdioServerParameters

from slack_gate import mcp_server
from slack_gate.config import Settings
from slack_gate.errors import GateError
from tests.client.asking import ROOT, double, program
from tests.daemon.house import House, house
from tests.daemon.serving import environment


@pytest.fixture
async def h(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as one:
        yield one


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


@asynccontextmanager
async def server(settings: Settings, cwd: Path, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of a server that was started in `cwd`."""
    env = {**environment(settings), "PYTHONPATH": str(ROOT)}
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "slack_gate", "mcp"], env=env, cwd=cwd)
    async with Client(parameters, mode=mode) as client:  # type: ignore[arg-type]
        yield client


def text(result: Any) -> str:
    (block,) = result.content
    return str(block.text)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_tools(h: House, work: Path, mode: str) -> None:
    async with server(h.settings, work, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert client.server_info is not None and client.server_info.name == "slack-gate"
    assert set(tools) == {"run_command", "request_approval", "get_decision"}
    schema = tools["run_command"].input_schema
    assert {"command", "reason", "timeoutSeconds"} <= set(schema["properties"])
    assert schema["required"] == ["command"]
    assert tools["run_command"].annotations is not None
    assert tools["run_command"].annotations.destructive_hint is True


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_asked_with_progress_and_run(h: House, work: Path, mode: str) -> None:
    told: list[str] = []
    heard = asyncio.Event()

    async def progress(value: float, total: float | None, message: str | None) -> None:
        told.append(str(message))
        heard.set()

    async with server(h.settings, work, mode) as client:
        arguments = {"command": "echo one; echo two >&2; pwd", "reason": "to look", "timeoutSeconds": 20}
        asking = asyncio.create_task(client.call_tool("run_command", arguments, progress_callback=progress))
        card = await h.card("echo one")
        assert "to look" in card.plain()
        async with asyncio.timeout(100):
            await heard.wait()
        await h.ana.click(card, "Approve")
        result = await asking
    assert re.match(r"Waiting for Slack \(Ana\): [45]:\d\d", told[0]), told
    assert (result.is_error, text(result)) == (False, f"one\n{work}\n[stderr]\ntwo")
    assert h.log()[-1]["exitCode"] == 0


async def test_a_changed_command_is_told(h: House, work: Path) -> None:
    async with server(h.settings, work) as client:
        asking = asyncio.create_task(client.call_tool("run_command", {"command": "make deploy"}))
        await h.ana.choose(await h.card("make deploy"), "Edit and approve")
        await h.ana.submit(await h.ana.wait_for_modal(), {"edit": "echo checked"})
        result = await asking
    said = "[Ana changed the command before approving it. What runs instead of yours: echo checked]"
    assert (result.is_error, text(result)) == (False, f"{said}\nchecked")


async def test_denied_is_an_error_with_the_persons_words(h: House, work: Path) -> None:
    async with server(h.settings, work) as client:
        asking = asyncio.create_task(client.call_tool("run_command", {"command": "make deploy"}))
        card = await h.card("make deploy")
        await h.ana.choose(card, "Deny with a reason")
        await h.ana.submit(await h.ana.wait_for_modal(), {"reason": "archive first"})
        result = await asking
    assert result.is_error is True
    assert "Denied by Ana: archive first" in text(result)


@pytest.mark.parametrize(
    ("command", "more", "error", "expected"),
    [
        ("sbox true", {}, False, "[exit code 0]"),
        ("sbox sh -c 'echo a; exit 3'", {}, True, "a\n[exit code 3]"),
        ("sbox sh -c 'echo a; sleep 60'", {"timeoutSeconds": 5}, True, "a\n[It ran longer than it may and was ended.]"),
        ("sbox pwd", {"cwd": "below"}, False, "{work}/below"),
        ("sbox pwd", {"cwd": "/etc"}, True, "cwd must lie in"),
        ("sbox pwd", {"timeoutSeconds": "7"}, True, "timeoutSeconds"),
        ("sbox pwd", {"timeoutSeconds": 0}, True, "timeoutSeconds"),
        ("sbox pwd", {"cwd": 7}, True, "cannot be read"),
        ("", {}, True, "command"),
        ("sbox pwd", {"approved": "SG-1"}, True, "run_command takes no 'approved'"),
        ("sbox pwd", {"agent": "Ana"}, True, "run_command takes no 'agent'"),
    ],
)
async def test_how_a_call_ends(
    h: House, work: Path, command: str, more: dict[str, Any], error: bool, expected: str
) -> None:
    (work / "below").mkdir()
    async with server(h.settings, work) as client:
        result = await client.call_tool("run_command", {"command": command, **more})
    assert result.is_error is error, result
    assert expected.replace("{work}", str(work)) in text(result)
    assert h.ana.messages == []


async def test_cancelled_it_is_withdrawn(h: House, work: Path) -> None:
    async with server(h.settings, work) as client:
        asking = asyncio.create_task(client.call_tool("run_command", {"command": "make deploy"}))
        card = await h.card("make deploy")
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await card.wait_for_update(lambda version: "Withdrawn" in version.plain())
        again = await client.call_tool("run_command", {"command": "sbox true"})  # the server lives on
        assert again.is_error is False


async def test_when_the_client_is_gone_it_is_withdrawn(h: House, work: Path) -> None:
    process = await program(h.settings, "mcp", cwd=work, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": "run_command", "arguments": {"command": "make deploy"}}
    for message in (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    card = await h.card("make deploy")
    process.stdin.close()
    await card.wait_for_update(lambda version: "Withdrawn" in version.plain())
    async with asyncio.timeout(100):
        await process.wait()


async def test_without_a_daemon(tmp_path: Path, work: Path) -> None:
    async with house(tmp_path) as h:
        settings = h.settings
    async with server(settings, work) as client:
        for name, arguments in [
            ("run_command", {"command": "ls"}),
            ("request_approval", {"text": "Now?"}),
            ("get_decision", {"request": "SG-1"}),
        ]:
            result = await client.call_tool(name, arguments)
            assert result.is_error is True
            assert "No slack-gate daemon listens" in text(result)


async def test_a_question_and_its_answer(h: House, work: Path) -> None:
    async with server(h.settings, work) as client:
        asked = json.loads(text(await client.call_tool("request_approval", {"text": "Publish 1.4.2?"})))
        assert asked["state"] == "pending"
        now = {"request": asked["request"], "waitSeconds": 0}
        assert json.loads(text(await client.call_tool("get_decision", now)))["state"] == "pending"
        waiting = asyncio.create_task(client.call_tool("get_decision", {"request": asked["request"]}))
        await h.ana.click(await h.card("Publish 1.4.2?"), "Approve")
        found = await waiting
        unknown = await client.call_tool("get_decision", {"request": "SG-0"})
    assert (found.is_error, json.loads(text(found))["decision"]) == (False, "approved")
    assert (unknown.is_error, "no such request" in text(unknown)) == (True, True)


async def test_an_unknown_tool(h: House, work: Path) -> None:
    async with server(h.settings, work) as client:
        result = await client.call_tool("rm", {})
    assert result.is_error is True


async def test_progress_goes_on_and_shows_the_newest_line(tmp_path: Path, work: Path) -> None:
    """The daemon's place is taken, so that what it says is in our hands."""
    told: list[str] = []
    values: list[float] = []
    news = asyncio.Event()
    data = {"event": "output", "stream": "stdout", "data": "b25lCnR3bxtbMko="}  # one, two and an escape

    async def run(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in ({"event": "started", "request": "SG-1"}, data):
            await response.write(json.dumps(event).encode() + b"\n")
        await news.wait()
        end = {"event": "end", "decision": "ran", "exitCode": 0, "timedOut": False, "stdout": "x" * 200_000,
               "stderr": "", "code": None, "error": None}  # fmt: skip
        await response.write(json.dumps(end).encode() + b"\n")
        return response

    async def progress(value: float, total: float | None, message: str | None) -> None:
        told.append(str(message))
        values.append(value)
        if "two" in str(message):
            news.set()

    async with house(tmp_path) as h:
        settings = h.settings
    async with double(settings, run=run), server(settings, work) as client:
        result = await client.call_tool("run_command", {"command": "ls"}, progress_callback=progress)
    assert told[-1] == "two\\u{1b}[2J"
    assert values == sorted(set(values))
    assert len(text(result)) < 2 * mcp_server.MAX_STREAM
    assert "[134464 characters left out]" in text(result)


async def test_first_progress_without_a_word_of_the_daemon(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mcp_server.PROGRESS_S <= 30
    monkeypatch.setattr(mcp_server, "PROGRESS_S", 0.05)
    told = asyncio.Event()

    class Session:
        async def report_progress(self, progress: float, message: str = "") -> None:
            told.set()

    class Ctx:
        session = Session()

    task = asyncio.create_task(mcp_server._Progress(Ctx()).told())  # type: ignore[arg-type]
    async with asyncio.timeout(100):
        await told.wait()
    task.cancel()


def test_without_the_package(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; sys.argv[1:] = ['mcp']; from slack_gate.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert (done.returncode, ".[mcp]" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ("-IS", "in the clone that `slack-gate install` was run from, then install again."),
        ("-I", "Run `.venv/bin/pip install -c scripts/constraints.txt -e '.[mcp]'` in slack-gate's clone."),
    ],
)
def test_without_the_package_it_says_where_to_get_it(tmp_path: Path, options: str, fix: str) -> None:
    for package in (ROOT / "slack_gate", ROOT / "cage", Path(click.__file__).parent):
        (tmp_path / package.name).symlink_to(package)
    start = f"import sys; sys.path[:] = [{str(tmp_path)!r}, *(p for p in sys.path if 'site-packages' not in p)]\n"
    start += "sys.argv[1:] = ['mcp']; from slack_gate.cli import main; main()"
    ran = subprocess.run([sys.executable, options, "-c", start], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (GateError.exit_code, ""), ran
    assert "The package mcp is not installed here." in ran.stderr and fix in ran.stderr


@pytest.mark.parametrize(("lost", "words"), [(True, "[E500: it broke; outcome unknown]"), (False, "[E500: it broke]")])
async def test_whether_it_may_have_run(tmp_path: Path, work: Path, lost: bool, words: str) -> None:
    async def run(request: web.Request) -> web.StreamResponse:
        end = {"event": "end", "decision": "ran", "exitCode": None, "timedOut": False, "stdout": "", "stderr": ""}
        return web.Response(text=json.dumps({**end, "code": "E500", "error": "it broke", "lost": lost}) + "\n")

    async with house(tmp_path) as h:
        settings = h.settings
    async with double(settings, run=run), server(settings, work) as client:
        result = await client.call_tool("run_command", {"command": "ls"})
    assert (result.is_error, text(result)) == (True, words)
