"""`slack-gate doctor` on an installed gate with its daemon, and on one fault after the other."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slack_gate.cli.probe import EVENT, probed
from slack_gate.install.program import base_python
from slack_gate.local_slack.server import LocalSlack
from tests.client.asking import ROOT
from tests.e2e.claude.client import USER_ID, give_away, throw_away_home
from tests.e2e.claude.gate import install

HOOK = ROOT / "slack_gate" / "hook.py"


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    with throw_away_home(prefix="slack-gate-doctor-") as home:
        install(home, limit=330)
        yield home


@dataclass
class Patient:
    """An installed gate: its HOME, its environment, and what doctor says of it."""

    home: Path
    slack: LocalSlack
    environment: dict[str, str]
    code: int = -1
    found: list[dict[str, str]] = field(default_factory=list)

    async def used(self) -> None:
        """A first call through the installed hook: from then on there is a log."""
        hook = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", json.loads(self.settings.read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]),
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            user=USER_ID,
            group=USER_ID,
            extra_groups=None if USER_ID is None else [],
        )
        await hook.communicate(EVENT.replace(b"Bash", b"TodoWrite"))
        assert hook.returncode == 0

    async def examined(self, *options: str, **changes: str) -> list[dict[str, str]]:
        process = await asyncio.create_subprocess_exec(
            *(self.home / ".local/bin/slack-gate", "doctor", "--json", *options),
            env=self.environment | changes,
            cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            user=USER_ID,
            group=USER_ID,
            extra_groups=None if USER_ID is None else [],
        )
        async with asyncio.timeout(100):
            out, said = await process.communicate()
        assert said == b"", said.decode()
        self.code = process.returncode or 0
        self.found = json.loads(out)
        return self.found

    def faults(self, about: str) -> str:
        return "\n".join(
            f"{one['words']} {one['fix']}" for one in self.found if (one["level"], one["about"]) == ("fault", about)
        )

    @property
    def settings(self) -> Path:
        return self.home / ".claude" / "settings.json"

    def rewrite(self, **changes: Any) -> None:
        """The hook's entry with other fields."""
        value = json.loads(self.settings.read_text())
        value["hooks"]["PreToolUse"][0]["hooks"][0].update(changes)
        self.settings.write_text(json.dumps(value))
        give_away(self.settings.parent)


@asynccontextmanager
async def patient(home: Path) -> AsyncIterator[Patient]:
    shutil.rmtree(home / "gate", ignore_errors=True)
    before = (home / ".claude" / "settings.json").read_bytes()
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        environment = {
            "HOME": str(home), "PATH": f"{home}/.local/bin:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
            "SLACK_GATE_HOME": str(home / "gate"), "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token, "SLACK_API_URL": slack.api_url, "SLACK_GATE_APPROVERS": "U0ANA",
            "SLACK_GATE_AGENT_PORT": "0", "SLACK_GATE_PAGE_PORT": "0",
        }  # fmt: skip
        daemon = await asyncio.create_subprocess_exec(
            *(home / ".local/bin/slack-gate", "serve"),
            env=environment,
            cwd=home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            user=USER_ID,
            group=USER_ID,
            extra_groups=None if USER_ID is None else [],
        )
        assert daemon.stderr is not None
        said = b""
        async with asyncio.timeout(100):
            while b"waiting for hooks" not in said:
                line = await daemon.stderr.readline()
                assert line, said.decode()
                said += line
        try:
            one = Patient(home, slack, environment)
            await one.used()
            yield one
        finally:
            daemon.terminate()
            await daemon.communicate()
            (home / ".claude" / "settings.json").write_bytes(before)


async def test_healthy_and_then_not(installed: Path) -> None:
    async with patient(installed) as one:
        await one.examined()
        assert (one.code, [f for f in one.found if f["level"] == "fault"]) == (0, []), one.found
        good = {finding["about"] for finding in one.found if finding["level"] == "ok"}
        assert good == {"settings", "daemon", "Slack", "cage", "hook", "program", "log", "policy"}
        assert one.slack.bot_token not in json.dumps(one.found)

        await one.examined("--message", SLACK_GATE_APPROVERS="U0NOBODY")
        assert (one.code, "U0NOBODY" in one.faults("Slack")) == (1, True)
        await one.examined(SLACK_GATE_APPROVERS="")
        assert (one.code, "nobody can be asked Set it to your" in one.faults("Slack")) == (1, True)
        one.slack.fail_next("chat.postMessage", error="messages_tab_disabled")
        await one.examined("--message")
        assert "messages_tab_disabled Turn on App Home" in one.faults("Slack")
        one.slack.fail_next("chat.postMessage", reset_before=True)
        await one.examined("--message")
        assert "a test message was not taken: no answer from Slack" in one.faults("Slack")
        await one.examined("--message")
        assert (one.code, one.faults("Slack")) == (0, "")

        log_file = one.home / "gate" / "gate-log.jsonl"
        log_file.rename(away := log_file.with_suffix(".away"))
        await one.examined()
        assert "is missing" in one.faults("daemon") and "Start it" not in one.faults("daemon")  # it runs
        away.rename(log_file)

        (one.home / "gate" / "policy.toml").write_text("this is no policy")
        with (one.home / "gate" / "gate-log.jsonl").open("a") as log:
            log.write('{"ts": "2026-01-01T00:00:00Z"}\n')
        await one.examined(SLACK_GATE_WAIT="600")
        assert one.code == 1
        assert one.faults("policy") and one.faults("log")
        assert "330 s, before the 600 s" in one.faults("hook")
        (one.home / "gate" / "policy.toml").unlink()


