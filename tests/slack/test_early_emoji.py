"""An emoji that is quicker than Slack's answer to the post of its card: taken once the card stands, or answered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.event import RUNS, ToolEvent
from slack_gate.daemon.house import Caller
from slack_gate.daemon.runs import Unwatched
from slack_gate.slack import messenger, reactions
from tests.daemon.house import House, house


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine too an emoji can be quicker than the second look, and waits for it."""
    monkeypatch.setattr(messenger, "RETRY_S", 3.0)
    monkeypatch.setattr(reactions, "SOON_S", (*reactions.SOON_S, 10.0, 30.0))


async def unanswered(h: House, command: str) -> Any:
    """A hook, and its card, of which Slack's answer to the post was lost: it is found again some seconds later."""
    hook, first = await h.asked("git push origin first")
    await h.ana.click(first, "Deny")
    await h.ended(hook)
    h.slack.fail_next("chat.postMessage", reset_after=True)
    return await h.asked(command)


@pytest.mark.parametrize(("emoji", "decision"), [("+1", "allow"), ("x", "deny")])
async def test_it_decides_once_the_card_stands(tmp_path: Path, emoji: str, decision: str) -> None:
    async with house(tmp_path, reactions=True) as h:
        hook, card = await unanswered(h, "git push origin main")
        assert await h.running.controls.card_at(card.channel, card.ts) is None
        told = await h.ana.react(card, emoji)
        assert told is not None and told.acknowledged
        assert (await h.running.store.requests(1))[0].state == "pending"
        assert (await h.ended(hook)).decision == decision
        await card.wait_for_update(lambda version: not version.buttons)
        assert h.ana.ephemerals == []


async def test_one_that_slack_brings_twice_counts_once(tmp_path: Path) -> None:
    async with house(tmp_path, reactions=True) as h:
        hook, card = await unanswered(h, "git push origin main")
        told = await h.ana.react(card, "x")
        assert told is not None and (await h.slack.redeliver(told)).acknowledged
        await h.ended(hook)
        assert [line["decision"] for line in h.log()] == ["pending", "denied"] * 2


async def test_it_approves_no_text_that_is_not_in_the_thread_yet(tmp_path: Path) -> None:
    async with house(tmp_path, reactions=True) as h:
        h.slack.fail_next("files.completeUploadExternal", delay=10.0)
        hook = await h.start(h.event(command="echo " + "x" * 9000))
        card = await h.ana.wait_for_message(lambda message: message.has_button("Deny"))
        assert not card.has_button("Approve")
        await h.ana.react(card, "+1")
        assert "shows whole" in (await h.ana.wait_for_ephemeral()).plain()
        assert (await h.running.store.requests(1))[0].state == "pending"
        await h.ana.react(card, "-1")
        assert (await h.ended(hook)).decision == "deny"


async def test_what_asks_for_several_things_says_that_an_emoji_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactions, "SOON_S", (0.05, 0.05))
    async with house(tmp_path, reactions=True) as h:
        _, card = await h.asked("git push origin main")
        await h.start(h.event(command="git push origin main"))
        await card.wait_for_update(lambda version: version.buttons.count("Approve") == 2)
        await h.ana.react(card, "+1")
        assert "decided nothing" in (await h.ana.wait_for_ephemeral()).plain()
        assert {request.state for request in await h.running.store.requests(2)} == {"pending"}


async def test_a_note_in_a_thread_may_be_liked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told anything for that, nor for an emoji on one's own words."""
    monkeypatch.setattr(reactions, "SOON_S", (0.05, 0.05))
    async with house(tmp_path, reactions=True) as h:
        event = ToolEvent("agent", "s1", None, RUNS["cage"], {"command": "true"}, "/tmp")
        ran = asyncio.create_task(h.running.runs.ask(event, Caller("c" * 32, 600.0), Unwatched()))
        card = await h.card("true")
        await h.ana.click(card, "Approve")
        await ran
        note = await h.ana.wait_for_message(lambda one: one.thread_ts == card.ts and "Ended" in one.plain(), 20)
        looks = len(h.slack.calls("conversations.history"))
        await h.ana.react(note, "+1")
        await h.slack.workspace.wait_for(
            lambda: len(h.slack.calls("conversations.history")) > looks or None, 10, lambda: "nobody looked"
        )
        own = await h.ana.say("thanks", thread=card)
        await h.ana.react(own, "+1")
        _, other = await h.asked("git push origin main")
        await h.ana.react(other, "x")
        await other.wait_for_update(lambda version: not version.buttons)
        assert h.ana.ephemerals == []
