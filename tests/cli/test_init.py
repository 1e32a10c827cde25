"""`slack-gate init` writes what the other subcommands then read."""

from __future__ import annotations

import io
import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from slack_gate.config import load
from tests.cli.conftest import Home
from tests.client.asking import ROOT


def typed(home: Home, *lines: str) -> None:
    home.monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))


@pytest.fixture
def fresh(home: Home) -> Home:
    home.path.rmdir()
    return home


def test_what_was_typed_is_in_force(fresh: Home) -> None:
    typed(fresh, "xoxb-1-abc", " xapp-1-abc ", "U0ANA, U0BEN")
    ended = fresh.run("init")
    assert ended.code == 0, ended
    assert "xoxb-1-abc" not in ended.out + ended.err
    assert "slack-gate install claude-code" in ended.out and "  ~/.local/bin/slack-gate serve\n" in ended.out
    settings = load()
    assert settings.slack_bot_token.get_secret_value() == "xoxb-1-abc"
    assert settings.slack_app_token.get_secret_value() == "xapp-1-abc"
    assert settings.approvers == ("U0ANA", "U0BEN")
    assert stat.S_IMODE((fresh.path / "config.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE(fresh.path.stat().st_mode) == 0o700


def test_every_setting_stands_there_as_a_comment_that_can_be_used(fresh: Home) -> None:
    typed(fresh, "", "", "")
    assert fresh.run("init").code == 0
    text = (fresh.path / "config.toml").read_text()
    assert tomllib.loads(text) == {}
    before = load()
    settings = [line[2:] for line in text.splitlines() if line.startswith("# ") and " = " in line]
    usable = [line for line in settings if not line.endswith('= ""')]
    assert len(usable) > 5
    (fresh.path / "config.toml").write_text("\n".join(usable) + "\n")
    assert load() == before


def test_what_is_wrong_is_refused_and_nothing_written(fresh: Home) -> None:
    typed(fresh, "", "", "Ana")
    ended = fresh.run("init")
    assert (ended.code, "approvers" in ended.err) == (78, True), ended
    assert not fresh.path.exists()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["xapp-1-abc", "xoxb-1-abc", "U0ANA"], "does not begin with xoxb-, so it is no bot token"),
        (["xoxb-1-abc", "xoxb-1-abc", "U0ANA"], "does not begin with xapp-, so it is no app-level token"),
    ],
)
def test_a_token_in_the_place_of_another_is_refused_at_once(fresh: Home, lines: list[str], says: str) -> None:
    typed(fresh, *lines)
    ended = fresh.run("init")
    assert (ended.code, says in ended.err) == (78, True), ended
    assert "1-abc" not in ended.out + ended.err
    assert not fresh.path.exists()


@pytest.mark.parametrize("lines", [["", "", ""], ["xoxb-1-abc", "", "U0ANA"], ["xoxb-1-abc", "xapp-1-abc", ""]])
def test_without_all_that_slack_needs_the_next_step_is_the_page(fresh: Home, lines: list[str]) -> None:
    typed(fresh, *lines)
    assert "  ~/.local/bin/slack-gate serve --approver web\n" in fresh.run("init").out


def test_a_file_that_is_there_stays(home: Home) -> None:
    (home.path / "config.toml").write_text("wait = 7\n")
    typed(home, "xoxb-1-abc", "", "")
    assert home.run("init").code == 78
    assert (home.path / "config.toml").read_text() == "wait = 7\n"


def test_tokens_typed_at_a_terminal_are_not_shown(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "slack_gate", "init"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    for question, answer in [(b"xoxb-", b"xoxb-1-abc\n"), (b"xapp-", b"xapp-1-abc\n"), (b"commas: ", b"U0ANA\n")]:
        while question not in seen:
            seen += os.read(ours, 4096)
        while not seen.endswith(b": "):
            seen += os.read(ours, 4096)
        os.write(ours, answer)
    assert process.wait(100) == 0
    seen += os.read(ours, 65536)
    os.close(ours)
    assert b"1-abc" not in seen
    assert b"xoxb-1-abc" in (tmp_path / ".config" / "slack-gate" / "config.toml").read_bytes()
