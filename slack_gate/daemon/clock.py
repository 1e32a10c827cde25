"""The daemon's clock: seconds since the epoch that count the machine's sleep and never go back.

In a fleet it is the database's: every daemon compares deadlines with the same one.
"""

from __future__ import annotations

import time


class SteadyClock:
    """A step of the wall clock forward is followed, one backward is not: it may end a request early, never late."""

    def __init__(self) -> None:
        self._offset = 0.0  # from the time since boot to the epoch
        self._follows = False

    def __call__(self) -> float:
        boot = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not self._follows:
            self._offset = max(self._offset, time.time() - boot)
        return boot + self._offset

    def follow(self, now: float) -> None:
        """From here on it goes as the clock that has just told this time."""
        self._follows = True
        self._offset = now - time.clock_gettime(time.CLOCK_BOOTTIME)
