"""How a request ended and what became of a click, in the words its approvers read."""

from __future__ import annotations

from slack_gate.core.display import one_line
from slack_gate.core.ports import Click, Verdict
from slack_gate.core.request import BY_RULES, Request, State

_UNASKED = {"allowlist": "the allowlist", "green": "the classifier", BY_RULES: "Always"}


def outcome_of(request: Request) -> str:
    """Who, and how long it took; each end has its own words."""
    who, after = _who(request), _after(request)
    reason = f"\n{one_line(request.reason, 600)}" if request.reason else ""
    match request.state:
        case State.APPROVED:
            return approval(request)
        case State.RUNNING:
            return f"{approval(request)}. Running."
        case State.FINISHED:
            return f"{approval(request)}. Finished."
        case State.DENIED:
            return f"Denied by {who} {after}{reason}"
        case State.EXPIRED:
            return f"Nobody answered: expired {after}. It did not run."
        case State.CANCELLED:
            return f"Withdrawn: the agent stopped waiting {after}. It did not run."
        case State.UNDELIVERABLE:
            return f"Could not be asked: given up {after}. It did not run.{reason}"
        case State.LOST:
            return f"{approval(request)}. Outcome unknown: it may have run."
        case State.NOT_RUN:
            return f"{approval(request)}. It did not run.{reason}"
        case _:  # PENDING
            return "Not answered yet."


def approval(request: Request) -> str:
    """What let it run: who, and after how long, or what it was not asked for."""
    if request.via in _UNASKED:
        return f"Allowed by {_UNASKED[request.via]}"
    changed = " with a change" if request.edited is not None else ""
    caged = ", in the cage only," if request.caged else ""
    return f"Approved{changed}{caged} by {_who(request)} {_after(request)}"


def sentence(click: Click) -> str:
    """What the person who clicked is told; empty when what they see shows it."""
    match click.verdict:
        case Verdict.DECIDED if click.rules:
            saved = ", ".join(f"{one_line(rule.shown, 200)} ({rule.id})" for rule in click.rules)
            return f"Remembered: {saved}. Revoke it on the Home tab, or with slack-gate rules revoke ID."
        case Verdict.DECIDED | Verdict.OPEN:
            return ""
        case Verdict.ENDED:
            return f"Too late, nothing changed: {_ended(click.request)}"
        case Verdict.STALE:
            return "This is not the message or the content on file. Nothing was decided; use the newest card."
        case Verdict.FOREIGN:
            return "You are not an approver of this request. Nothing was decided."
        case Verdict.UNREMEMBERABLE:
            return "Nothing of this can be remembered exactly, so nothing was decided. Press Approve to allow it once."
        case Verdict.UNKNOWN:
            return "This request is not on file here. Nothing was decided."
        case Verdict.DENIED_BEFORE | Verdict.UNFIT:
            return f"Nothing was decided. {click.why}"
        case Verdict.COUNTED:
            return "Your approval counts; others are needed too."
        case Verdict.EXTENDED:
            return ""
        case Verdict.LATEST:
            return "It cannot wait longer: the agent would give up before."
        case _:  # LIFTED
            return "The denial is taken back: the same call is asked again."


def _who(request: Request) -> str:
    return one_line(request.decided_name or request.decided_by, 80)


def _after(request: Request) -> str:
    return f"after {duration(ended_at(request) - request.created_at)}"


def _ended(request: Request | None) -> str:
    if request is None:
        return "it has ended."
    who = request.decided_name or request.decided_by
    match request.state:
        case State.NOT_RUN:
            return f"{who} approved it, and it did not run. {one_line(request.reason, 600)}".rstrip()
        case State.APPROVED | State.RUNNING | State.FINISHED | State.LOST:
            return f"{who} approved it."
        case State.DENIED:
            return f"{who} denied it."
        case State.PENDING | State.EXPIRED:
            return "its time was over; the agent was told that nobody answered."
        case State.CANCELLED:
            return "the agent stopped waiting."
        case _:  # UNDELIVERABLE
            return "it could not be delivered in time, and the agent was told so."


def ended_at(request: Request) -> float:
    return request.decided_at or request.created_at


def duration(seconds: float) -> str:
    """In words for a person."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
