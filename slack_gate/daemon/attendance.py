"""Who waits for which request, and since when nobody does."""

from __future__ import annotations

from slack_gate.core.event import APPROVAL
from slack_gate.core.request import Request

GRACE_S = 30.0  # how long a hook that vanished without a word may come back


class Attendance:
    """Times in seconds of the gate's clock."""

    def __init__(self) -> None:
        self._callers: dict[str, int] = {}
        self._left: dict[str, float] = {}  # when the last caller went, or the request came
        self._questions: set[str] = set()  # pending ones: whoever asked comes back for the answer, or not

    @property
    def empty(self) -> bool:
        """Whether no request of this daemon can be open."""
        return not (self._callers or self._left or self._questions)

    def unattended(self, request: Request, now: float) -> None:
        """Nobody waits for it yet, and perhaps never will: the grace begins. A question stands until it expires."""
        if request.tool == APPROVAL:
            self._questions.add(request.id)
        else:
            self._left[request.id] = now

    def left(self, request: str) -> None:
        """Nobody can come back to it: it was asked at another socket. It stands until it expires."""
        self._questions.add(request)

    def forget(self, request: str) -> None:
        """Nobody is to come back to it."""
        self._left.pop(request, None)
        self._questions.discard(request)

    def ended(self, request: str) -> None:
        self._questions.discard(request)

    def came(self, request: str) -> None:
        self._callers[request] = self._callers.get(request, 0) + 1
        self._left.pop(request, None)

    def went(self, request: str, left_at: float | None) -> None:
        """One caller fewer; `left_at` starts the grace of a request that nobody waits for any more."""
        self._callers[request] -= 1
        if not self._callers[request]:
            del self._callers[request]
            if left_at is not None:
                self._left[request] = left_at

    def overdue(self, now: float) -> list[str]:
        """Requests whose client has been gone for the whole grace."""
        return [request for request, left_at in self._left.items() if now - left_at >= GRACE_S]
