"""The private socket: runs told as they go, questions that nobody blocks on, approved commands that are fetched."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slack_gate.core.event import APPROVAL, RUNS
from slack_gate.core.request import Request, State
from slack_gate.core.run import LIVE, Ran, Result
from slack_gate.daemon import attendance
from slack_gate.executors.output import HEAD, Bounded
from slack_gate.web import stream as stream_module
from slack_gate.web.stream import Stream
from tests.web.conftest import Doors, opened

NDJSON = {"Accept": "application/x-ndjson"}


def events(text: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def output(told: list[dict[str, Any]], stream: str) -> bytes:
    pieces = [one["data"] for one in told if one["event"] == "output" and one["stream"] == stream]
    return b"".join(base64.b64decode(piece, validate=True) for piece in pieces)


class Reader:
    """One streamed call, event by event; with `alive`, also the signs of life, of which a slow machine has many."""

    def __init__(self, answer: aiohttp.ClientResponse, alive: bool = False) -> None:
        self.answer = answer
        self.alive = alive

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(100):
            while True:
                found: dict[str, Any] = json.loads(await self.answer.content.readline())
                if self.alive or found["event"] != "waiting":
                    return found


async def test_a_run_told_as_it_goes(doors: Doors) -> None:
    command = "echo one; until [ -e go ]; do sleep 0.05; done; echo two >&2; exit 4"
    body = {"command": command, "agent": "slack-gate run", "reason": "r"}
    async with doors.ours.post("/run", json=body, headers=NDJSON) as answer:
        assert answer.status == 200 and answer.content_type == "application/x-ndjson"
        reader = Reader(answer)
        asked = await reader.next()
        (request,) = await doors.pending()
        assert asked == {
            "event": "asked",
            "request": request.id,
            "where": [doors.page_url],
            "expiresAt": request.expires_at,
        }
        assert request.agent == "slack-gate run"
        await doors.decide(request)
        assert await reader.next() == {"event": "started", "request": request.id}
        first = await reader.next()
        assert (first["event"], first["stream"], base64.b64decode(first["data"])) == ("output", "stdout", b"one\n")
        (doors.projects / "go").touch()
        second = await reader.next()
        assert (second["event"], second["stream"], base64.b64decode(second["data"])) == ("output", "stderr", b"two\n")
        end = await reader.next()
        assert (end["event"], end["decision"], end["by"], end["exitCode"]) == ("end", "ran", "human-web", 4)
        assert (end["stdout"], end["stderr"]) == ("one\n", "two\n")
        assert await answer.content.read() == b""


async def test_a_refusal_is_the_end(doors: Doors) -> None:
    async with doors.ours.post("/run", json={"command": "make"}, headers=NDJSON) as answer:
        reader = Reader(answer)
        assert (await reader.next())["event"] == "asked"
        (request,) = await doors.pending()
        await doors.decide(request, "0", reason="no")
        end = await reader.next()
    assert (end["event"], end["decision"], end["by"]) == ("end", "denied", "human-web") and "no" in end["message"]


async def test_signs_of_life(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream_module.WAITING_S < 10
    monkeypatch.setattr(stream_module, "WAITING_S", 0.2)
    async with doors.ours.post("/run", json={"command": "make"}, headers=NDJSON) as answer:
        reader = Reader(answer, alive=True)
        while (first := await reader.next())["event"] == "waiting":  # also before it is asked, on a slow machine
            pass
        assert first["event"] == "asked"
        assert [(await reader.next())["event"] for _ in range(2)] == ["waiting", "waiting"]
        (request,) = await doors.pending()
    assert (await doors.ended(request)).state is State.CANCELLED


async def test_on_the_port_too(doors: Doors) -> None:
    async with doors.agent.post(doors.run_url, json={"command": "pwd"}, headers=NDJSON) as answer:
        told = events(await answer.read())
    assert [one["event"] for one in told] == ["started", "output", "end"]


async def test_long_output_joins_to_what_the_end_says(doors: Doors) -> None:
    (doors.projects / "long").write_bytes(b"".join(b"%07d\n" % number for number in range(400_000)))
    async with doors.ours.post("/run", json={"command": "cat long"}, headers=NDJSON) as answer:
        told = events(await answer.read())
    assert output(told, "stdout").decode() == told[-1]["stdout"]
    assert "bytes left out" in told[-1]["stdout"] and len(told[-1]["stdout"]) < 1_100_000


async def test_a_reader_that_stands_still_holds_up_nothing(doors: Doors) -> None:
    (doors.projects / "long").write_bytes(b"x" * 8_000_000)
    reader, writer = await asyncio.open_unix_connection(
        str(doors.daemon.settings.socket_path.with_name("agent.sock")), limit=1024
    )
    body = json.dumps({"command": "cat long"}).encode()
    head = "POST /run HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: application/x-ndjson\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(100):
        async for _ in doors.daemon.changes.each():
            found = await doors.daemon.store.requests(1)
            if found and found[0].state is State.FINISHED:
                break
    writer.close()
    del reader


def request() -> Request:
    return Request(
        *("SG-1", "d", State.PENDING, "a", "s", "k", "n", RUNS["cage"], {}, "x", "/tmp", "h", "h", "w", 1.0, 2.0)
    )


async def test_the_stream_is_bounded_and_exact() -> None:
    assert LIVE <= HEAD
    stream, kept = Stream(lambda: ["Slack (Ana)"]), Bounded()
    stream.started(request())
    for _ in range(40_000):  # nobody reads
        kept.add(b"0123456789" * 10)
        stream.output("stdout", b"0123456789" * 10)
    held = await stream.next()
    assert len(held) < 2 * LIVE
    stream.ended(Ran("allowlist", "SG-1", Result(0, kept.value())))
    told = events(held + await stream.next())
    assert output(told, "stdout") == kept.value()
    assert [one["event"] for one in told if one["event"] != "output"] == ["started", "end"]


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "pwd", "wait": 0},
        {"command": "pwd", "wait": 1.5},
        {"command": "pwd", "agent": "a" * 41},
        {"command": "pwd", "agent": "a\nb"},
        {"command": "pwd", "approved": "SG-1"},
        {"approved": ""},
        {"approved": 1},
    ],
)
async def test_fields_that_are_not_right(doors: Doors, fields: dict[str, Any]) -> None:
    async with doors.ours.post("/run", json=fields) as answer:
        assert answer.status == 400, await answer.text()


async def test_how_long_a_caller_can_wait(doors: Doors) -> None:
    async with doors.ours.post("/run", json={"command": "make", "wait": 20}, headers=NDJSON) as answer:
        asked = await Reader(answer).next()
        (found,) = await doors.pending()
        assert 10 <= asked["expiresAt"] - found.created_at < 20


async def test_an_approval_that_is_not_there_is_fetched_by_nobody(doors: Doors) -> None:
    async with doors.ours.post("/run", json={"approved": "SG-000000000000"}) as answer:
        told = await answer.json()
    assert told["decision"] == "denied" and "counts once" in told["message"]


# Questions


async def question(doors: Doors, **fields: Any) -> dict[str, Any]:
    async with doors.ours.post("/ask", json={"text": "Deploy 1.2 now?", **fields}) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def state(doors: Doors, request: str) -> dict[str, Any]:
    async with doors.ours.get(f"/requests/{request}") as answer:
        found: dict[str, Any] = await answer.json()
        return found


async def test_a_question_is_answered_later(doors: Doors) -> None:
    asked = await question(doors, reason="It is green.", agent="codex")
    (found,) = await doors.pending()
    assert asked == {"request": found.id, "state": "pending", "expiresAt": found.expires_at}
    assert (found.tool, found.command, found.agent) == (APPROVAL, None, "codex")
    assert found.tool_input == {"text": "Deploy 1.2 now?", "reason": "It is green."}
    waiting = {"request": found.id, "state": "pending", "decision": None, "by": "", "reason": ""}
    assert await state(doors, found.id) == waiting
    await doors.decide(found, "0", reason="After lunch.")
    answered = {**waiting, "state": "denied", "decision": "denied", "by": "human-web", "reason": "After lunch."}
    assert await state(doors, found.id) == answered
    other = await question(doors)
    (found,) = await doors.pending()
    await doors.decide(found)
    assert (await state(doors, other["request"]))["decision"] == "approved"


async def test_an_approval_that_could_not_be_recorded_is_no_yes_to_a_question(doors: Doors) -> None:
    asked = await question(doors)
    (found,) = await doors.pending()
    log = doors.daemon.settings.log_path
    log.rename(log.with_suffix(".aside"))
    log.mkdir()  # no line can be written
    assert await doors.decide(found) >= 500
    assert (await state(doors, asked["request"]))["decision"] == "not-run"
    log.rmdir()
    log.with_suffix(".aside").rename(log)


async def test_a_question_outlives_the_grace_and_expires(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "GRACE_S", 0.0)
    async with opened(home, wait=10) as doors:
        asked = await question(doors)
        await asyncio.sleep(1.2)  # the sweeper has looked twice
        assert (await state(doors, asked["request"]))["state"] == "pending"
        (found,) = await doors.pending()
        assert (await doors.ended(found)).state is State.EXPIRED
        assert (await state(doors, asked["request"]))["decision"] == "expired"


async def test_a_question_outlives_the_daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "GRACE_S", 0.0)
    async with opened(home) as doors:
        asked = await question(doors)
        settings = doors.daemon.settings
    async with opened(home, agent_port=settings.agent_port, page_port=settings.page_port) as doors:
        await asyncio.sleep(1.2)
        (found,) = await doors.pending()
        assert found.id == asked["request"]
        assert await doors.decide(found) == 303


async def test_a_question_is_never_remembered(doors: Doors) -> None:
    await question(doors)
    (found,) = await doors.pending()
    assert await doors.decide(found, "always") == 409
    assert (await doors.daemon.store.request(found.id)).state is State.PENDING  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "body", [{}, {"text": ""}, {"text": 1}, {"text": "x", "command": "y"}, {"text": "x", "wait": 5}]
)
async def test_a_question_that_is_none(doors: Doors, body: dict[str, Any]) -> None:
    async with doors.ours.post("/ask", json=body) as answer:
        assert answer.status == 400


async def test_an_unknown_request(doors: Doors) -> None:
    async with doors.ours.get("/requests/SG-000000000000") as answer:
        assert answer.status == 404
