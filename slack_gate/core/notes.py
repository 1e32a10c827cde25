"""What is said in the thread of a request's card while it lives."""

from __future__ import annotations

from dataclasses import dataclass

from slack_gate.core.request import Request, State
from slack_gate.core.run import Carried

HALF, NEARLY = "half", "nearly"  # reminders
STARTED, ENDED = "started", "ended"  # of a command that the gate carries out
REMINDERS = {HALF: 0.5, NEARLY: 0.9}  # the part of the wait that is over
SHORT_S = 10.0  # a shorter wait is not reminded of
AHEAD_S = 2.0  # what is due so soon after another one is said together with it


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to say below one message. `card` is the row of the approver's copy."""

    name: str
    card: int
    approver: str
    channel: str
    message: str
    request: Request
    run: Carried | None = None


def reminder(request: Request, now: float, ahead: float = 0.0) -> str:
    """Which reminder is due, or will be in `ahead` seconds; empty for none."""
    wait = request.expires_at - request.created_at
    if request.state is not State.PENDING or wait < SHORT_S or now >= request.expires_at:
        return ""
    over = (now + ahead - request.created_at) / wait
    return next((name for name, part in reversed(REMINDERS.items()) if part <= over), "")
