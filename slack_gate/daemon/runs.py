"""Requests that the gate carries out itself: asked like any other, claimed before they start, never started again.

The true text of a command is kept here, in memory, until it is claimed: on disk it is masked as soon as its request has
ended. After a restart an approval that was not claimed is therefore asked again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.event import ToolEvent
from slack_gate.core.ports import Clock, Executor, Store
from slack_gate.core.request import Request, State
from slack_gate.core.run import MAX_TIMEOUT_S, Ran, Result, printable, unknown
from slack_gate.core.secrets import mask
from slack_gate.daemon.apart import in_thread
from slack_gate.daemon.gate import Caller, Gate
from slack_gate.errors import GateError

STOP_S = 5.0  # how long a stopping daemon waits for what it ends to have ended

log = structlog.get_logger()

_ONCE = (
    "This was run before, or it was approved before slack-gate was started again; an approval counts once. Ask anew."
)


class Watch(Protocol):
    """Whoever asked, while it waits."""

    def asked(self, request: Request) -> None:
        """A person is being asked."""
        ...

    def output(self, stream: str, data: bytes) -> None:
        """A piece of `stdout` or `stderr`."""
        ...


class Unwatched:
    """For callers that only want the end."""

    def asked(self, request: Request) -> None:
        """Nothing to tell."""

    def output(self, stream: str, data: bytes) -> None:
        """Nothing to tell."""


@dataclass(slots=True, eq=False)
class _Running:
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Ran] | None = None


class Runs:
    """`executors` by name. One run at a time for each request; any number of requests at once."""

    def __init__(self, gate: Gate, store: Store, executors: Mapping[str, Executor], clock: Clock) -> None:
        self._gate = gate
        self._store = store
        self._executors = executors
        self._clock = clock
        self._running: set[_Running] = set()

    async def resume(self, home: str) -> None:
        """At the start: what ran when the daemon died is lost, and people are told."""
        self._gate.ended(await self._store.lost(home, self._clock()))

    async def close(self) -> None:
        """Ends what runs; what cannot be ended in time is lost."""
        for running in self._running:
            running.stop.set()
        tasks = [running.task for running in self._running if running.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def ask(self, event: ToolEvent, caller: Caller, watch: Watch) -> Ran:
        """Asks if need be, runs, and tells the end. Cancelled: the caller is gone, what waits or runs is ended.

        Raises StoreError: then nothing was started, or its end could not be recorded.
        """
        filed = await self._gate.submit(event, caller)
        if isinstance(filed, Answer):
            return Ran("gate", message=filed.reason)
        if filed.state is State.RUNNING:
            return await self._watched(filed, event, filed.nonce, watch)
        if filed.state is State.PENDING:
            watch.asked(filed)
        answer = await self._answer(filed, event)
        if answer.ruling is not Ruling.ALLOW:
            row = await self._store.request(filed.id)
            return Ran((row or filed).via or "gate", filed.id, message=answer.reason)
        return await self.approved(filed.id, event, watch)

    async def approved(self, request: str, event: ToolEvent, watch: Watch) -> Ran:
        """Runs what a person approved, once; `event` holds its true text."""
        run = new_run()
        claimed = await self._store.claimed(request, run, event.executor or "", self._clock())
        if claimed is None:
            return Ran("gate", request, message=_ONCE)
        self._gate.ended([claimed])
        return await self._watched(claimed, event, run, watch)

    async def handed_over(self, request: str, watch: Watch) -> Ran:
        """What a hook's agent was told to fetch: the approved command, once."""
        event = self._gate.held(request)
        if event is None:
            return Ran("gate", request, message=_ONCE)
        return await self.approved(request, event, watch)

    async def _answer(self, request: Request, event: ToolEvent) -> Answer:
        try:
            return await self._gate.wait(request.id, event)
        except asyncio.CancelledError:
            await asyncio.shield(self._gate.cancel(request.id))
            raise

    async def _watched(self, request: Request, event: ToolEvent, run: str, watch: Watch) -> Ran:
        """The run is a task of its own: its end is recorded also when nobody waits for it any more."""
        running = _Running()
        running.task = asyncio.create_task(self._carried_out(request, event, run, running.stop, watch))
        self._running.add(running)
        running.task.add_done_callback(lambda _: self._running.discard(running))
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            running.stop.set()
            raise

    async def _carried_out(
        self, request: Request, event: ToolEvent, run: str, stop: asyncio.Event, watch: Watch
    ) -> Ran:
        executor = self._executors[event.executor or ""]
        timeout = min(float(event.tool_input.get("timeoutSeconds") or 30), MAX_TIMEOUT_S)
        try:
            result = await executor.run(event.command or "", event.cwd, timeout, stop, watch.output)
        except asyncio.CancelledError:
            with suppress(GateError):
                await asyncio.shield(self._finished(run, unknown("slack-gate stopped while it ran;")))
            raise
        except Exception as error:  # a fault of ours, after the claim: nobody can say what happened
            log.exception("an executor failed", request=request.id)
            result = unknown(f"slack-gate failed ({type(error).__name__});")
        await self._finished(run, result)
        return Ran(request.via, request.id, result)

    async def _finished(self, run: str, result: Result) -> None:
        shown = await in_thread(lambda: (mask(printable(result.stdout)), mask(printable(result.stderr))))
        ended = await self._store.finished(run, result, *shown, self._clock())
        self._gate.ended([ended] if ended else [])


def new_run() -> str:
    return f"run-{secrets.token_hex(8)}"
