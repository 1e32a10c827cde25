from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Home, raw

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
                done.wait(10)
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
    assert "no daemon answers on" in ended.out
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
