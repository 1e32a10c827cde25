"""`serve` and `demo` say so when the agent could change the program itself."""

import sys
from pathlib import Path

import pytest

from slack_gate.daemon.messages import configure, warn_of_writable_program


def test_a_program_in_the_zone_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    configure("text")
    monkeypatch.setattr(sys, "executable", "/tmp/venv/bin/python")
    warn_of_writable_program()
    said = capsys.readouterr().err
    assert "/tmp/venv/bin/python lies in /tmp" in said
    assert "slack-gate install claude-code" in said


def test_a_program_out_of_reach_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("text")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    monkeypatch.setattr("slack_gate.daemon.messages.__file__", "/usr/lib/slack_gate/daemon/messages.py")
    monkeypatch.setenv("HOME", "/root")
    warn_of_writable_program()
    assert capsys.readouterr().err == ""
