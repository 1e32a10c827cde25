"""The menu of a card: deny with a reason, edit and approve, the cage, Always with scope, more time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.request import State
from slack_gate.slack import modals
from tests.daemon.house import House, house

PUSH = "git push --tags origin main"


async def modal(h: House, card: Any, label: str) -> Any:
    assert (await h.ana.choose(card, label)).acknowledged
    return await h.ana.wait_for_modal()


async def told(h: House) -> str:
    return str((await h.ana.wait_for_ephemeral()).plain())


async def test_deny_with_a_usual_reason_and_own_words(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked(PUSH)
        asks = await modal(h, card, "Deny with a reason")
        empty = await h.ana.submit(asks)
        assert empty.errors == {modals.FREE: "Choose a reason or write one."}
        await h.ana.submit(asks, {modals.CANNED: "3", modals.FREE: "use  a\nrelease branch"})
        reason = (await h.ended(hook)).reason
        assert "Wrong place or branch; check where you are. use a release branch" in reason


async def test_edit_and_approve(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked(PUSH)
        edit = await modal(h, card, "Edit and approve")
        [field] = [block for block in edit.blocks if block["type"] == "input"]
        assert field["element"]["initial_value"] == PUSH
        await h.ana.submit(edit, {modals.TEXT: "git push origin main"})
        ended = await h.ended(hook)
        assert ended.decision == "allow"
        assert ended.output["updatedInput"]["command"] == "git push origin main"
        await card.wait_for_update(lambda version: "Approved with a change by Ana" in version.plain())
        assert PUSH in card.plain() and "What was approved in its place\ngit push origin main" in card.plain()


async def test_an_edit_that_is_not_what_it_looks_like(tmp_path: Path) -> None:
    """A phone's keyboard writes curly quotes and long dashes."""
    async with house(tmp_path) as h:
        _, card = await h.asked("git commit -m 'x' --amend && git push")
        edit = await modal(h, card, "Edit and approve")
        result = await h.ana.submit(edit, {modals.TEXT: "git commit -m \u2018x\u2019 \u2014amend"})
        assert not result.closed and "3 characters that only look like others" in result.errors[modals.TEXT]
        inside = f"cat {h.settings.home}/gate.db"
        result = await h.ana.submit(edit, {modals.TEXT: inside})
        assert not result.closed and "own files" in result.errors[modals.TEXT]
        assert (await h.running.store.requests(1))[0].state is State.PENDING


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        ({"error": "fatal_error"}, "(fatal_error)"),
        ({"error": "\u202e" * 900}, "(\\u{202e}"),
        ({"http_status": 502}, "(HTTP 502)"),
        ({"reset_before": True}, "(no answer from Slack ("),
    ],
)
async def test_a_dialog_that_slack_does_not_open_is_told_of(tmp_path: Path, trouble: dict[str, Any], why: str) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked(PUSH)
        h.slack.fail_next("views.open", **trouble)
        assert (await h.ana.choose(card, "Deny with a reason")).acknowledged
        said = await told(h)
        assert said.startswith(f"The dialog could not be opened {why}") and len(said) < 300
        assert said.endswith("Press again, or Deny.")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (f"deploy --token {'ghp_' + 'a1B2' * 8}", "It holds secrets"),
        ("deploy a\u200bb", "characters that a dialog does not show"),
        ("deploy " + "x" * 3000, "more than a dialog holds"),
    ],
)
async def test_what_a_dialog_cannot_hold_is_not_edited(tmp_path: Path, command: str, why: str) -> None:
    async with house(tmp_path) as h:
        await h.start(h.event(command=command))
        card = await h.card("deploy")
        await h.ana.choose(card, "Edit and approve")
        assert why in await told(h)
        assert h.ana.modal is None and card.has_button("Approve")


