"""The thread of a card: reminders while it waits, and the run of a command that the gate carries out."""

from __future__ import annotations

import asyncio
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
from slack_gate.local_slack.blocks import message_faults, total
from slack_gate.slack.threads import drawn
from tests.daemon.house import House, house
from tests.slack.test_cards import ended, literals, request

SECRET = "ghp_" + "a1B2" * 8


def said(h: House, card: Any) -> list[Any]:
    return [message for message in h.ana.messages if message.thread_ts == card.ts]


async def note(h: House, card: Any, text: str, timeout: float = 30) -> Any:
    return await h.ana.wait_for_message(lambda m: m.thread_ts == card.ts and text in m.plain(), timeout)


def run(h: House, command: str) -> asyncio.Task[Ran]:
    place = str(Path("/tmp"))
    event = ToolEvent("agent", "s1", None, RUNS["cage"], {"command": command, "timeoutSeconds": 20}, place)
    return asyncio.create_task(h.running.runs.ask(event, Caller("c" * 32, 60.0), Unwatched()))


async def test_the_run_of_a_command(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ran = run(h, f"echo GH_TOKEN={SECRET}; seq 1 2000; echo oops >&2; exit 3")
        card = await h.card("seq 1 2000")
        await h.ana.click(card, "Approve")
        result = (await ran).result
        assert result is not None and result.exit_code == 3
        start = await note(h, card, "Started in the cage, approved by Ana")
        end = await note(h, card, "Ended with exit code 3")
        assert float(start.ts) < float(end.ts)
        assert "GH_TOKEN=[masked 36]" in end.plain() and "oops\n" in literals(end.blocks)
        assert "1999\n2000" in end.plain() and "1000" not in end.plain()
        shared = await h.ana.wait_for_message(lambda m: m.thread_ts == card.ts and bool(m.files))
        [whole] = shared.files
        assert exact(whole.text) == "GH_TOKEN=[masked 36]\n" + "".join(f"{n}\n" for n in range(1, 2001))
        assert not any(SECRET in m.plain() for m in h.ana.messages)
        assert len(said(h, card)) == 3


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
    async with house(tmp_path, wait=10) as h:
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
        (State.FINISHED, {"exit_code": None, "error": "no cage"}, "Ended after 3 s without an exit code.\nno cage"),
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
