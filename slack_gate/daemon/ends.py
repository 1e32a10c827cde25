"""Requests that end without a person: the caller is gone, time is over, nobody could be asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slack_gate.core.ports import Entry
from slack_gate.daemon.ground import Ground

LEFT_S = 10.0  # without a script the page comes anew every 5 s


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
        self._released.tidy(now)
        if self._attendance.empty:
            self._undelivered.clear()
            return
        self.ended(await self._store.expired(self._house.home, now))
        for request in self._attendance.overdue(now):
            await self.cancel(request)
            self._attendance.forget(request)

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
