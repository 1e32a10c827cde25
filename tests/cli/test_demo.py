"""`slack-gate demo --auto`: the whole product in one command, on a home of its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slack_gate.cli import demo
from slack_gate.cli.demo import STEPS
from tests.cli.test_cli import program


def test_it_shows_a_green_an_approved_and_a_denied_command(tmp_path: Path) -> None:
    for _ in range(2):  # it can be repeated
        ended = program("demo", "--auto", "--port", "0", HOME=str(tmp_path), PATH="/usr/local/bin:/usr/bin:/bin")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
        for number, step in enumerate(STEPS, 1):
            assert f"[{number}/{len(STEPS)}] The agent wants to run:  {step.command}" in ended.stdout
        assert "ran, exit code 0: hello from the cage" in ended.stdout
        assert "Approved by You" in ended.stdout
        assert "not run: Denied by You" in ended.stdout
    assert not (tmp_path / ".config" / "slack-gate").exists()


def test_it_touches_nothing_that_was_there_and_leaves_nothing(tmp_path: Path) -> None:
    """A clone may well be called like that."""
    clone = tmp_path / "projects" / "slack-gate-demo" / "clone"
    state = tmp_path / ".local" / "state" / "slack-gate-demo" / "home"
    for place in (clone, state):
        place.mkdir(parents=True)
    ended = program("demo", "--auto", "--port", "0", HOME=str(tmp_path), PATH="/usr/local/bin:/usr/bin:/bin")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert clone.is_dir() and state.is_dir()
    assert [one.name for one in (tmp_path / "projects").iterdir()] == ["slack-gate-demo"]
    assert "slack-gate-demo" in {one.name for one in state.parents[1].iterdir()} <= {"slack-gate-demo", "sbox"}


def test_a_port_that_is_taken_is_said_with_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = program("demo", "--auto", "--port", str(port), HOME=str(tmp_path), PATH="/usr/bin:/bin")
    assert ended.returncode == 78
    assert f"slack-gate: Port {port} of 127.0.0.1 cannot be opened: Address already in use." in ended.stderr
    assert "--port 0" in ended.stderr and "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []
    assert program("demo", "--port", "99999", HOME=str(tmp_path), PATH="/usr/bin:/bin").returncode == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_whatever_it_waits_for(tmp_path: Path, number: signal.Signals) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    words = [sys.executable, "-m", "slack_gate", "demo", "--port", "0"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "a person decides" in line:
                break
        running.send_signal(number)
        assert running.wait(100) == 0
    assert list((tmp_path / "projects").iterdir()) == []


def test_it_goes_well_with_trouble_in_slack(tmp_path: Path) -> None:
    faults = ("chat.postMessage lost", "chat.update http 503 x2", "links drop 1")
    given = [word for fault in faults for word in ("--fault", fault)]
    ended = program("demo", "--auto", "--port", "0", *given, HOME=str(tmp_path), PATH="/usr/local/bin:/usr/bin:/bin")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "no answer from Slack" in ended.stderr
    assert "Approved by You" in ended.stdout


def test_an_unknown_trouble_is_refused_with_the_list(tmp_path: Path) -> None:
    ended = program("demo", "--port", "0", "--fault", "make coffee", HOME=str(tmp_path), PATH="/usr/bin:/bin")
    assert ended.returncode == 2
    assert "no such trouble: 'make coffee'" in ended.stderr and "links drop [N]" in ended.stderr
    assert ended.stdout == ""  # nothing was started for it


def test_what_is_asked_by_hand_survives_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "a 'new' clone"
    clone.mkdir()
    hook = clone / "hook.py"
    hook.write_text("import sys; print(sys.argv[1:], sys.stdin.read())")
    monkeypatch.setattr(demo, "HOOK", hook)
    line = demo.by_hand(clone / "gate.sock", clone)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    words, _, event = done.stdout.partition("] ")
    assert words == str(["claude-code", "--socket", str(clone / "gate.sock")])[:-1]
    assert json.loads(event)["cwd"] == str(clone)
