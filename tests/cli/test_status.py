from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slack_gate.core.cord import Hand, Pull
from slack_gate.core.event import ToolEvent
from slack_gate.daemon.house import Caller
from slack_gate.daemon.serve import Running, running
from tests.cli.conftest import HOSTILE, Home, raw
from tests.client.asking import program
from tests.ports import free_port
from tests.terminal.sitting import alone

HEALTHY = b'{"healthy": true, "lastInboundSeconds": 1.5, "fault": null}'


@contextmanager
def listening(home: Home, reply: bytes | None) -> Iterator[list[bytes]]:
    """Something at the socket's path that answers one client with `reply` (None: never)."""
    path = home.path.parent / "run" / "gate.sock"
    path.parent.mkdir(mode=0o700)
    asked: list[bytes] = []
    done = threading.Event()

    def answer(server: socket.socket) -> None:
        try:
            connection, _ = server.accept()
        except OSError:  # the test ended without a client
            return
        with connection, suppress(BrokenPipeError):
            asked.append(connection.recv(1000))
            if reply is None:
                done.wait(100)
            else:
                connection.sendall(reply)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        yield asked
        done.set()


def framed(body: bytes) -> bytes:
    return b"0 %d\n" % len(body) + body


def test_healthy(home: Home) -> None:
    with listening(home, framed(HEALTHY)) as asked:
        ended = home.run("status")
    assert ended.code == 0
    assert ended.out.startswith("Healthy: Slack was heard 1.5 s ago")
    assert asked == [b"slack-gate/1 status 0 " + b"0" * 32 + b" 5 -\n"]


def test_as_json(home: Home) -> None:
    with listening(home, framed(HEALTHY)):
        assert json.loads(home.run("status", "--json").out) == json.loads(HEALTHY)


def test_lines_and_notes(home: Home) -> None:
    told = {"lines": 1, "notes": [f"Slack ended it: too_many_websockets. Stop others{HOSTILE}"], "otherConnections": 3}
    with listening(home, framed(json.dumps({**json.loads(HEALTHY), **told}).encode())):
        ended = home.run("status")
    assert ended.code == 0
    healthy, note, others = ended.out.splitlines()
    assert healthy.startswith("Healthy: Slack was heard 1.5 s ago on 1 line, hooks")
    assert note.startswith("Note: Slack ended it: too_many_websockets. Stop others")
    assert others.startswith("Note: Slack counts 3 other connections")
    assert raw(ended.out) == []


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        ({"pending": 0, "cord": "slack", "paused": None}, ["Nothing waits for a person."]),
        (
            {"pending": 1, "cord": "slack", "paused": None},
            ["One request waits for a person: `slack-gate requests` lists them."],
        ),
        (
            {"pending": 12, "cord": "web", "paused": None},
            [
                "12 requests wait for a person: `slack-gate requests` lists them.",
                "Gated calls are asked on the approval page and the terminal only, without cards.",
            ],
        ),
        (
            {"pending": 0, "cord": "slack", "paused": {"by": f"Ana{HOSTILE}", "at": 1796061700.0}},
            ["Nothing waits for a person.", "Paused by Ana"],
        ),
        ({"pending": 3, "cord": "somewhere", "paused": None}, ["3 requests wait for a person"]),
        ({"pending": "many", "cord": "web"}, []),
    ],
)
def test_what_waits_and_where_it_is_asked(home: Home, told: dict[str, object], lines: list[str]) -> None:
    with listening(home, framed(json.dumps({**json.loads(HEALTHY), **told}).encode())):
        ended = home.run("status")
    assert ended.code == 0
    said = ended.out.splitlines()[1:]
    assert len(said) == len(lines)
    assert all(line.startswith(expected) for line, expected in zip(said, lines, strict=True)), said
    assert raw(ended.out) == []


