"""slack-gate log"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from slack_gate.cli.files import with_store
from slack_gate.config import load
from slack_gate.core.display import one_line, visible
from slack_gate.errors import LogError, NotFound
from slack_gate.store.log import verify as verify_chain
from slack_gate.store.store import Store

# A daemon may be writing: its newest line is in the database a moment before it is in the file, longer where another
# daemon of a fleet logged it. Seconds between looks.
PAUSES_S = (0.2, 1.0, 5.0, 0.0)


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="The lines as they stand in the file.")
@click.option("--all", "of_all", is_flag=True, help="Every daemon's lines on this database, in the order of time.")
@click.pass_context
def log(ctx: click.Context, as_json: bool, of_all: bool) -> None:
    """Show the log, or verify that nothing in it was changed or removed."""
    if ctx.invoked_subcommand is not None:
        return
    if of_all:
        with_store(lambda store: _show_all(store, as_json))
        return
    with _opened(load().log_path) as lines:
        for number, line in enumerate(lines, 1):
            text = line.decode(errors="backslashreplace").rstrip("\n")
            if as_json:  # every line of ours is printable ASCII
                click.echo(text if text.isascii() and text.isprintable() else visible(text))
            else:
                click.echo(_readable(text, number))


@log.command(short_help="Whether anything in it was changed or removed.")
def verify() -> None:
    """Exit 0 when the chain of the log holds to its end, else 1 with the first bad line."""
    path = load().log_path
    for pause in PAUSES_S:
        fault, count = _checked(path)
        if fault is None:
            click.echo(f"The log holds: {count} lines, none changed, none missing.")
            return
        time.sleep(pause)
    click.echo(f"The log {path} does not hold: {fault}.")
    sys.exit(1)


async def _show_all(store: Store, as_json: bool) -> None:
    """The daemons' logs as one. With `as_json` each line has one field more, `daemon`; its hash is over the others."""
    logs = {name: await store.log_lines(name, 0) for name in await store.log_chains()}
    shown = dict.fromkeys(logs, 0)
    while logs := {name: lines for name, lines in logs.items() if lines}:
        name = min(logs, key=lambda name: (json.loads(logs[name][0])["ts"], name))
        text = logs[name].pop(0)
        shown[name] += 1
        if as_json:
            click.echo(json.dumps({"daemon": name, **json.loads(text)}))
        else:
            click.echo(
                f"{one_line(name, 40)}  {_readable(text, shown[name])}" if name else _readable(text, shown[name])
            )
        if not logs[name]:
            logs[name] = await store.log_lines(name, shown[name])


def _checked(path: Path) -> tuple[str | None, int]:
    """The fault, None for none, and how many lines there should be."""
    head = with_store(lambda store: store.log_head())
    count = head[0] if head else 0
    try:
        with path.open("rb") as file:
            return verify_chain(_lines_so_far(file), head), count
    except FileNotFoundError:
        return ("the file is missing" if head else None), count
    except OSError as error:
        return f"it cannot be read ({error.strerror})", count


def _lines_so_far(file: BinaryIO) -> Iterator[bytes]:
    """The lines that were there when the reading began."""
    left = os.fstat(file.fileno()).st_size
    while left > 0 and (line := file.readline(left)):
        left -= len(line)
        yield line


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"There is no log {path} yet.", "`slack-gate serve` writes it.") from error
    except OSError as error:
        raise LogError(f"The log {path} cannot be read: {error.strerror}.") from error


def _readable(text: str, number: int) -> str:
    """One line for a person; what is not a line of the log is shown as it is, safely."""
    try:
        line = json.loads(text)
        what = line["command"] or line["tool"] or ""
        if line.get("edited"):
            what = f"{line['edited']} (instead of: {what})"
        who = f" ({line['user']})" if line["user"] else ""
        outcome = f"{line['ts']}  {line['decision']} by {line['by']}{who}"
        return f"{one_line(outcome, 120)}  {one_line(str(what), 120)}"
    except (ValueError, KeyError, TypeError):
        return f"line {number} is damaged: {one_line(text, 120)}"
