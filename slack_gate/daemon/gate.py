"""The only place that joins things. Doors translate and call:

submit   a call comes in (`calls`)
wait     the answer of a pending request (`answers`)
decide   a person's click (`clicks`)
cancel   the caller is gone (`ends`)
expire   time is over
"""

from __future__ import annotations

from slack_gate.daemon.answers import Answers
from slack_gate.daemon.calls import Calls
from slack_gate.daemon.clicks import Clicks


class Gate(Calls, Answers, Clicks):
    """A call from its beginning to its end."""

    async def resume(self) -> None:
        """After a start: agents of requests still pending get the grace to come back."""
        for request in await self._store.pending(self._house.home):
            self._attendance.unattended(request, self._clock())
        self._changed()
