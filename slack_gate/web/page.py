"""The approval page: what waits, what would run, and the buttons; every click goes through `gate.decide`.

It answers to its own address, to whoever has the password of this start, and takes decisions only from forms that it
wrote itself: a form's token is bound to the request and to what was shown of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl

import jinja2
import structlog
from aiohttp import web

from slack_gate.core.change import FileNow
from slack_gate.core.cord import Pull
from slack_gate.core.fields import length
from slack_gate.core.outcome import sentence
from slack_gate.core.ports import Verdict
from slack_gate.core.request import BY_PAGE, Choice, Decision, Request
from slack_gate.daemon.changes import Changes
from slack_gate.daemon.gate import Gate
from slack_gate.errors import GateError
from slack_gate.web.arrivals import arrivals
from slack_gate.web.cord import Controls, pulled, said, shown
from slack_gate.web.login import USER, Entry, Login
from slack_gate.web.metrics import metrics
from slack_gate.web.peer import tcp_peer_uid
from slack_gate.web.server import BODY_S, LOOPBACK, Handler, held6, is_foreign, on_loopback, opened
from slack_gate.web.shown import Past, Pending, past, pending

HERE = Path(__file__).parent
MAX_FORM = 64 * 1024
MAX_REASON = 500  # characters
HISTORY = 50
ROOM = 1_000_000  # characters of long inputs that are drawn at once
LONG = 4_000  # a shorter one always has its place
ALIVE_S = 15.0  # between signs of life to a page that listens
STUCK_S = 30.0  # a page that takes nothing for so long is gone
NAME = "a person on the page"
CORD = "cord"  # what the token of its form is bound to; no request has such an id
CHOICES = {
    "1": Choice.APPROVE,
    "0": Choice.DENY,
    "always": Choice.ALWAYS,
    "caged": Choice.CAGED,
    "more": Choice.MORE,
}
_TAKEN = (Verdict.DECIDED, Verdict.COUNTED, Verdict.EXTENDED)
_STATUS = {Verdict.UNKNOWN: 404, Verdict.FOREIGN: 403, Verdict.STALE: 403}  # any other click too late: 409
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not `no-referrer`: with that, browsers send our own forms with the Origin `null`.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STATIC = {"page.css": "text/css", "page.js": "text/javascript"}

log = structlog.get_logger()


class Requests(Protocol):
    """The store, as the page needs it."""

    async def request(self, request: str) -> Request | None: ...

    async def pending(self, home: str) -> list[Request]: ...

    async def ended(self, home: str, limit: int) -> list[Request]: ...

    async def counted(self, home: str) -> Mapping[str, int]: ...


class Page:
    """`home` names this daemon's requests; `health` is the daemon's, as JSON; `file` says what stands in the file that
    a call would change."""

    def __init__(
        self,
        gate: Gate,
        requests: Requests,
        changes: Changes,
        home: str,
        health: Callable[[], bytes],
        clock: Callable[[], float],
        controls: Controls,
        file: Callable[[Request], FileNow | None] = lambda request: None,
    ) -> None:
        self.login = Login(clock)
        self.port = 0  # until it is open
        self._gate = gate
        self._requests = requests
        self._changes = changes
        self._home = home
        self._health = health
        self._clock = clock
        self._controls = controls
        self._file = file
        self._viewers = 0
        self._version = 0  # grows with each change
        self._drawing = asyncio.Lock()
        self._past: dict[tuple[object, ...], Past] = {}
        changes.also(self._newer)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    @asynccontextmanager
    async def open(self, port: int) -> AsyncIterator[None]:
        """Serves the page on 127.0.0.1. Raises SocketError when the port is taken."""
        what = "the approval page", "SLACK_GATE_PAGE_PORT"
        listener = on_loopback(port, *what)
        self.port = listener.getsockname()[1]
        with closing(listener), held6(self.port, *what):
            async with opened(self._application(), listener):
                yield

    @asynccontextmanager
    async def arrivals(self) -> AsyncIterator[None]:
        """Each request that comes in meanwhile is a line of standard output."""
        async with arrivals(self._requests, self._home, self._changes):
            yield

    def _newer(self) -> None:
        self._version += 1

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded], client_max_size=MAX_FORM)
        app.on_response_prepare.append(_add_headers)
        app.router.add_get("/", self._list, allow_head=False)
        app.router.add_get("/events", self._events, allow_head=False)
        app.router.add_post("/decide", self._decide)
        app.router.add_get("/cord", self._cord, allow_head=False)
        app.router.add_post("/cord", self._pull)
        app.router.add_get("/static/{name}", _static, allow_head=False)
        app.router.add_get("/healthz", self._healthz, allow_head=False)
        app.router.add_get("/metrics", self._metrics, allow_head=False)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if (foreign := is_foreign(request, self.port)) is not None:
            log.warning("refused a call of the page", reason=foreign)
            return _plain(403, foreign)
        match self.login.entry(request.headers.get("Authorization"), _uid(request)):
            case Entry.THROTTLED:
                return _plain(429, "Too many wrong passwords. Wait some seconds.", {"Retry-After": "5"})
            case Entry.UNKNOWN:
                asks = {"WWW-Authenticate": 'Basic realm="slack-gate", charset="UTF-8"'}
                where = "The user is human; slack-gate's first lines hold the password, or name the file that does."
                return _plain(401, where, asks)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _plain(error.status, error.reason, {k: v for k, v in error.headers.items() if k == "Allow"})
        except GateError as error:
            log.error("the page could not be served", error=str(error))
            return self._sentence(500, "Nothing was decided", str(error))

    # What waits

    async def _list(self, _request: web.Request) -> web.Response:
        version = self._version  # before what is read: a change in between is told again
        waiting = sorted(await self._requests.pending(self._home), key=lambda one: one.created_at)
        ended = await self._requests.ended(self._home, HISTORY)
        cord = await said(self._controls)
        async with self._drawing:  # beside the loop, and one at a time: what waits may be long, and others wait too
            with self._gate.viewed():  # a page without scripts does not listen; it comes again
                page = await asyncio.to_thread(self._drawn, version, waiting, ended, cord)
        return web.Response(text=page, content_type="text/html")

    def _drawn(self, version: int, waiting: Sequence[Request], ended: Sequence[Request], cord: str) -> str:
        shown = _with_room(waiting)
        return self._templates.get_template("page.html").render(
            version=version,
            host=socket.gethostname(),
            pending=[self._pending(one) for one in shown],
            later=len(waiting) - len(shown),
            past=self._told(ended),
            cord=cord,
        )

    def _told(self, ended: Sequence[Request]) -> list[Past]:
        """What has ended is drawn once."""
        known, self._past = self._past, {}
        for one in ended:
            key = one.id, one.state, one.lifted_at
            self._past[key] = known.get(key) or past(one)
        return list(self._past.values())

    def _pending(self, request: Request) -> Pending:
        file = self._file(request)
        token = self.login.token(request.id, _bound(request, file))
        return pending(request, token, self._gate.offers(request), file)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """The newest version at first and after each change; somebody looks at the page as long as it listens."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        changed = asyncio.Event()
        listening = asyncio.create_task(_pass_on(self._changes, changed))
        self._viewers += 1
        try:
            with self._gate.viewed():
                while True:
                    news = await _within(changed, ALIVE_S)
                    changed.clear()
                    line = b"data: %d\n\n" % self._version if news else b":\n\n"
                    async with asyncio.timeout(STUCK_S):
                        await response.write(line)
        except (ConnectionError, TimeoutError):
            return response
        finally:
            self._viewers -= 1
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    # Decisions

    async def _decide(self, request: web.Request) -> web.Response:
        try:
            form = await _form(request)
            identity, choice = form["id"], CHOICES[form["ok"]]
            until = int(form["until"]) if choice is Choice.MORE else None
        except (KeyError, ValueError) as error:
            return self._sentence(400, "Nothing was decided", f"This is no form of this page: {error}.")
        reason = " ".join(form.get("reason", "").split())
        if len(reason) > MAX_REASON:
            return self._sentence(400, "Nothing was decided", f"The reason is longer than {MAX_REASON} characters.")
        row = await self._requests.request(identity)
        # Without its token a form decides nothing: no request has an empty digest. The gate logs the attempt.
        known = row is not None and self.login.is_token(form.get("token", ""), row.id, _bound(row, self._file(row)))
        digest = row.digest if row is not None and known else ""
        decision = Decision(identity[:100], digest, choice, BY_PAGE, USER, NAME, reason, until=until)
        click = await self._gate.decide(decision)
        if click.verdict in _TAKEN:
            return web.Response(status=303, headers={"Location": "/"})
        if click.verdict is Verdict.STALE:
            words = "This form is not one that the page shows now. Nothing was decided; reload the page."
            return self._sentence(403, "Nothing was decided", words)
        return self._sentence(_STATUS.get(click.verdict, 409), "Nothing was decided", sentence(click))

    async def _cord(self, _request: web.Request) -> web.Response:
        page = self._templates.get_template("cord.html").render(
            host=socket.gethostname(),
            cord=await shown(self._controls),
            token=self.login.token(CORD, CORD),
        )
        return web.Response(text=page, content_type="text/html")

    async def _pull(self, request: web.Request) -> web.Response:
        try:
            form = await _form(request)
            pull, token = Pull(form["pull"]), form["token"]
        except (KeyError, ValueError) as error:
            return self._sentence(400, "Nothing was changed", f"This is no form of this page: {error}.")
        if not self.login.is_token(token, CORD, CORD):
            return self._sentence(403, "Nothing was changed", "This form is not one of this page; reload the page.")
        if (why := await pulled(self._controls, pull)) is not None:
            return self._sentence(409, "Nothing was changed", why)
        return web.Response(status=303, headers={"Location": "/cord"})

    def _sentence(self, status: int, title: str, words: str) -> web.Response:
        page = self._templates.get_template("sentence.html").render(title=title, sentence=words)
        return web.Response(status=status, text=page, content_type="text/html")

    # For machines

    async def _healthz(self, _request: web.Request) -> web.Response:
        told = self._health()
        healthy = json.loads(told).get("healthy") is True
        return web.Response(body=told, status=200 if healthy else 503, content_type="application/json")

    async def _metrics(self, _request: web.Request) -> web.Response:
        waiting = await self._requests.pending(self._home)
        states = await self._requests.counted(self._home)
        oldest = max((self._clock() - one.created_at for one in waiting), default=0.0)
        health = json.loads(self._health())
        text = metrics(states, oldest, self._viewers, self.login.failures, health)
        return web.Response(body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


def _with_room(waiting: Sequence[Request]) -> list[Request]:
    """Those that one page draws: the short ones, and of the long ones the oldest, so that none goes once it is seen."""
    shown: list[Request] = []
    room = ROOM
    for request in waiting:
        if (size := length(dict(request.tool_input))) > LONG:
            room -= size
            if room < 0 and room + size < ROOM:  # the first long one has its place in any case
                continue
        shown.append(request)
    return shown


@contextmanager
def announced(page: Page, home: Path, terminal: bool) -> Iterator[str]:
    """The start's line about the page. Away from a terminal the password is in a file, as long as the page is open."""
    if terminal:
        yield f"Approve at {page.address}  user: {USER}  password: {page.login.password}"
        return
    path = home / "page-password"
    with page.login.written(path):
        yield f"Approve at {page.address}  user: {USER}  password file: {path}"


def _bound(request: Request, file: FileNow | None) -> str:
    """What the token of a request's form is bound to: all that was shown."""
    if file is None:
        return request.digest
    seen = json.dumps([file.text, file.why, file.missing])
    return f"{request.digest} {hashlib.sha256(seen.encode()).hexdigest()}"


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in _STATIC:
        raise web.HTTPNotFound
    return web.Response(body=(HERE / "static" / name).read_bytes(), content_type=_STATIC[name], charset="utf-8")


async def _form(request: web.Request) -> dict[str, str]:
    """The fields of a small urlencoded form. Raises ValueError."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise ValueError("it is not urlencoded")
    async with asyncio.timeout(BODY_S):
        data = (await request.read()).decode("utf-8")
    pairs = parse_qsl(data, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=10)
    fields = dict(pairs)
    if len(fields) != len(pairs) or any("\0" in value for value in fields.values()):
        raise ValueError("a field is there twice, or holds a NUL")
    return fields


async def _pass_on(changes: Changes, changed: asyncio.Event) -> None:
    async for _ in changes.each():
        changed.set()


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _plain(status: int, words: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=words + "\n", headers=headers)


def _uid(request: web.Request) -> int | None:
    transport = request.transport
    return None if transport is None else tcp_peer_uid(transport.get_extra_info("socket"))
