"""A gate on a real store with a clock of its own, without a surface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cage import cage_policy
from slack_gate.core.answer import Answer
from slack_gate.core.event import ToolEvent
from slack_gate.core.ports import Click
from slack_gate.core.request import Choice, Decision, Request, State
from slack_gate.daemon.gate import Gate
from slack_gate.daemon.house import Caller, House
from slack_gate.daemon.judge import Judge
from slack_gate.daemon.own_files import OwnFiles, guarded_places
from slack_gate.daemon.policy_file import PolicyFile
from slack_gate.daemon.programs import Programs
from slack_gate.daemon.released import Released
from slack_gate.store.store import Store
from slack_gate.store.wakeups import Wakeups

SECOND = Caller("b" * 32, 330.0)


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Desk:
    """A gate, its clock and what is on file."""

    gate: Gate
    store: Store
    place: Path
    clock: Clock
    calls: int = 0
    waits: list[asyncio.Task[Answer]] = field(default_factory=list)

    def event(self, command: str = "git push origin main", cwd: str = "/srv/app", **changes: Any) -> ToolEvent:
        self.calls += 1
        values: dict[str, Any] = {"tool": "Bash", "tool_input": {"command": command}, "call": f"toolu_{self.calls}"}
        return ToolEvent(**{"agent": "claude-code", "session": "s1", "cwd": cwd, **values, **changes})

    async def asked(self, event: ToolEvent | None = None, nonce: str | None = None, limit: float = 330.0) -> Request:
        """A request that somebody waits for."""
        event = event or self.event()
        request = await self.gate.submit(event, Caller(nonce or f"{self.calls:032x}", limit))
        assert isinstance(request, Request), request
        self.waits.append(asyncio.create_task(self.gate.wait(request.id, event)))
        await asyncio.sleep(0)
        await self.store.request(request.id)  # done after the look that the wait begins with
        return request

    async def answer(self) -> Answer:
        async with asyncio.timeout(100):
            return await self.waits.pop(0)

    async def click(self, asked: Request, choice: Choice = Choice.APPROVE, **changes: Any) -> Click:
        values: dict[str, Any] = {"request": asked.id, "digest": asked.digest, "choice": choice}
        values |= {"by": "human-slack", "user": "U0ANA", "name": "Ana", "team": "T1", "channel": "D1", "message": "1.1"}
        return await self.gate.decide(Decision(**{**values, **changes}))

    async def state(self, request: Request) -> State:
        row = await self.store.request(request.id)
        assert row is not None
        return row.state

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.place / "gate-log.jsonl").read_text().splitlines()]

    def decisions(self) -> list[str]:
        return [line["decision"] for line in self.log()]


@asynccontextmanager
async def desk(
    place: Path,
    changed: Callable[[], None] = lambda: None,
    sbox: str = "/usr/bin/sbox",
    cages: bool = False,
    cage_first: bool = False,
    executors: Sequence[str] = (),
    launcher: Sequence[str] = (),
    approvers: Sequence[str] = ("U0ANA",),
    **house_changes: Any,
) -> AsyncIterator[Desk]:
    clock = Clock()
    async with Store(f"sqlite:///{place / 'gate.db'}", place / "gate-log.jsonl", clock) as store:
        house = House("box:/run/gate.sock", "box", approvers, "T1", "slack", 300.0, **house_changes)
        own = OwnFiles([place / "own"], guarded_places(place))
        programs = {name: f"/usr/bin/{name}" for name in ("git", "python3")} | {"sbox": sbox}
        words_of = Programs(programs, place, "/usr/bin:/bin").words_of
        released = Released(programs, words_of, house.hook_executor, launcher, cages)
        policy = PolicyFile(place / "policy.toml")
        judge = Judge(cage_policy, own, policy, released, executors, cages, cage_first)
        gate = Gate(store, Wakeups(), judge, released, house, clock, _unshowable, changed)
        found = Desk(gate, store, place, clock)
        try:
            yield found
        finally:
            for wait in found.waits:
                wait.cancel()
            await asyncio.gather(*found.waits, return_exceptions=True)


def _unshowable(request: Request) -> str | None:
    return "too long" if request.command and len(request.command) > 500 else None
