"""slack-gate serve"""

from __future__ import annotations

import asyncio

import click

from slack_gate.config import load
from slack_gate.daemon.messages import configure, warn_of_writable_program
from slack_gate.daemon.serve import serve as run_daemon


@click.command()
def serve() -> None:
    """The daemon: asks the approvers in Slack and answers the hooks, until SIGTERM or Ctrl-C.

    Settings come from the environment and config.toml in SLACK_GATE_HOME; README.md lists them.
    """
    settings = load()
    configure(settings.log_format)
    warn_of_writable_program()
    asyncio.run(run_daemon(settings))
