"""A run told as it goes: JSON lines, whatever the speed of their reader.

The pieces of output, joined, are exactly the output in the last line. What comes after the first half of what may be
passed on is held back until the end: only then is it known which part is left out. So a run waits for no reader, and a
reader that stands still costs no more than the output it will get.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from slack_gate.core.request import Request
from slack_gate.core.run import LIVE, Ran

WAITING_S = 8.0  # between signs of life; readers are told to expect one every 10 s
_PIECE = 48 * 1024  # bytes of output in one line


def told(ran: Ran) -> dict[str, object]:
    """The answer. `lost`: it may have run, and nobody can say how that ended, whatever the executor calls it."""
    return ran.as_dict() if ran.result is None else {**ran.as_dict(), "lost": not ran.result.known}


class Stream:
    """What `Runs` reports, as lines to be taken by `next`. `where` names the places where a person is asked."""

    def __init__(self, where: Callable[[], Sequence[str]]) -> None:
        self._where = where
        self._news = asyncio.Event()
        self._before = b""  # lines that come before any output
        self._output = {"stdout": bytearray(), "stderr": bytearray()}  # not taken yet
        self._passed = dict.fromkeys(self._output, 0)
        self._end = b""

    def asked(self, request: Request) -> None:
        self._before += _line("asked", request=request.id, where=list(self._where()), expiresAt=request.expires_at)
        self._news.set()

    def started(self, request: Request) -> None:
        self._before += _line("started", request=request.id)
        self._news.set()

    def output(self, stream: str, data: bytes) -> None:
        self._add(stream, data[: LIVE - self._passed[stream]])

    def ended(self, ran: Ran) -> None:
        if ran.result is not None:
            for stream, whole in (("stdout", ran.result.stdout), ("stderr", ran.result.stderr)):
                self._add(stream, whole[self._passed[stream] :])
        self._end = _line("end", **told(ran))
        self._news.set()

    async def next(self) -> bytes:
        """The lines since the last call, or a sign of life after `WAITING_S`."""
        try:
            async with asyncio.timeout(WAITING_S):
                await self._news.wait()
        except TimeoutError:
            return _line("waiting")
        self._news.clear()
        lines = b"".join([self._before, *self._pieces(), self._end])
        self._before = self._end = b""
        for held in self._output.values():
            held.clear()
        return lines

    def _add(self, stream: str, data: bytes) -> None:
        if data:
            self._output[stream] += data
            self._passed[stream] += len(data)
            self._news.set()

    def _pieces(self) -> Iterator[bytes]:
        for stream, held in self._output.items():
            for start in range(0, len(held), _PIECE):
                data = base64.b64encode(held[start : start + _PIECE]).decode()
                yield _line("output", stream=stream, data=data)


def _line(event: str, **fields: Any) -> bytes:
    return json.dumps({"event": event, **fields}).encode() + b"\n"
