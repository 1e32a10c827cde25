"""A daemon on the local Slack, and programs that ask it over its Unix socket for agents."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from slack_gate.config import Settings
from tests.daemon.serving import environment

ROOT = Path(__file__).parents[2]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Ran:
    """How a program ended; output as bytes."""

    code: int
    stdout: bytes
    stderr: bytes


async def program(
    settings: Settings, *arguments: str, cwd: Path | None = None, **streams: Any
) -> asyncio.subprocess.Process:
    """`slack-gate ARGUMENTS` where that daemon is."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slack_gate", *arguments),
        env={**environment(settings), "PYTHONPATH": str(ROOT)},
        cwd=cwd or settings.home.parent,
        **{
            "stdin": asyncio.subprocess.DEVNULL,
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.PIPE,
            **streams,
        },
    )


async def ended(process: asyncio.subprocess.Process, timeout: float = 100) -> Ran:
    async with asyncio.timeout(timeout):
        stdout, stderr = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in (stderr or b""), stderr
    return Ran(process.returncode, stdout or b"", stderr or b"")


@asynccontextmanager
async def double(settings: Settings, **routes: Handler) -> AsyncIterator[None]:
    """Something in the daemon's place: `run=` answers POST /run, `ask=` POST /ask, `state=` GET /requests/ID."""
    path = settings.socket_path.with_name("agent.sock")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    app = web.Application()
    places = {"run": ("POST", "/run"), "ask": ("POST", "/ask"), "state": ("GET", "/requests/{id}")}
    for name, handler in routes.items():
        app.router.add_route(*places[name], handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(path)).start()
        yield
    finally:
        await runner.cleanup()


@contextmanager
def environ(**values: str) -> Any:
    """os.environ with these for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
