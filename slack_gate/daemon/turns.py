"""How fast new messages may go to one approver: as Slack says, one a second and a few at once.

A message counts whole until the surface has answered: how long it was on its way says nothing of when it arrived. One
whose request was decided does not count any more, so that nobody waits who answers as fast as is asked.
"""

from __future__ import annotations

from collections import Counter

BURST = 2  # messages at once
EVERY_S = 1.05  # seconds for each further one


class Turns:
    """Times in seconds of one clock, which may stand still."""

    def __init__(self, burst: int, every: float) -> None:
        self._burst = burst
        self._every = every
        self._used: dict[str, tuple[float, float]] = {}  # by approver: how full, when
        self._sent: Counter[str] = Counter()  # by approver: messages that are on their way
        self._asked: dict[str, tuple[str, float]] = {}  # by request: whom a message of its own went to, when

    def free(self, approver: str, now: float) -> int:
        """How many messages may go to the approver now."""
        return max(0, int(self._burst - self._level(approver, now) + 1e-6))

    def take(self, approver: str, now: float, request: str = "") -> None:
        """A message goes out; `request` when it asks for that one alone."""
        self._sent[approver] += 1
        if request:
            self._asked[request] = (approver, now)

    def arrived(self, approver: str, now: float) -> None:
        """It is there, or never will be."""
        self._used[approver] = (self._decayed(approver, now) + 1.0, now)
        self._sent[approver] -= 1

    def decided(self, request: str, now: float) -> None:
        approver, asked_at = self._asked.pop(request, ("", 0.0))
        if approver and now - asked_at < self._burst * self._every:
            self._used[approver] = (max(0.0, self._decayed(approver, now) - 1.0), now)

    def next(self, now: float) -> float:
        """When the next approver who can get no message now can get one; 0 when all can."""
        self._asked = {one: asked for one, asked in self._asked.items() if now - asked[1] < self._burst * self._every}
        waits = [level - self._burst + 1 for who in self._used if (level := self._level(who, now)) > self._burst - 1]
        return now + min(waits) * self._every if waits else 0.0

    def full(self, now: float) -> list[str]:
        """Approvers who can get no message now."""
        return [approver for approver in {*self._used, *self._sent} if not self.free(approver, now)]

    def _level(self, approver: str, now: float) -> float:
        return self._decayed(approver, now) + self._sent[approver]

    def _decayed(self, approver: str, now: float) -> float:
        level, at = self._used.get(approver, (0.0, now))
        return max(0.0, level - max(0.0, now - at) / self._every)
