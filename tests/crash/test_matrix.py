"""kill -9 between any two steps: nothing runs twice, nothing hangs, every hook is answered, every card is true."""

from __future__ import annotations

import os

import pytest

from tests.crash.launcher import MOMENTS, POINTS
from tests.crash.storm import Storm, storm

LONG = bool(os.environ.get("SLACK_GATE_LONG"))
ROUNDS = 12 if LONG else 1
SELDOM = {"claim", "spawn", "spawned", "finish"}  # only what was approved gets there


async def rounds(town: Storm, moments: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """The moments that a daemon has died at."""
    met = set()
    for point, moment in moments:
        death = (point, moment, 1 if point in SELDOM else town.chance.randint(1, 3))
        if await town.start("a", death):
            for _ in range(3):
                town.ask("a")
            for _ in range(2):
                town.run("a")
            if await town.dies("a", town.chance.uniform(4, 8)):
                met.add((point, moment))
        else:
            town.kills += 1
            met.add((point, moment))
    assert await town.start("a")
    for _ in range(2):
        town.ask("a")
        town.run("a")
    await town.settled()
    return met


@pytest.mark.timeout(14400 if LONG else 3600)
@pytest.mark.parametrize("part", range(3))
async def test_killed_at_every_step(part: int) -> None:
    async with storm("a", seed=part) as town:
        moments = MOMENTS[part::3] * ROUNDS
        town.chance.shuffle(moments)
        met = await rounds(town, moments)
        ends = await town.holds()
        assert ends["allowed"] > 0
        assert len(met) >= len(MOMENTS[part::3]) * 2 / 3, f"only {met} were met"
        assert town.kills == len(moments)


def test_every_point_is_there() -> None:
    for owner, name in POINTS.values():
        assert callable(getattr(owner, name))
