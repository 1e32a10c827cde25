"""One daemon among several on one database. Any of them decides; only the one that was asked answers and runs.

beat    every second: this one lives, and whether it hears Slack; the others' beats say who else does
listen  what others have committed, told at once; a hint that may be lost
sweep   every few seconds, and whenever the connection is back: this one's open rows are read again, so nothing hangs on
        a lost hint; what dead daemons have left is ended by whoever comes first
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import structlog

from slack_gate.daemon.changes import Changes
from slack_gate.daemon.clock import SteadyClock
from slack_gate.daemon.gate import Gate
from slack_gate.errors import StoreError
from slack_gate.store.heartbeats import Beat, Heartbeats
from slack_gate.store.notices import notices
from slack_gate.store.store import Store
from slack_gate.store.wakeups import Wakeups

BEAT_S = 1.0
FRESH_S = 6.0  # a daemon whose last beat is older is not counted on
DEAD_S = 40.0  # nor awaited any more: hooks come back to a daemon that is started again for 30 s
SWEEP_S = 5.0
POSTED_S = 20.0  # a card that no daemon has posted by then asks nobody
TAKEN_S = 60.0  # by then a hook that comes back has come, and with it a changed text was taken
AGAIN_S = 1.0

log = structlog.get_logger()


class Fleet:
    """`down` says why this daemon hears nothing from Slack, None when it does; without it there is no link here."""

    def __init__(
        self, store: Store, home: str, lock: Path, clock: SteadyClock, waiting: Wakeups, changes: Changes
    ) -> None:
        self._store = store
        self._home = home
        self._place = _place(lock)
        self._beats = Heartbeats(store, home, f"{self._place}/{secrets.token_hex(8)}")
        self._clock = clock
        self._waiting = waiting
        self._changes = changes
        self._last: Beat | None = None
        self.down: Callable[[], str | None] | None = None

    async def join(self) -> None:
        """Raises StoreError when another daemon that lives has this one's name."""
        holder = await self._beats.holder()
        if holder is not None and holder[0].rpartition("/")[0] != self._place and holder[2] - holder[1] < FRESH_S:
            await asyncio.sleep(2.5 * BEAT_S)
            again = await self._beats.holder()
            if again is not None and again[:2] != holder[:2]:
                raise StoreError(
                    f"Another daemon on this database is called {self._home} too.",
                    "Give each machine its own host name, or set SLACK_GATE_SOCKET.",
                )
        self._clock.follow(await self._beats.taken())

    def others_hear(self) -> bool:
        """Whether cards are posted, and clicks heard, by another daemon."""
        return self._last is not None and self._last.hearing > 0

    def fault(self) -> str | None:
        """Why people cannot be asked in Slack, for a daemon without a link of its own."""
        if self.down is not None or self.others_hear():
            return None
        return "no daemon on this database hears Slack"

    async def run(self, gate: Gate, surface: str) -> None:
        """Until cancelled. Raises StoreError when another start has taken this daemon's place."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            group.create_task(self._listen(gate))
            group.create_task(self._sweep(gate, surface))

    async def _beat(self) -> None:
        while True:
            try:
                beat = await self._beats.beat(self.down is not None and self.down() is None, FRESH_S)
            except StoreError as error:  # it says nothing of who hears Slack: what was known of that stands
                log.error("the other daemons are not reached", error=str(error))
            else:
                if beat is None:
                    raise StoreError(f"Another daemon on this database has taken the name {self._home}.")
                self._last = beat
                self._clock.follow(beat.now)
            await asyncio.sleep(BEAT_S)

    async def _listen(self, gate: Gate) -> None:
        while True:
            try:
                async for request in notices(self._store.database):
                    if request:
                        self._waiting.wake(request)
                    else:
                        await self._look_again(gate)
                    self._changes.wake()
            except StoreError as error:
                log.warning("looking every few seconds until it is back", error=str(error))
            await asyncio.sleep(AGAIN_S)

    async def _sweep(self, gate: Gate, surface: str) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self._look_again(gate)
                if self.down is None:
                    await self._undeliverable(gate, surface)
            except StoreError as error:
                log.error("open requests cannot be looked at", error=str(error))

    async def _look_again(self, gate: Gate) -> None:
        await gate.look_again()
        await self._store.recorded()
        await gate.release_covered()
        await self._store.forgotten(TAKEN_S)
        gate.ended(await self._beats.buried(DEAD_S, FRESH_S, self._clock()))

    async def _undeliverable(self, gate: Gate, surface: str) -> None:
        """Without a link here, nobody else ends what others could not post."""
        for request, error in await self._beats.unasked(surface, POSTED_S, self.others_hear()):
            await gate.undeliverable(request, f"{error or self.fault() or 'no daemon has posted the card in time'}.")


def _place(lock: Path) -> str:
    """The same only for starts that exclude each other by this lock file: then an earlier one is surely dead."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    found = os.stat(lock)
    return f"{boot}/{found.st_dev}-{found.st_ino}"
