"""Many requests and many kills: none lost without a word, none answered twice, none answered with another's answer."""

from __future__ import annotations

import os

import pytest

from tests.crash.storm import storm

TOTAL, AT_ONCE, KILLS = (10_000, 200, 50) if os.environ.get("SLACK_GATE_LONG") else (300, 60, 8)


@pytest.mark.timeout(7200 if os.environ.get("SLACK_GATE_LONG") else 600)
async def test_one_daemon() -> None:
    async with storm("a", seed=1) as town:
        await town.start("a")
        await town.rain(TOTAL, AT_ONCE, KILLS)
        ends = await town.holds()
        assert sum(ends.values()) == TOTAL
        assert town.kills == KILLS
        assert ends["allowed"] > TOTAL / 3
