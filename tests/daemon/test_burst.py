"""Many at once: more requests than Slack takes messages, and the same one again while it waits."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.display import exact
from slack_gate.core.request import State
from slack_gate.daemon.serve import running
from slack_gate.local_slack.blocks import message_faults, total
from slack_gate.local_slack.server import LocalSlack
from slack_gate.store import tables
from tests.daemon.house import House, house, settings_for
from tests.daemon.serving import Wire
from tests.daemon.test_faults import event
from tests.slack.test_cards import literals

pytestmark = pytest.mark.paced
POST = "chat.postMessage"


async def asked(h: House, commands: Sequence[str]) -> list[Wire]:
    wires = [await Wire.open(h.settings.socket_path) for _ in commands]
    await asyncio.gather(*(wire.ask(event(one, n)) for n, (wire, one) in enumerate(zip(wires, commands, strict=True))))
    return wires


def live(h: House) -> set[str]:
    """Requests that have an Approve and a Deny of their own below some text."""
    found: dict[str, set[str]] = {}
    for message in h.ana.messages:
        for block in message.blocks:
            for element in block.get("elements", []) if block["type"] == "actions" else []:
                found.setdefault(element.get("value", "").split(" ")[0], set()).add(element["action_id"])
    return {request for request, actions in found.items() if {"approve", "deny"} <= actions}


async def press(h: House, message: Any, request: str, action: str) -> Any:
    buttons = [e for block in message.blocks if block["type"] == "actions" for e in block["elements"]]
    button = next(e for e in buttons if e["action_id"] == action and e["value"].startswith(request))
    return await h.slack.send_action(
        user="U0ANA", action_id=action, value=button["value"], channel=message.channel, message_ts=message.ts
    )


async def test_a_hundred_at_once(tmp_path: Path) -> None:
    dice = random.Random(1)
    commands = [f"deploy n{n:03} {'x' * dice.randint(0, 288)}" for n in range(100)]
    async with LocalSlack(posting_limit=1.0, tiers=1.0) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path, wait=120)
        async with running(settings) as daemon:
            h = House(slack, ana, settings, daemon)
            started = time.monotonic()
            wires = await asked(h, commands)
            await slack.workspace.wait_for(lambda: True if len(live(h)) == 100 else None, 30, lambda: str(len(live(h))))
            assert len(slack.calls(POST)) <= max(10, 3 + time.monotonic() - started)  # one a second
            assert [call for call in slack.calls(POST) if call.error] == []
            shown = {exact(text) for message in ana.messages for text in literals(message.blocks)}
            assert shown == set(commands)
            for message in ana.messages:
                assert message_faults(message.blocks) == [] and total(message.blocks) <= 8000
            # Each can be decided by itself, and the rest of a message together.
            requests = {request.command: request for request in await daemon.store.requests(200)}
            one = next(m for m in ana.messages if "n050" in m.plain())
            await press(h, one, requests[commands[50]].id, "deny")
            assert await wires[50].decision() == "deny"
            for message in list(ana.messages):
                label = next((label for label in message.buttons if label.startswith("Approve")), None)
                every = [label for label in message.buttons if label.startswith("Approve all")]
                await ana.click(message, every[0] if every else str(label))
            answers = await asyncio.gather(*(wire.decision(timeout=100) for wire in wires[:50] + wires[51:]))
            assert answers == ["allow"] * 99
            await slack.workspace.wait_for(lambda: None if live(h) else True, 60, lambda: str(live(h)))
            text = next(m for m in ana.messages if "n050" in m.plain()).plain()
            assert "Denied by Ana" in text and "Approved by Ana" in text and commands[50] in text


async def test_the_same_again_while_it_waits_stands_on_the_same_message(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main", description="first")
        again = await h.start(h.event(command="git push origin main", description="once more"))
        await card.wait_for_update(lambda version: version.buttons.count("Approve") == 2)
        assert len(h.ana.messages) == 1
        assert literals(card.blocks) == ["git push origin main"]
        assert "first" in card.plain() and "once more" in card.plain()
        newest, first = await h.running.store.requests(2)
        await press(h, card, first.id, "approve")
        assert (await h.ended(hook)).decision == "allow"
        await card.wait_for_update(lambda version: version.buttons.count("Approve") == 1)
        assert again.returncode is None
        await press(h, card, newest.id, "deny")
        assert (await h.ended(again)).decision == "deny"
        await card.wait_for_update(lambda version: not version.buttons)
        assert "Approved by Ana" in card.plain() and "Denied by Ana" in card.plain()


async def test_the_same_to_the_byte_without_an_id_is_answered_each_by_its_own_buttons(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        event = h.event(command="rm -r dist")
        del event["tool_use_id"]
        first = await h.start(event)
        card = await h.card("rm -r dist")
        second = await h.start(event)
        await card.wait_for_update(lambda version: version.buttons.count("Approve") == 2)
        newest, oldest = await h.running.store.requests(2)
        await press(h, card, oldest.id, "deny")
        assert (await h.ended(first)).decision == "deny"
        assert second.returncode is None
        await press(h, card, newest.id, "approve")
        assert (await h.ended(second)).decision == "allow"


async def test_the_same_in_another_session_has_its_own_message(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.asked("git push origin main")
        await h.start({**h.event(command="git push origin main"), "session_id": "s2"})
        await h.slack.workspace.wait_for(lambda: len(h.ana.messages) == 2 or None, 10, lambda: "one message")


async def test_a_list_that_slack_does_not_answer(tmp_path: Path) -> None:
    """It arrived, and its answer was lost: each finds it again, and there is no second one."""
    async with house(tmp_path) as h:
        wires = await asked(h, [f"git push origin b{n}x" for n in range(2)])
        await h.slack.workspace.wait_for(lambda: len(live(h)) == 2 or None, 10, lambda: str(live(h)))
        h.slack.fail_next(POST, reset_after=True)
        more = [await Wire.open(h.settings.socket_path) for _ in range(6)]
        await asyncio.gather(*(wire.ask(event(f"deploy m{n}", 100 + n)) for n, wire in enumerate(more)))
        await h.slack.workspace.wait_for(lambda: len(live(h)) == 8 or None, 15, lambda: str(live(h)))
        [listed] = [m for m in h.ana.messages if "deploy m5" in m.plain()]
        [every] = [label for label in listed.buttons if label.startswith("Approve all")]

        async def on_file() -> bool:
            rows = await h.running.store.requests(20)
            return all(row.state is State.APPROVED for row in rows if (row.command or "").startswith("deploy"))

        await h.on_file(tables.cards.c.message == listed.ts, 6)  # each has looked for its message
        await h.ana.click(listed, every)
        assert await on_file()
        assert [await wire.decision() for wire in more] == ["allow"] * 6
        await listed.wait_for_update(lambda version: not version.buttons)
        for wire in (*wires, *more):
            wire.close()
