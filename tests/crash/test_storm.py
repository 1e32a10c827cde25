"""Many requests and many kills: none lost without a word, none answered twice, none answered with another's answer."""

from __future__ import annotations

import os

import pytest

from tests.crash.storm import storm

LONG = bool(os.environ.get("SLACK_GATE_LONG"))
TOTAL, RUNS, KILLS = (10_000, 250, 50) if LONG else (500, 15, 10)
AT_ONCE = 200
PACE = 60.0  # messages a second that this Slack takes: with Slack's own one, ten thousand would take hours


@pytest.mark.timeout(14400 if LONG else 3600)
async def test_one_daemon() -> None:
    async with storm("a", seed=1, pace=PACE, wait=240) as town:
        await town.start("a")
        await town.rain(TOTAL, AT_ONCE, KILLS, RUNS)
        ends = await town.holds()
        assert sum(ends.values()) == TOTAL - RUNS
        assert town.kills == KILLS
        print(dict(ends))
        assert ends["allowed"] > TOTAL / 10
