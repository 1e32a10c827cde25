"""slack-gate status"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from pathlib import Path

import click

from slack_gate.config import load
from slack_gate.core.cord import Cord, Place, state
from slack_gate.core.display import sentence, shortened

TIMEOUT_S = 5.0
MAX_REPLY = 65536
MAX_FAULT = 600  # characters
HEADER = b"slack-gate/1 status 0 " + b"0" * 32 + b" 5 -\n"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(as_json: bool) -> None:
    """Whether the daemon is up and hears Slack, what waits, and a pause; exit 0 when healthy, else 1."""
    path = load().socket_path
    try:
        found = _read(_ask(path))
    except OSError as error:
        found = _unhealthy(f"no daemon answers on {path} ({error.strerror or error}). Start it: `slack-gate serve`")
    except ValueError as error:
        found = _unhealthy(f"what answers on {path} is no daemon of ours ({error})")
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo("\n".join(_lines(found, path)))
    sys.exit(0 if found["healthy"] is True else 1)


def _told(said: object) -> str:
    return shortened(sentence(str(said)), MAX_FAULT)


def _lines(found: dict[str, object], path: Path) -> list[str]:
    """For a person: how it is, then what else to know, each in a line."""
    heard = found["lastInboundSeconds"]
    if found["healthy"] is True:
        slack = "Slack is not used" if heard is None else f"Slack was heard {heard} s ago{_by(found.get('lines'))}"
        first = f"Healthy: {slack}, hooks are answered on {path}."
    else:
        age = "" if heard is None else f" (Slack was last heard {heard} s ago)"
        first = f"Not healthy: {_told(found['fault'])}{age}."
    lines = [first, *_asking(found)]
    notes = found.get("notes")
    lines += [f"Note: {_told(note)}." for note in notes] if isinstance(notes, list) else []
    others = found.get("otherConnections")
    if isinstance(others, int) and others > 0:
        lines.append(
            f"Note: Slack counts {others} other connections of this app; they may be given clicks meant for us."
        )
    return lines


def _asking(found: dict[str, object]) -> list[str]:
    """What waits for people, and where they are asked where that is not as usual."""
    pending = found.get("pending")
    if not isinstance(pending, int):  # the database could not say, or an older daemon
        return []
    many = f"{pending} requests wait for a person" if pending > 1 else "One request waits for a person"
    lines = [f"{many}: `slack-gate requests` lists them." if pending else "Nothing waits for a person."]
    try:
        paused = found.get("paused")
        by, at = (str(paused["by"]), float(paused["at"])) if isinstance(paused, dict) else ("", None)
        cord = Cord(Place(str(found.get("cord"))), at, by)
    except (ValueError, TypeError, KeyError):
        return lines
    return lines if cord == Cord() else [*lines, state(cord)]


def _by(lines: object) -> str:
    return f" on {lines} {'line' if lines == 1 else 'lines'}" if isinstance(lines, int) else ""


def _unhealthy(fault: str) -> dict[str, object]:
    return {"healthy": False, "lastInboundSeconds": None, "fault": fault}


def _ask(path: Path) -> bytes:
    """Everything the daemon answers. Raises OSError, and ValueError for another user's process."""
    deadline = time.monotonic() + TIMEOUT_S
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(str(path))
        uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if uid != os.geteuid():
            raise ValueError(f"it runs as uid {uid}")
        connection.sendall(HEADER)
        reply = b""
        while len(reply) < MAX_REPLY and (part := connection.recv(MAX_REPLY)):
            reply += part
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
    return reply


def _read(reply: bytes) -> dict[str, object]:
    """The status in a reply; raises ValueError when it holds none."""
    found = json.loads(reply.partition(b"\n")[2] or b"null")
    if not isinstance(found, dict) or not {"healthy", "lastInboundSeconds", "fault"} <= set(found):
        raise ValueError("it does not tell its health")
    return found
