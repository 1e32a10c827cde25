"""The Home tab of a daemon on the local Slack: drawn, decided on, kept current, closed to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.cord import Hand, Pull
from slack_gate.daemon.serve import running
from slack_gate.local_slack import LocalSlack
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.workspace import Home
from slack_gate.slack import home_tab
from tests.daemon.house import House, house, settings_for

ANA = Hand("human-slack", "U0ANA", "Ana")


async def home_with(person: Person, text: str, without: bool = False) -> Home:
    return await person.wait_for_home(lambda home: (text in home.plain()) != without)


async def pending(h: House, command: str) -> Any:
    """A hook that waits, once its request stands on Ana's Home tab."""
    hook = await h.start(h.event(command=command))
    return hook, await home_with(h.ana, command)


def homes(h: House) -> list[Home]:
    return list(h.slack.workspace.drawn_homes)


@pytest.mark.parametrize(("label", "decision"), [("Approve", "allow"), ("Deny", "deny"), ("Always", "allow")])
async def test_a_request_is_decided_on_the_tab(tmp_path: Path, label: str, decision: str) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        hook, home = await pending(h, "git push origin main")
        card = await h.card("git push origin main")
        click = await h.ana.click_home(home, label)
        assert click.acknowledged
        ended = await h.ended(hook)
        assert ended.decision == decision and "Ana" in ended.reason
        home = await home_with(h.ana, "Decided today: 1")
        assert "Nothing waits" in home.plain() and label not in home.buttons
        await card.wait_for_update(lambda version: not version.buttons)
        assert ("Runs without asking: 1" in home.plain()) == (label == "Always")
        [decided] = [line for line in h.log() if line["decision"] in ("approved", "denied")]
        assert (decided["by"], decided["user"]) == ("human-slack", "U0ANA")
        assert h.ana.modal is None


