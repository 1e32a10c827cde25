"""Tells every surface that some request has changed; what, it reads from the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable


class Changes:
    """`wake` is cheap and may be called often; a slow listener sees the newest state, not each step."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()
        self._also: list[Callable[[], None]] = []

    def also(self, listener: Callable[[], None]) -> None:
        """Calls `listener` at every change."""
        self._also.append(listener)

    def wake(self) -> None:
        for event in self._listeners:
            event.set()
        for listener in self._also:
            listener()

    async def each(self) -> AsyncIterator[None]:
        """Once at first, then after every change that came since the last."""
        event = asyncio.Event()
        event.set()
        self._listeners.add(event)
        try:
            while True:
                await event.wait()
                event.clear()
                yield
        finally:
            self._listeners.discard(event)
