"""The only place that joins things. Doors translate and call:

submit   a call comes in (`calls`)
wait     the answer of a pending request (`answers`)
decide   a person's click (`clicks`)
cancel   the caller is gone (`ends`)
expire   time is over
"""

from __future__ import annotations

from contextlib import suppress

from slack_gate.core.event import MalformedEvent
from slack_gate.daemon.answers import Answers
from slack_gate.daemon.calls import Calls
from slack_gate.daemon.clicks import Clicks


class Gate(Calls, Answers, Clicks):
    """A call from its beginning to its end."""

    async def reopen(self) -> None:
        """At the start, before anybody can press a card of an earlier one: what it shows beside the call may not hold
        any more. The file that is to be changed, who is an approver."""
        for left in await self._store.left(self._house.home):
            self._attendance.left(left)
        for request in await self._store.pending(self._house.home):
            with suppress(MalformedEvent):  # not read in time: then it is read at the click
                await self._look(request)
            strangers = {user for user, _ in request.votes if user} - set(self._house.approvers)
            if strangers or request.id in self._shown_files:
                await self._store.renewed(request.id, self._clock())

    async def resume(self) -> None:
        """After a start: agents of requests still pending get the grace to come back."""
        for request in await self._store.pending(self._house.home):
            self._attendance.unattended(request, self._clock())
        self._changed()