async def test_a_rule_is_revoked_with_one_press_and_a_confirmation(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        hook, home = await pending(h, "touch a")
        await h.ana.click_home(home, "Always")
        await h.ended(hook)
        home = await home_with(h.ana, "Runs without asking: 1")
        assert "touch\nany directory; saved by Ana" in home.plain()
        assert not (await h.ana.click_home(home, "Revoke", confirm=False)).sent
        click = await h.ana.click_home(home, "Revoke")
        assert "touch is asked again" in (click.confirm or "")
        await home_with(h.ana, "Runs without asking", without=True)
        assert await h.running.store.rules() == []
        [line] = [line for line in h.log() if line["decision"] == "revoked"]
        assert (line["by"], line["user"], line["reason"]) == ("human-slack", "U0ANA", "touch")
        await h.ana.click_home(home, "Revoke")  # a screen that is behind
        modal = await h.ana.wait_for_modal()
        assert "no active rule" in modal.plain()


async def test_pause_and_resume_on_the_tab(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        home = await home_with(h.ana, "Gated calls are asked in Slack.")
        click = await h.ana.click_home(home, "Pause")
        assert "denied at once" in (click.confirm or "")
        home = await home_with(h.ana, "Paused by Ana since")
        denied = await h.bash("git push origin main")
        assert denied.decision == "deny" and "paused by Ana" in denied.reason
        assert (await h.bash("sbox ls")).decision == "allow"
        await h.ana.click_home(home, "Resume")
        await home_with(h.ana, "Gated calls are asked in Slack.")
        assert [line["decision"] for line in h.log()] == ["paused", "refused", "green", "resumed"]
        assert h.ana.messages == []


async def test_others_see_one_sentence_and_can_do_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        eve = h.slack.add_user("U0EVE", name="Eve")
        await h.ana.open_home()
        _, home = await pending(h, "git push origin main")
        await eve.open_home()
        hers = await eve.wait_for_home()
        assert hers.plain() == "This is slack-gate. What waits here is shown to its approvers only."
        assert hers.buttons == []
        await eve.open_home()
        for label in ("Approve", "Pause"):
            assert (await eve.click_home(home, label)).acknowledged  # Ana's tab, pressed as Eve
            assert "Nothing was" in (await eve.wait_for_modal()).plain()
            await eve.close(await eve.wait_for_modal())
        assert (await h.running.store.requests(1))[0].state == "pending"
        assert not (await h.running.store.cord()).paused
        assert [line["user"] for line in h.log() if line["decision"] == "click-foreign"] == ["U0EVE"]
        assert len([call for call in h.slack.calls("views.publish") if call.args["user_id"] == "U0EVE"]) == 1


def texts(value: Any, kind: str) -> Iterator[str]:
    """All texts of this kind in blocks."""
    if isinstance(value, dict):
        if value.get("type") == kind and isinstance(value.get("text"), str):
            yield value["text"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from texts(item, kind)


def button_of(home: Home, label: str) -> dict[str, Any]:
    control = next(control for control in home.latest.controls if control.label == label)
    pressed = {"type": "button", "action_id": control.element["action_id"], "block_id": control.block_id}
    return {**pressed, "text": control.element["text"], "value": control.element.get("value"), "action_ts": "1.1"}


@pytest.mark.parametrize(
    ("view", "payload", "pressed"),
    [
        ({"type": "modal"}, {}, {}),
        ({"private_metadata": "U0EVE"}, {}, {}),
        ({"private_metadata": ""}, {}, {}),
        ({"id": "V000"}, {}, {}),
        ({"id": ""}, {"container": {"type": "view", "view_id": ""}}, {}),
        ({}, {"container": {"type": "view", "view_id": "V000"}}, {}),
        ({}, {"container": {"type": "message", "message_ts": "1.1", "channel_id": "D0ANA"}}, {}),
        ({}, {"view": None}, {}),
        ({}, {"team": {"id": "TOTHER"}}, {}),
        ({}, {}, {"value": "SG-000000000000 " + "0" * 64}),
        ({}, {}, {"value": None}),
        ({}, {}, {"value": "a b c d"}),
        ({}, {}, {"action_id": "home.everything"}),
    ],
)
async def test_forged_presses_decide_nothing_and_are_answered(
    tmp_path: Path, view: dict[str, Any], payload: dict[str, Any], pressed: dict[str, Any]
) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        _, home = await pending(h, "git push origin main")
        shown = {**home.view, "id": home.id, "hash": home.hash, **view}
        action = {name: value for name, value in (button_of(home, "Approve") | pressed).items() if value is not None}
        click = await h.slack.home_tabs.send(h.ana.user, action, shown, **payload)
        assert click.acknowledged
        assert "Nothing was" in (await h.ana.wait_for_modal()).plain()
        assert (await h.running.store.requests(1))[0].state == "pending"
        await h.ana.close(await h.ana.wait_for_modal())
        assert (await h.ana.click_home(home, "Approve")).acknowledged  # and the true button still works
        assert (await h.running.store.requests(1))[0].state == "approved"


async def test_forged_pulls_and_revocations_change_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        hook, home = await pending(h, "touch a")
        await h.ana.click_home(home, "Always")
        await h.ended(hook)
        home = await home_with(h.ana, "Runs without asking: 1")
        for label in ("Pause", "Revoke"):
            shown = {**home.view, "id": home.id, "hash": home.hash, "private_metadata": "U0BEN"}
            assert (await h.slack.home_tabs.send(h.ana.user, button_of(home, label), shown)).acknowledged
            modal = await h.ana.wait_for_modal()
            assert "not your Home tab" in modal.plain()
            await h.ana.close(modal)
        assert len(await h.running.store.rules()) == 1 and not (await h.running.store.cord()).paused


async def test_a_stranger_with_a_tab_that_looks_like_an_approvers_changes_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        eve = h.slack.add_user("U0EVE", name="Eve")
        await h.ana.open_home()
        hook, home = await pending(h, "touch a")
        await h.ana.click_home(home, "Always")
        await h.ended(hook)
        _, home = await pending(h, "git push origin main")
        for label in ("Approve", "Always", "Pause", "Revoke"):
            shown = {**home.view, "id": "V0EVE", "hash": "x", "private_metadata": "U0EVE"}
            assert (await h.slack.home_tabs.send(eve.user, button_of(home, label), shown)).acknowledged
            modal = await eve.wait_for_modal()
            assert "Nothing was" in modal.plain()
            await eve.close(modal)
        assert (await h.running.store.requests(1))[0].state == "pending"
        assert len(await h.running.store.rules()) == 1 and not (await h.running.store.cord()).paused
        foreign = [(line["user"], line["reason"]) for line in h.log() if line["decision"] == "click-foreign"]
        [rule] = await h.running.store.rules()
        assert foreign == [("U0EVE", what) for what in ("approve", "always", "pause", f"revoke {rule.id}")]


async def test_a_late_press_is_told_and_the_tab_is_current_again(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        hook, home = await pending(h, "git push origin main")
        await h.ana.click_home(home, "Deny")
        await h.ended(hook)
        await home_with(h.ana, "Decided today: 1")
        assert (await h.ana.click_home(home, "Approve")).acknowledged
        modal = await h.ana.wait_for_modal()
        assert "Too late, nothing changed: Ana denied it." in modal.plain()


async def test_three_hundred_requests_fit_and_each_can_be_reached(tmp_path: Path) -> None:
    async with house(tmp_path, wait=600) as h:
        for number in range(30):
            await h.start(h.event(command=f"touch file-{number}"))
        base = (await requests_filed(h, 30))[0]
        approvers = ["U0ANA"]
        for number in range(270):
            more = replace(base, id=f"SG-{number:012x}", key=f"k{number}", expires_at=base.expires_at + 60 + number)
            await h.running.store.submitted(more, approvers, "slack")
        await h.ana.open_home()
        home = await home_with(h.ana, "300 requests wait")
        shown = home.buttons.count("Approve")
        assert 10 <= shown <= 30 and len(home.blocks) <= 100
        assert f"{300 - shown} more wait; the cards are under Messages." in home.plain()
        assert h.slack.calls("views.publish")[-1].error is None
        await h.ana.click_home(home, "Approve")
        home = await home_with(h.ana, "299 requests wait")
        assert home.buttons.count("Approve") >= shown - 1  # the next one has come up, but for what was decided
        assert "Decided today: 1" in home.plain()


async def requests_filed(h: House, count: int) -> list[Any]:
    async with asyncio.timeout(100):
        async for _ in h.running.changes.each():
            found = await h.running.store.requests(count)
            if len(found) == count:
                return found
    raise AssertionError


async def test_changes_that_look_the_same_are_not_published(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        await home_with(h.ana, "Nothing waits")
        before = len(h.slack.calls("views.publish"))
        for _ in range(100):
            h.running.changes.wake()
            await h.running.controls.overview("U0ANA")  # as long as a drawing takes
        await h.running.controls.pull(Pull.PAUSE, ANA, h.slack.team_id)
        await home_with(h.ana, "Paused by Ana")
        assert len(h.slack.calls("views.publish")) - before <= 2


async def test_a_burst_of_changes_is_published_at_a_bounded_pace_and_ends_with_the_newest(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        await home_with(h.ana, "Nothing waits")
        before, start = len(h.slack.calls("views.publish")), time.monotonic()
        pulls = 0

        def allowed() -> float:
            return home_tab.BURST + (time.monotonic() - start) / home_tab.PACE_S + 2

        while time.monotonic() - start < 3 or pulls <= allowed() + 5:  # more than may be published, on any machine
            pulls += 1
            await h.running.controls.pull(Pull.PAUSE if pulls % 2 else Pull.RESUME, ANA, h.slack.team_id)
            for _ in range(10):
                await h.running.controls.overview("U0ANA")
        await h.running.controls.pull(Pull.CONSOLE, ANA, h.slack.team_id)
        await h.running.controls.pull(Pull.RESUME, ANA, h.slack.team_id)
        await home_with(h.ana, "at the agent's own permission prompt")
        assert len(h.slack.calls("views.publish")) - before <= allowed()


@pytest.mark.parametrize(
    "trouble",
    [
        {"error": "ratelimited", "http_status": 429, "retry_after": 1},
        {"http_status": 503},
        {"reset_before": True},
        {"reset_after": True},
        {"error": "hash_conflict"},
        {"error": "internal_error"},
    ],
)
async def test_a_tab_opened_while_slack_fails_is_drawn_as_soon_as_it_can_be(
    tmp_path: Path, trouble: dict[str, Any]
) -> None:
    async with house(tmp_path) as h:
        await h.ana.wait_for_home()  # the one at the start
        if trouble.get("http_status") == 429:
            trouble = {name: value for name, value in trouble.items() if name != "error"}
        h.slack.fail_next("views.publish", **trouble, times=2)
        hook, home = await pending(h, "git push origin main")
        await h.ana.open_home()
        assert (await h.ana.click_home(home, "Approve")).acknowledged
        assert (await h.ended(hook)).decision == "allow"
        await home_with(h.ana, "Decided today: 1")
        assert len(h.slack.calls("views.publish")) >= 3  # the first, one that failed, and the newest


async def test_a_tab_that_slack_refuses_is_left_without_buttons(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.wait_for_home()
        h.slack.fail_next("views.publish", "invalid_arguments")
        await h.start(h.event(command="git push origin main"))
        home = await home_with(h.ana, "cannot be drawn just now")
        assert home.buttons == []
        await h.card("git push origin main")


async def test_a_daemon_that_starts_redraws_the_tab_of_the_one_before(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        async with running(settings) as daemon:
            h = House(slack, ana, settings, daemon)
            hook, old = await pending(h, "git push origin main")
            hook.kill()
            await hook.wait()
        async with running(settings) as daemon:
            await slack.workspace.wait_for(lambda: ana.home is not old or None, 10, lambda: "no new tab")
            [request] = await daemon.store.requests(1)
            await daemon.gate.cancel(request.id)
            await home_with(ana, "Nothing waits")
            assert (await ana.click_home(old, "Approve")).acknowledged
            assert "Too late, nothing changed: the agent stopped waiting." in (await ana.wait_for_modal()).plain()


async def test_hostile_texts_stay_literal_and_a_cut_one_has_no_approve(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.ana.open_home()
        hostile = "git push '<!channel> <@U0ANA> <https://evil|https://good> *b* `c` ```x``` :tada:'"
        _, home = await pending(h, hostile)
        parsed = list(texts(home.blocks, "mrkdwn"))
        assert any("git push" in text for text in texts(home.blocks, "text")) and parsed
        assert not any("push" in text or "evil" in text for text in parsed)
        assert not any(True for _ in texts(home.blocks, "link"))
        long = "git push " + "a" * 4000
        await h.start(h.event(command=long))
        home = await h.ana.wait_for_home(lambda home: "Open the card" in home.buttons)
        assert "Too long for this tab: its card shows all of it." in home.plain()
        assert home.buttons.count("Approve") == 1 and home.buttons.count("Deny") == 2
        [way] = [c.element for c in home.latest.controls if c.label == "Open the card"]
        card = await h.card(long)
        assert way["url"] == f"https://local.slack.com/archives/{card.channel}/p{card.ts.replace('.', '')}"
        assert "value" not in way
