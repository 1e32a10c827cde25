"""`/gate` and the same words in the conversation, on the local Slack."""

from __future__ import annotations

from pathlib import Path

import pytest

from slack_gate.local_slack.person import Person
from slack_gate.local_slack.workspace import Message
from slack_gate.slack import commands
from tests.daemon.house import house


async def whispered(person: Person, *words: str) -> Message:
    """What only this person sees, once it says all that."""
    return await person.wait_for_ephemeral(lambda message: all(word in message.plain() for word in words))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("status", ["Gated calls are asked in Slack.", "1 request waits.", "The link to Slack is up"]),
        ("pending", ["git push origin main"]),
        ("rules", ["Nothing runs without asking but what is green."]),
        ("RESUME", ["Nothing changed. Gated calls are asked in Slack."]),
        ("pause", ["Paused by Ana since", "denied at once"]),
        ("console", ["Gated calls are asked at the agent's own permission prompt."]),
        ("web", ["Nothing was changed: this daemon was started without the approval page"]),
        ("slack", ["Nothing changed."]),
        ("", ["/gate status", "/gate console"]),
        ("help", ["/gate status"]),
        ("approve SG-1", ["/gate status"]),
        ("pause now", ["/gate status"]),
    ],
)
async def test_every_word_answers_its_writer_alone_typed_either_way(tmp_path: Path, text: str, says: list[str]) -> None:
    async with house(tmp_path) as h:
        await h.asked("git push origin main")
        typed = await h.ana.command(f"/gate {text}")
        assert typed.error is None and typed.acknowledged
        [answer] = typed.responses
        assert answer.only_for == "U0ANA"
        assert all(word in answer.plain() for word in says), answer.plain()
        if text not in ("pause", "console"):
            await h.ana.say(text or "hello")
            again = await h.ana.wait_for_ephemeral(lambda message: message is not answer)
            assert all(word in again.plain() for word in says)


async def test_a_word_in_a_thread_is_answered_there_and_talk_is_left_alone(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked("git push origin main")
        await h.ana.say("why would it do that?", thread=card)
        await h.ana.say("/gate Status", thread=card)
        answer = await whispered(h.ana, "1 request waits.")
        assert answer.thread_ts == card.ts
        assert len(h.ana.ephemerals) == 1


async def test_others_are_refused_and_the_app_does_not_answer_itself(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        eve = h.slack.add_user("U0EVE", name="Eve")
        typed = await eve.command("/gate pause")
        assert typed.responses[0].plain() == "Only this slack-gate's approvers can use this. Nothing was done."
        await eve.say("pending")
        assert "Only this slack-gate's approvers" in (await eve.wait_for_ephemeral()).plain()
        _, card = await h.asked("pause")  # our own card says a word, and comes back as a message
        own = {"type": "message", "channel": h.ana.channel, "channel_type": "im", "text": "pause", "ts": card.ts}
        bots = (
            {"bot_id": "B0OTHER"},
            {"user": "U0ANA", "bot_id": "B0OTHER"},
            {"user": "U0ANA", "subtype": "message_changed"},
            {"user": "U0ANA", "subtype": "file_share"},
            {"user": "U0ANA", "channel_type": "channel"},
            {"user": h.slack.workspace.bot.id},
        )
        for more in bots:
            told = await h.slack.send_event("message.im", own | more)
            assert told is not None and told.acknowledged
        assert not (await h.running.store.cord()).paused
        assert h.ana.ephemerals == []


async def test_another_teams_user_of_the_same_id_is_no_approver(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ana = h.ana
        payload = {
            "command": "/gate",
            "text": "pause",
            "user_id": "U0ANA",
            "team_id": "TOTHER",
            "channel_id": ana.channel,
        }
        typed = await h.slack.commands.send(ana.user, payload | {"response_url": "", "trigger_id": "1"})
        assert "Only this slack-gate's approvers" in typed.responses[0].plain()
        event = {"type": "message", "channel": ana.channel, "channel_type": "im", "text": "pause", "user": "U0ANA"}
        await h.slack.send_event("message.im", event | {"ts": h.slack.workspace.new_ts(), "team": "TOTHER"})
        await whispered(ana, "Only this slack-gate's approvers")
        assert not (await h.running.store.cord()).paused


async def test_a_message_that_comes_twice_counts_once_and_a_late_one_changes_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        event = {"type": "message", "channel": h.ana.channel, "channel_type": "im", "text": "pause", "user": "U0ANA"}
        event["ts"] = h.slack.workspace.new_ts()
        told = await h.slack.send_event("message.im", event)
        assert told is not None
        await whispered(h.ana, "Paused by Ana")
        await h.ana.command("/gate resume")
        assert (await h.slack.redeliver(told)).acknowledged
        assert not (await h.running.store.cord()).paused  # the redelivery did not pause again
        await h.ana.command("/gate pause")
        late = event | {"text": "resume", "ts": f"{float(event['ts']) - 300:.6f}"}
        await h.slack.send_event("message.im", late)
        await whispered(h.ana, "so nothing was done. Write it again.")
        assert (await h.running.store.cord()).paused


async def test_a_slow_answer_is_acknowledged_in_time_and_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SOON_S", 0.0)
    async with house(tmp_path) as h:
        typed = await h.ana.command("/gate status")
        assert typed.acknowledged and typed.error is None
        await whispered(h.ana, "Nothing waits.")
        assert typed.responses[0].only_for == "U0ANA"


async def test_a_broken_store_is_said_and_nothing_is_done(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        log = h.running.store.journal.path
        log.unlink(missing_ok=True)
        log.mkdir()  # no line can be written
        typed = await h.ana.command("/gate pause")
        assert "That could not be done:" in typed.responses[0].plain()
        assert (await h.bash("git push origin main")).decision == "deny"
        log.rmdir()


async def test_three_hundred_waiting_are_listed_shortly_and_hostile_text_is_literal(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hostile = "touch '<!channel> <@U0ANA> <https://evil|x> *b* `c`'"
        _, card = await h.asked(hostile)
        typed = await h.ana.command("/gate pending")
        [answer] = typed.responses
        assert hostile in answer.plain()
        assert all(block["text"]["type"] == "plain_text" for block in answer.blocks if block["type"] == "section")
        [element] = [control.element for control in answer.latest.controls]
        assert element["url"].endswith(f"/archives/{card.channel}/p{card.ts.replace('.', '')}")


def test_words() -> None:
    assert commands.word_of("  /gate  Pause ") == "pause"
    assert commands.word_of("gate resume") == "resume"
    assert commands.word_of("status") == "status"
    for text in ("", "/gate", "gate gate pause", "pause resume", "pause!", "approve", "/gates pause"):
        assert commands.word_of(text) is None, text


def test_events_seen_are_bounded() -> None:
    seen = commands.SeenEvents()
    assert seen.new("a") and not seen.new("a") and seen.new("") and seen.new("")
    assert all(seen.new(str(number)) for number in range(commands.EVENTS))
    assert seen.new("a")
