"""What the waiting agent is told. Every sentence an agent can read about a decision stands here.

The words differ by outcome: only a person's no is a refusal; none invites a retry or another wording of the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slack_gate.core.cage_first import asks_outside
from slack_gate.core.request import Request, State


class Ruling(StrEnum):
    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"  # the host's own prompt decides; only for an event whose `prompts` says that it holds
    SILENT = "silent"  # the host's own permission flow goes on, as for a tool that touches nothing


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` is never empty on a deny; `command` replaces the agent's shell text on an allow, None leaves it.

    `advice` is for the agent beside an allow, whose reason only the person reads.
    """

    ruling: Ruling
    reason: str = ""
    command: str | None = None
    advice: str = ""


_IN_THE_CAGE = "If the work fits the cage (no network; writes only in ~/projects, /tmp, ~/.cache), "
MAX_HINT = 400  # characters


def deny(reason: str) -> Answer:
    return Answer(Ruling.DENY, reason)


def changed(request: Request, command: str) -> str:
    """For the agent whose command a person approved with a change."""
    who = request.decided_name or request.decided_by or "A person"
    return f"{who} changed the command before approving it. What runs instead of yours: {command}"


def settled(request: Request, hint: str = "") -> Answer:
    """The answer for a request that has ended; a request still pending has none and is a programming error.

    `hint` is the green way to do the same, told where nobody answered.
    """
    who = request.decided_name or request.decided_by or "a person"
    match request.state:
        case State.APPROVED:
            return Answer(Ruling.ALLOW, f"Approved by {who} (request {request.id}).")
        case State.DENIED:
            if request.reason:
                return deny(f"Denied by {who}: {request.reason} (request {request.id})")
            return deny(f"Denied by {who} (request {request.id}). Explain what you need or take another approach.")
        case State.EXPIRED:
            return deny(
                f"Nobody answered in {request.expires_at - request.created_at:.0f} s, so it did not run "
                f"(request {request.id}). This is not a refusal; leave it, say that it is waiting for a person, "
                f"and go on with other work.{_green_way(request, hint)}"
            )
        case State.CANCELLED:
            return deny(f"The request was withdrawn before anyone answered, so it did not run (request {request.id}).")
        case State.UNDELIVERABLE:
            return deny(
                f"Nobody could be asked, so it did not run (request {request.id}): {request.reason} "
                "This is not a refusal; tell the person who runs slack-gate."
            )
        case State.NOT_RUN:
            return deny(
                f"It was approved by {who}, and it did not run (request {request.id}). {request.reason}".rstrip()
            )
        case State.RUNNING | State.FINISHED | State.LOST:
            return deny(f"This call was carried out already; an approval counts once (request {request.id}).")
        case _:
            raise ValueError(f"request {request.id} is {request.state}, which is no answer")


def _green_way(request: Request, hint: str) -> str:
    if request.command is not None and asks_outside(request.command):
        return ""
    if hint and len(hint) <= MAX_HINT:
        return f" {_IN_THE_CAGE}this needs no asking: {hint}"
    return f" {_IN_THE_CAGE}`sbox CMD` runs without asking." if request.command is not None else ""