async def test_a_daemon_tells_what_waits_and_a_pause(tmp_path: Path) -> None:
    async with running(alone(tmp_path, page_port=free_port()), ("web",)) as daemon:
        await daemon.store.pulled(Pull.PAUSE, Hand("human-slack", "U1", "Ana"), 1796061700.0)
        assert await _said(daemon) == {
            "pending": 0,
            "cord": "slack",
            "paused": {"by": "Ana", "at": 1796061700.0},
        }
        await daemon.store.pulled(Pull.RESUME, Hand("human-slack", "U1", "Ana"), 1796061701.0)
        await daemon.store.pulled(Pull.WEB, Hand("human-slack", "U1", "Ana"), 1796061702.0)
        event = ToolEvent("claude-code", "s1", "call-1", "Bash", {"command": "make deploy"}, "/w/app")
        await daemon.gate.submit(event, Caller("0" * 32, 330.0))
        assert await _said(daemon) == {"pending": 1, "cord": "web", "paused": None}


async def test_a_database_that_is_away_keeps_nobody_from_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(alone(tmp_path, page_port=free_port()), ("web",)) as daemon:
        held = threading.Event()
        busy = asyncio.ensure_future(daemon.store.database.run(lambda connection: held.wait(100)))
        assert await _said(daemon) == {}
        held.set()
        await busy


async def _said(daemon: Running) -> dict[str, object]:
    ran = await program(daemon.settings, "status", "--json", stdin=asyncio.subprocess.DEVNULL)
    out, said = await ran.communicate()
    assert ran.returncode == 0, (out, said)
    return {name: value for name, value in json.loads(out).items() if name in ("pending", "cord", "paused")}


def test_without_slack(home: Home) -> None:
    with listening(home, framed(b'{"healthy": true, "lastInboundSeconds": null, "fault": null}')):
        assert home.run("status").out.startswith("Healthy: Slack is not used, hooks are answered")


@pytest.mark.parametrize("odd", [{"notes": 5}, {"lines": "two"}, {"otherConnections": "many"}, {"notes": [None]}])
def test_odd_details_do_no_harm(home: Home, odd: dict[str, object]) -> None:
    with listening(home, framed(json.dumps({**json.loads(HEALTHY), **odd}).encode())):
        ended = home.run("status")
    assert (ended.code, ended.out.startswith("Healthy: ")) == (0, True)


def test_slack_is_not_heard(home: Home) -> None:
    fault = {"healthy": False, "lastInboundSeconds": 171.2, "fault": f"Slack was silent for 171 s{HOSTILE}"}
    with listening(home, framed(json.dumps(fault).encode())):
        ended = home.run("status")
    assert ended.code == 1
    assert ended.out.startswith("Not healthy: Slack was silent for 171 s")
    assert "(Slack was last heard 171.2 s ago)" in ended.out
    assert raw(ended.out) == []


def test_no_daemon(home: Home) -> None:
    ended = home.run("status")
    assert ended.code == 1
    assert "no daemon answers on" in ended.out and "). Start it: `slack-gate serve`.\n" in ended.out
    assert "No such file" in ended.out
    assert json.loads(home.run("status", "--json").out)["healthy"] is False


def test_a_dead_daemon(home: Home) -> None:
    path = home.path.parent / "run" / "gate.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    assert "Connection refused" in home.run("status").out


def test_a_path_too_long(home: Home, tmp_path: Path) -> None:
    home.monkeypatch.setenv("SLACK_GATE_SOCKET", str(tmp_path / ("x" * 120)))
    ended = home.run("status")
    assert (ended.code, "too long" in ended.out) == (1, True)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"hello",
        b"0 5\nhello",
        b"0 2\n[]",
        b"0 4\nnull",
        b'0 2\n{"healthy": true}',
        b"0 9\n\xff\xfe",
        framed(b'{"healthy": "yes", "lastInboundSeconds": 1, "fault": "odd"}'),
        b"x" * 200_000,
    ],
)
def test_something_else_answers(home: Home, reply: bytes) -> None:
    with listening(home, reply):
        ended = home.run("status")
    assert ended.code == 1
    assert ended.out.startswith("Not healthy: ")


def test_a_daemon_too_busy_to_answer(home: Home) -> None:
    home.monkeypatch.setattr("slack_gate.cli.status.TIMEOUT_S", 0.2)
    with listening(home, None):
        ended = home.run("status")
    assert (ended.code, "timed out" in ended.out) == (1, True)


def test_another_users_daemon(home: Home) -> None:
    home.monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with listening(home, framed(HEALTHY)) as asked:
        ended = home.run("status")
        assert ended.code == 1
        assert "runs as uid 0" in ended.out or f"runs as uid {os.getuid()}" in ended.out
        assert asked in ([], [b""])
