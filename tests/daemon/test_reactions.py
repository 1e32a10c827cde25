"""Emoji on cards, on the local Slack: they decide when the settings say so, and only then."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.house import house


@pytest.mark.parametrize(
    ("emoji", "decision"),
    [("+1", "allow"), ("+1::skin-tone-4", "allow"), ("white_check_mark", "allow"), ("x", "deny"), ("-1", "deny")],
)
async def test_an_emoji_decides_like_a_button(tmp_path: Path, emoji: str, decision: str) -> None:
    async with house(tmp_path, reactions=True) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.react(card, "eyes")
        told = await h.ana.react(card, emoji)
        assert told is not None and told.acknowledged
        ended = await h.ended(hook)
        assert ended.decision == decision and "Ana" in ended.reason
        await card.wait_for_update(lambda version: not version.buttons)
        [line] = [line for line in h.log() if line["decision"] in ("approved", "denied")]
        assert (line["by"], line["user"]) == ("human-slack", "U0ANA")
        assert h.ana.ephemerals == []
        await h.ana.unreact(card, emoji)  # changes nothing: the app does not even hear of it
        assert (await h.running.store.requests(1))[0].state == ("approved" if decision == "allow" else "denied")
        await h.ana.react(card, "x" if decision == "allow" else "+1")
        assert "Too late, nothing changed" in (await h.ana.wait_for_ephemeral()).plain()


async def test_by_default_an_emoji_is_an_emoji(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked("git push origin main")
        told = await h.ana.react(card, "+1")
        assert told is not None and told.acknowledged
        assert (await h.running.store.requests(1))[0].state == "pending"
        assert len(h.log()) == 1


@pytest.mark.parametrize(
    ("changes", "body", "told"),
    [
        ({"user": "U0EVE"}, {}, ""),
        ({"item": {"type": "message", "channel": "D0EVE", "ts": "1.1"}}, {}, ""),
        ({"item": {"type": "message", "channel": "D0ANA", "ts": "1.1"}}, {}, ""),
        ({"item": {"type": "file", "channel": "D0ANA", "ts": "1.1"}}, {}, ""),
        ({"item": None}, {}, ""),
        ({"reaction": "tada"}, {}, ""),
        ({"reaction": "+1x"}, {}, ""),
        ({"event_ts": "1600000000.000100"}, {}, "late, so nothing was decided"),
    ],
)
async def test_what_does_not_match_decides_nothing(
    tmp_path: Path, changes: dict[str, Any], body: dict[str, Any], told: str
) -> None:
    async with house(tmp_path, reactions=True) as h:
        h.slack.add_user("U0EVE", name="Eve")
        _, card = await h.asked("git push origin main")
        event = {
            "type": "reaction_added",
            "user": "U0ANA",
            "reaction": "+1",
            "item_user": h.slack.workspace.bot.id,
            "item": {"type": "message", "channel": card.channel, "ts": card.ts},
            "event_ts": h.slack.workspace.new_ts(),
        }
        sent = await h.slack.send_event("reaction_added", event | changes)
        assert sent is not None and sent.acknowledged
        assert (await h.running.store.requests(1))[0].state == "pending"
        if told:
            assert told in (await h.ana.wait_for_ephemeral()).plain()


async def test_an_emoji_on_a_copy_that_is_not_the_newest_card_is_told(tmp_path: Path) -> None:
    async with house(tmp_path, reactions=True) as h:
        _, card = await h.asked("git push origin main")
        copy = h.slack.workspace.post(card.channel, card.text, card.blocks)
        await h.ana.click(copy, "Deny")  # now it is known for one, and the click was refused
        await h.ana.wait_for_ephemeral(lambda message: "not the message" in message.plain())
        before = len(h.ana.ephemerals)
        await h.ana.react(copy, "+1")
        await h.slack.workspace.wait_for(lambda: len(h.ana.ephemerals) > before or None, 10, lambda: "nothing said")
        assert "use the newest card" in h.ana.ephemerals[-1].plain()
        assert (await h.running.store.requests(1))[0].state == "pending"


async def test_an_emoji_does_not_approve_a_change_that_its_card_cuts(tmp_path: Path) -> None:
    """The text that comes is short; the card shows it as a change to a long file, of which it shows both ends."""
    with tempfile.NamedTemporaryFile("w", dir="/var/tmp") as file:
        file.write("".join(f"line {number}\n" for number in range(2000)))
        file.flush()
        async with house(tmp_path, reactions=True) as h:
            hook = await h.start(h.event("Write", file_path=file.name, content="x\n"))
            card = await h.card(file.name)
            async with asyncio.timeout(100):
                while await h.running.controls.card_at(card.channel, card.ts) is None:  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(0.05)
            await h.ana.react(card, "+1")
            assert "shows whole" in (await h.ana.wait_for_ephemeral()).plain()
            assert (await h.running.store.requests(1))[0].state == "pending"
            await h.ana.react(card, "-1")
            assert (await h.ended(hook)).decision == "deny"


async def test_a_redelivered_emoji_counts_once(tmp_path: Path) -> None:
    async with house(tmp_path, reactions=True) as h:
        hook, card = await h.asked("git push origin main")
        told = await h.ana.react(card, "+1")
        await h.ended(hook)
        assert told is not None and (await h.slack.redeliver(told)).acknowledged
        assert [line["decision"] for line in h.log()] == ["pending", "approved"]
