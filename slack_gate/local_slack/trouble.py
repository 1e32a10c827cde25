"""Trouble in words, for a test's script or the demo: `METHOD KIND …` for one call, `links …` for the connections."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from slack_gate.local_slack.response_url import NAME as RESPONSE_URL
from slack_gate.local_slack.web_api import APP_LEVEL, SCOPES

if TYPE_CHECKING:
    from slack_gate.local_slack.server import LocalSlack

HELP = """\
METHOD error CODE | http STATUS | html | limited SECONDS | reset | lost | broken | late SECONDS   [xTIMES]
links drop [N] | silence [N] | away REASON [N] | refuse REASON
acks lost N
clicks twice N | retried N
limits FACTOR
token revoked CODE [bot|app]
scope missing SCOPE
user gone ID
messages off
mend
after SECONDS …"""
"""`lost`: performed, and the connection cut before the answer. `broken`: performed, and answered with HTTP 500.
`late`: performed only after so many seconds. `away`: told to leave; `refuse`: every new link is. `acks lost`: the next
N acknowledgements do not arrive. `clicks twice`: the next N come again although they were acknowledged; `retried`:
what is not acknowledged comes N times more. `limits`: of posts and calls, so many times as fast as Slack's own.
`mend`: all works. `after`: the rest of the words, so many seconds later.
"""

Act = Callable[[], Awaitable[None] | None]

_CALLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "error": lambda code: {"error": code},
    "http": lambda status: {"http_status": int(status)},
    "html": lambda _: {"http_status": 200},
    "limited": lambda seconds: {"http_status": 429, "retry_after": float(seconds)},
    "reset": lambda _: {"reset_before": True},
    "lost": lambda _: {"reset_after": True},
    "broken": lambda _: {"http_status": 500, "performed": True},
    "late": lambda seconds: {"delay": float(seconds)},
}
_BARE = ("html", "reset", "lost", "broken")
_METHODS = {*SCOPES, APP_LEVEL, RESPONSE_URL}


def trouble(slack: LocalSlack, words: str) -> Act:
    """What causes it. Raises ValueError with the list of troubles when the words name none."""
    try:
        return _named(slack, words.split())
    except (ValueError, LookupError) as error:
        raise ValueError(f"no such trouble: {words!r}. There are:\n{HELP}") from error


def _named(slack: LocalSlack, words: list[str]) -> Act:
    """What causes it. Raises ValueError, LookupError."""
    match words:
        case ["links", "drop", *count]:
            return partial(slack.drop_links, _count(count))
        case ["links", "silence", *count]:
            return partial(slack.silence, _count(count))
        case ["links", "away", reason, *count]:
            return partial(slack.disconnect, reason, _count(count))
        case ["links", "refuse", reason]:
            return partial(slack.refuse_links, reason)
        case ["acks", "lost", count]:
            return partial(slack.lose_acks, int(count))
        case ["clicks", "twice", count]:
            return partial(slack.deliver_twice, int(count))
        case ["clicks", "retried", count]:
            return partial(slack.retry_clicks, int(count))
        case ["limits", factor]:
            return partial(slack.limit, _positive(factor))
        case ["token", "revoked", code, *which]:
            if which not in ([], ["bot"], ["app"]):
                raise ValueError(which)
            return partial(slack.revoke_tokens, code, *which)
        case ["scope", "missing", scope]:
            return partial(slack.withdraw_scope, scope)
        case ["user", "gone", name]:
            return partial(slack.deactivate, slack.workspace.users[name].id)
        case ["messages", "off"]:
            return slack.close_messages_tab
        case ["mend"]:
            return slack.mend
        case ["after", seconds, *rest]:
            return partial(slack.later, _positive(seconds), _named(slack, rest))
        case [method, kind, *rest] if method in _METHODS:
            times = int(rest.pop()[1:]) if rest and re.fullmatch(r"x[0-9]+", rest[-1]) else 1
            if len(rest) != (kind not in _BARE):
                raise ValueError(kind)
            return partial(slack.fail_next, method, times=times, **_CALLS[kind](*rest or [""]))
        case _:
            raise ValueError(words)


def _count(words: list[str]) -> int | None:
    if len(words) > 1:
        raise ValueError(words)
    return int(words[0]) if words else None


def _positive(word: str) -> float:
    number = float(word)
    if not 0 < number < float("inf"):
        raise ValueError(word)
    return number
