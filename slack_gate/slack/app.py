"""The listeners, one a button. Each is one transaction and returns; Bolt acknowledges the click after that.

A click carries only ids; what it decides is on file. Every click gets a visible answer: the card redrawn, or a sentence
to the person who clicked.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import aiohttp
import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from slack_gate.core.outcome import sentence
from slack_gate.core.ports import Click, Verdict
from slack_gate.core.request import Choice, Decision
from slack_gate.errors import GateError
from slack_gate.slack.cards import DENY_WITH_REASON, REASON_MODAL, notice, reason_modal
from slack_gate.slack.home import PREFIX
from slack_gate.slack.people import People

log = structlog.get_logger()

# What a connection that is reset, refused or answered in no JSON raises.
_AWAY = (aiohttp.ClientError, OSError, TimeoutError, ValueError)

Body = dict[str, Any]
Later = Callable[[Coroutine[Any, Any, None]], object]


class Decider(Protocol):
    """The gate, as the buttons need it."""

    async def decide(self, decision: Decision) -> Click: ...

    async def asked(self, decision: Decision) -> Click: ...


class Buttons:
    """`later` runs a coroutine after the acknowledgement; it must survive the listener."""

    def __init__(self, client: AsyncWebClient, gate: Decider, people: People, later: Later) -> None:
        self._client = client
        self._gate = gate
        self._people = people
        self._later = later
        self.app = AsyncApp(client=client, process_before_response=True)
        for choice in Choice:
            self.app.action(choice.value)(self._choice)
        self.app.action(DENY_WITH_REASON)(self._ask_reason)
        self.app.view(REASON_MODAL)(self._reason_given)
        self.app.action(re.compile(rf"^(?!{re.escape(PREFIX)})"))(self._unknown)

    async def _choice(self, ack: AsyncAck, body: Body) -> None:
        choice = Choice(body["actions"][0]["action_id"])
        sentence = await self._sentence_of(self._gate.decide, self._decision(body, choice))
        if sentence:
            self._later(self._tell(body, sentence))
        await ack()

    async def _ask_reason(self, ack: AsyncAck, body: Body) -> None:
        """Opens the dialog at once: its trigger lives three seconds."""
        self._later(self._open_reason(body))
        await ack()

    async def _open_reason(self, body: Body) -> None:
        decision = self._decision(body, Choice.DENY)
        try:
            click = await self._gate.asked(decision)
            if click.verdict is not Verdict.OPEN or click.request is None:
                await self._tell(body, sentence(click))
                return
            view = reason_modal(click.request)
            view["private_metadata"] += f" {decision.channel} {decision.message}"
            await self._client.views_open(trigger_id=body["trigger_id"], view=view)
        except GateError as error:
            await self._tell(body, str(error))
        except SlackApiError as error:
            await self._tell(body, f"The dialog could not be opened ({error.response['error']}). Press again, or Deny.")
        except _AWAY as error:
            log.warning("a dialog could not be opened", error=repr(error))
            await self._tell(body, "The dialog could not be opened. Press again, or Deny.")

    async def _reason_given(self, ack: AsyncAck, body: Body) -> None:
        view = body["view"]
        reason = view["state"]["values"][REASON_MODAL][REASON_MODAL]["value"] or ""
        decision = self._decision(body, Choice.DENY, view["private_metadata"], " ".join(reason.split()))
        if problem := await self._sentence_of(self._gate.decide, decision):
            await ack(response_action="errors", errors={REASON_MODAL: problem})
        else:
            await ack()

    async def _unknown(self, ack: AsyncAck, body: Body) -> None:
        self._later(self._tell(body, "This button belongs to no request of this slack-gate. Nothing was decided."))
        await ack()

    async def _sentence_of(self, act: Callable[[Decision], Awaitable[Click]], decision: Decision) -> str:
        """What the person who clicked must be told, empty when the redrawn card says it."""
        try:
            return sentence(await act(decision))
        except GateError as error:
            log.error("a click could not be recorded", error=str(error))
            return f"Nothing was approved: {error}"

    def _decision(self, body: Body, choice: Choice, carried: str = "", reason: str = "") -> Decision:
        """A click on a message, or a dialog's submission with `carried` (ids, channel and message of the card)."""
        user = body["user"]
        container = body.get("container") or {}
        action = (body.get("actions") or [{}])[0]
        value = carried or action.get("value") or (action.get("selected_option") or {}).get("value") or ""
        place = (container.get("channel_id", ""), container.get("message_ts", ""))
        request, digest, channel, message = [*value.split(" "), *(place if not carried else ()), "", "", "", ""][:4]
        return Decision(
            request=request,
            digest=digest,
            choice=choice,
            by="human-slack",
            user=user["id"],
            name=self._people.name(user["id"]),
            reason=reason,
            team=(body.get("team") or {}).get("id") or user.get("team_id", ""),
            channel=channel,
            message=message,
        )

    async def _tell(self, body: Body, sentence: str) -> None:
        """A message only the person who clicked can see."""
        blocks = notice(sentence)
        try:
            if url := body.get("response_url"):
                hook = AsyncWebhookClient(url, timeout=10)
                sent = await hook.send(text=sentence, blocks=blocks, response_type="ephemeral", replace_original=False)
                if sent.status_code != 200:
                    log.warning("an answer to a click was refused", status=sent.status_code)
            elif channel := (body.get("channel") or {}).get("id"):
                user = body["user"]["id"]
                await self._client.chat_postEphemeral(channel=channel, user=user, text=sentence, blocks=blocks)
        except (SlackApiError, *_AWAY) as error:
            log.warning("an answer to a click did not arrive", error=repr(error))
