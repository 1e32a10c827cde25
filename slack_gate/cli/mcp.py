"""slack-gate mcp"""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec

import click

from slack_gate.errors import GateError

PIP = "Run `pip install 'slack-gate[mcp]'`."
INSTALLED = (
    "Run `pip install 'slack-gate[mcp]'` in the environment that `slack-gate install` was run from, then install again."
)


@click.command()
def mcp() -> None:
    """The MCP server on stdin and stdout, for an agent to start: run_command, request_approval, get_decision."""
    if find_spec("mcp") is None:
        raise GateError("The package mcp is not installed here.", INSTALLED if sys.flags.no_site else PIP)
    from slack_gate.mcp_server import serve

    asyncio.run(serve())
