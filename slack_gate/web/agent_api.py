"""`/run`: a program asks for a command, the gate asks a person if need be, runs it and answers.

On 127.0.0.1 for any program of the daemon's own user, and on a Unix socket for `slack-gate run`, the Python client and
the MCP server, which may also say who asks and how long they wait (docs/agent-endpoint.md).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import structlog
from aiohttp import web

from slack_gate.core.answer import Answer
from slack_gate.core.event import APPROVAL, RUNS, MalformedEvent, ToolEvent
from slack_gate.core.request import Request, State
from slack_gate.core.run import Ran, unknown
from slack_gate.daemon.apart import apart
from slack_gate.daemon.gate import Gate
from slack_gate.daemon.house import Caller
from slack_gate.daemon.private_socket import peer_uid, private_listener
from slack_gate.daemon.runs import Runs, Unwatched, Watch
from slack_gate.errors import GateError
from slack_gate.web.body import MAX_BODY, Asked, Bad, read_asked, read_question
from slack_gate.web.peer import tcp_peer_uid
from slack_gate.web.server import BODY_S, Handler, is_foreign, on_loopback, opened
from slack_gate.web.stream import Stream, told

AGENT = "agent"  # the name of a caller that gives none
NDJSON = "application/x-ndjson"
MARGIN_S = 30.0  # a caller that says nothing waits at least this long after the request is over
WRITE_S = 60.0  # for a reader that does not take its lines, once the run has ended

log = structlog.get_logger()


class Requests(Protocol):
    """The store, as this door needs it."""

    async def request(self, request: str) -> Request | None: ...


def agent_socket(hook_socket: Path) -> Path:
    """Where our own programs ask: beside the hook socket."""
    return hook_socket.with_name("agent.sock")


@dataclass(frozen=True, slots=True)
class AgentApi:
    """What both listeners share. `where` names the places where a person is asked, `wait` the settings', in seconds."""

    gate: Gate
    runs: Runs
    requests: Requests
    executor: str
    wait: float
    where: Callable[[], Sequence[str]]
    # A caller has none of its own. What a person allows "for this session" ends with the daemon, not never.
    session: str = field(default_factory=lambda: f"/run {secrets.token_hex(3)}")

    @asynccontextmanager
    async def on_port(self, port: int) -> AsyncIterator[None]:
        """For programs of this user. Raises SocketError when the port is taken."""
        listener = on_loopback(port, "the agent endpoint", "SLACK_GATE_AGENT_PORT")
        bound = listener.getsockname()[1]
        async with opened(self._application(lambda request: _not_welcome(request, bound), False), listener):
            yield

    @asynccontextmanager
    async def on_socket(self, path: Path) -> AsyncIterator[None]:
        """For our own programs. Raises SocketError when the socket cannot be made."""
        with private_listener(path) as listener:
            async with opened(self._application(_not_ours, True), listener):
                yield

    def _application(self, refusal: Callable[[web.Request], str | None], ours: bool) -> web.Application:
        app = web.Application(middlewares=[_guarded(refusal), self._answered], client_max_size=MAX_BODY)

        async def run(request: web.Request) -> web.StreamResponse:
            return await self._run(request, ours)

        app.router.add_post("/run", run)
        if ours:
            app.router.add_post("/ask", self._ask)
            app.router.add_get("/requests/{id}", self._state, allow_head=False)
        return app

    @web.middleware
    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What cannot be taken is logged, and told as JSON."""
        try:
            return await handler(request)
        except Bad as bad:
            return _refused(bad.status, await self._malformed(str(bad)), "BAD_REQUEST")

    async def _malformed(self, sentence: str) -> str:
        """Logs it; what the caller is told."""
        try:
            await self.gate.malformed(AGENT, sentence)
        except GateError as error:
            return f"{sentence} Nothing ran. {error}"
        return f"{sentence} Nothing ran."

    async def _run(self, request: web.Request, ours: bool) -> web.StreamResponse:
        data = await _body(request)
        asked = await apart(lambda: read_asked(data, ours), len(data))
        if NDJSON in request.headers.get("Accept", ""):
            return await self._streamed(request, asked, len(data))
        ran = await self._ran(asked, Unwatched(), len(data))
        return web.json_response(told(ran))

    async def _ran(self, asked: Asked, watch: Watch, size: int) -> Ran:
        try:
            if asked.approved is not None:
                return await self.runs.handed_over(asked.approved, watch)
            reason = {"reason": asked.reason} if asked.reason else {}
            fields = {"command": asked.command, **reason, "timeoutSeconds": asked.timeout}
            event = ToolEvent(asked.agent or AGENT, self.session, None, RUNS[self.executor], fields, asked.cwd)
            return await self.runs.ask(event, self._caller(asked.wait, size), watch)
        except MalformedEvent as error:
            return Ran("gate", message=await self._malformed(str(error)))
        except GateError as error:  # before anything was started: see Runs.ask
            return _unrecorded(error)
        except Exception as error:  # a fault of ours: nobody can say what happened
            log.exception("a run failed")
            return Ran("gate", result=unknown(f"slack-gate failed ({type(error).__name__});"))

    def _caller(self, wait: float | None, size: int) -> Caller:
        return Caller(secrets.token_hex(16), self.wait + MARGIN_S if wait is None else wait, size)

    async def _streamed(self, request: web.Request, asked: Asked, size: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": NDJSON, "Cache-Control": "no-store"})
        await response.prepare(request)
        stream = Stream(self.where)
        run = asyncio.create_task(self._told(asked, stream, size))
        try:
            while True:
                lines = await stream.next()
                over = run.done()
                async with asyncio.timeout(WRITE_S if over else None):
                    await response.write(lines)
                if over:
                    break
            await response.write_eof()
        except (ConnectionError, TimeoutError):
            log.info("a reader of a run is gone")
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        return response

    async def _told(self, asked: Asked, stream: Stream, size: int) -> None:
        stream.ended(await self._ran(asked, stream, size))

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        data = await _body(request)
        question = await apart(lambda: read_question(data), len(data))
        fields = {"text": question.text, "reason": question.reason}
        event = ToolEvent(question.agent or AGENT, "/ask", None, APPROVAL, fields, "/")
        try:
            filed = await self.gate.submit(event, self._caller(None, len(data)))
        except MalformedEvent as error:
            return web.json_response(Ran("gate", message=await self._malformed(str(error))).as_dict())
        except GateError as error:
            return web.json_response(_unrecorded(error).as_dict())
        if isinstance(filed, Answer):
            return web.json_response(Ran("gate", message=filed.reason).as_dict())
        return web.json_response({"request": filed.id, "state": filed.state.value, "expiresAt": filed.expires_at})

    async def _state(self, request: web.Request) -> web.StreamResponse:
        row = await self.requests.request(request.match_info["id"])
        if row is None:
            return _refused(404, "There is no such request.", "NOT_FOUND")
        approved = row.state in (State.APPROVED, State.RUNNING, State.FINISHED, State.LOST)
        decision = None if row.state is State.PENDING else State.APPROVED.value if approved else row.state.value
        told = {"request": row.id, "state": row.state.value, "decision": decision, "by": row.via, "reason": row.reason}
        return web.json_response(told)


def _guarded(refusal: Callable[[web.Request], str | None]) -> Any:
    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if (sentence := refusal(request)) is not None:
            log.warning("refused a call of the agent endpoint", reason=sentence)
            return _refused(403, sentence, "FORBIDDEN", close=True)
        try:
            return await handler(request)
        except web.HTTPException as error:  # what the router itself answers: no such path, not this method
            answer = _refused(error.status, error.reason, error.reason.upper().replace(" ", "_"))
            if "Allow" in error.headers:
                answer.headers["Allow"] = error.headers["Allow"]
            return answer

    return guarded


def _unrecorded(error: GateError) -> Ran:
    log.error("nothing can be run", error=str(error))
    return Ran("gate", message=f"slack-gate cannot record a decision, so nothing runs. {error}")


def _refused(status: int, sentence: str, code: str, close: bool = False) -> web.Response:
    told = {"decision": "denied", "by": "gate", "message": sentence, "code": code, "error": sentence}
    response = web.json_response(told, status=status)
    if close:
        response.force_close()
    return response


def _not_welcome(request: web.Request, port: int) -> str | None:
    connection = _connection(request)
    uid = None if connection is None else tcp_peer_uid(connection)
    if uid != os.geteuid():
        return "Only programs of the user who runs slack-gate may ask here."
    return is_foreign(request, port)


def _not_ours(request: web.Request) -> str | None:
    connection = _connection(request)
    if connection is None or peer_uid(connection) != os.geteuid():
        return "Only programs of the user who runs slack-gate may ask here."
    return None


def _connection(request: web.Request) -> socket.socket | None:
    """None when it is closed already."""
    transport = request.transport
    found: socket.socket | None = None if transport is None else transport.get_extra_info("socket")
    return found


async def _body(request: web.Request) -> bytes:
    """The whole body. Raises Bad."""
    if request.content_type != "application/json":
        raise Bad("The body must be application/json.", 415)
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise Bad(f"The body is larger than {MAX_BODY} bytes.", 413) from None
    except TimeoutError:
        raise Bad(f"The body did not come within {BODY_S:.0f} s.", 408) from None
