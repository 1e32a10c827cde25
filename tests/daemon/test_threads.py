"""The thread of a card: reminders while it waits, and the run of a command that the gate carries out."""

from __future__ import annotations

import asyncio
import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.display import exact
from slack_gate.core.event import RUNS, ToolEvent
from slack_gate.core.notes import HALF, NEARLY, STARTED, Note, reminder
from slack_gate.core.request import State
from slack_gate.core.run import Carried, Ran
from slack_gate.daemon import threads
from slack_gate.daemon.house import Caller
from slack_gate.daemon.runs import Unwatched
from slack_gate.local_slack import socket_mode
from slack_gate.local_slack.blocks import message_faults, total
from slack_gate.slack.threads import drawn
from tests.daemon.house import House, house
from tests.slack.test_cards import ended, literals, request

SECRET = "ghp_" + "a1B2" * 8


def said(h: House, card: Any) -> list[Any]:
    return [message for message in h.ana.messages if message.thread_ts == card.ts]


async def note(h: House, card: Any, text: str, timeout: float = 100) -> Any:
    return await h.ana.wait_for_message(lambda m: m.thread_ts == card.ts and text in m.plain(), timeout)


def run(h: House, command: str, timeout: int = 20) -> asyncio.Task[Ran]:
    place = str(Path("/tmp"))
    event = ToolEvent("agent", "s1", None, RUNS["cage"], {"command": command, "timeoutSeconds": timeout}, place)
    return asyncio.create_task(h.running.runs.ask(event, Caller(secrets.token_hex(16), 600.0), Unwatched()))


async def test_the_run_of_a_command(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ran = run(h, f"echo GH_TOKEN={SECRET}; seq 1 2000; echo oops >&2; exit 3")
        card = await h.card("seq 1 2000")
        await h.ana.click(card, "Approve")
        result = (await ran).result
        assert result is not None and result.exit_code == 3
        start = await note(h, card, ". Started in the cage.")
        end = await note(h, card, "Ended with exit code 3")
        assert float(start.ts) < float(end.ts)
        assert "GH_TOKEN=[masked 36]" in end.plain() and "oops\n" in literals(end.blocks)
        assert "1999\n2000" in end.plain() and "1000" not in end.plain()
        shared = await h.ana.wait_for_message(lambda m: m.thread_ts == card.ts and bool(m.files))
        [whole] = shared.files
        assert exact(whole.text) == "GH_TOKEN=[masked 36]\n" + "".join(f"{n}\n" for n in range(1, 2001))
        assert not any(SECRET in m.plain() for m in h.ana.messages)
        assert len(said(h, card)) == 3


@pytest.mark.parametrize("failures", [2, 1000])
async def test_the_buttons_go_while_it_runs_and_its_end_is_told(tmp_path: Path, failures: int) -> None:
    """Also where no redraw is ever taken: then a click on what still stands there is told who decided."""
    go = tmp_path / "go"
    async with house(tmp_path) as h:
        ran = run(h, f"until [ -e {go} ]; do sleep 0.1; done; echo over", 600)
        card = await h.card("echo over")
        h.slack.fail_next("chat.update", reset_before=True, times=failures)
        await h.ana.click(card, "Approve")
        await note(h, card, ". Started in the cage.")
        if failures == 2:
            assert "pproved by Ana" in (await card.wait_for_update(lambda m: not m.buttons, 30)).plain()
        await h.press(card, "Deny")
        assert "Ana approved it" in (await h.ana.wait_for_ephemeral()).plain()
        assert not ran.done()
        go.touch()
        result = (await ran).result
        assert result is not None and (result.exit_code, result.stdout) == (0, b"over\n")
        assert "over" in (await note(h, card, "Ended with exit code 0")).plain()


async def test_what_runs_holds_up_no_click(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_mode, "ACK_SECONDS", 60.0)  # of a busy machine; what runs takes longer
    async with house(tmp_path, wait=300) as h:
        running = []
        for number in range(10):
            running.append(run(h, f"echo run-{number}; sleep 600", 600))
            await h.ana.click(await h.card(f"run-{number};"), "Approve")
        asked = [await h.asked(f"git push origin b{number}x") for number in range(10)]
        labels = ("Approve", "Deny", "Approve")
        clicks = await asyncio.gather(*(h.press(card, label) for _, card in asked for label in labels))
        assert all(click.acknowledged for click in clicks)
        assert {(await h.ended(hook)).decision for hook, _ in asked} <= {"allow", "deny"}
        late = [line for line in h.log() if line["decision"] == "click-ended"]
        assert len(late) == 20
        await h.slack.workspace.wait_for(lambda: len(h.ana.ephemerals) == 20 or None, 30, lambda: "not all were told")
        assert not any(one.done() for one in running)
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_any_bytes_that_a_command_prints(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"ok\xff\xfeend\n" + random.Random(1).randbytes(100_000))
    async with house(tmp_path) as h:
        ran = run(h, f"cat {tmp_path}/bytes; exit 5")
        card = await h.card("exit 5")
        await h.ana.click(card, "Approve")
        result = (await ran).result
        assert result is not None
        assert (result.exit_code, result.stdout) == (5, (tmp_path / "bytes").read_bytes())
        end = await note(h, card, "Ended with exit code 5")
        assert "ok\\xff\\xfeend" in end.plain()
        assert not any(call.error for call in h.slack.calls("chat.postMessage"))
        assert h.log()[-1]["exitCode"] == 5  # each line is JSON


async def test_what_printed_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ran = run(h, "false")
        card = await h.card("false")
        await h.ana.click(card, "Approve")
        await ran
        end = await note(h, card, "Ended with exit code 1")
        assert "It printed nothing." in end.plain()


async def test_a_denied_run_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "TICK_S", 0.1)
    async with house(tmp_path) as h:
        ran = run(h, "echo no")
        card = await h.card("echo no")
        await h.ana.click(card, "Deny")
        assert (await ran).result is None
        await asyncio.sleep(1.0)
        assert said(h, card) == []


