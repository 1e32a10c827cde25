"""Four daemons on one database, killed again and again: none lost, none twice, none answered with another's answer."""

from __future__ import annotations

import os

import pytest

from tests.crash.storm import storm
from tests.store.server import Server

TOTAL, AT_ONCE, KILLS = (4_000, 100, 40) if os.environ.get("SLACK_GATE_LONG") else (160, 40, 6)


@pytest.mark.timeout(7200 if os.environ.get("SLACK_GATE_LONG") else 600)
async def test_four_daemons(postgresql: Server) -> None:
    async with storm("abcd", seed=2, url=postgresql.new_database()) as town:
        for name in town.settings:
            assert await town.start(name)
        await town.rain(TOTAL, AT_ONCE, KILLS)
        ends = await town.holds()
        assert sum(ends.values()) == TOTAL
        assert town.kills == KILLS
        assert ends["allowed"] > TOTAL / 3
