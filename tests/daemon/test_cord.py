"""A pause and the places to ask, at the gate: what is denied, what goes on, what is left to the host's own prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.cord import Hand, Pull
from slack_gate.core.event import APPROVAL, RUNS
from slack_gate.core.request import Choice, Request, State
from slack_gate.daemon.house import Caller
from slack_gate.errors import StoreError
from slack_gate.store.cards import Cards
from slack_gate.store.tables import about
from tests.daemon.desk import Desk, desk
from tests.daemon.house import house

ANA = Hand("human-slack", "U0ANA", "Ana")


async def submitted(d: Desk, command: str = "git push origin main", **changes: Any) -> Answer | Request:
    d.calls += 1
    return await d.gate.submit(d.event(command, **changes), Caller(f"{d.calls:032x}", 330.0))


async def test_a_pause_denies_what_is_gated_and_remembered_and_green_goes_on(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("make deploy"))
        await d.click(request, Choice.ALWAYS)
        await d.answer()
        waiting = await d.asked(d.event("npm publish"))
        await d.store.pulled(Pull.PAUSE, ANA, d.clock())
        for command in ("git push origin main", "make deploy", "npm publish -x"):
            denied = await submitted(d, command)
            assert isinstance(denied, Answer) and denied.ruling is Ruling.DENY
            assert "paused by Ana" in denied.reason and "/gate resume" in denied.reason
        for tool, input in ((APPROVAL, {"question": "?"}), (RUNS["cage"], {"command": "make x"})):
            denied = await submitted(d, tool=tool, tool_input=input)
            assert isinstance(denied, Answer) and denied.ruling is Ruling.DENY
        green = await submitted(d, "sbox ls")
        assert isinstance(green, Answer) and green.ruling is Ruling.ALLOW
        silent = await submitted(d, tool="Read", tool_input={"file_path": "/srv/app/x"})
        assert isinstance(silent, Answer) and silent.ruling is Ruling.SILENT
        await d.click(waiting)  # what waited before is still decided
        assert (await d.answer()).ruling is Ruling.ALLOW
        await d.store.pulled(Pull.RESUME, ANA, d.clock())
        again = await submitted(d, "make deploy")
        assert isinstance(again, Answer) and again.ruling is Ruling.ALLOW


async def test_a_pause_is_there_after_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.store.pulled(Pull.PAUSE, ANA, d.clock())
    async with desk(tmp_path) as d:
        assert isinstance(await submitted(d), Answer)
        assert d.decisions() == ["paused", "refused"]


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({"prompts": True}, True),
        ({"prompts": False}, False),
        ({"prompts": True, "tool": RUNS["cage"], "tool_input": {"command": "make x"}}, False),
        ({"prompts": True, "tool": "Write", "tool_input": {"file_path": "/srv/app/x", "content": "x"}}, True),
    ],
)
async def test_the_console_is_left_only_what_its_prompt_holds(
    tmp_path: Path, changes: dict[str, Any], asks: bool
) -> None:
    async with desk(tmp_path, executors=("cage",)) as d:
        await d.store.pulled(Pull.CONSOLE, ANA, d.clock())
        answer = await submitted(d, **changes)
        assert isinstance(answer, Answer)
        assert answer.ruling is (Ruling.ASK if asks else Ruling.DENY)
        assert "slack-gate leaves this to you" in answer.reason if asks else "/gate slack" in answer.reason
        assert d.decisions() == ["ask-on-console", "left-to-agent" if asks else "refused"]
        assert await d.store.requests(9) == []


async def test_the_console_gets_nothing_that_two_people_must_approve(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[gate.rule]]\ncommand = "git push ..."\ndo = "ask"\napprovals = 2\n')
    async with desk(tmp_path) as d:
        await d.store.pulled(Pull.CONSOLE, ANA, d.clock())
        answer = await submitted(d, prompts=True)
        assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY and "/gate slack" in answer.reason
        other = await submitted(d, "npm publish", prompts=True)
        assert isinstance(other, Answer) and other.ruling is Ruling.ASK


@pytest.mark.parametrize("executor", ["cage", "sandboxer"])
async def test_the_console_gets_nothing_that_another_executor_must_run(tmp_path: Path, executor: str) -> None:
    async with desk(tmp_path, hook_executor=executor) as d:
        await d.store.pulled(Pull.CONSOLE, ANA, d.clock())
        answer = await submitted(d, prompts=True)
        assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY


async def test_on_the_page_only_there_is_no_card_and_the_request_waits(tmp_path: Path) -> None:
    async with desk(tmp_path, page="http://127.0.0.1:8766/") as d:
        await d.store.pulled(Pull.WEB, ANA, d.clock())
        request = await d.asked()
        assert await Cards(d.store.database, "slack", "").due(d.clock()) == []
        slack = await d.click(request)
        assert slack.verdict.value == "foreign" and await d.state(request) is State.PENDING
        await d.click(request, by="human-web", user="human", name="human", team="", channel="", message="")
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_on_the_page_only_without_a_page_everything_is_denied(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.store.pulled(Pull.WEB, ANA, d.clock())
        answer = await submitted(d)
        assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY
        assert "this daemon has neither" in answer.reason


async def test_a_cord_that_cannot_be_read_lets_nothing_run(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.store.database.run(lambda c: c.execute(insert(about).values(name="cord", value="{")))
        with pytest.raises(StoreError):
            await submitted(d)


@pytest.mark.parametrize(
    ("mode", "decision"),
    [
        ("default", "ask"),
        ("acceptEdits", "ask"),
        ("plan", "ask"),
        ("auto", "deny"),
        ("dontAsk", "deny"),
        ("bypassPermissions", "deny"),
        (None, "deny"),
    ],
)
async def test_the_hook_answers_ask_only_in_modes_with_a_prompt(
    tmp_path: Path, mode: str | None, decision: str
) -> None:
    async with house(tmp_path) as h:
        typed = await h.ana.command("/gate console")
        assert "at the agent's own permission prompt" in typed.responses[0].plain()
        event = h.event(command="git push origin main") | ({} if mode is None else {"permission_mode": mode})
        ended = await h.ask(event)
        assert (ended.code, ended.decision) == (0, decision)
        assert ended.reason and h.ana.messages == []
