"""The calls that draw cards. Nothing is tried again here: the outbox knows what is due."""

from __future__ import annotations

from collections.abc import Awaitable

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from slack_gate.core.ports import Undelivered
from slack_gate.core.request import Request, State
from slack_gate.core.rules import keys_to_remember, runs_caged
from slack_gate.slack.cards import Picture, card, ending
from slack_gate.slack.people import People

RETRY_S = 1.0  # after a fault that may pass: a reset, a 5xx
# Refusals of a post that pass by themselves; any other one stands however often it is tried.
PASSING = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
# Refusals of a redraw after which no button is left to take away; any other one may pass (a new token, a new scope).
GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "channel_not_found"})
# Refusals of the picture itself: a smaller one may be taken.
CONTENT = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "invalid_arguments", "msg_too_long", "msg_blocks_too_long"}
)


class Messenger:
    """`client` must not retry by itself: its retry after a reset posts twice."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._people = People(client)

    async def post(self, request: Request, approver: str) -> tuple[str, str]:
        """Channel and ts of the new message in the approver's DM. Raises Undelivered, also if nobody would read it."""
        if (why := await self._people.inactive(approver)) is not None:
            raise Undelivered(f"approver_inactive ({why})", None)
        picture = picture_of(request)
        reply = await self._call(
            self._client.chat_postMessage(
                channel=approver,
                text=picture.text,
                blocks=picture.blocks,
                mrkdwn=False,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": "slack_gate_request", "event_payload": {"request": request.id}},
            )
        )
        channel, message = reply.get("channel"), reply.get("ts")
        if not isinstance(channel, str) or not isinstance(message, str):
            raise Undelivered("an answer without a message id", None)
        return channel, message

    async def redraw(self, request: Request, channel: str, message: str) -> None:
        """The card as the request stands now. Raises Undelivered, without a time only if there is nothing to redraw."""
        try:
            await self._update(picture_of(request), channel, message)
        except Undelivered as fault:
            if fault.error in CONTENT and request.state is not State.PENDING:
                await self._update(ending(request), channel, message)
            elif fault.error in GONE or fault.retry_after is not None:
                raise
            else:
                raise Undelivered(fault.error, RETRY_S) from fault

    async def _update(self, picture: Picture, channel: str, message: str) -> None:
        await self._call(
            self._client.chat_update(channel=channel, ts=message, text=picture.text, blocks=picture.blocks)
        )

    async def _call(self, call: Awaitable[AsyncSlackResponse]) -> AsyncSlackResponse:
        try:
            return await call
        except SlackApiError as error:
            raise _undelivered(error.response) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Undelivered(f"no answer from Slack ({type(error).__name__})", RETRY_S) from error
        except (AttributeError, TypeError, ValueError) as error:  # how the SDK trips over a body that is no JSON object
            raise Undelivered("an answer that is not Slack's", RETRY_S) from error


def _undelivered(response: object) -> Undelivered:
    if not isinstance(response, AsyncSlackResponse) or not isinstance(response.data, dict):
        return Undelivered("an answer that is not Slack's", RETRY_S)
    if response.status_code == 429:
        return Undelivered("ratelimited", _seconds(response.headers.get("Retry-After")))
    code = str(response.get("error", f"HTTP {response.status_code}"))
    passing = response.status_code >= 500 or code in PASSING
    detail = f" (needed: {response.get('needed')})" if code == "missing_scope" else ""
    return Undelivered(code + detail, RETRY_S if passing else None)


def _seconds(retry_after: str | None) -> float:
    try:
        return max(float(retry_after or RETRY_S), RETRY_S)
    except ValueError:
        return RETRY_S


def picture_of(request: Request) -> Picture:
    return card(request, keys_to_remember(request.event), runs_caged(request.event))
