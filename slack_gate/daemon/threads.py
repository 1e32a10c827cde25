"""Says in the threads of cards what happens to their requests: reminders, the start and the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from slack_gate.core.notes import Note
from slack_gate.core.ports import Clock, Undelivered
from slack_gate.errors import StoreError
from slack_gate.store.notes import LOST_S, Notes

TICK_S = 1.0  # between looks while something waits or runs
APART_S = 1.1  # between two notes: cards come first, and Slack counts both
TRIES = 3

log = structlog.get_logger()


class Board(Protocol):
    """Where notes are put."""

    async def say(self, note: Note, others: int) -> None:
        """Below its message; `others` wait as long. Raises Undelivered."""
        ...


class Threads:
    """`down` says why nothing can be said now (None: it can)."""

    def __init__(self, notes: Notes, board: Board, clock: Clock, down: Callable[[], str | None]) -> None:
        self._notes = notes
        self._board = board
        self._clock = clock
        self._down = down
        self._changed = asyncio.Event()
        self._open: set[str] = set()

    def wake(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        started = False
        while True:
            try:
                if not started:
                    self._open = await self._notes.ended_since(self._clock() - LOST_S)
                    started = True
                self._changed.clear()
                await self._look()
            except StoreError as error:
                log.error("threads cannot be looked after", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._changed.wait()

    async def _look(self) -> None:
        now = self._clock()
        if self._down() is not None:
            return
        open_now = await self._notes.open_runs()
        for note in await self._notes.of_runs(self._open | open_now):
            await self._say([note])
        self._open = open_now
        due: dict[tuple[str, str], list[Note]] = {}
        for note in await self._notes.reminders(now):
            due.setdefault((note.approver, note.name), []).append(note)
        for notes in due.values():  # one message an approver, however many wait
            await self._say(notes)

    async def _say(self, notes: Sequence[Note]) -> None:
        claimed = [note for note in notes if await self._notes.claim(note, self._clock())]
        if not claimed:
            return
        for attempt in range(1, TRIES + 1):
            try:
                await self._board.say(claimed[0], len(claimed) - 1)
                break
            except Undelivered as fault:
                if fault.retry_after is None or attempt == TRIES:
                    log.warning("a note in a thread was not taken", request=claimed[0].request.id, error=fault.error)
                    return
                await asyncio.sleep(min(fault.retry_after, 10.0))
        await asyncio.sleep(APART_S)
