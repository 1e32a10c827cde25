"""The Events API: tells the app what happens in the workspace, if its manifest asks for it and its scopes allow it."""

from __future__ import annotations

import asyncio
import html
import secrets
import time
import uuid
from typing import Any

from slack_gate.local_slack.methods import message_object
from slack_gate.local_slack.socket_mode import Delivery, Links
from slack_gate.local_slack.workspace import Message, User, Workspace

NEEDS: dict[str, str | None] = {
    "app_home_opened": None,
    "message.im": "im:history",
    "reaction_added": "reactions:read",
    "reaction_removed": "reactions:read",
}
"""The bot scope each subscription needs."""
RETRIES = 1
"""Times that an event is sent again at once; the further times that Slack tries, minutes later, are left out."""


class Events:
    """What people do that is no press: they write, react, open the Home tab. `scopes` are the app's."""

    def __init__(self, workspace: Workspace, links: Links, manifest: dict[str, Any], scopes: list[str]) -> None:
        self.workspace = workspace
        wanted = manifest.get("settings", {}).get("event_subscriptions", {}).get("bot_events", [])
        self.subscribed = {name for name in wanted if (need := NEEDS.get(name)) is None or need in scopes}
        self._links = links
        self._echoes: set[asyncio.Task[Delivery]] = set()
        workspace.echo = self._echo

    async def say(self, user: User, text: str, thread: Message | None = None) -> tuple[Message, Delivery | None]:
        """The user writes in the DM, in the thread of a message if one is given."""
        root = None if thread is None else thread.thread_ts or thread.ts
        message = self.workspace.post(
            user.channel, html.escape(text, quote=False), [], thread_ts=root, author=user.id, quiet=True
        )
        return message, await self.tell("message.im", self._message_event(message))

    async def react(self, user: User, message: Message, name: str, *, added: bool = True) -> Delivery | None:
        """The user adds an emoji to a message or takes it away; None when that changes nothing or nobody is told."""
        if not self.workspace.react(message, user.id, name, added=added):
            return None
        event = {
            "type": "reaction_added" if added else "reaction_removed",
            "user": user.id,
            "reaction": name,
            "item_user": message.author or self.workspace.bot.id,
            "item": {"type": "message", "channel": message.channel, "ts": message.ts},
            "event_ts": self.workspace.new_ts(),
        }
        return await self.tell(str(event["type"]), event)

    async def tell(self, subscription: str, event: dict[str, Any]) -> Delivery | None:
        """Sends an event, again at once if it is not acknowledged; None when the app does not want it or may not."""
        if subscription not in self.subscribed:
            return None
        envelope = self.envelope(event)
        delivery = await self._links.send(envelope)
        for attempt in range(1, RETRIES + 1):
            if not delivery.acknowledged:
                again = envelope | {"retry_attempt": attempt, "retry_reason": "timeout"}
                delivery = await self._links.send(again)
        return delivery

    def envelope(self, event: dict[str, Any]) -> dict[str, Any]:
        place = self.workspace
        authorization = {"enterprise_id": None, "team_id": place.team_id, "user_id": place.bot.id, "is_bot": True}
        payload = {
            "token": "unused",
            "team_id": place.team_id,
            "context_team_id": place.team_id,
            "context_enterprise_id": None,
            "api_app_id": place.app_id,
            "event": event,
            "type": "event_callback",
            "event_id": f"Ev{secrets.token_hex(5).upper()}",
            "event_time": int(time.time()),
            "authorizations": [authorization | {"is_enterprise_install": False}],
            "is_ext_shared_channel": False,
            "event_context": secrets.token_hex(8),
        }
        return {
            "envelope_id": str(uuid.uuid4()),
            "type": "events_api",
            "accepts_response_payload": False,
            "retry_attempt": 0,
            "retry_reason": "",
            "payload": payload,
        }

    def _message_event(self, message: Message) -> dict[str, Any]:
        return {
            **message_object(message),
            "channel": message.channel,
            "event_ts": message.ts,
            "channel_type": "im",
        }

    def _echo(self, message: Message, *, changed: bool) -> None:
        """The app hears of its own messages too, and of each change to them."""
        if message.only_for is not None or "message.im" not in self.subscribed or not self._links.open:
            return
        event = self._message_event(message)
        if changed:
            own = {"channel": message.channel, "channel_type": "im", "ts": self.workspace.new_ts()}
            event = {"type": "message", "subtype": "message_changed", "message": message_object(message), **own}
            event["event_ts"] = event["ts"]
        echo = asyncio.get_running_loop().create_task(self._links.send(self.envelope(event)))
        self._echoes.add(echo)
        echo.add_done_callback(self._echoes.discard)

    async def stop(self) -> None:
        for echo in self._echoes:
            echo.cancel()
        await asyncio.gather(*self._echoes, return_exceptions=True)
