"""The connection to Slack: tokens checked before anything starts, one Socket Mode link, and its pulse."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.errors import SlackError

PING_S = 5.0  # our pings; after four without a pong the SDK opens a new socket
CONNECT_S = 30.0
CALL_S = 10  # seconds for one call of the Web API
DOWN_S = 25.0  # no inbound traffic for so long: clicks do not arrive
STUCK_S = 15.0  # silent for so long although the SDK reconnects: its address may be used up, so it gets a new one
ADDRESSES = 6  # a minute; the SDK asks for more than a hundred a second where Slack sends it away each time
PACE_S = 5.0  # between further ones

BOT_TOKEN = "OAuth & Permissions, Bot User OAuth Token, xoxb-…"  # noqa: S105 - where it is found, not what it is
APP_TOKEN = "Basic Information, App-Level Tokens, xapp-…"  # noqa: S105


def web_client(token: str, base_url: str) -> AsyncWebClient:
    """Retries are the outbox's: the SDK's own retry after a reset would post a card twice."""
    if urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1"):
        # The SDK and Bolt read these in many places and know no NO_PROXY: a proxy would be asked for our own loopback.
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
            os.environ.pop(name, None)
    return AsyncWebClient(token=token, base_url=base_url, retry_handlers=[], timeout=CALL_S)


async def check_bot_token(client: AsyncWebClient, team: str = "") -> str:
    """The bot's team, which clicks must come from. Raises SlackError with Slack's reason, or if it is not `team`."""
    name = "SLACK_BOT_TOKEN"
    if (client.token or "").startswith("xapp-"):
        raise _mistaken(name, "an app-level token (xapp-…)", BOT_TOKEN)
    try:
        found = await client.auth_test()
    except SlackApiError as error:
        raise _refused(name, error, BOT_TOKEN) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise unreachable(client, error) from error
    if not found.get("bot_id"):
        raise _mistaken(name, "a person's token", BOT_TOKEN)
    own = str(found["team_id"])
    if team and team != own and not found.get("is_enterprise_install"):
        raise SlackError(
            f"SLACK_GATE_TEAM is {team}, but the app is installed in {own}, so no click could count.",
            f"Unset SLACK_GATE_TEAM or set it to {own}.",
        )
    return team or own


async def check_app_token(client: AsyncWebClient, app_token: str) -> None:
    """Raises SlackError; the SDK itself would try a wrong token for ever."""
    name = "SLACK_APP_TOKEN"
    if app_token.startswith("xox"):
        raise _mistaken(name, "a bot's or person's token (xox…)", APP_TOKEN)
    try:
        await client.apps_connections_open(app_token=app_token)
    except SlackApiError as error:
        raise _refused(name, error, APP_TOKEN) from error
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise unreachable(client, error) from error


def _mistaken(name: str, what: str, where: str) -> SlackError:
    return SlackError(f"{name} holds {what}.", f"It must hold the one from the app's page: {where}")


def _refused(name: str, error: SlackApiError, where: str) -> SlackError:
    code = error.response.get("error") or f"HTTP {error.response.status_code}"
    return SlackError(f"Slack refused {name}: {code}.", f"Copy it again from the app's page: {where}")


def unreachable(client: AsyncWebClient, error: Exception) -> SlackError:
    why = str(error) or type(error).__name__
    return SlackError(f"Slack at {client.base_url} cannot be reached: {why}.", "Check the network and SLACK_API_URL.")


class Link:
    """Open inside `opened`; `silent_s` tells how long nothing came in."""

    def __init__(self, app: AsyncApp, app_token: str) -> None:
        self._handler = AsyncSocketModeHandler(app, app_token, ping_interval=PING_S)
        self._heard_at = time.time()
        self._asked_at: list[float] = []
        self._sdk_address = self._handler.client.issue_new_wss_url
        self._handler.client.issue_new_wss_url = self._address  # type: ignore[method-assign]

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        watch = asyncio.create_task(self._watch())
        try:
            await self._connect()
            yield
        finally:
            watch.cancel()
            await self._handler.close_async()  # type: ignore[no-untyped-call]

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._handler.connect_async()  # type: ignore[no-untyped-call]  # the SDK has no types here
        except TimeoutError as error:
            raise SlackError(
                f"Slack did not accept a Socket Mode connection in {CONNECT_S:.0f} s.", "Check the network."
            ) from error
        self._heard_at = time.time()

    async def _address(self) -> str:
        """An address for the next connection."""
        self._asked_at = [at for at in self._asked_at if time.monotonic() - at < 60]
        if len(self._asked_at) >= ADDRESSES:
            await asyncio.sleep(PACE_S)
        self._asked_at.append(time.monotonic())
        return await self._sdk_address()

    async def _watch(self) -> None:
        """The SDK tries one address for ever; an address is good for one connection and half a minute."""
        while True:
            await asyncio.sleep(PING_S)
            if self.silent_s() > STUCK_S:
                self._handler.client.wss_uri = None

    def silent_s(self) -> float:
        """Seconds since the last pong; a quiet link answers pings, so this stays small while it lives."""
        # The SDK forgets its last pong when it reconnects.
        self._heard_at = max(self._heard_at, self._handler.client.last_ping_pong_time or 0.0)
        return max(time.time() - self._heard_at, 0.0)

    def down(self) -> str | None:
        """Why clicks would not arrive now, None while the link lives."""
        silent = self.silent_s()
        return None if silent < DOWN_S else f"the link to Slack has been silent for {silent:.0f} s"
