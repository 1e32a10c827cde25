"""Why a call of Slack's Web API came to nothing: the one reading of what the SDK raises."""

from __future__ import annotations

import math
from dataclasses import dataclass

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from slack_gate.core.display import one_line
from slack_gate.core.ports import NO_ANSWER, RATELIMITED

AWAY = (aiohttp.ClientError, OSError)  # a connection that is reset, refused or silent
# All that a call raises; the last ones are how the SDK, or who reads on, trips over a body that is not Slack's.
FAILED = (SlackApiError, *AWAY, ValueError, TypeError, KeyError, AttributeError)
UNREACHABLE = "unreachable"
MAX_WORDS = 200  # of what an answer says
MAX_WAIT_S = 3600.0  # however long an answer has us wait
SOON_S = 1.0  # where it does not say how long
# Refusals that pass by themselves; any other one stands however often it is tried.
PASSING = frozenset(
    {RATELIMITED, "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)


@dataclass(frozen=True, slots=True)
class Fault:
    """`code` is Slack's word, or UNREACHABLE where it gave none; `words` name it in one line.

    `passes`: the same call may succeed later. `wait`: the seconds that Slack has us wait, 0.0 where it wants none.
    """

    code: str
    words: str
    passes: bool = True
    wait: float = 0.0


def fault_of(error: Exception) -> Fault:
    """What one of FAILED means."""
    if isinstance(error, SlackApiError):
        return _refusal(error.response)
    if isinstance(error, AWAY):
        return Fault(UNREACHABLE, f"{NO_ANSWER} from Slack ({type(error).__name__})")
    return _NOT_SLACKS


_NOT_SLACKS = Fault(UNREACHABLE, "an answer that is not Slack's")


def _refusal(response: object) -> Fault:
    if not isinstance(response, AsyncSlackResponse):
        return _NOT_SLACKS
    if response.status_code == 429:
        return Fault(RATELIMITED, RATELIMITED, wait=_seconds(response.headers.get("Retry-After")))
    if not isinstance(response.data, dict):
        return _NOT_SLACKS
    said = response.get("error")
    code = one_line(str(said or f"HTTP {response.status_code}"), MAX_WORDS)
    needed = one_line(f" (needed: {response.get('needed')})", MAX_WORDS) if code == "missing_scope" else ""
    passes = not said or response.status_code >= 500 or code in PASSING
    return Fault(code, code + needed, passes, SOON_S if code == RATELIMITED else 0.0)


def _seconds(retry_after: str | None) -> float:
    try:
        seconds = float(retry_after or SOON_S)
    except ValueError:
        return SOON_S
    return min(seconds, MAX_WAIT_S) if math.isfinite(seconds) and seconds > 0 else SOON_S
