"""Emoji on a card that decide like its buttons, where the settings say so. Taking one away again changes nothing.

An emoji can be quicker than Slack's answer to our post, which says where the card stands: such a one waits for that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from slack_bolt.async_app import AsyncApp

from slack_gate.core.change import FileNow
from slack_gate.core.outcome import sentence
from slack_gate.core.request import BY_SLACK, Choice, Decision, Request, State
from slack_gate.errors import GateError
from slack_gate.slack.app import Decider
from slack_gate.slack.blocks import Block
from slack_gate.slack.cards import notice
from slack_gate.slack.commands import LATE_S, SeenEvents
from slack_gate.slack.contact import Body, Contact
from slack_gate.slack.faults import FAILED
from slack_gate.slack.messenger import EVENT, picture_of

SOON_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # between looks for the card of an emoji that came before its place was on file
NO_CARD = "This emoji decided nothing: its message does not ask for one thing alone. Press a button."
EMOJI = {
    **dict.fromkeys(
        ("+1", "thumbsup", "white_check_mark", "heavy_check_mark", "ballot_box_with_check"), Choice.APPROVE
    ),
    **dict.fromkeys(("-1", "thumbsdown", "x", "negative_squared_cross_mark", "no_entry", "no_entry_sign"), Choice.DENY),
}

log = structlog.get_logger()


class Reactions:
    """`enabled` is the setting; without it emoji stay what they are. `file` says what cards show of the file that a
    call would change. `clock` counts seconds since the epoch."""

    def __init__(
        self,
        contact: Contact,
        gate: Decider,
        enabled: bool,
        file: Callable[[Request], FileNow | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._contact = contact
        self._gate = gate
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
        emoji = _Emoji(
            *(choice, str(event.get("user", "")), str(body.get("team_id", ""))),
            *(str(item.get("channel", "")), str(item.get("ts", "")), self._age(event)),
        )
        request = await self._contact.controls.card_at(emoji.channel, emoji.message)
        if request is None and (not self._may_be_ours(emoji) or event.get("item_user") == emoji.user):
            return
        if not self._seen.new(str(body.get("event_id", ""))):
            return
        if request is None:
            self._contact.later(self._soon(emoji))
        elif told := await self._decide(request, emoji):
            self._contact.later(self._whisper(emoji, told))

    def _may_be_ours(self, emoji: _Emoji) -> bool:
        """Whether a message that is on file nowhere may be a card: in a conversation of the app and an approver."""
        return emoji.channel[:1] == "D" and self._contact.controls.approves(emoji.user, emoji.team)

    async def _soon(self, emoji: _Emoji) -> None:
        """The place of a card is on file once Slack has answered our post, and its thread holds what it cuts."""
        told = ""
        for wait in SOON_S:
            await asyncio.sleep(wait)
            try:
                request = await self._contact.controls.card_at(emoji.channel, emoji.message)
            except GateError as error:
                told = f"Nothing was approved: {error}"
                continue
            if request is not None:
                told = await self._decide(request, emoji)
                break
        else:
            told = told or (NO_CARD if await self._is_card(emoji) else "")
        if told:
            await self._whisper(emoji, told)

    async def _is_card(self, emoji: _Emoji) -> bool:
        """Whether the message asks for anything: a list does, a note in a thread does not. True if nobody can say."""
        try:
            at = float(emoji.message)
            found = await self._contact.client.conversations_history(
                channel=emoji.channel, oldest=f"{at - 1e-4:.6f}", latest=f"{at + 1e-4:.6f}", include_all_metadata=True
            )
        except FAILED:
            return True
        own = [one for one in found.get("messages") or [] if one.get("ts") == emoji.message]
        return any((one.get("metadata") or {}).get("event_type") == EVENT for one in own)

    async def _decide(self, request: Request, emoji: _Emoji) -> str:
        """What the person must be told, empty when the card shows it."""
        if emoji.age > LATE_S:
            return "This emoji reached slack-gate late, so nothing was decided. Press a button of the card."
        if (
            request.state is State.PENDING
            and emoji.choice is Choice.APPROVE
            and not _offers(picture_of(request, self._gate.offers(request), file=self._file(request)).blocks)
        ):
            return "An emoji approves only what the card itself shows whole. Nothing was decided; press a button."
        decision = Decision(
            request=request.id,
            digest=request.digest,  # the card shows the content of this digest and no other
            choice=emoji.choice,
            by=BY_SLACK,
            user=emoji.user,
            name=self._contact.people.name(emoji.user),
            team=emoji.team,
            channel=emoji.channel,
            message=emoji.message,
        )
        try:
            return sentence(await self._gate.decide(decision))
        except GateError as error:
            log.error("an emoji could not be recorded", error=str(error))
            return f"Nothing was approved: {error}"

    def _age(self, event: Body) -> float:
        try:
            return self._clock() - float(event.get("event_ts", ""))
        except ValueError:
            return 0.0

    async def _whisper(self, emoji: _Emoji, told: str) -> None:
        await self._contact.whisper(emoji.channel, emoji.user, told, notice(told))


@dataclass(frozen=True, slots=True)
class _Emoji:
    """What it stands for, whose it is, where it stands; `age` in seconds when it came."""

    choice: Choice
    user: str
    team: str
    channel: str
    message: str
    age: float


def _offers(blocks: Sequence[Block]) -> bool:
    """Whether these have an Approve."""
    return any(
        element.get("action_id") == Choice.APPROVE.value
        for block in blocks
        if block["type"] == "actions"
        for element in block["elements"]
    )
