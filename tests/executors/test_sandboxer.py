"""The Sandboxer's API against a real server with every fault: what may have run is never sent again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from slack_gate.core.run import NOT_STARTED, UNKNOWN, Result, not_started, printable
from slack_gate.executors import sandboxer
from slack_gate.executors.output import MAX_PASSED
from slack_gate.executors.sandboxer import Sandboxer
from tests.ports import free_port

KEY = "sbx-very-secret"
WHOLE = {"commandId": "cmd_1", "exitCode": 3, "stdout": "out\n", "stderr": "err\n", "timedOut": False}
Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Api:
    """Answers each connection as `reply` says and keeps what it was sent."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append((head[0], dict(line.split(": ", 1) for line in head[1:] if line), body))
            await self.reply(writer)
            await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def api(reply: Reply) -> AsyncIterator[tuple[Api, Sandboxer]]:
    one = Api(reply)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with Sandboxer(f"http://127.0.0.1:{port}/api/v1/", "sb_1", KEY) as executor:
            yield one, executor


def answer(status: int, body: object, kind: str = "application/json", **headers: str) -> Reply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def reply(writer: asyncio.StreamWriter) -> None:
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n{more}\r\n"
        writer.write(head.encode() + content)

    return reply


async def run(executor: Sandboxer, command: str = "true", timeout: float = 5) -> Result:
    result = await executor.run(command, "/home/x/projects", timeout, asyncio.Event(), lambda *_: None)
    assert KEY not in repr(result)
    return result


async def test_the_contract() -> None:
    async with api(answer(200, WHOLE)) as (server, executor):
        result = await run(executor, "echo 'a b'; exit 3", 30)
    assert result == Result(3, b"out\n", b"err\n", False, "cmd_1", None, None)
    [(line, headers, body)] = server.requests
    assert line == "POST /api/v1/sandboxes/sb_1/commands HTTP/1.1"
    assert headers["Authorization"] == f"Bearer {KEY}" and headers["Content-Type"] == "application/json"
    assert json.loads(body) == {"command": "echo 'a b'; exit 3", "timeoutSeconds": 30}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429])
async def test_a_refusal_did_not_run_and_says_so_in_the_servers_words(status: int) -> None:
    async with api(answer(status, {"code": "SANDBOX_X", "error": "why not"})) as (server, executor):
        assert await run(executor) == not_started("why not", "SANDBOX_X")
    assert len(server.requests) == 1


async def test_a_refusal_without_json() -> None:
    async with api(answer(403, b"<html>no</html>", "text/html")) as (_, executor):
        result = await run(executor)
    assert (result.code, result.known) == ("HTTP_403", True) and "did not run" in str(result.error)


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (answer(500, {"code": "INTERNAL", "error": "it broke"}), "INTERNAL", "it broke"),
        (answer(502, b"<html>bad gateway</html>", "text/html"), UNKNOWN, "answered HTTP 502; outcome unknown"),
        (answer(503, b"", **{"Retry-After": "0"}), UNKNOWN, "answered HTTP 503; outcome unknown"),
        (answer(504, b""), UNKNOWN, "answered HTTP 504; outcome unknown"),
        (answer(200, b"<html>welcome</html>", "text/html"), UNKNOWN, "is a web page, not JSON; outcome unknown"),
        (answer(200, b'{"exitCode": 0, "stdou'), UNKNOWN, "is no whole JSON; outcome unknown"),
        (answer(200, b'{"exitCode": 1, "exitCode": 0}'), UNKNOWN, "is no whole JSON; outcome unknown"),
        (answer(200, b""), UNKNOWN, "is empty; outcome unknown"),
        (answer(200, b'{"exitCode": 0, "stdout": "\xff\xfe"}'), UNKNOWN, "is not UTF-8; outcome unknown"),
        (answer(200, []), UNKNOWN, "is no JSON object; outcome unknown"),
        (answer(200, {"stdout": "x"}), UNKNOWN, "outcome unknown"),
        (answer(200, {"exitCode": None, "stdout": "x"}), UNKNOWN, "outcome unknown"),
        (answer(200, {"exitCode": "0"}), UNKNOWN, "outcome unknown"),
        (answer(200, {"exitCode": True}), UNKNOWN, "outcome unknown"),
        (answer(200, {"exitCode": 10**30}), UNKNOWN, "outcome unknown"),
        (answer(200, {"code": "SANDBOX_LOST", "error": "it went away"}), "SANDBOX_LOST", "it went away"),
        (answer(200, b"[" * 100_000), UNKNOWN, "outcome unknown"),
        (answer(307, b"", Location="http://127.0.0.1:1/"), UNKNOWN, "outcome unknown"),
    ],
)
async def test_what_may_have_run_is_unknown_and_not_sent_again(reply: Reply, code: str, words: str) -> None:
    async with api(reply) as (server, executor):
        result = await run(executor)
    assert (result.exit_code, result.known, result.code) == (None, False, code) and words in str(result.error)
    assert len(server.requests) == 1


