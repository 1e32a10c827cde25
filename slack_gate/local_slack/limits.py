"""How fast an app may call: messages a second in a channel, and calls a minute of a method in the workspace."""

from __future__ import annotations

import math
from collections.abc import Callable

from slack_gate.local_slack.refusal import Refused

BURST = 3
"""Messages a channel takes at once before the limit holds."""
TIERS = {1: 1, 2: 20, 3: 50, 4: 100}
"""Calls a minute, by Slack's names for them."""
METHODS = {
    "apps.connections.open": 3,
    "chat.delete": 3,
    "chat.postEphemeral": 4,
    "chat.update": 3,
    "conversations.history": 3,
    "conversations.open": 3,
    "files.completeUploadExternal": 4,
    "files.getUploadURLExternal": 4,
    "users.info": 4,
    "views.open": 4,
    "views.publish": 4,
    "views.update": 4,
}
"""The tier of each method that has one."""


class Limit:
    """`rate` calls a second for each key, `burst` of them at once. `clock` counts seconds."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = clock
        self._used: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> None:
        """Counts one call.

        Raises:
            Refused: `ratelimited`, with the seconds to wait; whole ones, as Slack says them, from one second on.
        """
        now = self.clock()
        used, since = self._used.get(key, (0.0, now))
        used = max(0.0, used - (now - since) * self.rate)
        if used + 1 > self.burst:
            self._used[key] = (used, now)
            wait = (used + 1 - self.burst) / self.rate
            raise Refused("ratelimited", retry_after=math.ceil(wait) if self.rate <= 1 else round(wait + 0.001, 3))
        self._used[key] = (used + 1, now)


class TierLimits:
    """Slack's limits of each method, `factor` times as fast: a minute's calls at once, then as many again a minute."""

    def __init__(self, factor: float, clock: Callable[[], float]) -> None:
        self._limits = {
            method: Limit(TIERS[tier] * factor / 60, TIERS[tier] * max(factor, 1.0), clock)
            for method, tier in METHODS.items()
        }

    def take(self, method: str) -> None:
        """Counts one call; raises Refused as `Limit.take`."""
        if (limit := self._limits.get(method)) is not None:
            limit.take("")
