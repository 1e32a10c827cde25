"""slack-gate mcp"""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec

import click

from slack_gate.errors import GateError

# From the clone: what a registry has under this name need not be ours.
PIP = "Run `.venv/bin/pip install -c scripts/constraints.txt -e '.[mcp]'` in "
HERE = f"{PIP}slack-gate's clone."
INSTALLED = f"{PIP}the clone that `slack-gate install` was run from, then install again."


@click.command()
def mcp() -> None:
    """The MCP server on stdin and stdout, for an agent to start: run_command, request_approval, get_decision."""
    if find_spec("mcp") is None:
        raise GateError("The package mcp is not installed here.", INSTALLED if sys.flags.no_site else HERE)
    from slack_gate.mcp_server import serve

    asyncio.run(serve())
