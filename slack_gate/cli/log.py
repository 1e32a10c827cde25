"""slack-gate log"""

from __future__ import annotations

import json
import sys

import click

from slack_gate.cli.files import with_store
from slack_gate.config import load
from slack_gate.core.display import one_line
from slack_gate.errors import NotFound
from slack_gate.store.log import verify as verify_chain


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="The lines as they stand in the file.")
@click.pass_context
def log(ctx: click.Context, as_json: bool) -> None:
    """Show the log, or verify that nothing in it was changed or removed."""
    if ctx.invoked_subcommand is not None:
        return
    path = load().log_path
    try:
        with path.open("rb") as lines:
            for line in lines:
                click.echo(line.decode().rstrip("\n") if as_json else _readable(json.loads(line)))
    except FileNotFoundError as error:
        raise NotFound(f"There is no log {path} yet.", "`slack-gate serve` writes it.") from error


@log.command()
def verify() -> None:
    """Exit 0 when the chain of the log holds to its end, else 1 with the first bad line."""
    path = load().log_path
    head = with_store(lambda store: store.log_head(), repair=False)
    try:
        with path.open("rb") as lines:
            fault = verify_chain(lines, head)
    except FileNotFoundError:
        fault = "the file is missing" if head is not None else None
    except OSError as error:
        fault = f"it cannot be read ({error.strerror})"
    if fault is not None:
        click.echo(f"The log {path} does not hold: {fault}.")
        sys.exit(1)
    click.echo(f"The log holds: {head[0] if head else 0} lines, none changed, none missing.")


def _readable(line: dict[str, object]) -> str:
    what = line["command"] or line["tool"] or ""
    who = f" ({line['user']})" if line["user"] else ""
    return f"{line['ts']}  {line['decision']} by {line['by']}{who}  {one_line(str(what), 120)}"
