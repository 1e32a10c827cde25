"""What an agent sent must not stall everybody else: large events are judged in a thread, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from slack_gate.core.event import MalformedEvent

SMALL = 4 * 1024  # bytes of an event that is judged at once: what a hop to a thread costs shows only below that
LONG = 64 * 1024  # bytes of an event that waits for one of few threads, so that it leaves some to everybody else
LIMIT_S = 10.0  # the thread goes on to its own bounds; the answer does not wait for it

T = TypeVar("T")
_few = ThreadPoolExecutor(2, "long events")


async def apart(work: Callable[[], T], size: int) -> T:
    """The result of `work` for an event of `size` bytes. Raises MalformedEvent when it takes too long."""
    if size <= SMALL:
        return work()
    return await _within_limit(work, _few if size > LONG else None)


async def in_thread(work: Callable[[], T]) -> T:
    """As `apart`, for work whose cost does not show in the event's size (files that it names)."""
    return await _within_limit(work, None)


async def _within_limit(work: Callable[[], T], threads: Executor | None) -> T:
    try:
        async with asyncio.timeout(LIMIT_S):
            return await asyncio.get_running_loop().run_in_executor(threads, work)
    except TimeoutError as error:
        raise MalformedEvent(f"The call could not be judged in {LIMIT_S:.0f} s.") from error
