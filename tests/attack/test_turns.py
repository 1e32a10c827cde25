"""One agent that asks without end, and who else waits for a card."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slack_gate.store.cards import Cards
from tests.store.conftest import place, postgresql, url
from tests.store.place import HOME, NOW, REQUEST, Place

__all__ = ["place", "postgresql", "url"]


@pytest.mark.parametrize("approvers", [["U0ANA"], ["U0ANA", "U0BOB"]])
async def test_sessions_take_turns(place: Place, approvers: list[str]) -> None:
    """A new message goes out each second: sixty files of one agent, and the other one's question came a minute late."""
    async with place.store() as store:
        cards = Cards(store.database, "slack", HOME)

        async def asked(session: str, number: int) -> None:
            made = NOW + number / 1000
            request = replace(REQUEST, id=f"SG-{number}", key=f"t{number}", session=session, created_at=made)
            await store.submitted(request, approvers, "slack")

        for number in range(60):
            await asked("loud", number)
        for number in (60, 61):
            await asked("quiet", number)
        await asked("third", 62)
        due = [(card.request.id, card.approver) for card in await cards.due(NOW + 1, 200)]
        first = [request for request, approver in due if approver == "U0ANA"]
        assert first[:5] == ["SG-0", "SG-60", "SG-62", "SG-1", "SG-61"]
        assert first[5:] == [f"SG-{number}" for number in range(2, 60)]
        assert len(due) == len(approvers) * 63
