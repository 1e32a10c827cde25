"""`slack-gate demo --auto`: the whole product in one command, on a home of its own."""

from __future__ import annotations

import json
import subprocess
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
    work = tmp_path / "projects" / "slack-gate-demo"
    assert (work / "release-1.4.2.txt").exists()
    assert (work / "database").is_dir()
    assert not (tmp_path / ".config" / "slack-gate").exists()


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
