"""Requests that the gate carries out itself: asked like any other, claimed before they start, never started again.

The true text of a command is kept here, in memory, until it is claimed: on disk it is masked as soon as its request has
ended. After a restart an approval that was not claimed is therefore asked again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import structlog

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.event import MalformedEvent, ToolEvent
from slack_gate.core.ports import Clock, Event, Executor, Store
from slack_gate.core.request import Request, State
from slack_gate.core.run import MAX_TIMEOUT_S, STOPPED, Ran, Result, not_started, printable, unknown
from slack_gate.core.secrets import mask
from slack_gate.daemon.apart import apart
from slack_gate.daemon.gate import Gate
from slack_gate.daemon.house import Caller
from slack_gate.errors import GateError, LogError

STOP_S = 5.0  # how long a daemon that stops, or a caller that goes, waits for what it ends to have ended

log = structlog.get_logger()

_ONCE = (
    "This was run before, or it was approved before slack-gate was started again; an approval counts once. Ask anew."
)
_ANEW = "Tell the person who runs slack-gate; ask anew once that is mended."
_UNMASKED = "[not kept: it could not be masked in time]"


class Place(Protocol):
    """Where one command can start at once, and has not (`executors/cage.py`, `Built`). Used once: `run` or `drop`."""

    async def run(self, timeout: float, stop: Event, output: Callable[[str, bytes], None]) -> Result:
        """As `Executor.run`."""
        ...

    def drop(self) -> None: ...


class Watch(Protocol):
    """Whoever asked, while it waits."""

    def asked(self, request: Request) -> None:
        """A person is being asked."""
        ...

    def started(self, request: Request) -> None:
        """It is about to run."""
        ...

    def output(self, stream: str, data: bytes) -> None:
        """A piece of `stdout` or `stderr`."""
        ...


class Unwatched:
    """For callers that only want the end."""

    def asked(self, request: Request) -> None:
        """Nothing to tell."""

    def started(self, request: Request) -> None:
        """Nothing to tell."""

    def output(self, stream: str, data: bytes) -> None:
        """Nothing to tell."""


@dataclass(slots=True, eq=False)
class _Running:
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Ran] | None = None


class Runs:
    """`executors` by name. One run at a time for each request; any number of requests at once.

    `ahead` makes the place for a call that will likely run unasked, so that it is there when that is on file.
    """

    def __init__(
        self,
        gate: Gate,
        store: Store,
        executors: Mapping[str, Executor],
        clock: Clock,
        ahead: Callable[[ToolEvent], Place | None] = lambda event: None,
    ) -> None:
        self._gate = gate
        self._store = store
        self._executors = executors
        self._clock = clock
        self._ahead = ahead
        self._running: set[_Running] = set()
        self._unfiled: dict[tuple[str, str], Result] = {}  # by request and run: how it ended, which is not on file yet

    async def resume(self, home: str) -> None:
        """At the start: what ran when the daemon died is lost, what was about to is not run, and people are told."""
        self._gate.ended(await self._store.lost(home, self._clock()))

    async def file(self) -> None:
        """Ends that are not on file yet. Raises StoreError."""
        for (request, run), result in list(self._unfiled.items()):
            with suppress(LogError):  # it is in the database, and its line waits with those that the file lacks
                if result.started:
                    await self._finished(run, result)
                else:
                    ended = await self._store.not_run(request, run, result, self._clock())
                    self._gate.ended([ended] if ended else [])
            del self._unfiled[request, run]

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

        Raises StoreError: then nothing was started.
        """
        return await self._watched(lambda stop: self._asked(event, caller, stop, watch))

    async def approved(self, request: str, event: ToolEvent, watch: Watch) -> Ran:
        """Runs what a person approved, once; `event` holds its true text. Cancelled and raises as `ask`."""
        return await self._watched(lambda stop: self._claimed(request, event, stop, watch))

    async def handed_over(self, request: str, watch: Watch) -> Ran:
        """What a hook's agent was told to fetch: the approved command, once."""
        event = self._gate.fetched(request)
        if event is None:
            return Ran("gate", request, message=_ONCE)
        return await self.approved(request, event, watch)

    async def _watched(self, work: Callable[[asyncio.Event], Coroutine[Any, Any, Ran]]) -> Ran:
        """`work` is a task of its own: each of its steps is ended and recorded also when nobody waits any more."""
        running = _Running()
        running.task = asyncio.create_task(work(running.stop))
        self._running.add(running)
        running.task.add_done_callback(lambda task: self._over(running, task))
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            running.stop.set()
            await asyncio.wait({running.task}, timeout=STOP_S)
            raise

    def _over(self, running: _Running, task: asyncio.Task[Ran]) -> None:
        self._running.discard(running)
        if running.stop.is_set() and not task.cancelled() and (error := task.exception()) is not None:
            log.error("a run that nobody waits for failed", error=str(error))

    async def _asked(self, event: ToolEvent, caller: Caller, stop: asyncio.Event, watch: Watch) -> Ran:
        event = self._gate.placed(event)
        place = self._ahead(event)
        try:
            try:
                filed = await self._gate.submit(event, caller)
            except GateError as error:
                self._not_run("", _unstarted(error), caller.nonce)  # as one that needs no asking it may be on file
                raise
            if isinstance(filed, Request) and filed.state is State.RUNNING:
                used, place = place, None
                return await self._carried_out(filed, event, filed.nonce, stop, watch, used)
        finally:
            if place is not None:
                place.drop()
        if isinstance(filed, Answer):
            return Ran("gate", message=filed.reason)
        if filed.state is State.PENDING:
            watch.asked(filed)
        try:
            answer = await self._answer(filed, event, stop)
        except GateError as error:
            self._not_run(filed.id, _unstarted(error))
            raise
        if answer.ruling is not Ruling.ALLOW:
            row = await self._store.request(filed.id)
            if row is not None and row.state is State.APPROVED:
                self._not_run(filed.id, answer.reason)
            return Ran((row or filed).via or "gate", filed.id, message=answer.reason)
        if answer.command is not None:  # the approver changed it
            event = replace(event, tool_input={**event.tool_input, "command": answer.command})
        ran = await self._claimed(filed.id, event, stop, watch)
        return ran if ran.result is None else replace(ran, message=answer.advice)

    async def _answer(self, request: Request, event: ToolEvent, stop: asyncio.Event) -> Answer:
        """The gate's answer; the request is withdrawn when `stop` comes first."""
        answer = asyncio.create_task(self._gate.wait(request.id, event))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({answer, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                await self._gate.cancel(request.id)
            return await answer
        finally:
            answer.cancel()
            stopped.cancel()
            await asyncio.gather(answer, stopped, return_exceptions=True)

    async def _claimed(self, request: str, event: ToolEvent, stop: asyncio.Event, watch: Watch) -> Ran:
        if stop.is_set():
            self._not_run(request, why := "Whoever asked is gone, so it did not run.")
            return Ran("gate", request, message=why)
        run = new_run()
        try:
            claimed = await self._store.claimed(request, run, event.executor or "", self._clock())
        except GateError as error:
            log.error("an approved run was not started", request=request, error=str(error))
            self._not_run(request, why := _unstarted(error), run)
            return Ran("gate", request, message=f"It was approved, and it did not run. {why} {_ANEW}")
        if claimed is None:
            return Ran("gate", request, message=_ONCE)
        self._gate.ended([claimed])
        return await self._carried_out(claimed, event, run, stop, watch)

    def _not_run(self, request: str, why: str, run: str = "") -> None:
        """What was approved, or whose start may be on file, is not run: so it will stand on file."""
        self._unfiled[request, run] = not_started(why)

    async def _carried_out(
        self,
        request: Request,
        event: ToolEvent,
        run: str,
        stop: asyncio.Event,
        watch: Watch,
        place: Place | None = None,
    ) -> Ran:
        executor = self._executors[event.executor or ""]
        watch.started(request)
        timeout = min(float(event.tool_input.get("timeoutSeconds") or 30), MAX_TIMEOUT_S)
        try:
            if place is not None:
                result = await place.run(timeout, stop, watch.output)
            elif stop.is_set():
                result = not_started("Whoever asked is gone. It did not run.", STOPPED)
            else:
                result = await executor.run(event.command or "", event.cwd, timeout, stop, watch.output)
        except asyncio.CancelledError:
            with suppress(GateError):
                await asyncio.shield(self._finished(run, unknown("slack-gate stopped while it ran;")))
            raise
        except Exception as error:  # a fault of ours, after the claim: nobody can say what happened
            log.exception("an executor failed", request=request.id)
            result = unknown(f"slack-gate failed ({type(error).__name__});")
        try:
            await self._finished(run, result)
        except GateError as error:  # it ran, and no record says how it ended
            log.error("the end of a run could not be recorded", request=request.id, error=str(error))
            result = self._unfiled[request.id, run] = unknown(f"It ran, and its end could not be recorded. {error}")
        return Ran(request.via, request.id, result)

    async def _finished(self, run: str, result: Result) -> None:
        size = len(result.stdout) + len(result.stderr)
        try:
            shown = await apart(lambda: (mask(printable(result.stdout)), mask(printable(result.stderr))), size)
        except MalformedEvent:  # it ran all the same, and that is on file before anybody is told
            shown = _UNMASKED, _UNMASKED
        ended = await self._store.finished(run, result, *shown, self._clock())
        self._gate.ended([ended] if ended else [])


def _unstarted(error: GateError) -> str:
    return f"Its start could not be recorded. {error}"


def new_run() -> str:
    return f"run-{secrets.token_hex(8)}"