async def test_a_reset_after_sending() -> None:
    async def reset(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with api(reset) as (server, executor):
        result = await run(executor)
    assert (result.exit_code, result.known, result.code) == (None, False, UNKNOWN)
    assert len(server.requests) == 1


async def test_a_body_cut_short() -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{}")

    async with api(cut) as (server, executor):
        result = await run(executor)
    assert (result.exit_code, result.known) == (None, False) and len(server.requests) == 1


async def test_an_answer_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxer, "ANSWER_S", 1.0)

    async def silence(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(100)

    async with api(silence) as (server, executor):
        result = await run(executor, timeout=1)
    assert (result.exit_code, result.known) == (None, False) and len(server.requests) == 1


async def test_nothing_cuts_a_command_off_before_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client of the library waits by itself is less than most commands take."""
    made = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **how: made(**how, timeout=0.1))

    async def late(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.5)
        await answer(200, WHOLE)(writer)

    async with api(late) as (_, executor):
        assert (await run(executor, timeout=90)).exit_code == 3


async def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxer, "MAX_ANSWER", 1 << 20)

    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while not writer.transport.is_closing():
            writer.write(b" " * 65536)
            await writer.drain()

    async with api(endless) as (_, executor):
        result = await run(executor)
    assert (result.exit_code, result.known) == (None, False) and "longer than" in str(result.error)


async def test_the_key_follows_no_redirect() -> None:
    async with api(answer(200, WHOLE)) as (other, _), api(answer(200, WHOLE)) as (target, executor):
        target.reply = answer(308, b"", Location="http://127.0.0.1:1/elsewhere")
        result = await run(executor)
    assert not result.known and other.requests == []


async def test_only_what_never_reached_the_server_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxer, "PAUSE_S", 1.0)
    port = free_port()
    async with Sandboxer(f"http://127.0.0.1:{port}", "sb_1", KEY) as executor:
        result = await run(executor)
        assert (result.code, result.known) == (NOT_STARTED, True) and "did not run" in str(result.error)
        running = asyncio.create_task(run(executor))
        one = Api(answer(200, WHOLE))
        async with await asyncio.start_server(one.serve, "127.0.0.1", port):
            assert (await running).exit_code == 3
    assert len(one.requests) == 1


async def test_a_fault_with_a_code_of_the_api() -> None:
    body = {"commandId": "cmd_2", "exitCode": None, "code": "SANDBOX_GONE", "error": "it was stopped"}
    async with api(answer(200, body)) as (_, executor):
        result = await run(executor)
    assert (result.code, result.error, result.command_id) == ("SANDBOX_GONE", "it was stopped", "cmd_2")
    assert (result.exit_code, result.known) == (None, False)  # how the command ended, nobody says


@pytest.mark.parametrize(("code", "kept"), [(None, None), (124, 124)])
async def test_a_time_out_in_the_sandbox(code: int | None, kept: int | None) -> None:
    async with api(answer(200, {"exitCode": code, "timedOut": True, "stdout": "half"})) as (_, executor):
        result = await run(executor)
    assert (result.exit_code, result.timed_out, result.stdout) == (kept, True, b"half")


async def test_long_output_and_odd_characters() -> None:
    body = {"exitCode": 0, "stdout": "a" * (MAX_PASSED + 5) + "z", "stderr": "\ud800 é"}
    async with api(answer(200, body)) as (_, executor):
        result = await run(executor)
    assert b"bytes left out]" in result.stdout and result.stdout.endswith(b"z")
    assert printable(result.stderr) == "\\xed\\xa0\\x80 é"


@pytest.mark.parametrize("status", [200, 403, 500])
async def test_a_server_that_repeats_the_key(status: int) -> None:
    told = {name: f"a {KEY} b" for name in ("code", "error", "stdout", "stderr", "commandId")}
    async with api(answer(status, {**told, "exitCode": 1})) as (_, executor):
        result = await run(executor)  # looks for the key
    assert (result.code, result.error) == ("a [masked] b", "a [masked] b")


@pytest.mark.parametrize(("told", "passed"), [(0, None), (1, None), (None, None), (124, 124)])
async def test_what_was_ended_for_its_time_has_no_exit_code_of_its_own(told: int | None, passed: int | None) -> None:
    async with api(answer(200, {**WHOLE, "exitCode": told, "timedOut": True})) as (_, executor):
        result = await run(executor)
    assert (result.exit_code, result.timed_out, result.known) == (passed, True, True)


async def test_what_came_without_an_exit_code_is_passed_on() -> None:
    async with api(answer(200, {**WHOLE, "exitCode": None})) as (_, executor):
        result = await run(executor)
    assert (result.stdout, result.stderr, result.command_id) == (b"out\n", b"err\n", "cmd_1")
    assert (result.code, result.known) == (UNKNOWN, False)
