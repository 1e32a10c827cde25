"""The real client calls our MCP server, the daemon asks a person, and the model reads how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import give_away, run_client, throw_away_home
from .gate import install, running_gate
from .scripted_api import ToolCall, scripted_api

pytestmark = pytest.mark.timeout(700)  # the first run may have to fetch 190 MB
TOOL = "mcp__slack-gate__run_command"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A HOME with the program and without the hook: what is asked, the MCP server asks."""
    with throw_away_home() as directory:
        install(directory)
        (directory / ".claude" / "settings.json").write_text("{}")
        (directory / "projects").mkdir(exist_ok=True)
        give_away(directory / ".claude")
        give_away(directory / "projects")
        yield directory


def config(home: Path) -> str:
    program = str(home / ".local/bin/slack-gate")  # the clone may lie in root's own home
    server = {"command": program, "args": ["mcp"], "env": {"SLACK_GATE_HOME": str(home / "gate")}}
    return json.dumps({"mcpServers": {"slack-gate": server}})


@pytest.mark.parametrize(
    ("label", "made", "words"), [("Approve", True, "it ran"), ("Deny", False, "Denied by Ana")], ids=["approve", "deny"]
)
async def test_asked_through_mcp(claude: Path, home: Path, label: str, made: bool, words: str) -> None:
    command = f"touch {label}.txt && echo it ran"
    call = ToolCall(TOOL, {"command": command, "reason": "to see", "cwd": str(home / "projects")}, "toolu_1")
    flags = ("--mcp-config", config(home), "--strict-mcp-config", "--allowedTools", TOOL)
    async with running_gate(home) as gate, scripted_api([call], "finished") as api:
        client = asyncio.create_task(run_client(claude, api.url, home, *flags, timeout=120))
        card = asyncio.create_task(gate.card(command))
        await asyncio.wait({client, card}, return_when=asyncio.FIRST_COMPLETED)
        assert card.done(), (await client, api.tool_results())
        await gate.person.click(await card, label)
        run = await client
    assert run.result["result"] == "finished", run
    assert words in api.tool_results()["toolu_1"]
    assert (home / "projects" / f"{label}.txt").exists() is made
