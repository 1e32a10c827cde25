"""Runs commands in one sandbox through the Sandboxer API, with a key for that sandbox alone.

A command is sent once. Only a request that provably never reached the server is sent again; whatever may have reached
it and brought no whole answer has an unknown outcome.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from slack_gate.core.ports import Event
from slack_gate.core.run import UNKNOWN, Result, not_started, unknown
from slack_gate.executors.output import Bounded

CONNECT_S = 10.0
TRIES = 3  # connections
PAUSE_S = 0.5  # between them, doubled each time
ANSWER_S = 30.0  # on top of the command's own time-out
TIMED_OUT = 124
_EXIT_CODES = range(-(1 << 31), 1 << 32)  # what any system may call one; a signal may be a negative one
MAX_ANSWER = 16 << 20  # bytes; an answer that does not end is no answer
# What says that the server did not take the command: bad key, no right, no sandbox, busy, too many.
_REFUSED = frozenset({400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 422, 429})
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL)


class Sandboxer:
    """`api_url` without a slash at its end. Use as an async context manager."""

    name = "sandboxer"

    def __init__(self, api_url: str, sandbox: str, key: str) -> None:
        self._key = key
        self._url = f"{api_url.rstrip('/')}/sandboxes/{sandbox}/commands"
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"},
            follow_redirects=False,  # the key is for this server
            trust_env=False,
            limits=httpx.Limits(max_connections=None),
        )

    async def __aenter__(self) -> Sandboxer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def run(
        self, command: str, cwd: str, timeout: float, stop: Event, output: Callable[[str, bytes], None]
    ) -> Result:
        """`cwd` is a directory of this machine and means nothing there; a command that was sent cannot be stopped."""
        body = {"command": command, "timeoutSeconds": int(timeout)}
        limit = httpx.Timeout(timeout + ANSWER_S, connect=CONNECT_S)
        for attempt in range(TRIES):
            try:
                async with asyncio.timeout(timeout + ANSWER_S + CONNECT_S):
                    async with self._client.stream("POST", self._url, json=body, timeout=limit) as response:
                        result = self._result(response.status_code, await _content(response))
                break
            except _NOT_SENT as error:
                if attempt == TRIES - 1 or stop.is_set():
                    return not_started(f"The Sandboxer cannot be reached ({type(error).__name__}). It did not run.")
                await asyncio.sleep(PAUSE_S * 2**attempt)
            except (httpx.HTTPError, TimeoutError) as error:
                return unknown(f"The Sandboxer took the command and gave no whole answer ({type(error).__name__});")
        for name, data in (("stdout", result.stdout), ("stderr", result.stderr)):
            if data:
                output(name, data)
        return result

    def _result(self, status: int, content: bytes | None) -> Result:
        if content is None:
            return unknown(f"The Sandboxer's answer is longer than {MAX_ANSWER} bytes;")
        answer, fault = _read(content)
        if answer is not None:  # a server that repeats the key does not make us repeat it
            texts = {name: value for name, value in answer.items() if isinstance(value, str)}
            answer = {**answer, **{name: value.replace(self._key, "[masked]") for name, value in texts.items()}}
        return _result(status, answer, fault)


async def _content(response: httpx.Response) -> bytes | None:
    """The body, None when it is longer than `MAX_ANSWER`."""
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MAX_ANSWER:
            return None
    return bytes(content)


def _result(status: int, answer: Mapping[str, Any] | None, fault: str) -> Result:
    code, error = _text(answer, "code"), _text(answer, "error")
    if status in _REFUSED:
        said = error or f"The Sandboxer refused it: HTTP {status}. It did not run."
        return not_started(said, code or f"HTTP_{status}")
    if not 200 <= status < 300:
        said = error or f"The Sandboxer answered HTTP {status};"
        return Result(None, code=code, error=said, known=False) if code else unknown(said)
    if answer is None:
        return unknown(f"The Sandboxer's answer {fault};")
    timed_out = answer.get("timedOut") is True
    exit_code = _exit_code(answer.get("exitCode"), timed_out)
    known = exit_code is not None or timed_out
    if not known and code is None:
        code, error = UNKNOWN, "The Sandboxer's answer holds no exit code; outcome unknown"
    output = _bytes(answer, "stdout"), _bytes(answer, "stderr")
    return Result(exit_code, *output, timed_out, _text(answer, "commandId"), code, error, known)


def _exit_code(value: object, timed_out: bool) -> int | None:
    """None where it is none; what was ended for its time has no other than 124."""
    if type(value) is not int or value not in _EXIT_CODES or (timed_out and value != TIMED_OUT):
        return None
    return value


def _read(content: bytes) -> tuple[Mapping[str, Any] | None, str]:
    """The answer's object, else why there is none."""
    try:
        value = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
    except UnicodeDecodeError:
        return None, "is not UTF-8"
    except (ValueError, RecursionError):
        page = content.lstrip()[:1] == b"<"
        return None, "is a web page, not JSON" if page else "is no whole JSON" if content.strip() else "is empty"
    return (value, "") if isinstance(value, dict) else (None, "is no JSON object")


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two exit codes nobody can say which one is meant."""
    found = dict(fields)
    if len(found) != len(fields):
        raise ValueError("a field stands there twice")
    return found


def _text(answer: Mapping[str, Any] | None, name: str) -> str | None:
    value = None if answer is None else answer.get(name)
    return value if isinstance(value, str) and value else None


def _bytes(answer: Mapping[str, Any], name: str) -> bytes:
    bounded = Bounded()
    bounded.add((_text(answer, name) or "").encode("utf-8", "surrogatepass"))
    return bounded.value()
