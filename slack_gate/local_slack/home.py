"""The app's Home tab: opened by a person, drawn by the app, pressed by the person."""

from __future__ import annotations

from typing import Any

from slack_gate.local_slack.events import Events
from slack_gate.local_slack.interactions import Click, Interactions, action
from slack_gate.local_slack.methods import view_object
from slack_gate.local_slack.socket_mode import Delivery
from slack_gate.local_slack.visible import Control, confirm_text
from slack_gate.local_slack.workspace import Home, User


class HomeTabs:
    """Each user's own Home tab."""

    def __init__(self, interactions: Interactions, events: Events) -> None:
        self.workspace = interactions.workspace
        self._interactions = interactions
        self._events = events

    async def open(self, user: User, tab: str = "home") -> Delivery | None:
        """The user looks at a tab of the app (`home` or `messages`); None when the app is not told."""
        event: dict[str, Any] = {
            "type": "app_home_opened",
            "user": user.id,
            "channel": user.channel,
            "tab": tab,
            "event_ts": self.workspace.new_ts(),
        }
        if tab == "home" and (home := self.workspace.homes.get(user.id)):
            event["view"] = view_object(self.workspace, home)
        return await self._events.tell("app_home_opened", event)

    async def click(self, user: User, home: Home, control: Control, *, confirm: bool = True) -> Click:
        """Presses what the tab showed, also when it has been drawn anew since."""
        asked = confirm_text(control.confirm) if control.confirm else None
        if asked is not None and not confirm:
            return Click(asked, None, None)
        return await self.send(user, action(control), view_object(self.workspace, home), asked=asked)

    async def send(
        self,
        user: User,
        pressed: dict[str, Any],
        view: dict[str, Any],
        /,
        *,
        asked: str | None = None,
        **overrides: Any,
    ) -> Click:
        """Sends a block_actions payload of a view, true or forged: no channel, no message, no response_url."""
        payload = {
            "type": "block_actions",
            **self._interactions.common(user),
            "container": {"type": "view", "view_id": view.get("id", "")},
            "view": view,
            "actions": [pressed],
        }
        if not self._interactions.enabled:
            return Click(asked, Delivery({}, False, 0.0), None)
        delivery = await self._interactions.links.deliver(payload | overrides, accepts_response=False)
        return Click(asked, delivery, None)
