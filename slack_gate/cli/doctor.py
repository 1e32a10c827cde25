"""slack-gate doctor"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from slack_gate.cli.probe import probed
from slack_gate.config import Settings, load
from slack_gate.core.display import sentence
from slack_gate.daemon.programs import trusted_programs
from slack_gate.errors import GateError
from slack_gate.install.cage_check import no_cage
from slack_gate.install.layout import PINNED, Layout, Record
from slack_gate.install.settings import without_hook
from slack_gate.install.trust import untrusted_reason
from slack_gate.slack.faults import FAILED, fault_of
from slack_gate.slack.link import check_app_token, check_bot_token, web_client
from slack_gate.slack.people import People
from slack_gate.slack.remedies import remedy
from slack_gate.whereabouts import program

COMMAND_S = 60.0
BLOCKS_SINCE = (2, 1, 295)  # the first Claude Code that can be told to block when a hook fails
INSTALL = "Run `slack-gate install claude-code`."
HOOK = "/slack_gate/hook.py"
TOKENS = "`slack-gate init` writes them down; with `serve --approver web` alone none are needed."
APPROVERS = "Set it to your Slack member id."
TEST = "slack-gate doctor: a test, nothing to do."


@dataclass(frozen=True, slots=True)
class Finding:
    """`level` is ok, note or fault; a fault has its fix where one is known."""

    level: str
    about: str
    words: str
    fix: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.option("--message", is_flag=True, help="Also send each approver a test message in Slack.")
def doctor(as_json: bool, message: bool) -> None:
    """Check the whole installation: settings, daemon, Slack, cage, hook, program, log, policy.

    Each fault comes with its fix. Exit 0 when there is none. Nothing is changed.
    """
    found = list(_examined(message))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found]))
    else:
        for finding in found:
            said = f"{finding.words.removesuffix('.')}. {finding.fix}" if finding.fix else finding.words
            click.echo(f"{finding.level:<7}{finding.about:<10}{sentence(said)}")
    sys.exit(1 if any(finding.level == "fault" for finding in found) else 0)


def _examined(message: bool) -> Iterator[Finding]:
    try:
        settings = load()
    except GateError as error:
        yield _fault("settings", error)
        return
    yield Finding("ok", "settings", f"home {settings.home}, socket {settings.socket_path}")
    home = Path.home()
    daemon = _of_command("daemon", "status")
    yield daemon
    yield from _slack(settings, message)
    yield from _cage(home)
    yield from _hooks(settings, home)
    yield from _program(home)
    yield _log(settings, running=daemon.level == "ok")
    yield _of_command("policy", "policy", "check")


def _fault(about: str, error: GateError) -> Finding:
    return Finding("fault", about, error.sentence, error.next_step)


def _of_command(about: str, *words: str, fix: str = "") -> Finding:
    """What another subcommand finds, in its words."""
    code, said = _run([*program(), *words])
    lines = [line.removeprefix("slack-gate: ") for line in said.splitlines() if line.strip()] or [f"exit code {code}"]
    return Finding("ok", about, lines[0]) if code == 0 else Finding("fault", about, " ".join(lines), fix)


def _log(settings: Settings, running: bool) -> Finding:
    """Before the first start there is none, and nothing wrong with that; with a daemon running there must be one."""
    files = settings.home / "gate.db", settings.log_path
    if not (running or settings.database_url or any(file.exists() for file in files)):
        return Finding("note", "log", "there is none yet; the daemon writes it")
    return _of_command("log", "log", "verify", fix="Keep the file and the database as they are, and look who wrote.")


def _run(words: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(words, capture_output=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "backslashreplace")


def _slack(settings: Settings, message: bool) -> Iterator[Finding]:
    bot, app = settings.slack_bot_token.get_secret_value(), settings.slack_app_token.get_secret_value()
    if not (bot and app):
        yield Finding("note", "Slack", "its tokens are not set here, so nothing was asked of it", TOKENS)
        return
    if not settings.approvers:
        yield Finding("fault", "Slack", "SLACK_GATE_APPROVERS is empty, so nobody can be asked", APPROVERS)

    async def checks() -> list[Finding]:
        client = web_client(bot, settings.slack_api_url)
        await check_bot_token(client, settings.team)
        await check_app_token(client, app)
        people = People(client)
        for approver in settings.approvers:
            await people.check(approver)
            if message:
                await client.chat_postMessage(channel=approver, text=TEST)
        names = ", ".join(map(people.name, settings.approvers))
        return [Finding("ok", "Slack", f"both tokens are good{f', and {names} can be asked' if names else ''}")]

    try:
        yield from asyncio.run(checks())
    except GateError as error:
        yield _fault("Slack", error)
    except FAILED as error:
        why = fault_of(error).words
        yield Finding("fault", "Slack", f"a test message was not taken: {why}", remedy(why))


def _cage(home: Path) -> Iterator[Finding]:
    sbox = trusted_programs(home).get("sbox")
    if sbox is None:
        yield Finding("fault", "cage", "no sbox that the agent cannot change is installed", INSTALL)
        return
    if fault := no_cage(sbox):
        yield Finding("fault", "cage", fault)
        return
    _, said = _run([sbox, "--check"])
    for line in filter(str.strip, said.splitlines()):
        level, _, words = line.strip().partition(" ")
        if level != "ok":
            yield Finding("note", "cage", f"not held: {words.strip()}" if level == "left" else line.strip())
    yield Finding("ok", "cage", f"{sbox} starts a cage")


def _program(home: Path) -> Iterator[Finding]:
    for path in (Path(sys.executable), Path(__file__).resolve().parents[1]):
        reason = untrusted_reason(path, home)
        yield Finding("fault", "program", reason, INSTALL) if reason else Finding("ok", "program", str(path))


# The hook


def _hooks(settings: Settings, home: Path) -> Iterator[Finding]:
    layout = Layout(home)
    try:
        recorded = [Path(name) for name in Record.read(layout.record).settings]
        places = dict.fromkeys([layout.settings("user", home), PINNED, *recorded])
        holders = [place for place in places if without_hook(place) is not None]
    except GateError as error:
        yield _fault("hook", error)
        return
    if not holders:
        yield Finding("fault", "hook", "no settings of Claude Code hold the hook, so nothing is asked", INSTALL)
    for holder in holders:
        for entry in _ours(holder):
            yield from _hook(holder, entry, settings, home)
    if holders and PINNED not in holders:
        yield Finding("note", "hook", "a project's settings can switch it off; docs/install.md says how root pins it")
    yield from _client()


def _ours(holder: Path) -> list[dict[str, object]]:
    """Our entries in a settings file that `without_hook` has found good."""
    groups = json.loads(holder.read_bytes())["hooks"]["PreToolUse"]
    return [hook for group in groups for hook in group["hooks"] if HOOK in str(hook.get("command"))]


def _hook(holder: Path, entry: dict[str, object], settings: Settings, home: Path) -> Iterator[Finding]:
    line = str(entry["command"])
    words = shlex.split(line)
    for path in (Path(words[0]), Path(next(word for word in words if word.endswith(HOOK)))):
        if not path.exists():
            yield Finding("fault", "hook", f"{holder} names {path}, which does not exist", INSTALL)
            return
        if reason := untrusted_reason(path, home):
            yield Finding("fault", "hook", reason, INSTALL)
    asked_on, limit = _option(words, "--socket"), int(_option(words, "--limit") or 0)
    if asked_on != str(settings.socket_path):
        yield Finding("fault", "hook", f"it asks on {asked_on or 'no'} socket, not on {settings.socket_path}", INSTALL)
    if limit < settings.wait:
        early = f"it gives up after {limit} s, before the {settings.wait} s of SLACK_GATE_WAIT are over"
        yield Finding("fault", "hook", early, INSTALL)
    if not isinstance(timeout := entry.get("timeout"), int) or timeout <= limit:
        yield Finding("fault", "hook", f"{holder} lets Claude Code end it first, and then the call runs", INSTALL)
    if entry.get("onFailure") != "block":
        yield Finding("fault", "hook", f"{holder} does not tell Claude Code to block when the hook fails", INSTALL)
    with tempfile.TemporaryDirectory(prefix="slack-gate-doctor-") as place:
        wrong = probed(line, Path(place))
    if wrong:
        yield Finding("fault", "hook", wrong, INSTALL)
    else:
        yield Finding("ok", "hook", f"{holder}: a deny is passed on, and so is a daemon that is not there")


def _option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words[:-1] else ""


def _client() -> Iterator[Finding]:
    client = shutil.which("claude")
    if client is None:
        return
    _, said = _run([client, "--version"])
    version = re.match(r"(\d+)\.(\d+)\.(\d+)", said)
    if version and tuple(map(int, version.groups())) < BLOCKS_SINCE:
        words = f"Claude Code {version[0]} runs a call when its hook is killed; since 2.1.295 it can be told to block"
        yield Finding("fault", "hook", words, "Update Claude Code.")
