"""slack-gate requests"""

from __future__ import annotations

import json
from datetime import datetime

import click

from slack_gate.cli.files import with_store
from slack_gate.cli.listed import Listed
from slack_gate.core.display import one_line
from slack_gate.core.request import Request
from slack_gate.core.secrets import mask, mask_value
from slack_gate.core.wording import named


@click.group(cls=Listed, invoke_without_command=True)
def requests() -> None:
    """List what was asked and what became of it. Without a command: list."""


@requests.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
@click.option("--limit", default=20, type=click.IntRange(1), show_default=True, help="How many of the newest.")
def list_requests(as_json: bool, limit: int) -> None:
    """The newest requests, newest first, id first; secrets are masked."""
    found = with_store(lambda store: store.requests(limit))
    if as_json:
        click.echo(json.dumps([_as_dict(request) for request in found]))
        return
    for request in found:
        asked = datetime.fromtimestamp(request.created_at).astimezone().isoformat(timespec="seconds")
        what = named(request, request.command or request.tool)
        by = one_line(request.decided_name or request.decided_by, 80)
        who = f" by {by}" if by else ""
        click.echo(f"{request.id}  {asked}  {request.state}{who}  {one_line(what, 100)}")
    if not found:
        click.echo("Nothing was asked yet.", err=True)


def _as_dict(request: Request) -> dict[str, object]:
    return {
        "id": request.id,
        "digest": request.digest,
        "state": request.state.value,
        "agent": request.agent,
        "session": mask(request.session),
        "tool": request.tool,
        "command": None if request.command is None else mask(request.command),
        "edited": request.edited,
        "input": mask_value(dict(request.tool_input)),
        "cwd": mask(request.cwd),
        "createdAt": request.created_at,
        "expiresAt": request.expires_at,
        "decidedAt": request.decided_at,
        "decidedBy": request.decided_by,
        "reason": request.reason,
    }
