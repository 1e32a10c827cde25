"""The command line as a whole: help, errors as one sentence, what is imported, hostile text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slack_gate.cli import COMMANDS
from tests.cli.conftest import HOSTILE, Home, raw
from tests.daemon.serving import MEASURED

SUBCOMMANDS = [
    *([name] for name in sorted(COMMANDS) if name != "hook"),
    ["rules", "list"],
    ["rules", "revoke"],
    ["requests", "list"],
    ["log", "verify"],
]


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`slack-gate` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from slack_gate.cli import main; main()", *arguments],
        env={**MEASURED, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_names_every_subcommand_in_one_line_each(home: Home) -> None:
    ended = home.run("--help")
    assert ended.code == 0
    assert [
        line.split()[0] for line in ended.out.splitlines() if line.startswith("  ") and line[2].islower()
    ] == sorted(COMMANDS)


@pytest.mark.parametrize("words", SUBCOMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_subcommand_has_help(home: Home, words: list[str], flag: str) -> None:
    ended = home.run(*words, flag)
    assert ended.code == 0
    assert f"slack-gate {' '.join(words)} [OPTIONS]" in ended.out.splitlines()[0]
    assert not [line for line in ended.out.splitlines()[1:] if line.endswith("...")]  # no sentence is cut
    assert list(home.path.iterdir()) == []


def test_version_and_unknown_words(home: Home) -> None:
    assert "version" in home.run("--version").out
    for words in (
        ["frobnicate"],
        ["rules", "frobnicate"],
        ["status", "--frobnicate"],
        ["requests", "list", "--limit", "0"],
    ):
        ended = home.run(*words)
        assert ended.code == 2
        assert "Error:" in ended.err


def test_help_imports_neither_database_nor_slack() -> None:
    code = (
        "import sys; sys.argv = ['slack-gate', '--help']\n"
        "from slack_gate.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'slack_bolt', 'slack_sdk', 'aiohttp', 'pydantic', 'structlog', 'asyncio', 'jinja2'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "HEAVY []" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "words"),
    [
        (["rules"], {"SLACK_GATE_HOME": "/nonexistent"}, 1, "no database in /nonexistent"),
        (["rules"], {"SLACK_GATE_HOME": "relative"}, 78, "not an absolute path"),
        (["serve"], {"SLACK_GATE_HOME": "/nonexistent", "GATE_WAIT": "soon"}, 78, "SLACK_GATE_WAIT"),
        (["serve"], {"SLACK_GATE_HOME": "/nonexistent"}, 78, "SLACK_BOT_TOKEN is not set"),
        (["log"], {"SLACK_GATE_HOME": "/nonexistent"}, 1, "no log"),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], environment: dict[str, str], code: int, words: str) -> None:
    ended = program(*arguments, **environment)
    assert ended.returncode == code
    assert ended.stdout == ""
    *warnings, sentence = ended.stderr.splitlines()  # a clone in /tmp is warned of before
    assert sentence.startswith("slack-gate: ")
    assert words in sentence
    assert all("warning" in line for line in warnings)


def test_a_damaged_database_is_one_sentence(home: Home) -> None:
    (home.path / "gate.db").write_bytes(b"not a database" * 100)
    for words in (["rules"], ["requests"], ["log", "verify"], ["rules", "revoke", "R-1"]):
        ended = home.run(*words)
        assert ended.code == 74
        assert ended.err.startswith("slack-gate: The database cannot be used")
    assert (home.path / "gate.db").read_bytes() == b"not a database" * 100


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SLACK_APP_TOKEN", "", "SLACK_APP_TOKEN is not set"),
        ("SLACK_GATE_APPROVERS", "", "SLACK_GATE_APPROVERS is empty"),
        ("SLACK_GATE_APPROVERS", ",", "SLACK_GATE_APPROVERS is empty"),
        ("SLACK_GATE_APPROVERS", "ana", "not a Slack user id"),
    ],
)
def test_the_daemon_does_not_start_half_configured(home: Home, name: str, value: str, words: str) -> None:
    for setting, good in (
        ("SLACK_BOT_TOKEN", "xoxb-1"),
        ("SLACK_APP_TOKEN", "xapp-1"),
        ("SLACK_GATE_APPROVERS", "U0ANA"),
    ):
        home.monkeypatch.setenv(setting, good)
    home.monkeypatch.setenv("SLACK_API_URL", "http://127.0.0.1:1/api/")
    home.monkeypatch.setenv(name, value)
    ended = home.run("serve")
    assert ended.code == 78
    assert words in ended.err
    assert "xoxb-1" not in ended.err


def test_hostile_text_reaches_no_terminal(home: Home) -> None:
    home.ask(1, f"touch {HOSTILE}", name=f"Ana{HOSTILE}")
    home.ask(2, None, tool=f"mcp__{HOSTILE}")
    rule = home.run("rules").out.split()[0]
    revoked = home.run("rules", "revoke", rule)
    home.ask(3, f"touch {HOSTILE}")
    home.log.write_bytes(home.log.read_bytes() + f'{HOSTILE}\n{{"ts": "{HOSTILE}"}}\n'.encode() + b"\xff\n")
    texts = [home.run(*words) for words in (["rules"], ["rules", "--json"], ["rules", "list", "--json"], ["requests"])]
    texts += [
        home.run(*words) for words in (["requests", "list", "--json"], ["log"], ["log", "--json"], ["log", "verify"])
    ]
    texts += [revoked, home.run("rules", "revoke", HOSTILE), home.run("serve")]
    for text in texts:
        assert raw(text.out + text.err) == []
    assert sum("end" in text.out + text.err for text in texts) >= 7
