"""Ask from Python: `run_command`, its async form, and `can_use_tool` for the Claude Agent SDK.

    from slack_gate.client import run_command
    run_command("make deploy", reason="release 1.4.2")["exitCode"]

A person is asked where one has to be; the command then runs in the daemon's executor, with this process's directory.
The daemon is found as a hook finds it, and nothing is said to a process of another user.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from slack_gate.agent_sdk import CanUseTool, can_use_tool
from slack_gate.errors import GateError
from slack_gate.hook_wire import START, Deny, check_folder, check_socket
from slack_gate.whereabouts import agent_socket

__all__ = [
    "CanUseTool", "NotAsked", "OutcomeUnknown", "ask", "async_run_command", "can_use_tool", "decision", "follow",
    "run_command",
]  # fmt: skip

CONNECT_S = 2.0
SILENT_S = 30.0  # the daemon gives a sign of life at least every 10 s; without one it is gone
MAX_LINE = 32 << 20  # bytes; an end holds two streams of at most 1 MiB, as JSON
UNKNOWN = "outcome unknown"
LOOK = "`slack-gate requests` says what became of it; do not start it again before."

Answer = dict[str, Any]


class NotAsked(GateError):
    """Nothing ran: no daemon was there, or it did not take the question."""

    exit_code = 77


class OutcomeUnknown(GateError):
    """The daemon went away before the end. The command may have run and must not be started again unseen."""

    exit_code = 70


def run_command(command: str, reason: str = "", timeout_seconds: int = 30, cwd: str | None = None) -> Answer:
    """Asks if need be, runs `command`, and returns how that went. Not for use inside a running event loop.

    `{"decision": "ran", "by", "request", "exitCode", "stdout", "stderr", "timedOut", "commandId", "code", "error",
    "lost"}`, or `{"decision": "denied", "by", "request", "message"}`. `exitCode` is None where there is none or it is
    not known; then `code` and `error` say why, and `lost` whether it may have run: do not start it again unseen. A
    "message" beside "ran" says what a person changed.
    `timeout_seconds` counts from the start of the command, not of the question.
    Raises NotAsked and OutcomeUnknown, and ConfigError when the daemon cannot be found.
    """
    return asyncio.run(async_run_command(command, reason, timeout_seconds, cwd))


async def async_run_command(
    command: str, reason: str = "", timeout_seconds: int = 30, cwd: str | None = None
) -> Answer:
    """`run_command` for asyncio. Cancelled, it withdraws the question or ends what runs."""
    body = {"command": command, "reason": reason, "timeoutSeconds": timeout_seconds, "agent": "python"}
    return await follow({**body, "cwd": cwd or working_directory()}, lambda event: None)


def working_directory() -> str:
    """This process's own. Raises NotAsked when it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise NotAsked("The working directory was removed, so nothing ran.", "Change to one that is there.") from None


async def follow(body: Mapping[str, Any], tell: Callable[[Answer], None]) -> Answer:
    """Asks for a run and returns its end; `tell` hears every event before it: asked, started, output, waiting.

    `body` is that of the agent endpoint's `/run`, or `{"approved": ID}`. Raises as `run_command` does.
    """
    async with _daemon() as client:
        head = {"Accept": "application/x-ndjson"}
        async with client.stream("POST", "/run", json=dict(body), headers=head, extensions=_CHECKED) as response:
            if response.status_code != httpx.codes.OK:
                raise _refused(response.status_code, await response.aread())
            async for line in _lines(response):
                event = _object(line)
                if event.get("event") == "end":
                    return {name: value for name, value in event.items() if name != "event"}
                tell(event)
    raise OutcomeUnknown("The slack-gate daemon hung up before the end.", LOOK)


async def ask(text: str, reason: str = "", agent: str = "python") -> Answer:
    """Asks a person to agree to `text`; nothing runs. `{"request", "state", "expiresAt"}` at once; see `decision`."""
    return await _simple("POST", "/ask", {"text": text, "reason": reason, "agent": agent})


async def decision(request: str) -> Answer:
    """`{"request", "state", "decision", "by", "reason"}` of what was asked. Raises NotAsked for an unknown id."""
    return await _simple("GET", f"/requests/{quote(request, safe='')}")


async def _simple(method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
    async with _daemon() as client:
        response = await client.request(method, path, json=body, extensions=_CHECKED)
        if response.status_code != httpx.codes.OK:
            raise _refused(response.status_code, response.content)
        return _object(response.content)


@asynccontextmanager
async def _daemon() -> AsyncIterator[httpx.AsyncClient]:
    path = agent_socket()
    try:
        check_folder(os.fsencode(path))
        check_socket(os.fsencode(path))
    except FileNotFoundError:
        raise NotAsked(f"No slack-gate daemon listens at {path}, so nothing ran.", START) from None
    except (OSError, Deny) as error:
        raise NotAsked(f"The daemon's socket cannot be used: {error}.", "Look at that path.") from None
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(path)),
        base_url="http://slack-gate",
        timeout=httpx.Timeout(SILENT_S, connect=CONNECT_S),
        trust_env=False,
    ) as client:
        try:
            yield client
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotAsked(f"No slack-gate daemon listens at {path} ({error}), so nothing ran.", START) from None
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise OutcomeUnknown(f"The slack-gate daemon at {path} went away ({what}).", LOOK) from None


async def _only_our_own(event: str, info: Mapping[str, Any]) -> None:
    """Called when connected, before anything is sent."""
    if event == "connection.connect_unix_socket.complete":
        peer = info["return_value"].get_extra_info("socket")
        uid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if uid != os.geteuid():
            raise NotAsked(f"A process of uid {uid} answers in the daemon's place, so nothing was asked.")


_CHECKED = {"trace": _only_our_own}


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    rest: list[bytes] = []
    length = 0
    async for piece in response.aiter_raw():
        first, *others = piece.split(b"\n")
        rest.append(first)
        length += len(first)
        if others:
            yield b"".join(rest)
            for line in others[:-1]:
                yield line
            rest, length = [others[-1]], len(others[-1])
        if length > MAX_LINE:
            raise OutcomeUnknown("The slack-gate daemon sends a line without an end.", LOOK)


def _object(line: bytes) -> Answer:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OutcomeUnknown("What the slack-gate daemon answers cannot be read.", LOOK)
    return found


def fault(end: Mapping[str, Any]) -> str:
    """What became of a run that has no exit code, for whoever asked: the executor's own words, and whether it may have
    run."""
    said = str(end["error"] or "")
    if end.get("lost") and UNKNOWN not in said:
        said = f"{said}; {UNKNOWN}" if said else UNKNOWN
    return said or UNKNOWN


def _refused(status: int, content: bytes) -> NotAsked:
    """The daemon did not take it: its own sentence, where there is one."""
    try:
        found = json.loads(content)
        return NotAsked(str(found.get("message") or found["error"]))
    except (ValueError, AttributeError, KeyError):
        said = content[:300].decode("utf-8", "backslashreplace").strip() or "no reason given"
        return NotAsked(f"The slack-gate daemon did not take it (HTTP {status}): {said}")
