"""`slack-gate serve` as a process of its own on the local Slack, and raw connections to its socket."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slack_gate.config import Settings

MEASURED = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}


def environment(settings: Settings, **more: str) -> dict[str, str]:
    """The settings as a daemon's environment."""
    return {
        **MEASURED,
        "PATH": "/usr/bin:/bin",
        "HOME": str(settings.home.parent),
        "SLACK_BOT_TOKEN": settings.slack_bot_token.get_secret_value(),
        "SLACK_APP_TOKEN": settings.slack_app_token.get_secret_value(),
        "SLACK_API_URL": settings.slack_api_url,
        "SLACK_GATE_APPROVERS": ",".join(settings.approvers),
        "SLACK_GATE_HOME": str(settings.home),
        "SLACK_GATE_SOCKET": str(settings.socket_path),
        "SLACK_GATE_WAIT": str(settings.wait),
        "SLACK_GATE_AGENT_PORT": str(settings.agent_port),
        "SLACK_GATE_PAGE_PORT": str(settings.page_port),
        **({"SLACK_GATE_DATABASE_URL": settings.database_url} if settings.database_url else {}),
        **more,
    }


async def spawn(
    settings: Settings, *arguments: str, stderr: int = asyncio.subprocess.PIPE, **more: str
) -> asyncio.subprocess.Process:
    """`slack-gate ARGUMENTS` with the settings in its environment."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from slack_gate.cli import main; main()", *arguments),
        env=environment(settings, **more),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
    )


@asynccontextmanager
async def serving(
    settings: Settings, stderr: int = asyncio.subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A daemon that has told that it is ready; at the end it stops in good order, if it still runs."""
    address = f"\0slack-gate-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(address)
        notify.setblocking(False)
        daemon = await spawn(settings, "serve", stderr=stderr, NOTIFY_SOCKET="@" + address[1:])
        try:
            told = asyncio.create_task(asyncio.get_running_loop().sock_recv(notify, 100))
            ended = asyncio.create_task(daemon.wait())
            await asyncio.wait({told, ended}, timeout=100, return_when=asyncio.FIRST_COMPLETED)
            assert told.done(), f"the daemon did not start: {daemon.returncode}"
            assert told.result() == b"READY=1"
            yield daemon
            if daemon.returncode is None:
                daemon.terminate()
                async with asyncio.timeout(100):
                    _, error = await daemon.communicate()
                assert (daemon.returncode, b"Traceback" in (error or b"")) == (0, False), error
        finally:
            if daemon.returncode is None:
                daemon.kill()
                await daemon.communicate()


@dataclass
class Wire:
    """A connection to the hook socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, path: Path) -> Wire:
        return cls(*await asyncio.open_unix_connection(os.fspath(path), limit=1 << 24))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(
        self, event: dict[str, Any] | bytes, agent: str = "claude-code", limit: int = 330, search_path: str = ""
    ) -> None:
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        told = search_path.encode().hex() or "-"
        await self.send(f"slack-gate/1 {agent} {len(body)} {nonce().decode()} {limit} - {told}\n".encode() + body)

    async def answer(self, timeout: float = 100) -> tuple[int, bytes]:
        """Code and bytes; the daemon closes after them."""
        async with asyncio.timeout(timeout):
            code, length = (await self.reader.readuntil(b"\n")).split()
            body = await self.reader.read()
        assert len(body) == int(length)
        return int(code), body

    async def decision(self, timeout: float = 100) -> str:
        code, body = await self.answer(timeout)
        assert code == 0
        return str(json.loads(body)["hookSpecificOutput"]["permissionDecision"])

    async def hung_up(self, timeout: float = 25) -> bool:
        """Whether the daemon closes without a byte of an answer."""
        async with asyncio.timeout(timeout):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    def close(self) -> None:
        self.writer.close()


def nonce() -> bytes:
    return secrets.token_hex(16).encode()
