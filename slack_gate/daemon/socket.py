"""The hook socket: private from the moment it exists, one live daemon on it, only its own user's hooks.

A client sends `slack-gate/1 AGENT LENGTH NONCE LIMIT CWD_HEX PATH_HEX` and the raw event; it gets `CODE LENGTH` and
as many bytes. An older one tells no PATH. While it waits it may send `withdraw`. The socket can ask, never decide.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from slack_gate.agents import AGENTS
from slack_gate.agents.event_json import MAX_EVENT
from slack_gate.core.answer import Answer, deny
from slack_gate.core.event import MalformedEvent, NoDecision, ToolEvent
from slack_gate.daemon.apart import apart
from slack_gate.daemon.gate import Gate
from slack_gate.daemon.house import Caller
from slack_gate.daemon.private_socket import peer_uid, private_listener
from slack_gate.errors import GateError, SocketError

HEADER = re.compile(
    rb"slack-gate/1 ([a-z0-9-]{1,40}) ([0-9]{1,8}) ([0-9a-f]{32}) ([0-9]{1,7}) (?:-|[0-9a-f]{2,8192})"
    rb"(?: (?:-|((?:[0-9a-f]{2}){1,8192})))?\n"
)
STATUS = "status"  # in the agent's place: asks for the daemon's health instead of a decision
MAX_HEADER = 26_000
EVENT_S = 30.0  # how long a client may take to send what it announced
BACKLOG = 1024  # hooks that come at once; one more would be told that nobody is there

log = structlog.get_logger()


# What a client that breaks the protocol, stalls or goes away makes of its own connection.
class _NotAFrame(Exception):
    """The first bytes are none of ours."""


_BROKEN = (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, _NotAFrame)


@dataclass(frozen=True, slots=True)
class Frame:
    agent: str
    caller: Caller
    search_path: str
    event: bytes


@asynccontextmanager
async def hook_socket(path: Path, gate: Gate, status: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
    """Serves hooks on `path` until the block ends; `status` answers `slack-gate status`. Needs `only_daemon` around it.

    Raises SocketError when the socket cannot be made.
    """
    with private_listener(path) as listener:
        door = _Door(gate, status)
        server = await asyncio.start_unix_server(door.serve, sock=listener, limit=MAX_HEADER, backlog=BACKLOG)
        try:
            yield
        finally:
            server.close()  # `wait_closed`, from Python 3.12 on, would wait for every hook that waits


def _private_directory(directory: Path) -> None:
    before = os.umask(0o077)  # for the parents that are made too
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise SocketError(f"The socket's directory {directory} cannot be made: {error.strerror}.") from error
    finally:
        os.umask(before)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise SocketError(
            f"The socket's directory {directory} is open to others, so anybody could answer in the gate's name.",
            f"Make it yours alone (`chmod 700 {directory}`) or set SLACK_GATE_SOCKET to a directory of its own.",
        )


def lock_of(path: Path) -> Path:
    """The file whose lock is the right to `path`: to listen on a socket, to work on a database."""
    return path.with_name(path.name + ".lock")


@contextmanager
def only_daemon(path: Path) -> Iterator[None]:
    """Holds the right to listen on `path`, in a directory that is ours alone. Take it before anything else is touched.

    Raises SocketError when the directory is open to others or another daemon lives.
    """
    _private_directory(path.parent)
    with alone_with(path):
        yield


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Holds the right to `path`. Raises SocketError when another daemon lives.

    The kernel drops the lock with the process: a killed daemon blocks nobody, a busy one is never robbed.
    """
    lock = lock_of(path)
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SocketError(f"The lock {lock} cannot be opened: {error.strerror}.") from error
    try:
        _lock(fd, lock)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, lock: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SocketError(
            f"Another slack-gate daemon holds {lock}.",
            "Stop it first, or give this one a SLACK_GATE_HOME and a SLACK_GATE_SOCKET of its own.",
        ) from error
    except OSError as error:  # on a network file system without locks
        raise SocketError(
            f"The lock {lock} cannot be taken: {error.strerror}.", "Its directory must lie on a local disk."
        ) from error


