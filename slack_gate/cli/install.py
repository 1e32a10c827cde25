"""slack-gate install and slack-gate uninstall"""

from __future__ import annotations

from pathlib import Path

import click

from slack_gate.config import load
from slack_gate.core.display import sentence
from slack_gate.hook_client import GRACE
from slack_gate.install import Scope, install_steps, perform, uninstall_steps
from slack_gate.install.cage_check import no_cage
from slack_gate.install.layout import Layout

LONGEST_S = 14 * 24 * 3600  # Claude Code's own limit is about 24 days

_agent = click.argument("agent", type=click.Choice(["claude-code"]))
_scope = click.option(
    "--scope", type=click.Choice(["user", "project"]), default="user", show_default=True,
    help="Settings of all your projects, or of one.",
)  # fmt: skip
_dir = click.option(
    "--dir", "project", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".",
    help="The project, with --scope project; default: the current directory.",
)  # fmt: skip
_dry_run = click.option("--dry-run", is_flag=True, help="Check everything, say what would be done, change nothing.")


@click.command()
@_agent
@_scope
@_dir
@click.option(
    "--limit", type=click.IntRange(1, LONGEST_S), metavar="SECONDS",
    help=f"When the hook gives up by itself; default: SLACK_GATE_WAIT + {GRACE}.",
)  # fmt: skip
@_dry_run
def install(agent: str, scope: Scope, project: Path, limit: int | None, dry_run: bool) -> None:
    """Write the hook into an agent's settings, and what it trusts out of the agent's reach."""
    settings = load()
    steps = install_steps(Path.home(), scope, project.resolve(), settings.socket_path, limit or settings.wait + GRACE)
    perform(steps, click.echo, dry_run)
    if not dry_run and (fault := no_cage(Layout(Path.home()).sbox)):
        click.echo(f"Warning: {sentence(fault)}")
    click.echo("Nothing was changed." if dry_run else "Done. Start the daemon: ~/.local/bin/slack-gate serve")


@click.command()
@_agent
@_scope
@_dir
@_dry_run
def uninstall(agent: str, scope: Scope, project: Path, dry_run: bool) -> None:
    """Take the hook out of an agent's settings again, and the program when no other settings use it.

    The gate's home with its log, rules and settings stays.
    """
    perform(uninstall_steps(Path.home(), scope, project.resolve()), click.echo, dry_run)
    click.echo("Nothing was changed." if dry_run else "Done.")
