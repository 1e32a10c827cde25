"""Four daemons on one database, killed again and again: none lost, none twice, none answered with another's answer."""

from __future__ import annotations

import os

import pytest

from tests.crash.storm import storm
from tests.store.server import Server

LONG = bool(os.environ.get("SLACK_GATE_LONG"))
TOTAL, RUNS, AT_ONCE, KILLS = (4_000, 100, 200, 40) if LONG else (250, 10, 100, 8)
PACE = 60.0  # messages a second that this Slack takes


@pytest.mark.timeout(14400 if LONG else 3600)
async def test_four_daemons(postgresql: Server) -> None:
    async with storm("abcd", seed=2, url=postgresql.new_database(), pace=PACE, wait=240) as town:
        for name in town.settings:
            assert await town.start(name)
        await town.rain(TOTAL, AT_ONCE, KILLS, RUNS)
        ends = await town.holds()
        assert sum(ends.values()) == TOTAL - RUNS
        assert town.kills == KILLS
        print(dict(ends))
        assert ends["allowed"] > TOTAL / 10
