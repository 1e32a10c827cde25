"""Every click tells where a card stands: also a copy that nobody knew of, from a post whose answer was lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from slack_bolt.async_app import AsyncApp

Seen = Callable[[str, str, str, str], None]


def tell_where_cards_are(app: AsyncApp, seen: Seen) -> None:
    """Calls `seen` with the request, the person, the channel and the message of each click, before it is handled."""

    async def look(body: dict[str, Any], next: Callable[[], Awaitable[None]]) -> None:
        container = body.get("container") or {}
        actions = body.get("actions") or [{}]
        value = actions[0].get("value") or (actions[0].get("selected_option") or {}).get("value") or ""
        if container.get("type") == "message" and not container.get("is_ephemeral") and value:
            place = (str(container.get("channel_id", "")), str(container.get("message_ts", "")))
            seen(value.split(" ")[0], str((body.get("user") or {}).get("id", "")), *place)
        await next()

    app.middleware(look)
