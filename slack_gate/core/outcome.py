"""How a request ended, in the words its approvers read."""

from __future__ import annotations

from slack_gate.core.display import one_line
from slack_gate.core.request import Request, State


def outcome_of(request: Request) -> str:
    """Who, and how long it took; each end has its own words."""
    after = f"after {_duration(ended_at(request) - request.created_at)}"
    who = one_line(request.decided_name or request.decided_by, 80)
    reason = f"\n{one_line(request.reason, 600)}" if request.reason else ""
    match request.state:
        case State.APPROVED:
            return f"Approved by {who} {after}"
        case State.DENIED:
            return f"Denied by {who} {after}{reason}"
        case State.EXPIRED:
            return f"Nobody answered: expired {after}. It did not run."
        case State.CANCELLED:
            return f"Withdrawn: the agent stopped waiting {after}. It did not run."
        case State.UNDELIVERABLE:
            return f"Could not be asked: given up {after}. It did not run.{reason}"
        case State.LOST:
            return f"Approved by {who} {after}. Outcome unknown: it may have run."
        case state:
            return f"{state.value.capitalize()}, approved by {who} {after}"


def ended_at(request: Request) -> float:
    return request.decided_at or request.created_at


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
