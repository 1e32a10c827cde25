"""slack-gate demo"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from slack_gate.config import Settings, load
from slack_gate.daemon.messages import configure, warn_of_writable_program
from slack_gate.daemon.serve import running
from slack_gate.errors import ConfigError
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.server import LocalSlack
from slack_gate.local_slack.workspace import Message

PACKAGE = Path(__file__).resolve().parents[1]
HOOK = PACKAGE / "hook.py"
SBOX = PACKAGE.parent / "cage" / "sbox"
APPROVER = "U0DEMO"
PORT = 8767
RELEASE = "release-1.4.2.txt"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the sample agent wants to do, what it says about it, and what `--auto` clicks (empty: no card)."""

    command: str
    remark: str
    click: str


STEPS = (
    Step("sbox echo hello from the cage", "green: it stays inside the cage, so nobody is asked", ""),
    Step(f"touch {RELEASE}", "gated: a person decides", "Approve"),
    Step("rm -rf database", "gated: please press Deny", "Deny"),
)


@click.command()
@click.option("--auto", is_flag=True, help="Let a built-in person click (Approve, then Deny), then stop.")
@click.option(
    "--port",
    default=PORT,
    type=click.IntRange(0, 65535),
    show_default=True,
    metavar="PORT",
    help="Port of the page with the DM; 0 takes a free one.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    help="Trouble in the built-in Slack, such as 'chat.postMessage lost' or 'after 9 links drop', also more than once; "
    "a wrong one lists them all.",
)
def demo(auto: bool, port: int, faults: tuple[str, ...]) -> None:
    """The daemon against a built-in Slack with a page to click on, and a sample agent that asks. Needs no tokens."""
    configure("text")
    warn_of_writable_program()
    sys.exit(asyncio.run(_demo(auto, port, faults)))


async def _demo(auto: bool, port: int, faults: Sequence[str]) -> int:
    """Until all is shown, or a signal; either way nothing of it stays on the disk."""
    showing = asyncio.ensure_future(_show(auto, port, faults))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, showing.cancel)
    try:
        return await showing
    except asyncio.CancelledError:
        return 1 if auto else 0


async def _show(auto: bool, port: int, faults: Sequence[str]) -> int:
    async with _slack(port) as slack:
        person = slack.add_user(APPROVER, name="You")
        _refuse_unknown(slack, faults)
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        with _fresh(state) as place, _fresh(Path.home() / "projects") as work:
            settings = _settings(slack, place)
            async with running(settings):
                click.echo(f"The daemon waits for hooks on {settings.socket_path}.")
                click.echo(f"Your Slack DM:  {slack.page_url}&user={APPROVER}")
                if not auto:
                    click.echo("Open it in a browser: what the sample agent asks comes there, with its buttons.")
                for words in faults:
                    await slack.cause(words)
                clicks = asyncio.create_task(_click(person)) if auto else None
                good = await _sample_agent(work, settings.socket_path)
                if clicks is not None:
                    await clicks
                    return 0 if good else 1
                await _until_stopped(settings, work)
    return 0


@asynccontextmanager
async def _slack(port: int) -> AsyncIterator[LocalSlack]:
    slack = LocalSlack(port=port)
    try:
        await slack.start()
    except OSError as error:
        await slack.stop()
        raise ConfigError(
            f"Port {port} of 127.0.0.1 cannot be opened: {os.strerror(error.errno or 0)}.",
            "Perhaps another demo runs: stop it, or take a free port with `--port 0`.",
        ) from None
    try:
        yield slack
    finally:
        await slack.stop()


@contextmanager
def _fresh(parent: Path) -> Iterator[Path]:
    """A directory of this demo alone, for what it shows: nothing that was there before is touched."""
    parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="gate-demo-", dir=parent, ignore_cleanup_errors=True) as made:
        yield Path(made)


def _settings(slack: LocalSlack, place: Path) -> Settings:
    return load(
        slack_bot_token=slack.bot_token,
        slack_app_token=slack.app_token,
        slack_api_url=slack.api_url,
        approvers=APPROVER,
        team="",
        home=place / "home",
        socket=place / "gate.sock",
        database_url="",
        agent_port=0,
    )


def _refuse_unknown(slack: LocalSlack, faults: Sequence[str]) -> None:
    try:
        for words in faults:
            slack.trouble(words)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


async def _click(person: Person) -> None:
    """The built-in person of `--auto`: answers each card as its step says."""
    for step in filter(lambda step: step.click, STEPS):
        card = await person.wait_for_message(partial(_asks_for, step), 60)
        await person.click(card, step.click)


def _asks_for(step: Step, message: Message) -> bool:
    return message.has_button(step.click) and step.command in message.plain()


async def _sample_agent(work: Path, socket: Path) -> bool:
    """Asks the hook before each command, as an agent does, and runs what it may. True when all went as remarked."""
    session = secrets.token_hex(4)
    database = work / "database"
    database.mkdir()
    good = True
    for number, step in enumerate(STEPS, 1):
        click.echo(f"\n[{number}/{len(STEPS)}] The agent wants to run:  {step.command}\n      ({step.remark})")
        allowed, reason, command = await _ask(step, number, session, work, socket)
        good = good and allowed == (step.click != "Deny")
        if not allowed:
            click.echo(f"      not run: {reason}")
            continue
        code, output = await _run(command, work)
        good = good and code == 0
        click.echo(f"      allowed: {reason}\n      ran, exit code {code}{': ' + output if output else ''}")
    return good and (work / RELEASE).exists() and database.is_dir()


async def _ask(step: Step, number: int, session: str, work: Path, socket: Path) -> tuple[bool, str, str]:
    """Whether it may run, why, and the command to run, which the answer may have rewritten."""
    event = {
        "session_id": session,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": step.command},
        "tool_use_id": f"toolu_{session}_{number}",
        "cwd": str(work),
    }
    hook = await asyncio.create_subprocess_exec(
        *(sys.executable, "-IS", str(HOOK), "claude-code", "--socket", str(socket)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, error = await hook.communicate(json.dumps(event).encode())
    if hook.returncode != 0:
        return False, error.decode().strip(), ""
    answer = json.loads(output)["hookSpecificOutput"]
    command = answer.get("updatedInput", event["tool_input"])["command"]
    return answer["permissionDecision"] == "allow", answer["permissionDecisionReason"], command


async def _run(command: str, work: Path) -> tuple[int | None, str]:
    path = f"{SBOX.parent}:{os.environ.get('PATH', os.defpath)}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command),
        cwd=work,
        env={**os.environ, "PATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode(errors="backslashreplace").strip()


def by_hand(socket: Path, work: Path) -> str:
    """The line of shell that asks for one more command."""
    event = json.dumps(
        {
            "session_id": "by-hand",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "make deploy"},
            "cwd": str(work),
        }
    )
    hook = shlex.join([sys.executable, "-IS", str(HOOK), "claude-code", "--socket", str(socket)])
    return f"printf %s {shlex.quote(event)} | {hook}"


async def _until_stopped(settings: Settings, work: Path) -> None:
    click.echo("\nAsk something yourself in another terminal:")
    click.echo(f"  {by_hand(settings.socket_path, work)}")
    click.echo("Ctrl-C stops the demo.")
    await asyncio.Event().wait()
