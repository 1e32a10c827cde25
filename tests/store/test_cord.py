"""The cord's row, the glance at what is on file, and decisions from the Home tab, on either database."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, update

from slack_gate.core.cord import Cord, Hand, Place, Pull
from slack_gate.core.ports import Verdict
from slack_gate.core.request import ON_HOME, Choice, State
from slack_gate.errors import StoreError
from slack_gate.store.cards import Cards
from slack_gate.store.glance import Glance
from slack_gate.store.tables import about
from tests.store.place import ENDS, NOW, REQUEST, TOUCH, click, submitted
from tests.store.place import Place as Home

ANA = Hand("human-slack", "U0ANA", "Ana")


async def test_a_pull_outlives_a_restart_and_only_a_change_is_logged(place: Home) -> None:
    async with place.store() as store:
        assert await store.cord() == Cord()
        assert await store.pulled(Pull.RESUME, ANA, NOW) == (Cord(), False)
        assert await store.pulled(Pull.PAUSE, ANA, NOW) == (Cord(Place.SLACK, NOW, "Ana"), True)
        assert (await store.pulled(Pull.PAUSE, ANA, NOW + 5))[1] is False
        await store.pulled(Pull.CONSOLE, ANA, NOW + 6)
    async with place.store() as store:
        assert await store.cord() == Cord(Place.CONSOLE, NOW, "Ana")
        await store.pulled(Pull.RESUME, ANA, NOW + 7)
        assert await store.cord() == Cord(Place.CONSOLE)
    lines = [json.loads(line) for line in place.log.read_text().splitlines()]
    assert [line["decision"] for line in lines] == ["paused", "ask-on-console", "resumed"]
    assert {(line["by"], line["user"], line["reason"]) for line in lines} == {("human-slack", "U0ANA", "Ana")}


@pytest.mark.parametrize("value", ["", "{}", "null", '{"place": "nowhere", "pausedAt": null, "pausedBy": ""}', "[1]"])
async def test_a_row_that_is_not_understood_lets_nothing_through(place: Home, value: str) -> None:
    async with place.store() as store:
        await store.database.run(lambda c: c.execute(insert(about).values(name="cord", value=value)))
        with pytest.raises(StoreError, match="where gated calls are asked"):
            await store.cord()
        with pytest.raises(StoreError, match="where gated calls are asked"):
            await store.pulled(Pull.RESUME, ANA, NOW)
        text = json.dumps({"place": "web", "pausedAt": None, "pausedBy": ""})
        await store.database.run(lambda c: c.execute(update(about).where(about.c.name == "cord").values(value=text)))
        assert await store.cord() == Cord(Place.WEB)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, Verdict.DECIDED),
        ({"digest": "d2"}, Verdict.STALE),
        ({"digest": ""}, Verdict.STALE),
        ({"user": "U0BOB"}, Verdict.FOREIGN),
        ({"surface": "home tab"}, Verdict.STALE),
    ],
)
async def test_the_home_tab_decides_without_a_message(place: Home, changes: dict[str, Any], verdict: Verdict) -> None:
    made = click(**{"surface": ON_HOME, "channel": "", "message": "V1", **changes})
    async with place.store() as store:
        await submitted(store)
        assert (await store.decided(made, TOUCH, ["touch"], NOW + 1)).verdict is verdict
        found = await store.request("SG-1")
        assert found is not None
        assert found.state is (State.APPROVED if verdict is Verdict.DECIDED else State.PENDING)


async def test_what_waits_and_what_was_decided(place: Home) -> None:
    async with place.store() as store:
        glance = Glance(store.database, "slack")
        await submitted(store)
        for number in range(2, 6):
            later = replace(REQUEST, id=f"SG-{number}", key=f"k{number}", expires_at=ENDS - number)
            await store.submitted(later, ["U0BEN"] if number == 2 else [], "slack")
        seen = await glance.look("U0ANA", NOW, 3, 9)
        assert (seen.waiting_count, seen.ended_count) == (5, 0)
        waiting = seen.waiting
        assert [(one.request.id, one.asked) for one in waiting] == [("SG-5", False), ("SG-4", False), ("SG-3", False)]
        waiting = (await glance.look("U0ANA", NOW, 9, 9)).waiting
        assert (waiting[-1].request.id, waiting[-1].channel, waiting[-1].message) == ("SG-1", "D1", "1.1")
        assert not waiting[-2].asked  # another approver's card is none of hers
        assert (await glance.look("U0BEN", NOW, 9, 9)).waiting[-2].asked
        await store.decided(click(Choice.DENY), (), (), NOW + 1)
        await store.cancelled("SG-2", "caller", NOW + 2)
        await store.pulled(Pull.PAUSE, ANA, NOW)
        seen = await glance.look("U0ANA", NOW, 9, 9)
        assert ([one.id for one in seen.ended], seen.ended_count, seen.waiting_count) == (["SG-1"], 1, 3)
        late = await glance.look("U0ANA", NOW + 1.5, 9, 9)
        assert (late.ended, late.ended_count) == ([], 0)


async def test_the_request_behind_a_message(place: Home) -> None:
    async with place.store() as store:
        glance = Glance(store.database, "slack")
        await submitted(store)
        found = await glance.card_at("D1", "1.1")
        assert found is not None and found.id == "SG-1"
        for channel, message in (("D1", "1.2"), ("D2", "1.1"), ("D1", "%"), ("D1", "")):
            assert await glance.card_at(channel, message) is None
        await Cards(store.database, "slack", "").seen("SG-1", "U0ANA", "D1", "7.7")
        assert await glance.card_at("D1", "7.7") is not None