async def test_faults_of_the_hook(installed: Path) -> None:
    async with patient(installed) as one:
        entry = json.loads(one.settings.read_text())["hooks"]["PreToolUse"][0]["hooks"][0]
        line = entry["command"]
        cases: list[tuple[dict[str, Any], str]] = [
            ({"command": line.replace("/slack_gate/hook.py", "/gone/slack_gate/hook.py")}, "does not exist"),
            ({"command": line.replace("gate.sock", "other.sock")}, "not on"),
            ({"command": line, "timeout": 330}, "Claude Code end it first"),
            ({"timeout": 390, "onFailure": "continue"}, "does not tell Claude Code to block"),
        ]
        for changes, words in cases:
            one.rewrite(**changes)
            await one.examined()
            assert (one.code, words in one.faults("hook")) == (1, True), (changes, one.found)
        one.settings.write_text("{}")
        await one.examined()
        assert "hold the hook" in one.faults("hook")


async def test_without_a_daemon(installed: Path) -> None:
    async with patient(installed) as one:
        environment = one.environment
    gone = Patient(installed, one.slack, environment)
    await gone.examined()
    assert gone.code == 1
    assert "no daemon answers" in gone.faults("daemon")
    assert "slack-gate serve" in gone.faults("daemon")
    assert "cannot be reached" in gone.faults("Slack")


def test_before_anything_is_set_up(tmp_path: Path) -> None:
    """What there cannot be yet is no fault, and each sentence ends before its fix begins."""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    words = [sys.executable, "-m", "slack_gate", "doctor"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert done.returncode == 1 and ["note", "log", "there is none yet; the daemon writes it"] in lines, done
    [hook] = [said for level, about, said in lines if (level, about) == ("fault", "hook")]
    assert hook.endswith("so nothing is asked. Run `slack-gate install claude-code`.")
    home = tmp_path / ".config" / "slack-gate"
    home.mkdir(parents=True)
    (home / "gate-log.jsonl").write_text("{}\n")
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    [log] = [line for line in done.stdout.splitlines() if line.startswith("fault  log")]
    assert "There is no database in" in log and "slack-gate: " not in log


# The probe


def hook_line(*words: str, end: str = " || exit 2") -> str:
    return shlex.join([str(base_python()), "-IS", str(HOOK), "claude-code", *words]) + end


@pytest.fixture
def place(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def test_a_line_as_installed_is_good(place: Path) -> None:
    assert probed(hook_line("--socket", "/run/x/gate.sock", "--limit", "30"), place) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("true /slack_gate/hook.py --socket x", "does not ask"),
        (hook_line("--socket", "x", "--limit", "30", end=" | cat > /dev/null; true"), "does not pass a deny on"),
        (hook_line("--socket", "x", "--limit", "30", end=" | grep 'doctor asks'; true"), "lets calls run"),
        (hook_line("--limit", "30"), "names no socket"),
        (hook_line("--frob", "x", "--socket", "x"), "does not ask"),
        ("/nonexistent/python /slack_gate/hook.py --socket 'a b' || exit 0", "does not ask"),
    ],
)
def test_a_line_that_lets_calls_through(place: Path, line: str, words: str) -> None:
    wrong = probed(line, place)
    assert wrong is not None and words in wrong, wrong


def test_a_hook_that_turns_a_deny_into_an_allow(place: Path) -> None:
    hook = place / "slack_gate" / "hook.py"
    hook.parent.mkdir()
    hook.write_text(
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[sys.argv.index('--socket') + 1])\n"
        "s.sendall(b'slack-gate/1\\n' + sys.stdin.buffer.read()); s.recv(1); s.close()\n"
    )
    wrong = probed(shlex.join([str(base_python()), str(hook), "--socket", "x"]), place)
    assert wrong is not None and "does not pass a deny on: exit code 0" in wrong, wrong
    assert os.listdir(place)
