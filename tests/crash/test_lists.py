"""A message of several requests whose posting was never put on file: it is drawn for all of them, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from slack_gate.local_slack.workspace import Message
from tests.daemon.house import House, house
from tests.daemon.serving import Wire

POST = "chat.postMessage"
pytestmark = pytest.mark.paced


@asynccontextmanager
async def listed(h: House, number: int, **trouble: Any) -> AsyncIterator[tuple[Message, dict[str, Wire]]]:
    """So many requests on one message, and the trouble that its posting had."""
    first = [f"git push origin b{n}" for n in range(2)]  # as many as go out at once
    commands = [f"deploy m{n}" for n in range(number)]
    wires = {command: await Wire.open(h.settings.socket_path) for command in first + commands}
    try:
        await _ask(h, wires, first)
        await h.slack.workspace.wait_for(lambda: len(h.ana.messages) == 2 or None, 10, lambda: "no two messages")
        h.slack.fail_next(POST, **trouble)
        await _ask(h, wires, commands)
        yield await h.ana.wait_for_message(lambda m: f"deploy m{number - 1}" in m.plain()), wires
    finally:
        for wire in wires.values():
            wire.close()


async def _ask(h: House, wires: dict[str, Wire], commands: Sequence[str]) -> None:
    await asyncio.gather(*(wires[command].ask(h.event(command=command)) for command in commands))


async def press(h: House, message: Message, label: str, command: str) -> None:
    """The button of this request, wherever it stands on the message: they were asked at the same time."""
    shown = [line for line in message.plain().splitlines() if line.startswith("deploy m")]
    await h.ana.click(message, label, number=shown.index(command))


async def left_to_answer(message: Message, number: int) -> None:
    await message.wait_for_update(lambda version: version.buttons.count("Approve") == number)


@pytest.mark.parametrize("trouble", [{"reset_after": True}, {"http_status": 500, "performed": True}])
async def test_one_is_decided_before_anybody_has_looked_for_the_message(
    tmp_path: Path, trouble: dict[str, Any]
) -> None:
    async with house(tmp_path) as h, listed(h, 5, **trouble) as (message, wires):
        await press(h, message, "Approve", "deploy m2")
        assert await wires["deploy m2"].decision() == "allow"
        await message.wait_for_update(lambda version: "Approved by Ana" in version.plain())
        for left in range(4, 0, -1):
            await left_to_answer(message, left)
            await h.ana.click(message, "Deny")
        for number in (0, 1, 3, 4):
            assert await wires[f"deploy m{number}"].decision() == "deny"
        await message.wait_for_update(lambda version: not version.buttons)
        assert message.plain().count("Denied by Ana") == 4 and message.plain().count("Approved by Ana") == 1
        assert len([m for m in h.ana.messages if "deploy" in m.plain()]) == 1


async def test_what_was_withdrawn_takes_nobody_elses_buttons(tmp_path: Path) -> None:
    """The one that ends looks for its message first, and finds the others there."""
    async with house(tmp_path) as h, listed(h, 4, reset_after=True) as (message, wires):
        await press(h, message, "Deny", "deploy m0")
        assert await wires["deploy m0"].decision() == "deny"
        await message.wait_for_update(lambda version: "Denied by Ana" in version.plain())
        await left_to_answer(message, 3)
        await h.ana.click(message, "Approve all 3")
        assert [await wires[f"deploy m{n}"].decision() for n in (1, 2, 3)] == ["allow"] * 3
        await message.wait_for_update(lambda version: not version.buttons)


@pytest.mark.timeout(600)
async def test_clicks_without_end_hold_up_no_card(tmp_path: Path) -> None:
    """Each is looked up, and the next ones come meanwhile."""
    async with house(tmp_path) as h:
        _, card = await h.asked("git push origin ended")
        await h.ana.click(card, "Deny")

        async def mash() -> None:
            while True:
                await h.press(card, "Approve")

        hands = [asyncio.create_task(mash()) for _ in range(8)]
        try:
            for number in range(3):
                hook, asked = await h.asked(f"git push origin b{number}")
                await h.ana.click(asked, "Approve")
                assert (await h.ended(hook)).decision == "allow"
                await asked.wait_for_update(lambda version: not version.buttons)
        finally:
            for hand in hands:
                hand.cancel()
            await asyncio.gather(*hands, return_exceptions=True)
