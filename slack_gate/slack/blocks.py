"""The smallest blocks. What stands in `plain_text` is never read as a mention, a link or an emoji."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Block = dict[str, Any]


def plain(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": False}


def section(text: str) -> Block:
    return {"type": "section", "text": plain(text)}


def context(*elements: Block) -> Block:
    return {"type": "context", "elements": list(elements)}


def header(text: str) -> Block:
    return {"type": "header", "text": plain(text)}


def divider() -> Block:
    return {"type": "divider"}


def button(label: str, action: str, **more: Any) -> Block:
    return {"type": "button", "action_id": action, "text": plain(label), **more}


def confirm(title: str, text: str, yes: str) -> Block:
    return {"title": plain(title), "text": plain(text), "confirm": plain(yes), "deny": plain("Back")}


def clock(time: float, before: str = "") -> Block:
    """A time that Slack draws in the reader's own zone."""
    fallback = datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return {"type": "mrkdwn", "text": f"{before}<!date^{int(time)}^{{date_short_pretty}} {{time_secs}}|{fallback}>"}
