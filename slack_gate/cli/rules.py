"""slack-gate rules"""

from __future__ import annotations

import json
import time
from datetime import datetime

import click

from slack_gate.cli.files import with_store
from slack_gate.cli.listed import Listed
from slack_gate.core.cord import moment
from slack_gate.core.display import one_line
from slack_gate.core.rules import Rule
from slack_gate.core.wording import range_of


@click.group(cls=Listed, invoke_without_command=True)
def rules() -> None:
    """List what Always remembers, or revoke a rule. Without a command: list."""


@rules.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def list_rules(as_json: bool) -> None:
    """The active rules, id first."""
    active = with_store(lambda store: store.rules())
    if as_json:
        click.echo(json.dumps([_as_dict(rule) for rule in active]))
        return
    for rule in active:
        since = datetime.fromtimestamp(rule.created_at).astimezone().isoformat(timespec="minutes")
        what = one_line(f"{rule.key.tool}: {rule.shown}", 200)
        used = f"last used {moment(rule.used_at)}" if rule.used_at else "not used yet"
        click.echo(f"{rule.id}  {what}  (by {one_line(rule.created_by, 40)}, {since})  {range_of(rule)}; {used}")
    if not active:
        click.echo("Nothing is remembered.", err=True)


@rules.command()
@click.argument("rule_id", metavar="ID")
def revoke(rule_id: str) -> None:
    """End a rule; from now on what it covered is asked again."""
    rule = with_store(lambda store: store.revoked(rule_id, time.time()))
    click.echo(f"Revoked {rule.id}: {one_line(rule.shown, 200)}")


def _as_dict(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "tool": rule.key.tool,
        "words": list(rule.key.words),
        "shown": rule.shown,
        "createdAt": rule.created_at,
        "createdBy": rule.created_by,
        "request": rule.request,
        "session": rule.session or None,
        "cwd": rule.cwd or None,
        "until": rule.until,
        "usedAt": rule.used_at,
        "uses": rule.uses,
    }
