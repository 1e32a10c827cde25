"""No cage on this machine: `install` and `doctor` say it alike, with the fix that `sbox` names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from slack_gate.cli import doctor, group
from slack_gate.install import cage_check, installer
from slack_gate.install.cage_check import no_cage

FIX = "user namespaces are switched off. Switch them on: sudo sysctl user.max_user_namespaces=10000. Nothing was run."
NO_CAGE = f"no cage starts here: {FIX}"


@pytest.fixture
def fake(home: Path) -> Callable[[str], Path]:
    """Puts a script where the installed `sbox` is, or will be."""

    def put(body: str, place: Path | None = None) -> Path:
        sbox = place or home / ".local/bin/sbox"
        sbox.parent.mkdir(parents=True, exist_ok=True)
        sbox.write_text(f"#!/bin/sh\n{body}\n")
        sbox.chmod(0o755)
        return sbox

    return put


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f'[ "$*" = true ] && echo "sbox: {FIX}" >&2; exit 125', NO_CAGE),
        ("exit 3", "no cage starts here: {} ends with exit code 3"),
        ("exec sleep 60", "no cage starts here: {} has not begun after 0.1 s"),
        ("exit 0", ""),
    ],
)
def test_why_no_cage_starts(fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, body: str, said: str) -> None:
    sbox = fake(body)
    if "sleep" in body:
        monkeypatch.setattr(cage_check, "START_S", 0.1)
    assert no_cage(sbox) == said.format(sbox)


def test_doctor_and_install_say_the_same(
    home: Path, fake: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f'echo "sbox: {FIX}" >&2; exit 125'
    monkeypatch.setattr(installer, "build_sbox", lambda target, home: fake(body, target / "built/sbox"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SLACK_GATE_HOME", str(home / "gate"))
    planned = CliRunner().invoke(group, ["install", "claude-code", "--dry-run"], catch_exceptions=False).output
    assert "no cage" not in planned and not (home / ".local").exists()
    said = CliRunner().invoke(group, ["install", "claude-code"], catch_exceptions=False).output.splitlines()
    assert said[-2:] == [f"Warning: {NO_CAGE}", "Done. Start the daemon: ~/.local/bin/slack-gate serve"]
    assert [(one.level, one.words) for one in doctor._cage(home)] == [("fault", NO_CAGE)]
    fake("exit 0")
    assert [one.level for one in doctor._cage(home)] == ["ok"]
