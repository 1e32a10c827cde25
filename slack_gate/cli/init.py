"""slack-gate init"""

from __future__ import annotations

import getpass
import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from slack_gate.config import Settings, default_home, load
from slack_gate.core.display import visible
from slack_gate.daemon.process import make_private
from slack_gate.errors import ConfigError

NEXT = """\
Next, in this order:
  {here} install claude-code
      the hook, and a copy of the program out of the agent's reach
  ~/.local/bin/slack-gate serve{how}
      the daemon{why}
  ~/.local/bin/slack-gate doctor
      whether all of it holds together"""


@click.command()
def init() -> None:
    """Make the home and its config.toml, from what you type; the tokens are not shown.

    Whatever is left empty is left out. A config.toml that is there already stays as it is.
    """
    home = default_home()
    path = home / "config.toml"
    if path.exists():
        raise ConfigError(f"{path} is there already and stays as it is.", "Edit it, or move it away.")
    click.echo("The Slack app's page has the tokens, a person's profile in Slack the member id: docs/slack-app.md.")
    answers = {
        "slack_bot_token": _token("Bot token", "xoxb-"),
        "slack_app_token": _token("App-level token", "xapp-"),
        "approvers": _asked("Member ids of the people who may approve, separated by commas: "),
    }
    given = {name: value for name, value in answers.items() if value}
    load(home=home, **given)  # refused here, before anything is written
    make_private(home)
    _write(path, _text(given))
    here = "slack-gate" if shutil.which("slack-gate") else shlex.quote(sys.argv[0])
    lacking = len(given) < len(answers)
    how, why = (" --approver web", "; for Slack it needs both tokens and the member ids") if lacking else ("", "")
    click.echo(f"Wrote {path}, which only you can read.\n{NEXT.format(here=here, how=how, why=why)}")


def _token(name: str, start: str) -> str:
    """It is not shown, so a mix-up is told at once. Raises ConfigError."""
    given = _asked(f"{name}, {start}…: ", hidden=True)
    if given and not given.startswith(start):
        raise ConfigError(
            f"What was typed does not begin with {start}, so it is no {name.lower()}.",
            "Nothing was written; start again.",
        )
    return given


def _asked(question: str, hidden: bool = False) -> str:
    """One line, without the blanks around it."""
    if sys.stdin.isatty():
        return (getpass.getpass(question) if hidden else input(question)).strip()
    return sys.stdin.readline().strip()


def _text(given: dict[str, str]) -> str:
    """TOML: what was given, then every other setting as a comment."""
    lines = ["# Settings of slack-gate; the environment wins. README.md has the table.", ""]
    lines += [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    for name, field in Settings.model_fields.items():
        if name not in given and name != "home":
            lines += ["", f"# {field.description}", f"# {name} = {_shown(field.default)}"]
    return "\n".join(lines) + "\n"


def _shown(default: object) -> str:
    return json.dumps(default) if isinstance(default, (bool, int, str)) else '""'


def _write(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{visible(str(path))} cannot be written: {error.strerror}.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
