"""The connection to Slack: tokens checked before anything starts, one Socket Mode link, and its pulse."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.errors import SlackError

PING_S = 5.0  # our pings; after four without a pong the SDK opens a new socket
CONNECT_S = 30.0
DOWN_S = 25.0  # no inbound traffic for so long: clicks do not arrive


def web_client(token: str, base_url: str) -> AsyncWebClient:
    """Retries are the outbox's: the SDK's own retry after a reset would post a card twice."""
    return AsyncWebClient(token=token, base_url=base_url, retry_handlers=[], timeout=10)


async def check_bot_token(client: AsyncWebClient) -> str:
    """The bot's team id. Raises SlackError naming Slack's reason and what to do."""
    try:
        return str((await client.auth_test())["team_id"])
    except SlackApiError as error:
        raise _refused("SLACK_BOT_TOKEN", error, "OAuth & Permissions, Bot User OAuth Token, xoxb-…") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _unreachable(client, error) from error


async def check_app_token(client: AsyncWebClient, app_token: str) -> None:
    """Raises SlackError; the SDK itself would try a wrong token for ever."""
    try:
        await client.apps_connections_open(app_token=app_token)
    except SlackApiError as error:
        raise _refused("SLACK_APP_TOKEN", error, "Basic Information, App-Level Tokens, xapp-…") from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _unreachable(client, error) from error


def _refused(name: str, error: SlackApiError, where: str) -> SlackError:
    return SlackError(
        f"Slack refused {name}: {error.response['error']}.", f"Copy it again from the app's page: {where}"
    )


def _unreachable(client: AsyncWebClient, error: Exception) -> SlackError:
    return SlackError(f"Slack at {client.base_url} cannot be reached: {error}.", "Check the network and SLACK_API_URL.")


class Link:
    """Open inside `opened`; `silent_s` tells how long nothing came in."""

    def __init__(self, app: AsyncApp, app_token: str) -> None:
        self._handler = AsyncSocketModeHandler(app, app_token, ping_interval=PING_S)
        self._opened_at = time.time()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        try:
            await self._connect()
            yield
        finally:
            await self._handler.close_async()  # type: ignore[no-untyped-call]

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._handler.connect_async()  # type: ignore[no-untyped-call]  # the SDK has no types here
        except TimeoutError as error:
            raise SlackError(
                f"Slack did not accept a Socket Mode connection in {CONNECT_S:.0f} s.", "Check the network."
            ) from error

    def silent_s(self) -> float:
        """Seconds since the last pong; a quiet link answers pings, so this stays small while it lives."""
        last = self._handler.client.last_ping_pong_time or self._opened_at
        return time.time() - last

    def down(self) -> str | None:
        """Why clicks would not arrive now, None while the link lives."""
        silent = self.silent_s()
        return None if silent < DOWN_S else f"the link to Slack has been silent for {silent:.0f} s"
