"""Who waits for a request to end. A wake-up is a hint to read the row again; the row is the truth."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Wakeups:
    """Events by request id, kept only while somebody listens."""

    def __init__(self) -> None:
        self._listeners: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def listening(self, request: str) -> Iterator[asyncio.Event]:
        """Listen first, then read the row, then wait: so no wake-up falls between."""
        event = asyncio.Event()
        self._listeners[request].add(event)
        try:
            yield event
        finally:
            self._listeners[request].discard(event)
            if not self._listeners[request]:
                del self._listeners[request]

    def listened(self) -> set[str]:
        """The requests that somebody waits for."""
        return set(self._listeners)

    def wake(self, request: str) -> None:
        for event in self._listeners.get(request, ()):
            event.set()
