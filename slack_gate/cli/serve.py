"""slack-gate serve"""

from __future__ import annotations

import asyncio

import click

from slack_gate.config import load
from slack_gate.daemon.messages import configure, warn_of_writable_program
from slack_gate.daemon.serve import serve as run_daemon


@click.command()
@click.option(
    "--approver",
    "approvers",
    multiple=True,
    type=click.Choice(["slack", "web", "terminal"]),
    default=("slack", "web"),
    show_default=True,
    help="Where people are asked; may be given several times. Only slack needs tokens.",
)
def serve(approvers: tuple[str, ...]) -> None:
    """The daemon: asks the approvers and answers the agents, until SIGTERM or Ctrl-C.

    Settings come from the environment and config.toml in SLACK_GATE_HOME; README.md lists them.
    """
    settings = load()
    configure(settings.log_format)
    warn_of_writable_program()
    asyncio.run(run_daemon(settings, approvers))
