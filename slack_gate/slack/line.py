"""One WebSocket of Socket Mode: clicks come in, acknowledgements go out, and its pulse is felt."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any

import aiohttp
import structlog
from aiohttp import ClientWebSocketResponse, WSMessage, WSMsgType
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app
from slack_bolt.async_app import AsyncApp
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.request import SocketModeRequest

PING_S = 5.0  # our pings; Slack sends some too
SILENT_S = 15.0  # a line that lives answers pings: after so long without a frame it is dead, whatever TCP says
DRAIN_S = 12.0  # Slack warns about ten seconds before it closes a line

log = structlog.get_logger()


class Ended(Enum):
    """Why a line ends or is about to: Slack's own words, and ours where Slack says nothing."""

    WARNING = "warning"
    REFRESH = "refresh_requested"
    DISABLED = "link_disabled"
    TOO_MANY = "too_many_websockets"
    OTHER = "disconnect"
    CLOSED = "the connection was closed"
    CUT = "the connection was cut"
    SILENT = "nothing came in"

    @property
    def by_slack(self) -> bool:
        return self in (Ended.WARNING, Ended.REFRESH, Ended.DISABLED, Ended.TOO_MANY, Ended.OTHER)


class SentAway(Exception):
    """Slack took the connection only to end it."""

    def __init__(self, why: Ended) -> None:
        super().__init__(why.value)
        self.why = why


class Line:
    """`heard` is called for every frame; `elsewhere` sends an acknowledgement when this line cannot any more."""

    def __init__(self, app: AsyncApp, heard: Callable[[], None], elsewhere: Callable[[str], Awaitable[None]]) -> None:
        self._app = app
        self._heard = heard
        self._elsewhere = elsewhere
        self._http = aiohttp.ClientSession()
        self._socket: ClientWebSocketResponse | None = None
        self._ending: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._answers: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self.opened_at = float("inf")  # by the monotonic clock, once Slack has said hello
        self.heard_at = 0.0  # the newest frame, by the same clock
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, url: str) -> int:
        """Connects and waits for Slack's hello: the number of connections that it counts for this app.

        Raises SentAway, aiohttp.ClientError, OSError, ValueError; failed or cancelled, it leaves nothing open.
        """
        try:
            client = self._app.client
            self._socket = await self._http.ws_connect(
                url, autoping=False, proxy=client.proxy, ssl=True if client.ssl is None else client.ssl
            )
            hello = await self._socket.receive_json(timeout=SILENT_S)
            if hello.get("type") == "disconnect":
                raise SentAway(_reason(hello))
            if hello.get("type") != "hello":
                raise ValueError("Slack did not say hello")
        except BaseException:
            await self._close()
            raise
        self._heard()
        self.opened_at = self.heard_at = time.monotonic()
        self._reader = asyncio.create_task(self._live(self._socket))
        return int(hello.get("num_connections") or 0)

    async def ending(self) -> Ended:
        """Returns once the line has ended or Slack has said that it will; by then another one should be opened."""
        return await asyncio.shield(self._ending)

    @property
    def usable(self) -> bool:
        """Whether Slack may send clicks by it."""
        return not self._ending.done()

    async def send(self, text: str) -> bool:
        """Whether it went out."""
        try:
            if self._socket is None or self._socket.closed:
                return False
            await self._socket.send_str(text)
        except (ConnectionError, aiohttp.ClientError, RuntimeError):
            return False
        return True

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def _live(self, socket: ClientWebSocketResponse) -> None:
        pings = asyncio.create_task(self._ping(socket))
        try:
            self._end(await self._read(socket))
        except (ConnectionError, aiohttp.ClientError):
            self._end(Ended.CUT)
        finally:
            pings.cancel()
            self._end(Ended.CLOSED)
            await self._close()

    async def _read(self, socket: ClientWebSocketResponse) -> Ended:
        """Until the line has ended."""
        loop = asyncio.get_running_loop()
        last = float("inf")
        while (left := min(SILENT_S, last - loop.time())) > 0:
            try:
                frame: WSMessage = await socket.receive(timeout=left)
            except TimeoutError:
                return Ended.SILENT
            if frame.type is WSMsgType.ERROR:
                return Ended.CUT
            if frame.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
                return Ended.CUT if socket.close_code in (None, aiohttp.WSCloseCode.ABNORMAL_CLOSURE) else Ended.CLOSED
            self._heard()
            self.heard_at = time.monotonic()
            if frame.type is WSMsgType.PING:
                await socket.pong(frame.data)
            elif frame.type is WSMsgType.TEXT and (why := self._received(frame.data)) is not None:
                if why in (Ended.DISABLED, Ended.TOO_MANY):
                    return why
                self._end(why)
                last = min(last, loop.time() + DRAIN_S)
        return Ended.CLOSED

    def _received(self, text: str) -> Ended | None:
        """Handles an envelope in a task of its own; a disconnect frame's reason is returned."""
        try:
            message = json.loads(text)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            log.warning("Slack sent a frame that cannot be read", length=len(text))
        elif message.get("type") == "disconnect":
            return _reason(message)
        elif (request := SocketModeRequest.from_dict(message)) is not None:
            answer = asyncio.create_task(self._answer(request))
            self._answers.add(answer)
            answer.add_done_callback(self._answers.discard)
        return None

    async def _answer(self, request: SocketModeRequest) -> None:
        """Bolt decides; what it does not answer stays without an acknowledgement, and Slack warns the person."""
        try:
            response: BoltResponse = await run_async_bolt_app(self._app, request)
        except Exception:
            log.exception("a click could not be handled")
            return
        if response.status != 200:
            return
        acknowledgement: dict[str, Any] = {"envelope_id": request.envelope_id}
        if response.body:
            acknowledgement["payload"] = json.loads(response.body)
        text = json.dumps(acknowledgement)
        if not await self.send(text):
            await self._elsewhere(text)

    async def _ping(self, socket: ClientWebSocketResponse) -> None:
        try:
            while True:
                await asyncio.sleep(PING_S)
                await socket.ping()
        except (ConnectionError, aiohttp.ClientError, RuntimeError):
            return  # the reader notices and names it

    def _end(self, why: Ended) -> None:
        if not self._ending.done():
            self._ending.set_result(why)

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(1):
                if self._socket is not None:
                    await self._socket.close()
        except (TimeoutError, ConnectionError, aiohttp.ClientError):
            log.debug("a line was closed without Slack's farewell")
        finally:
            await self._http.close()
            if not self.closed.done():
                self.closed.set_result(None)


def _reason(disconnect: dict[str, Any]) -> Ended:
    reasons = {ended.value: ended for ended in Ended if ended.by_slack}
    return reasons.get(str(disconnect.get("reason")), Ended.OTHER)
