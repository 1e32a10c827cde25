"""Requests that end without a person: the caller is gone, time is over, nobody could be asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from slack_gate.core.ports import Entry
from slack_gate.daemon.ground import Ground
from slack_gate.errors import GateError, LogError

LEFT_S = 10.0  # without a script the page comes anew every 5 s

log = structlog.get_logger()


class Ends(Ground):
    """Each end is told to whoever waits, and drawn."""

    async def cancel(self, request: str) -> None:
        """The client says that it will not wait any longer."""
        if (ended := await self._store.cancelled(request, "caller", self._clock())) is not None:
            self.ended([ended])

    async def undeliverable(self, request: str, reason: str) -> None:
        """No approver could be asked in Slack. It ends, unless somebody can see it elsewhere now."""
        if self._is_seen():
            if request not in self._undelivered:
                self._undelivered.add(request)
                await self._store.answered(Entry("undelivered", "gate", request=request, reason=reason))
            return
        if self._house.page:
            reason = f"{reason} It can be approved on {self._house.page}: have that page opened, then ask again."
        if (ended := await self._store.undeliverable(request, reason, self._clock())) is not None:
            self.ended([ended])

    async def expire(self) -> None:
        """Ends what is over: requests past their time, and those whose client has been gone for the whole grace."""
        now = self._clock()
        await self._undo()
        self._released.tidy(now)
        if self._attendance.empty:
            self._undelivered.clear()
            return
        self.ended(await self._store.expired(self._house.home, now))
        for request in self._attendance.overdue(now):
            await self.cancel(request)
            self._attendance.forget(request)

    async def look_again(self) -> None:
        """Whoever waits for what has ended hears of it: the word may have been lost, or its line not been written."""
        for request in self._waiting.listened() - await self._store.waiting(self._house.home):
            self._waiting.wake(request)
            self._changed()

    async def _undo(self) -> None:
        """What people were told is none is none on file too, whatever comes after; what cannot be filed now, later."""
        for decision, filed_at in list(self._told_no.items()):
            try:
                await self._store.undone(decision, filed_at, self._clock())
            except LogError as error:  # it is in the database, and its lines wait with those that the file lacks
                log.warning("an approval was undone, and the log does not say so yet", error=str(error))
            except GateError as error:
                log.error("an approval that was told to be none is still on file", error=str(error))
                continue
            self._told_no.pop(decision, None)
            self._changed()

    @contextmanager
    def viewed(self) -> Iterator[None]:
        """While somebody looks at the page; a page that is loaded anew was not left."""
        self._viewers += 1
        try:
            yield
        finally:
            self._viewers -= 1
            self._viewed_at = self._clock()

    def _is_seen(self) -> bool:
        """Whether somebody has what waits before their eyes, apart from Slack."""
        return self._house.terminal or self._viewers > 0 or self._clock() - self._viewed_at < LEFT_S
