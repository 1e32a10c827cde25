"""slack-gate policy"""

from __future__ import annotations

import sys

import click

from cage import cage_policy
from slack_gate.config import load
from slack_gate.core.policy import PolicyError
from slack_gate.daemon.policy_file import read_policy


@click.group()
def policy() -> None:
    """The person's own rules, policy.toml in SLACK_GATE_HOME; docs/policy.md tells its form."""


@policy.command(short_help="Whether policy.toml can be used.")
def check() -> None:
    """Whether policy.toml can be used; exit 0, or 1 with the line that is wrong."""
    path = load().home / "policy.toml"
    try:
        found = read_policy(path)
    except PolicyError as error:
        click.echo(f"{path}: {error}.", err=True)
        sys.exit(1)
    if problem := cage_policy.settings_problem():
        click.echo(f"{problem}.", err=True)
        sys.exit(1)
    if not path.exists():
        click.echo(f"There is no {path}; the defaults hold.")
        return
    click.echo(f"{path} can be used: {len(found.entries)} {'rule' if len(found.entries) == 1 else 'rules'}.")
    for entry in found.entries:
        demands = [entry.do, f"{entry.approvals} approvals" if entry.approvals > 1 else "", entry.executor]
        click.echo(f"  {entry.shown}: {', '.join(filter(None, demands))}")
