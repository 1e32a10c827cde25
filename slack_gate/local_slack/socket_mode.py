"""Socket Mode: tickets, links, envelopes and their acknowledgement."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from slack_gate.local_slack.faults import cut

ACK_SECONDS = 3.0
"""How long an app has to acknowledge an envelope."""
MOST_LINKS = 10
"""Open links one app may have."""
LEAVE_SECONDS = 2.0
"""How long a client has to leave after a disconnect frame before its link is closed."""


@dataclass(eq=False)
class Link:
    """One open WebSocket of the app. A silent one says nothing more and hears nothing (half-open)."""

    socket: web.WebSocketResponse
    transport: asyncio.Transport | None
    silent: bool = False


@dataclass
class Delivery:
    """One envelope sent out. `seconds` is the time to the acknowledgement, or until it was given up."""

    envelope: dict[str, Any]
    acknowledged: bool
    seconds: float
    response: dict[str, Any] | None = None
    """What came with the acknowledgement."""


class Links:
    """All links of the app. Each envelope goes to any one of them."""

    def __init__(
        self, app_id: str, ping_seconds: float, changed: Callable[[], None], seed: int | None, redeliveries: int
    ) -> None:
        self.app_id = app_id
        self.ping_seconds = ping_seconds
        self.open: list[Link] = []
        self.refusing: str | None = None
        """The reason why every new link is sent away again at once, None when links may stay."""
        self.acks_to_lose = 0
        self.to_repeat = 0
        """So many of the next interactive envelopes come again although they were acknowledged."""
        self.redeliveries = redeliveries
        self._choose = random.Random(seed)  # noqa: S311 - routes, hides nothing
        self._changed = changed
        self._tickets: set[str] = set()
        self._acks: dict[str, asyncio.Future[dict[str, Any] | None]] = {}

    def ticket(self) -> str:
        """A new ticket, good for one connection."""
        ticket = str(uuid.uuid4())
        self._tickets.add(ticket)
        return ticket

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """One link, from its ticket to its end."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden(text="unknown or used ticket")
        self._tickets.remove(ticket)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        link = Link(socket, request.transport)
        async with self._registered(link):
            await socket.send_json(self._hello())
            if reason := self.refusing or ("too_many_websockets" if len(self.open) > MOST_LINKS else None):
                await self._send_away(link, reason)
                await self._listen(link)
                return socket
            self._changed()
            await self._listen(link)
        return socket

    @contextlib.asynccontextmanager
    async def _registered(self, link: Link) -> AsyncIterator[None]:
        self.open.append(link)
        pings = asyncio.create_task(self._ping(link))
        try:
            yield
        finally:
            pings.cancel()
            if link in self.open:
                self.open.remove(link)
            self._changed()

    def _hello(self) -> dict[str, Any]:
        debug = {"host": "applink-local", "build_number": 1, "approximate_connection_time": 18060}
        connection = {"app_id": self.app_id}
        return {"type": "hello", "num_connections": len(self.open), "debug_info": debug, "connection_info": connection}

    async def _ping(self, link: Link) -> None:
        with contextlib.suppress(ConnectionError):
            while not link.silent:
                await link.socket.ping(b"Ping from applink-local")
                await asyncio.sleep(self.ping_seconds)

    async def _listen(self, link: Link) -> None:
        async for message in link.socket:
            if link.silent:
                continue
            if message.type is WSMsgType.PING:
                await link.socket.pong(message.data)
            elif message.type is WSMsgType.TEXT:
                self._acknowledge(message.data)

    def _acknowledge(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except ValueError:
            return
        waiting = self._acks.get(frame.get("envelope_id", "")) if isinstance(frame, dict) else None
        if waiting is not None and self.acks_to_lose > 0:
            self.acks_to_lose -= 1
            return
        if waiting is not None and not waiting.done():
            waiting.set_result(frame.get("payload"))

    async def deliver(self, payload: dict[str, Any], *, accepts_response: bool) -> Delivery:
        """Sends an interactive payload to any one link and waits for its acknowledgement, 3 s at most.

        One that is not acknowledged is sent again, marked as a retry, as often as this server redelivers.
        """
        envelope = {
            "envelope_id": str(uuid.uuid4()),
            "type": "interactive",
            "accepts_response_payload": accepts_response,
            "payload": payload,
        }
        delivery = await self.send(envelope)
        for attempt in range(1, self.redeliveries + 1):
            if delivery.acknowledged:
                break
            delivery = await self.send(envelope | {"retry_attempt": attempt, "retry_reason": "timeout"})
        if delivery.acknowledged and self.to_repeat > 0:
            self.to_repeat -= 1
            await self.send(envelope | {"retry_attempt": 1, "retry_reason": "timeout"})
        return delivery

    async def send(self, envelope: dict[str, Any]) -> Delivery:
        """Sends an envelope, perhaps not for the first time. Without an open link it is lost at once."""
        start = time.monotonic()
        acknowledged: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        name = envelope["envelope_id"]
        self._acks[name] = acknowledged
        try:
            if not self.open:
                return Delivery(envelope, False, 0.0)
            link = self._choose.choice(self.open)  # Slack promises no pattern either
            async with asyncio.timeout(ACK_SECONDS):
                if not link.silent:
                    await link.socket.send_json(envelope)
                response = await acknowledged
            return Delivery(envelope, True, time.monotonic() - start, response)
        except (TimeoutError, ConnectionError):
            return Delivery(envelope, False, time.monotonic() - start)
        finally:
            self._acks.pop(name, None)

    def _some(self, count: int | None) -> list[Link]:
        """All open links, or so many of them."""
        return list(self.open) if count is None else self._choose.sample(self.open, min(count, len(self.open)))

    async def disconnect(self, reason: str, count: int | None = None) -> None:
        """Tells links to leave (None: all). After anything but a `warning` one is closed if it stays."""
        await asyncio.gather(*(self._send_away(link, reason) for link in self._some(count)))

    async def _send_away(self, link: Link, reason: str) -> None:
        frame = {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-local"}}
        with contextlib.suppress(ConnectionError):
            await link.socket.send_json(frame)
        if reason == "warning":
            return
        if link in self.open:
            self.open.remove(link)
        self._changed()
        asyncio.get_running_loop().call_later(LEAVE_SECONDS, cut, link.transport)

    def drop(self, count: int | None = None) -> None:
        """Cuts links (None: all) as a failing network does."""
        for link in self._some(count):
            cut(link.transport)

    def silence(self, count: int | None = None) -> None:
        """Makes open links (None: all) half-open: they look alive and carry nothing. Links opened later work."""
        for link in self._some(count):
            link.silent = True
