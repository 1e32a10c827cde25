"""slack-gate status"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from pathlib import Path

import click

from slack_gate.config import load

TIMEOUT_S = 5.0
HEADER = b"slack-gate/1 status 0 " + b"0" * 32 + b" 5 -\n"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(as_json: bool) -> None:
    """Whether the daemon is up and hears Slack; exit 0 when healthy, else 1."""
    path = load().socket_path
    found = _ask(path)
    if as_json:
        click.echo(json.dumps(found))
    elif found["healthy"]:
        click.echo(f"Healthy: Slack was heard {found['lastInboundSeconds']} s ago, hooks are answered on {path}.")
    else:
        click.echo(f"Not healthy: {found['fault']}.")
    sys.exit(0 if found["healthy"] else 1)


def _ask(path: Path) -> dict[str, object]:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
            if uid != os.geteuid():
                return {"healthy": False, "fault": f"another user's process (uid {uid}) listens on {path}"}
            connection.sendall(HEADER)
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
    except OSError as error:
        return {"healthy": False, "fault": f"no daemon answers on {path} ({error.strerror or error})"}
    body = reply.partition(b"\n")[2]
    found: dict[str, object] = json.loads(body)
    return found
