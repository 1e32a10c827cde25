"""What the dead have left is ended; nobody counts as dead while nobody could be heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import text

from slack_gate.core.request import Request, State
from slack_gate.store.heartbeats import Heartbeats
from slack_gate.store.store import Store
from tests.store.place import HOME, NOW, Place, submitted
from tests.store.server import Server

FRESH, DEAD = 1.0, 2.0  # seconds


@dataclass
class Two:
    """`other` has a request that waits."""

    store: Store
    watcher: Heartbeats
    other: Heartbeats

    async def buried(self) -> list[Request]:
        return await self.watcher.buried(DEAD, FRESH, NOW)

    async def heard(self, *who: Heartbeats) -> None:
        """All of these beat for as long as one who is silent counts as dead then."""
        end = asyncio.get_running_loop().time() + DEAD + FRESH
        while asyncio.get_running_loop().time() < end:
            for each in who:
                await each.beat(True, FRESH)
            await asyncio.sleep(0.1)

    async def ages(self, seconds: float) -> None:
        """As when the server's clock has gone on for so long and nobody has reached it, or has been set back."""
        query = text("UPDATE heartbeats SET beat_at = beat_at - :seconds")
        await self.store.database.run(lambda connection: connection.execute(query, {"seconds": seconds}))
        for each in (self.watcher, self.other):
            each._beat_at -= seconds
            each._since -= seconds


@pytest.fixture
async def two(postgresql: Server, tmp_path: Path) -> AsyncIterator[Two]:
    url = postgresql.new_database()
    async with AsyncExitStack() as opened:
        stores = {}
        for home in ("box:/a", HOME):
            place = tmp_path / home.replace("/", "-")
            place.mkdir()
            stores[home] = await opened.enter_async_context(Place(place, url).store(home=home))
        beats = [Heartbeats(store, home, f"{home}/1") for home, store in stores.items()]
        for each in beats:
            await each.taken()
        await submitted(stores[HOME])
        yield Two(stores[HOME], *beats)


async def test_who_is_silent_while_another_listens_is_buried(two: Two) -> None:
    await two.heard(two.watcher, two.other)
    assert await two.buried() == []
    await two.heard(two.watcher)
    assert [request.state for request in await two.buried()] == [State.CANCELLED]


async def test_nobody_is_buried_by_who_has_just_come(two: Two) -> None:
    await two.ages(DEAD + 10)
    await two.watcher.beat(True, FRESH)
    assert await two.buried() == []


async def test_after_the_database_was_away_each_comes_back_in_its_own_time(two: Two) -> None:
    await two.heard(two.watcher, two.other)
    await two.ages(DEAD + 10)
    assert await two.buried() == []  # before the watcher has beaten again
    await two.watcher.beat(True, FRESH)
    assert await two.buried() == []
    await two.heard(two.watcher)  # the other one does not come back at all
    assert [request.state for request in await two.buried()] == [State.CANCELLED]


async def test_a_clock_that_was_set_back_keeps_no_dead_alive(two: Two) -> None:
    await two.heard(two.watcher, two.other)
    await two.ages(-3600)
    assert await two.buried() == []  # before the watcher has beaten again
    beat = await two.watcher.beat(True, FRESH)
    assert beat is not None and beat.alive == 0
    assert await two.buried() == []
    await two.heard(two.watcher)  # the other one does not come back at all
    assert [request.state for request in await two.buried()] == [State.CANCELLED]
