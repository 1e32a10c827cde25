"""What was denied, and then runs by a rule."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.cord import Hand, Pull
from slack_gate.core.event import RUNS, ToolEvent
from slack_gate.core.ports import Verdict
from slack_gate.core.request import Choice, Decision, Request
from slack_gate.daemon import memory
from slack_gate.daemon.house import Caller
from slack_gate.store import questions
from tests.attack.work import calls_of
from tests.daemon.desk import Desk, desk


def run(d: Desk, command: str) -> ToolEvent:
    return d.event(tool=RUNS["cage"], tool_input={"command": command, "timeoutSeconds": 30}, call=None)


async def test_a_flood_pushes_no_denial_out_of_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`/run ls` needs no asking and is on file as what was asked: 2,000 of them take no minute."""
    monkeypatch.setattr(questions, "LOOK_BACK_PAGE", 5)
    monkeypatch.setattr("slack_gate.daemon.memory.MAX_MATCHED", 20)
    async with desk(tmp_path, executors=("cage",)) as d:
        denied = await d.asked(run(d, "make deploy"))
        await d.click(denied, Choice.DENY)
        for number in range(30):
            d.clock.now += 1
            filed = await d.gate.submit(run(d, "ls"), Caller(f"{number + 1000:032x}", 60.0))
            assert isinstance(filed, Request)
        later = await d.asked(run(d, "make deploy"))
        click = await d.click(later, Choice.ALWAYS)
        assert click.verdict is Verdict.DENIED_BEFORE and denied.id in click.why


async def test_always_that_looked_back_before_the_no_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two people at two cards: Always has looked for denials when the other one denies, and is saved after that."""
    async with desk(tmp_path) as d:
        wanted, other = await d.asked(d.event("make deploy")), await d.asked(d.event("make deploy", cwd="/srv/b"))
        looked, real = asyncio.Event(), d.store.decided

        async def slow(decision: Decision, *more: Any) -> Any:
            if decision.choice is Choice.ALWAYS:
                looked.set()
                await d.waits[1]
            return await real(decision, *more)

        monkeypatch.setattr(d.store, "decided", slow)
        always = asyncio.create_task(d.click(wanted, Choice.ALWAYS))
        await looked.wait()
        await d.click(other, Choice.DENY)
        assert (await always).verdict is Verdict.DECIDED
        again = await d.gate.submit(d.event("make deploy", cwd="/srv/b"), Caller("c" * 32, 60.0))
        assert isinstance(again, Answer) and again.ruling is Ruling.DENY and other.id in again.reason
        elsewhere = await d.gate.submit(d.event("make deploy", cwd="/srv/c"), Caller("d" * 32, 60.0))
        assert isinstance(elsewhere, Request) or elsewhere.ruling is Ruling.ALLOW
        await d.store.lifted(other.id, "human-slack", "U0ANA", "Ana", d.clock())
        lifted = await d.gate.submit(d.event("make deploy", cwd="/srv/b"), Caller("e" * 32, 60.0))
        assert isinstance(lifted, Request) or lifted.ruling is Ruling.ALLOW


async def test_what_was_denied_does_not_come_up_at_the_agents_own_prompt(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        denied = await d.asked(d.event("git push origin main"))
        await d.click(denied, Choice.DENY, reason="not on Fridays")
        await d.store.pulled(Pull.CONSOLE, Hand("human-slack", "U0ANA", "Ana"), d.clock())
        answer = await d.gate.submit(d.event("git push origin main", prompts=True), Caller("c" * 32, 60.0))
        assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY and "not on Fridays" in answer.reason
        other = await d.gate.submit(d.event("git push origin next", prompts=True), Caller("d" * 32, 60.0))
        assert isinstance(other, Answer) and other.ruling is Ruling.ASK


def test_a_denied_monster_stalls_no_later_question() -> None:
    """128 KB of `a|` take most of a second to read; up to 20 denials are compared with each call that is asked."""
    assert calls_of(lambda: memory._words("a|" * 65_000)) < 1000
    assert memory._words("rm -rf build" + " " * memory.MAX_COMPARED) == {"rm": {"build"}}
