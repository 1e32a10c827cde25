"""The calls that draw cards. Nothing is tried again here: the outbox knows what is due."""

from __future__ import annotations

from collections.abc import Awaitable

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from slack_gate.core.ports import Undelivered
from slack_gate.core.request import Request
from slack_gate.core.rules import keys_to_remember, runs_caged
from slack_gate.slack.cards import Picture, card

RETRY_S = 2.0  # after a fault that may pass: a reset, a 5xx
# Refusals that pass by themselves; any other one stands however often it is tried.
PASSING = frozenset({"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"})


class Messenger:
    """`client` must not retry by itself: its retry after a reset posts twice."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client

    async def post(self, request: Request, approver: str) -> tuple[str, str]:
        """Channel and ts of the new message in the approver's DM. Raises Undelivered."""
        picture = picture_of(request)
        reply = await self._call(
            self._client.chat_postMessage(
                channel=approver,
                text=picture.text,
                blocks=picture.blocks,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": "slack_gate_request", "event_payload": {"request": request.id}},
            )
        )
        return str(reply["channel"]), str(reply["ts"])

    async def redraw(self, request: Request, channel: str, message: str) -> None:
        """The card as the request stands now. Raises Undelivered."""
        picture = picture_of(request)
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


def _undelivered(response: AsyncSlackResponse) -> Undelivered:
    if response.status_code == 429:
        return Undelivered("ratelimited", float(response.headers.get("Retry-After", RETRY_S)))
    code = str(response.get("error", f"HTTP {response.status_code}")) if isinstance(response.data, dict) else "no JSON"
    passing = response.status_code >= 500 or code in PASSING
    detail = f" (needed: {response['needed']})" if code == "missing_scope" else ""
    return Undelivered(code + detail, RETRY_S if passing else None)


def picture_of(request: Request) -> Picture:
    return card(request, keys_to_remember(request.event), runs_caged(request.event))
