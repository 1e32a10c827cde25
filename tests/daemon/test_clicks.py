"""Every click gets a visible answer; only the right one decides."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.house import house


@pytest.mark.parametrize(
    ("forged", "told"),
    [
        ({"user": "U0EVE", "channel": None}, "not an approver"),
        ({"team": "TOTHER"}, "not an approver"),
        ({"message_ts": "1700000000.000100"}, "not the message"),
        ({"value": "SG-000000000000 " + "0" * 64}, "not on file"),
        ({"value": "SG-000000000000"}, "not on file"),
        ({"value": ""}, "not on file"),
        ({"value": "a b c d e f"}, "not on file"),
        ({"action_id": "approve-everything"}, "belongs to no request"),
    ],
)
async def test_clicks_that_do_not_match(tmp_path: Path, forged: dict[str, Any], told: str) -> None:
    async with house(tmp_path) as h:
        eve = h.slack.add_user("U0EVE", name="Ana")  # a name is no identity
        _, card = await h.asked("git push origin main")
        click = await h.press(card, "Approve", **forged)
        assert click.acknowledged
        person = eve if forged.get("user") == "U0EVE" else h.ana
        answer = await person.wait_for_ephemeral()
        assert told in answer.plain()
        [request] = await h.running.store.requests(10)
        assert request.state == "pending"


async def test_a_digest_of_something_else_decides_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked("git push origin main")
        [request] = await h.running.store.requests(1)
        await h.press(card, "Approve", value=f"{request.id} {'0' * 64}")
        assert "not the message or the content" in (await h.ana.wait_for_ephemeral()).plain()
        assert (await h.running.store.requests(1))[0].state == "pending"


async def test_late_and_foreign_clicks_are_logged_with_the_clicker(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.press(card, "Approve", user="U0EVE", channel=None)
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        await h.press(card, "Approve")
        assert [(line["decision"], line["user"]) for line in h.log()] == [
            ("pending", None),
            ("click-foreign", "U0EVE"),
            ("denied", "U0ANA"),
            ("click-ended", "U0ANA"),
        ]


async def test_ten_clicks_in_a_second_decide_once(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        labels = ["Approve", "Deny"] * 5
        clicks = await asyncio.gather(*(h.press(card, label) for label in labels))
        ended = await h.ended(hook)
        assert all(click.acknowledged for click in clicks)
        states = [line["decision"] for line in h.log() if line["decision"] in ("approved", "denied")]
        assert states == ["approved" if ended.decision == "allow" else "denied"]


@pytest.mark.parametrize(("first", "second", "said"), [("Approve", "Deny", "approved"), ("Deny", "Approve", "denied")])
async def test_the_first_click_wins_and_the_second_is_told(tmp_path: Path, first: str, second: str, said: str) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, first)
        late = await h.press(card, second)
        assert late.acknowledged
        assert f"Too late, nothing changed: Ana {said} it." in (await h.ana.wait_for_ephemeral()).plain()
        assert (await h.ended(hook)).decision == ("allow" if said == "approved" else "deny")
        assert [line["decision"] for line in h.log()] == ["pending", said, "click-ended"]


async def test_an_always_that_slack_brings_four_times_counts_once(tmp_path: Path) -> None:
    """The same envelope marked as a retry and not marked, and its content in another one."""
    async with house(tmp_path) as h:
        hook, card = await h.asked("touch a.txt")
        h.slack.deliver_twice(1)
        click = await h.ana.click(card, "Always")
        assert (await h.ended(hook)).decision == "allow"
        again = [click, await h.slack.redeliver(click), await h.press(card, "Always")]
        assert all(one.acknowledged for one in again)
        assert len(await h.running.store.rules()) == 1
        assert [line["decision"] for line in h.log()] == ["pending", "approved", *["click-ended"] * 3]


async def test_a_click_that_cannot_be_recorded_is_told_and_approves_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("touch a.txt")
        await h.ana.click(card, "Always")
        await h.ended(hook)
        hook, card = await h.asked("git push origin main")
        log, aside = h.settings.log_path, tmp_path / "aside"
        log.rename(aside)
        log.mkdir()  # no line can be written
        await h.press(card, "Approve")
        told = await h.ana.wait_for_ephemeral(lambda m: "Nothing was approved" in m.plain())
        assert "cannot be written" in told.plain()
        assert (await h.ended(hook)).decision == "deny"
        remembered = await h.bash("touch b.txt")
        assert remembered.decision == "deny" and "cannot be written" in remembered.reason
        log.rmdir()
        aside.rename(log)
        assert (await h.bash("touch c.txt")).decision == "allow"


async def test_always_sent_by_hand_for_what_cannot_be_remembered(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked("bash -c 'make deploy'")
        assert "Always" not in card.buttons
        await h.press(card, "Approve", action_id="always")
        assert "can be remembered" in (await h.ana.wait_for_ephemeral()).plain()
        assert await h.running.store.rules() == []
        assert (await h.running.store.requests(1))[0].state == "pending"


async def test_a_foreign_dialog_submission_decides_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.choose(card, "Deny with a reason")
        modal = await h.ana.wait_for_modal()
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        result = await h.ana.submit(modal, {"reason": "too late"})
        assert not result.closed
        assert "Too late" in str(result.errors)


async def test_a_dialog_for_an_ended_request_is_not_opened(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        option = card.versions[0].blocks[-1]["elements"][-1]
        value = option["options"][0]["value"]
        action = {**option, "selected_option": option["options"][0]}
        await h.press(card, "Approve", action_id=option["action_id"], value=value, actions=[action])
        assert "Too late" in (await h.ana.wait_for_ephemeral()).plain()