class _Door:
    """One hook a connection: read a frame, ask the gate, answer, close."""

    def __init__(self, gate: Gate, status: Callable[[], Awaitable[bytes]]) -> None:
        self._gate = gate
        self._status = status

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Never raises: a client that breaks the protocol or goes away ends its own connection only."""
        try:
            await self._serve(reader, writer)
        except _BROKEN as error:
            log.info("hook connection ended early", error=repr(error))
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = peer_uid(writer.get_extra_info("socket"))
        if uid != os.geteuid():
            log.warning("refused a hook of another user", uid=uid)
            return
        async with asyncio.timeout(EVENT_S):
            frame = await _read_frame(reader)
        code, output = await self._answer(frame, reader)
        writer.write(b"%d %d\n%s" % (code, len(output), output))
        await writer.drain()

    async def _answer(self, frame: Frame, reader: asyncio.StreamReader) -> tuple[int, bytes]:
        if frame.agent == STATUS:
            return 0, await self._status()
        agent = AGENTS.get(frame.agent)
        if agent is None:
            answer = await self._malformed(frame.agent, f"slack-gate does not know the agent {frame.agent}.")
            return 2, answer.reason.encode()
        event = None
        try:
            event = await apart(lambda: agent.parse(frame.event), len(frame.event))
            if isinstance(event, ToolEvent):
                event = replace(event, search_path=frame.search_path)
            answer = await self._ruling(event, frame.caller, reader)
        except MalformedEvent as error:
            answer = await self._malformed(agent.NAME, str(error))
        except GateError as error:
            log.error("nothing can be allowed", error=str(error))
            answer = deny(f"slack-gate cannot record a decision, so nothing runs. {error}")
        except _BROKEN:
            raise
        except Exception as error:
            log.exception("a hook could not be answered")
            answer = await self._malformed(agent.NAME, f"slack-gate failed ({type(error).__name__}).")
        return agent.render(answer, event)

    async def _ruling(self, event: ToolEvent | NoDecision, caller: Caller, reader: asyncio.StreamReader) -> Answer:
        if isinstance(event, NoDecision):
            return await self._gate.announced(event)
        outcome = await self._gate.submit(event, caller)
        if isinstance(outcome, Answer):
            return outcome
        request = outcome.id
        del outcome  # a thousand may wait here
        return await self._wait(request, event, reader)

    async def _malformed(self, agent: str, sentence: str) -> Answer:
        try:
            return await self._gate.malformed(agent, sentence)
        except GateError as error:
            return deny(f"{sentence} {error}")

    async def _wait(self, request: str, event: ToolEvent, reader: asyncio.StreamReader) -> Answer:
        """The request's answer, unless the client withdraws (cancelled at once) or vanishes (the grace begins)."""
        answer = asyncio.create_task(self._gate.wait(request, event))
        word = asyncio.create_task(_word(reader))
        try:
            await asyncio.wait({answer, word}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if word.result() == b"withdraw\n":
                await self._gate.cancel(request)
                return await answer
            raise ConnectionResetError("the client went away")
        finally:
            answer.cancel()
            word.cancel()
            await asyncio.gather(answer, word, return_exceptions=True)


async def _word(reader: asyncio.StreamReader) -> bytes:
    """What a waiting client says, a line; nothing when it hung up or says more than any word of ours."""
    try:
        return await reader.readline()
    except ValueError:
        return b""


async def _read_frame(reader: asyncio.StreamReader) -> Frame:
    """Raises _NotAFrame for anything that is not a frame of ours."""
    header = HEADER.fullmatch(await reader.readuntil(b"\n"))
    if header is None:
        raise _NotAFrame("not a slack-gate/1 header")
    agent, length, nonce, limit, search_path = header.groups()
    if int(length) > MAX_EVENT:
        raise _NotAFrame(f"an event of {int(length)} bytes")
    return Frame(
        agent.decode(),
        Caller(nonce.decode(), float(limit), int(length)),
        bytes.fromhex((search_path or b"").decode()).decode(errors="replace").replace("\0", ""),
        await reader.readexactly(int(length)),
    )
