"""What everything beside the cards works with, and how it speaks to one person alone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from slack_gate.core.cord import Hand
from slack_gate.core.overview import Controls
from slack_gate.core.request import BY_SLACK
from slack_gate.slack.blocks import Block
from slack_gate.slack.cards import escaped
from slack_gate.slack.faults import FAILED
from slack_gate.slack.people import People

Body = dict[str, Any]
Later = Callable[[Coroutine[Any, Any, None]], object]
ANSWER_S = 10  # for a response_url

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Contact:
    """`later` runs a coroutine after the acknowledgement; it must survive the listener."""

    client: AsyncWebClient
    controls: Controls
    people: People
    later: Later

    def hand(self, user: str, press: str) -> Hand:
        return Hand(BY_SLACK, user, self.people.name(user), press)

    async def whisper(self, channel: str, user: str, text: str, blocks: Sequence[Block], thread: str = "") -> None:
        await whisper(self.client, channel, user, text, blocks, thread)


async def whisper(
    client: AsyncWebClient, channel: str, user: str, text: str, blocks: Sequence[Block], thread: str = ""
) -> None:
    """A message in the channel, or in a thread there, that only this person sees. Logs what Slack refuses."""
    try:
        await client.chat_postEphemeral(
            channel=channel, user=user, text=escaped(text), blocks=list(blocks), thread_ts=thread or None
        )
    except FAILED as error:
        log.warning("an answer did not arrive", error=repr(error))


async def respond(url: str, text: str, blocks: Sequence[Block]) -> None:
    """The same to whoever pressed or typed, by the address that came with it."""
    try:
        hook = AsyncWebhookClient(url, timeout=ANSWER_S)
        sent = await hook.send(
            text=escaped(text), blocks=list(blocks), response_type="ephemeral", replace_original=False
        )
        if sent.status_code != 200:
            log.warning("an answer was refused", status=sent.status_code)
    except FAILED as error:
        log.warning("an answer did not arrive", error=repr(error))


def team_of(body: Body) -> str:
    """The team of whoever pressed."""
    return str((body.get("team") or {}).get("id") or body["user"].get("team_id", ""))
