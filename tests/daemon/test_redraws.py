"""What Slack performs late, does not take, or lost: every message ends as its requests stand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.request import State
from slack_gate.daemon import posts, redraws
from slack_gate.store import tables
from tests.daemon.house import House, house

UPDATE = "chat.update"
POST = "chat.postMessage"
SAME = "git push origin same"


async def asked_twice(h: House) -> tuple[Any, Any]:
    """A call, and once it has its card the very same one again; returns the card and the second call's hook."""
    await h.asked(SAME)
    [card] = h.ana.messages
    await h.on_file(tables.cards.c.message == card.ts)
    return card, await h.start(h.event(command=SAME))


async def performed(h: House, method: str, calls: int) -> None:
    await h.slack.workspace.wait_for(lambda: len(h.slack.calls(method)) >= calls or None, 60, lambda: "too few calls")


async def test_a_redraw_that_is_performed_late_does_not_bring_buttons_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redraws, "DRAW_S", 1.0)
    monkeypatch.setattr(redraws, "LATE_S", 6.0)
    async with house(tmp_path) as h:
        card, _ = await asked_twice(h)
        await card.wait_for_update(lambda version: version.buttons.count("Approve") == 2)
        await h.slack.cause("chat.update late 4")
        await h.ana.click(card, "Deny")
        await performed(h, UPDATE, 2)
        await h.ana.click(card, "Deny", number=1)
        await card.wait_for_update(lambda version: not version.buttons)
        await card.wait_for_update(lambda version: "Approve" in version.buttons)  # as it was before
        await card.wait_for_update(lambda version: not version.buttons)


@pytest.mark.parametrize("trouble", [{"error": "message_not_found"}, {"error": "internal_error"}, {"http_status": 500}])
async def test_what_cannot_be_shown_beside_the_same_is_asked_on_its_own(
    tmp_path: Path, trouble: dict[str, Any]
) -> None:
    async with house(tmp_path) as h:
        await h.asked(SAME)
        [first] = h.ana.messages
        await h.on_file(tables.cards.c.message == first.ts)
        h.slack.fail_next(UPDATE, **trouble)
        hook = await h.start(h.event(command=SAME))
        await h.slack.workspace.wait_for(lambda: len(h.ana.messages) == 2 or None, 20, lambda: "nobody is asked")
        own = h.ana.messages[-1]
        await h.on_file(tables.cards.c.message == own.ts)
        await h.ana.click(own, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_what_can_be_shown_nowhere_is_undeliverable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "POST_S", 4.0)
    async with house(tmp_path) as h:
        await h.asked(SAME)
        [first] = h.ana.messages
        await h.on_file(tables.cards.c.message == first.ts)
        for method in (UPDATE, POST):
            h.slack.fail_next(method, http_status=503, times=50)
        async with asyncio.timeout(60):
            assert "Nobody could be asked" in (await h.bash(SAME)).reason
        states = sorted(request.state for request in await h.running.store.requests(10))
        assert states == [State.PENDING, State.UNDELIVERABLE]
