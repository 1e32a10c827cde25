"""A desk whose gate carries commands out itself: in the real cage, and by an executor that ends when the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.event import RUNS, ToolEvent
from slack_gate.core.ports import Event
from slack_gate.core.request import Request, State
from slack_gate.core.run import Ran, Result
from slack_gate.daemon.house import Caller
from slack_gate.daemon.runs import Runs
from slack_gate.executors.cage import Cage
from tests.daemon.desk import Desk, desk

SBOX = Path(__file__).parents[2] / "cage" / "sbox"


@dataclass
class Watching:
    """What whoever asked was told."""

    requests: asyncio.Queue[Request] = field(default_factory=asyncio.Queue)
    pieces: list[tuple[str, bytes]] = field(default_factory=list)
    written: asyncio.Event = field(default_factory=asyncio.Event)

    def asked(self, request: Request) -> None:
        self.requests.put_nowait(request)

    def started(self, request: Request) -> None:
        """Nothing to note: the pieces come after it."""

    def output(self, stream: str, data: bytes) -> None:
        self.pieces.append((stream, data))
        self.written.set()


@dataclass
class Held:
    """An executor whose runs end when the test says so."""

    name: str = "sandboxer"
    started: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    ends: asyncio.Queue[Result | BaseException] = field(default_factory=asyncio.Queue)

    async def run(
        self, command: str, cwd: str, timeout: float, stop: Event, output: Callable[[str, bytes], None]
    ) -> Result:
        self.started.put_nowait(command)
        end = await self.ends.get()
        if isinstance(end, BaseException):
            raise end
        return end


@dataclass
class Place:
    d: Desk
    runs: Runs
    held: Held
    zone: Path
    watch: Watching = field(default_factory=Watching)

    def event(self, command: str, executor: str = "cage", **fields: Any) -> ToolEvent:
        tool_input = {"command": command, "reason": "because", "timeoutSeconds": 30, **fields}
        return ToolEvent("agent", "/run", None, RUNS[executor], tool_input, str(self.zone))

    async def ask(self, command: str, executor: str = "cage", limit: float = 330.0, **fields: Any) -> Ran:
        self.d.calls += 1
        caller = Caller(f"{self.d.calls:032x}", limit)
        return await self.runs.ask(self.event(command, executor, **fields), caller, self.watch)

    async def asking(self, command: str, executor: str = "cage", **fields: Any) -> tuple[asyncio.Task[Ran], Request]:
        task = asyncio.create_task(self.ask(command, executor, **fields))
        async with asyncio.timeout(100):
            return task, await self.watch.requests.get()

    async def state(self, request: str | None) -> State:
        row = await self.d.store.request(request or "")
        assert row is not None
        return row.state


@asynccontextmanager
async def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **house: Any) -> AsyncIterator[Place]:
    home = tmp_path / "home"
    zone = home / "projects" / "app"
    zone.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    async with desk(tmp_path, **{"executors": ("cage", "sandboxer"), **house}) as d:
        held = Held()
        runs = Runs(d.gate, d.store, {"cage": Cage(str(SBOX)), "sandboxer": held}, d.clock)
        yield Place(d, runs, held, zone)
        await runs.close()
