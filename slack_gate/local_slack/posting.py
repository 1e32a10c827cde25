"""How fast an app may post."""

from __future__ import annotations

import math
from collections.abc import Callable

from slack_gate.local_slack.refusal import Refused

BURST = 3
"""Messages a channel takes at once before the limit holds."""


class PostingLimit:
    """Slack's limit of messages a second in one channel, short bursts allowed."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self.rate = rate
        self.clock = clock
        self._used: dict[str, tuple[float, float]] = {}

    def take(self, channel: str) -> None:
        """Counts one message.

        Raises:
            Refused: `ratelimited`, with the whole seconds to wait.
        """
        now = self.clock()
        used, since = self._used.get(channel, (0.0, now))
        used = max(0.0, used - (now - since) * self.rate)
        if used + 1 > BURST:
            self._used[channel] = (used, now)
            raise Refused("ratelimited", retry_after=math.ceil((used + 1 - BURST) / self.rate))
        self._used[channel] = (used + 1, now)
