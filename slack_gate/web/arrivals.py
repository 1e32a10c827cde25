"""A line of standard output for each request that begins to wait on the page: what is asked, and its id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

from slack_gate.core.request import Request
from slack_gate.core.wording import arrival
from slack_gate.daemon.changes import Changes
from slack_gate.errors import GateError
from slack_gate.keyboard import write

log = structlog.get_logger()


class Requests(Protocol):
    """The store, as these lines need it."""

    async def pending(self, home: str) -> Sequence[Request]: ...


@asynccontextmanager
async def arrivals(requests: Requests, home: str, changes: Changes, stdout: int = 1) -> AsyncIterator[None]:
    """Writes them meanwhile, without holding up anything where nobody reads."""
    task = asyncio.create_task(_told(requests, home, changes, stdout))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _told(requests: Requests, home: str, changes: Changes, stdout: int) -> None:
    seen: set[str] = set()
    async for _ in changes.each():
        try:
            found = sorted(await requests.pending(home), key=lambda one: one.created_at)
        except GateError as error:  # until the database is back nothing new waits either
            log.warning("what waits could not be read", error=str(error))
            continue
        lines = "".join(f"{arrival(one)}\n" for one in found if one.id not in seen)
        seen = {one.id for one in found}
        try:
            await write(stdout, lines)
        except OSError as error:
            log.warning("nobody reads what waits any more", error=error.strerror)
            return
