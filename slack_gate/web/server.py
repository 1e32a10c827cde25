"""An aiohttp application on a port of 127.0.0.1 or on a private Unix socket, bounded in time."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from slack_gate.errors import SocketError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LOOPBACK = "127.0.0.1"
LOOPBACK6 = "::1"  # where browsers look for `localhost` first
IDLE_S = 15.0  # a connection without a whole request: silent, slow with its headers, or kept open
BODY_S = 15.0  # to send what the headers announced
LINGER_S = 2.0  # for a client to take a refusal before it has sent everything
STOP_S = 1.0  # requests that still wait when the daemon stops
BACKLOG = 256


@asynccontextmanager
async def opened(app: web.Application, listener: socket.socket) -> AsyncIterator[None]:
    """Serves `app` on `listener` until the block ends. A handler is cancelled as soon as its client is gone."""
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        keepalive_timeout=IDLE_S,
        shutdown_timeout=STOP_S,
        lingering_time=LINGER_S,
        auto_decompress=False,  # what is read is what was sent
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=BACKLOG).start()
        yield
    finally:
        await runner.cleanup()


def on_loopback(port: int, what: str, setting: str) -> socket.socket:
    """A listener on 127.0.0.1. Raises SocketError when the port is taken: others would be asked in our place."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise _taken(port, LOOPBACK, what, setting) from error
        raise SocketError(f"Port {port} of {LOOPBACK} cannot be used: {error.strerror}.", f"Set {setting}.") from error
    listener.setblocking(False)
    return listener


def _taken(port: int, host: str, what: str, setting: str) -> SocketError:
    return SocketError(
        f"Port {port} of {host}, where {what} belongs, is taken: another program would be asked instead.",
        f"Stop that program, or set {setting} to a free port (0 turns it off).",
    )


@contextmanager
def held6(port: int, what: str, setting: str) -> Iterator[None]:
    """Nobody else listens on this port of ::1 meanwhile, so that `localhost` can lead to nobody but us.

    Raises SocketError when somebody does. Nothing is served there: whoever tries goes on to 127.0.0.1.
    """
    try:
        holder = socket.socket(socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError:  # no IPv6 here, for others neither
        yield
        return
    with holder:
        try:
            holder.bind((LOOPBACK6, port))  # without SO_REUSEADDR: nobody can share it
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _taken(port, LOOPBACK6, what, setting) from error
            if error.errno != errno.EADDRNOTAVAIL:
                raise SocketError(
                    f"Port {port} of {LOOPBACK6} cannot be held: {error.strerror}.", f"Set {setting}."
                ) from error
        yield


def own_names(port: int) -> frozenset[str]:
    """What the Host header of a request for us holds; any other name was made to lead here."""
    return frozenset({f"{LOOPBACK}:{port}", f"localhost:{port}"})


def is_foreign(request: web.Request, port: int) -> str | None:
    """Why this request does not come from a program or page that meant us; None when it may."""
    names = own_names(port)
    if request.headers.getall("Host", []) not in [[name] for name in names]:
        return f"This server answers to {LOOPBACK}:{port} only."
    origins = request.headers.getall("Origin", [])
    if origins and origins != [f"http://{request.host}"]:
        return "Another site's page may not ask here."
    return None
