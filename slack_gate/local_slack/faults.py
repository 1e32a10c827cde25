"""Trouble on order: the next calls of a method fail the way a test asked for."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import defaultdict, deque
from dataclasses import dataclass

from aiohttp import web


@dataclass(frozen=True)
class Fault:
    """What goes wrong in one call.

    `delay` (seconds) comes first; `error` answers Slack's error without performing the call; `http_status` answers an
    HTML page with it (429 with `retry_after`, in seconds), `performed` tells whether the call was carried out all the
    same; the resets cut the connection before or after the call was performed.
    """

    error: str | None = None
    http_status: int | None = None
    retry_after: float = 1
    reset_before: bool = False
    reset_after: bool = False
    delay: float = 0.0
    performed: bool = False

    @property
    def name(self) -> str:
        """What the record of calls says instead of an error."""
        return self.error or (f"http_{self.http_status}" if self.http_status else "reset")

    async def before(self, request: web.Request) -> web.Response | None:
        """The answer instead of the call, or None to perform it."""
        await asyncio.sleep(self.delay)
        if self.reset_before:
            return reset(request)
        if self.error is not None:
            return web.json_response({"ok": False, "error": self.error})
        if self.http_status == 429:
            headers = {"Retry-After": str(self.retry_after)}
            return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)
        if self.http_status is not None:
            return web.Response(status=self.http_status, text="<html>Server Error</html>", content_type="text/html")
        return None


class Faults:
    """The faults still to come, a queue a method."""

    def __init__(self) -> None:
        self._queues: defaultdict[str, deque[Fault]] = defaultdict(deque)

    def add(self, method: str, fault: Fault, times: int) -> None:
        self._queues[method].extend([fault] * times)

    def clear(self) -> None:
        """No fault is still to come."""
        self._queues.clear()

    def take(self, method: str) -> Fault:
        queue = self._queues[method]
        return queue.popleft() if queue else Fault()


def cut(transport: asyncio.Transport | None) -> None:
    """Ends a connection with a TCP reset, as a failing network would."""
    if transport is None or transport.is_closing():
        return
    raw: socket.socket | None = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def reset(request: web.Request) -> web.Response:
    cut(request.transport)
    return web.Response()