async def test_reminders_at_half_and_nine_tenths_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "TICK_S", 0.1)
    async with house(tmp_path, wait=24) as h:
        hook, card = await h.asked("git push origin main")
        _, other = await h.asked("git push origin other")
        first = await note(h, card, "Half of the time")
        assert "@U0ANA" in first.plain() and "1 more waits as long" in first.plain()
        await note(h, card, "Nine tenths of the time")
        assert "Nobody answered" in (await h.ended(hook)).reason
        assert len(said(h, card)) == 2 and said(h, other) == []


@pytest.mark.parametrize(
    ("over", "name"), [(0, ""), (149, ""), (150, HALF), (269, HALF), (270, NEARLY), (299, NEARLY), (300, "")]
)
def test_when_a_reminder_is_due(over: float, name: str) -> None:
    asked = request(command="ls")
    assert reminder(asked, asked.created_at + over) == name
    assert reminder(ended(asked, State.DENIED), asked.created_at + over) == ""


@pytest.mark.parametrize(
    ("state", "run", "words"),
    [
        (State.FINISHED, {"exit_code": 0}, "Ended with exit code 0 after 3 s."),
        (State.FINISHED, {"exit_code": None, "error": "odd"}, "Ended after 3 s without an exit code.\nodd"),
        (State.NOT_RUN, {"exit_code": None, "error": "no cage"}, "It did not run.\nno cage"),
        (State.FINISHED, {"exit_code": 124, "timed_out": True}, "Timed out after 3 s and was ended."),
        (State.LOST, {"exit_code": None}, "Outcome unknown after 3 s: it may have run, and is not started again."),
        (State.FINISHED, {"exit_code": 0, "stdout": "\u202e<!channel>\x1b[2J" * 5000}, "<!channel>"),
    ],
)
def test_how_a_run_ended_in_words(state: State, run: dict[str, Any], words: str) -> None:
    times = {"executor": "cage", "started_at": 1_700_000_020.0, "ended_at": 1_700_000_023.0}
    carried = Carried(**{**times, "timed_out": False, "error": "", "stdout": "", "stderr": "", **run})
    one = Note("ended", 1, "U0ANA", "D1", "1.1", ended(request(command="ls"), state), carried)
    for each in (one, Note(STARTED, 1, "U0ANA", "D1", "1.1", ended(request(command="ls"), State.RUNNING), carried)):
        picture, _ = drawn(each)
        assert message_faults(picture.blocks) == [] and total(picture.blocks) < 8000 and len(picture.text) <= 400
    picture, files = drawn(one)
    assert words in "\n".join([picture.blocks[0]["text"]["text"], *literals(picture.blocks)])
    assert "\u202e" not in str(picture.blocks)
    assert [exact(file.text) for file in files] == ([carried.stdout] if len(carried.stdout) > 2400 else [])