async def test_approve_in_the_cage(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("touch caged && git push")
        assert "Approve in the cage" in card.options
        await h.ana.choose(card, "Approve in the cage")
        ended = await h.ended(hook)
        assert ended.decision == "allow"
        command = ended.output["updatedInput"]["command"]
        assert command.endswith("bash -c 'touch caged && git push'") and "sbox" in command.split()[0]
        await card.wait_for_update(lambda version: "Approved, in the cage only, by Ana" in version.plain())


async def test_always_with_scope(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("touch a", cwd="/srv/app")
        asks = await modal(h, card, "Always with scope")
        asks = await h.ana.wait_for_modal(lambda one: "This session: 1 request" in one.plain())
        assert "whatever its arguments:\ntouch\n" in asks.plain()
        await h.ana.submit(asks, {modals.REACH: "directory", modals.TIME: "good"})
        assert (await h.ended(hook)).decision == "allow"
        assert "Remembered: touch" in await told(h)
        [rule] = await h.running.store.rules()
        assert (rule.cwd, rule.session, rule.until) == ("/srv/app", "", None)
        assert (await h.bash("touch b", cwd="/srv/app")).decision == "allow"


async def test_always_over_something_denied_is_not_saved(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("touch secret", cwd="/srv/app")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        _, card = await h.asked("touch plain", cwd="/srv/app")
        asks = await modal(h, card, "Always with scope")
        asks = await h.ana.wait_for_modal(lambda one: "it cannot be saved" in one.plain())
        assert "was denied by Ana" in asks.plain()
        result = await h.ana.submit(asks)
        assert not result.closed and "denied" in result.errors[modals.REACH]
        assert await h.running.store.rules() == []


async def test_more_time_draws_the_card_anew(tmp_path: Path) -> None:
    async with house(tmp_path, wait=12) as h:
        hook, card = await h.asked("git push", timeout=1)
        if "More time" not in card.options:
            pytest.skip("this client cannot wait longer")
        before = card.plain()
        await h.ana.choose(card, "More time")
        await card.wait_for_update(lambda version: version.plain() != before)
        assert len(card.versions) == 2
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_several_people(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    rule = '[gate]\n[[gate.rule]]\ncommand = "git push ..."\napprovals = 2\n'
    (tmp_path / "home" / "policy.toml").write_text(rule)
    async with house(tmp_path, approvers="U0ANA,U0BOB") as h:
        hook, card = await h.asked("git push origin main")
        assert "Approvals: 0 of 2" in card.plain()
        assert card.buttons == ["Approve", "Deny"] and "Edit and approve" not in card.options
        await h.ana.click(card, "Approve")
        assert "others are needed too" in await told(h)
        await card.wait_for_update(lambda version: "Approvals: 1 of 2: Ana" in version.plain())
        assert hook.returncode is None


async def test_a_denied_card_says_how_to_take_it_back(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        await card.wait_for_update(lambda version: not version.buttons and "/gate lift SG-" in version.plain())


async def test_the_answer_to_a_click_mentions_and_links_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        for tool in ("mcp__x__<!channel>\u202e", "mcp__x__<https://evil.example|Approve>"):
            await h.start(h.event(tool, q="1"))
            card = await h.ana.wait_for_message(lambda m, tool=tool: m.has_button("Always") and tool[8:11] in m.plain())
            await h.ana.click(card, "Always")
            told = await h.ana.wait_for_ephemeral(lambda m: "Remembered" in m.plain())
            assert not re.search("[<\u202e]", told.text)
            assert "\u202e" not in told.plain()
            h.ana.ephemerals.clear()


def test_the_reasons_fit_a_dialog() -> None:
    assert all(len(reason) <= 75 for reason in modals.REASONS)
    assert modals.reason_in({}) == "" and modals.reason_in({"canned": {"canned": {"selected_option": None}}}) == ""
    assert modals.scope_in(json.loads("{}")).session


async def test_a_denial_is_taken_back_in_slack(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        [request] = await h.running.store.requests(1)
        assert (await h.bash("git push")).decision == "deny"
        await h.ana.say(f"lift {request.id}")
        assert "is taken back" in await told(h)
        await card.wait_for_update(lambda version: "The denial was taken back" in version.plain())
        await h.start(h.event(command="git push"))
        await h.card("git push")
        typed = await h.ana.command(f"/gate lift {request.id}")
        assert typed.error is None
