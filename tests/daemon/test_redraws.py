"""What Slack performs late, does not take, or lost: every message ends as its requests stand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.request import Choice, Request, State
from slack_gate.daemon import posts, redraws
from slack_gate.daemon.lanes import Lanes
from slack_gate.daemon.posts import Posts
from slack_gate.store import tables
from slack_gate.store.cards import Cards
from tests.daemon.house import House, house
from tests.store.place import HOME, NOW, REQUEST, Place, click, submitted

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


class Found:
    """A surface on which one message shows two requests; what is drawn on it is kept."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    async def find(self, request: Request, channel: str) -> dict[str, tuple[str, ...]]:
        return {"1.1": ("SG-1", "SG-2")}

    async def redraw_all(self, requests: Any, channel: str, message: str) -> None:
        self.drawn.append(message)


async def test_a_message_that_is_found_is_drawn_once_it_is_ours_too(tmp_path: Path) -> None:
    """Another daemon may be drawing it just now, for the other request that it shows."""
    surface: Any = Found()
    async with Place(tmp_path, f"sqlite:///{tmp_path}/gate.db").store() as store:
        cards, other = Cards(store.database, "slack", HOME), Cards(store.database, "slack", "elsewhere")
        await submitted(store)
        await store.submitted(replace(REQUEST, id="SG-2", key="toolu_2"), ["U0ANA"], "slack")
        [lost] = await cards.due(NOW)
        await cards.claim([[lost]], NOW, NOW)  # its post may have arrived
        for number in (1, 2):
            await store.decided(click(Choice.DENY, request=f"SG-{number}"), (), (), NOW + 1)
        drawing = redraws.Redraws(
            cards, surface, Lanes(), Posts(cards, surface, Lanes(), lambda: None, lambda: NOW + 40), lambda: NOW + 40
        )
        own, copy = await cards.due(NOW + 2)
        assert (own.request.id, copy.unclear) == ("SG-1", True)
        assert await other.claim([[own]], NOW + 2, NOW + 90) == {own.id}
        assert await cards.claim([[copy]], NOW + 2, NOW + 60) == {copy.id}
        await drawing.redraw([copy])
        assert surface.drawn == []
        copy = next(card for card in await cards.due(NOW + 41) if card.id == copy.id)
        assert await cards.claim([[copy]], NOW + 41, NOW + 99) == set()
        await other.released(own.id, NOW + 42)
        copy = next(card for card in await cards.due(NOW + 43) if card.id == copy.id)
        assert await cards.claim([[copy]], NOW + 43, NOW + 99) == {copy.id}
        await drawing.redraw([copy])
        assert surface.drawn == ["1.1"]
