"""Turns to call the surface: a few at once in a lane, until it complains of too many; then one by one, slowly."""

from __future__ import annotations

from collections import Counter

AT_ONCE = 4  # posts to one approver, until the surface complains of too many
REDRAWS_AT_ONCE = 16
PACE_S = 1.0  # at most, between posts to one approver once it has complained
REDRAW_PACE_S = 1.2  # the same between redraws, which Slack counts over all channels: 50 a minute
PACED_S = 60.0
MAX_RETRY_S = 60.0
REDRAWING = ""  # the lane of redraws; those of posts are named by their approver


class Lanes:
    """Times in seconds of one clock."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()
        self._open_at: dict[str, float] = {}
        self._pace: dict[str, float] = {}
        self._paced_until: dict[str, float] = {}

    def closed(self, lane: str, now: float) -> bool:
        most = 1 if self._paced(lane, now) else REDRAWS_AT_ONCE if lane == REDRAWING else AT_ONCE
        return now < self._open_at.get(lane, 0.0) or self._inside[lane] >= most

    def all_closed(self, now: float) -> list[str]:
        return [lane for lane in {*self._inside, *self._open_at} if self.closed(lane, now)]

    def take(self, lane: str, now: float) -> bool:
        """Whether a call may start now; it then has a turn until `leave`."""
        if self.closed(lane, now):
            return False
        self._inside[lane] += 1
        return True

    def leave(self, lane: str) -> None:
        self._inside[lane] -= 1

    def passed(self, lane: str, now: float) -> None:
        if self._paced(lane, now):
            self._open_at[lane] = max(self._open_at.get(lane, 0.0), now + self._pace[lane])

    def refused(self, lane: str, now: float, retry_after: float) -> None:
        """Too many; a surface that wants a shorter wait than our pace has a quicker one."""
        self._open_at[lane] = min(now + retry_after, now + MAX_RETRY_S)
        self._pace[lane] = min(REDRAW_PACE_S if lane == REDRAWING else PACE_S, self._open_at[lane] - now)
        self._paced_until[lane] = now + PACED_S

    def next(self, now: float) -> float:
        """When the next lane that had to wait opens."""
        return min((time for time in self._open_at.values() if time > now), default=0.0)

    def _paced(self, lane: str, now: float) -> bool:
        return now < self._paced_until.get(lane, 0.0)


def backed_off(retry_after: float, attempts: int) -> float:
    """Seconds until a call that failed is tried again."""
    return min(max(retry_after, 0.0) * (1 + attempts // 4), MAX_RETRY_S)
