"""Slash commands: what a person types after a `/`, and what the app answers."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from slack_gate.local_slack.grants import Grants, ResponseUrl
from slack_gate.local_slack.interactions import Interactions
from slack_gate.local_slack.methods import checked_content
from slack_gate.local_slack.refusal import Refused
from slack_gate.local_slack.socket_mode import Delivery, Links
from slack_gate.local_slack.workspace import Message, User, Workspace


@dataclass(frozen=True)
class Typed:
    """A command that was typed. `error` is what Slack itself says to it, None when it was taken."""

    error: str | None = None
    delivery: Delivery | None = None
    answers: ResponseUrl | None = None

    @property
    def acknowledged(self) -> bool:
        return self.delivery is not None and self.delivery.acknowledged

    @property
    def responses(self) -> list[Message]:
        """Messages that answer it so far, with the acknowledgement or by its response_url."""
        return self.answers.posted if self.answers else []


class SlashCommands:
    """The commands of the app's manifest."""

    def __init__(
        self,
        workspace: Workspace,
        grants: Grants,
        links: Links,
        interactions: Interactions,
        manifest: dict[str, Any],
        scopes: list[str],
    ) -> None:
        self.workspace = workspace
        self.grants = grants
        self.links = links
        self.interactions = interactions
        known = manifest.get("features", {}).get("slash_commands", []) if "commands" in scopes else []
        self.known: dict[str, dict[str, Any]] = {command["command"]: command for command in known}

    async def type(self, user: User, line: str, *, in_thread: bool = False) -> Typed:
        """The user sends `line`, such as `/gate status`, in the DM with the app."""
        command, _, text = line.strip().partition(" ")
        if command not in self.known:
            return Typed(f"{command} is not a valid command. In Slack, all text that begins with a / is a command.")
        if in_thread:
            return Typed(f"{command} is not supported in threads. Sorry!")
        secret, answers = self.grants.response_url(user.id, user.channel, None)
        place = self.workspace
        payload = {
            "token": "unused",
            "team_id": place.team_id,
            "team_domain": place.domain,
            "channel_id": user.channel,
            "channel_name": "directmessage",
            "user_id": user.id,
            "user_name": user.name.lower(),
            "command": command,
            "text": text.strip(),
            "api_app_id": place.app_id,
            "is_enterprise_install": "false",
            "response_url": f"{self.interactions.root}/commands/{place.team_id}/{secret}",
            "trigger_id": self.grants.trigger(user.id),
        }
        return await self.send(user, payload, answers)

    async def send(self, user: User, payload: dict[str, Any], answers: ResponseUrl | None = None) -> Typed:
        """Sends a command's payload, true or forged."""
        if answers is None:
            _, answers = self.grants.response_url(user.id, user.channel, None)
        envelope = {
            "envelope_id": str(uuid.uuid4()),
            "type": "slash_commands",
            "accepts_response_payload": True,
            "payload": payload,
        }
        command = payload["command"]
        delivery = await self.links.send(envelope)
        if not delivery.acknowledged:
            why = "operation_timeout" if self.links.open else "dispatch_failed"
            return Typed(f"{command} failed with the error “{why}”", delivery, answers)
        try:
            self._respond(user, delivery.response or {}, answers)
        except Refused as refused:
            return Typed(f"{command} failed with the error “{refused.error}”", delivery, answers)
        return Typed(None, delivery, answers)

    def _respond(self, user: User, response: dict[str, Any], answers: ResponseUrl) -> None:
        """Shows the message that came with the acknowledgement, if one did."""
        if not (response.get("text") or response.get("blocks")):
            return
        text, blocks = checked_content(response)
        only_for = None if response.get("response_type") == "in_channel" else user.id
        answers.posted.append(self.workspace.post(user.channel, text or "", blocks or [], only_for=only_for))
