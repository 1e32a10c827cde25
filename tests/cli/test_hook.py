"""`slack-gate hook` is hook.py, slower."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_cli import program


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["claude-code", "--socket", "/nonexistent/gate.sock"], "no daemon listens"),
        (["skynet"], "unknown agent"),
        ([], "unknown agent"),
        (["--help"], "unknown agent"),
        (["claude-code", "--frob", "1"], "unknown or incomplete option"),
    ],
)
def test_it_denies_as_the_client_does(arguments: list[str], words: str) -> None:
    ended: subprocess.CompletedProcess[str] = program("hook", *arguments, SLACK_GATE_HOME=str(Path("/nonexistent")))
    assert ended.returncode == 2
    assert words in ended.stderr
    if arguments[:1] == ["claude-code"]:
        assert json.loads(ended.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
