"""Emoji on a card that decide like its buttons, where the settings say so. Taking one away again changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import aiohttp
import structlog
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.core.change import FileNow
from slack_gate.core.outcome import sentence
from slack_gate.core.overview import Controls
from slack_gate.core.request import BY_SLACK, Choice, Decision, Request, State
from slack_gate.errors import GateError
from slack_gate.slack.app import Decider
from slack_gate.slack.blocks import Block
from slack_gate.slack.cards import escaped, notice
from slack_gate.slack.commands import LATE_S, SeenEvents
from slack_gate.slack.messenger import picture_of
from slack_gate.slack.people import People

EMOJI = {
    **dict.fromkeys(
        ("+1", "thumbsup", "white_check_mark", "heavy_check_mark", "ballot_box_with_check"), Choice.APPROVE
    ),
    **dict.fromkeys(("-1", "thumbsdown", "x", "negative_squared_cross_mark", "no_entry", "no_entry_sign"), Choice.DENY),
}

Body = dict[str, Any]
Later = Callable[[Coroutine[Any, Any, None]], object]
_AWAY = (aiohttp.ClientError, OSError, TimeoutError, ValueError)

log = structlog.get_logger()


class Reactions:
    """`enabled` is the setting; without it emoji stay what they are. `file` says what cards show of the file that a
    call would change. `clock` counts seconds since the epoch."""

    def __init__(
        self,
        client: AsyncWebClient,
        controls: Controls,
        gate: Decider,
        people: People,
        later: Later,
        enabled: bool,
        file: Callable[[Request], FileNow | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._controls = controls
        self._gate = gate
        self._people = people
        self._later = later
        self._enabled = enabled
        self._file = file
        self._clock = clock
        self._seen = SeenEvents()

    def listen(self, app: AsyncApp) -> None:
        app.event("reaction_added")(self._added)

    async def _added(self, event: Body, body: Body) -> None:
        choice = EMOJI.get(str(event.get("reaction", "")).split("::")[0])  # without the skin tone
        item = event.get("item") or {}
        if not self._enabled or choice is None or item.get("type") != "message":
            return
        channel, message = str(item.get("channel", "")), str(item.get("ts", ""))
        request = await self._controls.card_at(channel, message)
        if request is None or not self._seen.new(str(body.get("event_id", ""))):
            return
        user = str(event.get("user", ""))
        if told := await self._decide(request, choice, user, channel, message, event, body):
            self._later(self._whisper(channel, user, told))

    async def _decide(
        self, request: Request, choice: Choice, user: str, channel: str, message: str, event: Body, body: Body
    ) -> str:
        """What the person must be told, empty when the card shows it."""
        if self._age(event) > LATE_S:
            return "This reaction reached slack-gate late, so nothing was decided. Press a button of the card."
        if (
            request.state is State.PENDING
            and choice is Choice.APPROVE
            and not _offers(picture_of(request, self._gate.offers(request), file=self._file(request)).blocks, choice)
        ):
            return "An emoji approves only what the card itself shows whole. Nothing was decided; press a button."
        decision = Decision(
            request=request.id,
            digest=request.digest,  # the card shows the content of this digest and no other
            choice=choice,
            by=BY_SLACK,
            user=user,
            name=self._people.name(user),
            team=str(body.get("team_id", "")),
            channel=channel,
            message=message,
        )
        try:
            return sentence(await self._gate.decide(decision))
        except GateError as error:
            log.error("a reaction could not be recorded", error=str(error))
            return f"Nothing was approved: {error}"

    def _age(self, event: Body) -> float:
        try:
            return self._clock() - float(event.get("event_ts", ""))
        except ValueError:
            return 0.0

    async def _whisper(self, channel: str, user: str, told: str) -> None:
        try:
            await self._client.chat_postEphemeral(channel=channel, user=user, text=escaped(told), blocks=notice(told))
        except (SlackApiError, *_AWAY) as error:
            log.warning("an answer to a reaction did not arrive", error=repr(error))


def _offers(blocks: Sequence[Block], choice: Choice) -> bool:
    return any(
        element.get("action_id") == choice.value
        for block in blocks
        if block["type"] == "actions"
        for element in block["elements"]
    )
