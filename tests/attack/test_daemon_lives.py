"""What kills or stalls the daemon, and answers that are no answers."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from cage import cage_policy
from slack_gate.agents import claude_code
from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.event import MalformedEvent
from slack_gate.daemon.apart import LONG, SMALL, apart, in_thread
from slack_gate.slack.app import Buttons
from slack_gate.slack.people import People
from tests.attack.work import calls_of
from tests.daemon.house import house


@pytest.mark.parametrize("how", [{"reset_before": True}, {"http_status": 503}])
async def test_a_reset_while_the_reason_dialog_opens(tmp_path: Path, how: dict[str, Any]) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked("touch /etc/x")
        h.slack.fail_next("views.open", **how, times=3)
        await h.ana.choose(card, "Deny with a reason")
        await asyncio.sleep(1)
        ended = await h.ask(h.event("TodoWrite"))
        assert ended.code == 0 and ended.stderr == b""


@pytest.mark.parametrize("how", [{"reset_before": True}, {"http_status": 503}, {"reset_after": True}])
async def test_a_reset_while_a_late_click_is_answered(tmp_path: Path, how: dict[str, Any]) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("touch /etc/x")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        h.slack.fail_next("response_url", **how, times=3)
        h.slack.fail_next("chat.postEphemeral", **how, times=3)
        await h.press(card, "Approve")
        await asyncio.sleep(1)
        ended = await h.ask(h.event("TodoWrite"))
        assert ended.code == 0 and ended.stderr == b""


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_an_answer_is_json_whatever_the_numbers(number: str) -> None:
    """`Infinity` on stdout is no JSON: no decision, so the host would run `sbox` from its own PATH, not the pinned."""
    raw = (
        '{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t","cwd":"/tmp",'
        f'"tool_input":{{"command":"sbox true","timeout":{number}}}}}'
    ).encode()
    try:
        event = claude_code.parse(raw)
    except MalformedEvent:
        return
    _, output = claude_code.render(Answer(Ruling.ALLOW, "Green.", "/usr/bin/sbox true"), event)

    def no(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    json.loads(output, parse_constant=no)


def test_many_repositories_in_one_line_do_not_stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 nested repositories over one tree of 14,000 directories; nothing bounds their number but the text's length."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("GIT_AUTHOR_NAME", "GIT_DIR"):
        monkeypatch.delenv(name, raising=False)
    top = tmp_path / "projects"
    tops = []
    for _ in range(12):
        top = top / "r"
        top.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "--template=", str(top)], check=True)
        tops.append(str(top))
    for number in range(14_000):
        (top / f"{number % 120}" / f"{number}").mkdir(parents=True)
    line = {"command": " && ".join(f"git -C {one} add x" for one in tops)}
    work = calls_of(lambda: cage_policy.explain("Bash", line, "/tmp"))
    shutil.rmtree(tmp_path / "projects")
    assert work < 500_000


async def test_a_large_event_is_read_beside_the_event_loop() -> None:
    """8 MB of empty objects take seconds to read; meanwhile the loop goes on."""
    assert await apart(threading.get_ident, SMALL) == threading.get_ident()
    assert await apart(threading.get_ident, SMALL + 1) != threading.get_ident()


async def test_what_takes_too_long_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack_gate.daemon.apart.LIMIT_S", 0.05)
    stop = threading.Event()
    with pytest.raises(MalformedEvent, match="could not be judged"):
        await apart(stop.wait, SMALL + 1)
    stop.set()


async def test_a_telling_that_is_hung_up_on_kills_nothing() -> None:
    """aiohttp's ServerDisconnectedError is no OSError; raised in the daemon's TaskGroup it ends the daemon."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = AsyncWebClient("xoxb-1", base_url=f"http://127.0.0.1:{port}/", retry_handlers=[])
    async with server, asyncio.TaskGroup() as group:
        buttons = Buttons(client, None, People(client), group.create_task)  # type: ignore[arg-type]
        body = {"user": {"id": "U1"}, "response_url": f"http://127.0.0.1:{port}/hook"}
        group.create_task(buttons._tell(body, "Too late."))


async def test_a_database_elsewhere_is_an_own_file_too(tmp_path: Path) -> None:
    """SLACK_GATE_DATABASE_URL may name a file outside the home; rules and states stand in it."""
    file = tmp_path / "elsewhere" / "gate.db"
    file.parent.mkdir()
    async with house(tmp_path, database_url=f"sqlite:///{file}") as h:
        assert (await h.ask(h.event("Read", file_path=str(file)))).decision == "deny"


async def test_long_events_leave_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many calls of 128 KB at once as there are threads, and nobody else's script was hashed in time."""
    stop = threading.Event()
    monkeypatch.setattr("slack_gate.daemon.apart.LIMIT_S", 60.0)
    many = [asyncio.create_task(apart(stop.wait, LONG + 1)) for _ in range(40)]
    try:
        assert await in_thread(lambda: "hashed") == "hashed"
        assert await apart(lambda: "judged", LONG) == "judged"
    finally:
        stop.set()
        await asyncio.gather(*many, return_exceptions=True)
