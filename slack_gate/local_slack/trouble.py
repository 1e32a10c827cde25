"""Trouble in words, for a test's script or the demo: `METHOD KIND …` for one call, `links …` for the connections."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slack_gate.local_slack.server import LocalSlack

HELP = """\
METHOD error CODE | http STATUS | html | limited SECONDS | reset | lost | broken | late SECONDS   [xTIMES]
links drop [N] | silence [N] | away REASON [N] | refuse REASON
acks lost N
token revoked CODE [bot|app]
scope missing SCOPE
user gone ID
messages off
mend"""
"""`lost`: performed, and the connection cut before the answer. `broken`: performed, and answered with HTTP 500.
`late`: performed only after so many seconds. `away`: told to leave; `refuse`: every new link is. `mend`: all works.
"""


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


async def cause(slack: LocalSlack, words: str) -> None:
    """Causes it. Raises ValueError with the list of troubles when the words name none."""
    try:
        await _named(slack, words.split())
    except (ValueError, LookupError, IndexError) as error:
        raise ValueError(f"no such trouble: {words!r}. There are:\n{HELP}") from error


async def _named(slack: LocalSlack, words: list[str]) -> None:
    match words:
        case ["links", "drop", *count]:
            slack.drop_links(_count(count))
        case ["links", "silence", *count]:
            slack.silence(_count(count))
        case ["links", "away", reason, *count]:
            await slack.disconnect(reason, _count(count))
        case ["links", "refuse", reason]:
            slack.refuse_links(reason)
        case ["acks", "lost", count]:
            slack.lose_acks(int(count))
        case ["token", "revoked", code, *which]:
            slack.revoke_tokens(code, *which)
        case ["scope", "missing", scope]:
            slack.withdraw_scope(scope)
        case ["user", "gone", name]:
            slack.deactivate(name)
        case ["messages", "off"]:
            slack.close_messages_tab()
        case ["mend"]:
            slack.mend()
        case [method, kind, *rest] if re.fullmatch(r"[a-z]+(\.[A-Za-z]+)+|response_url", method):
            times = int(rest.pop()[1:]) if rest and re.fullmatch(r"x[0-9]+", rest[-1]) else 1
            if len(rest) != (kind not in _BARE):
                raise ValueError(kind)
            slack.fail_next(method, times=times, **_CALLS[kind](*rest or [""]))
        case _:
            raise ValueError(words)


def _count(words: list[str]) -> int | None:
    return int(words[0]) if words else None
