"""The harness itself: a hook of three lines is enough to see that the client obeys it and that we see what it did."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from .client import give_away, run_client
from .scripted_api import bash, scripted_api

pytestmark = pytest.mark.timeout(700)  # the first run may have to fetch 190 MB
BYPASS = "--dangerously-skip-permissions"


def write_hook_that_says(home: Path, decision: str, reason: str) -> None:
    """A PreToolUse hook for every tool with one fixed answer."""
    verdict = {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }  # fmt: skip
    answer = json.dumps({"hookSpecificOutput": verdict})
    script = home / "hook.sh"
    script.write_text(f"#!/bin/sh\ncat >{shlex.quote(str(home))}/event.json\necho {shlex.quote(answer)}\n")
    script.chmod(0o755)
    hook = {"type": "command", "command": str(script), "timeout": 30}
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    give_away(home)


@pytest.mark.parametrize("flags", [(), (BYPASS,)], ids=["default", "bypass"])
async def test_a_denied_call_does_not_run_and_the_model_reads_the_reason(
    claude: Path, home: Path, flags: tuple[str, ...]
) -> None:
    write_hook_that_says(home, "deny", "archive first")
    async with scripted_api([bash("echo original > out.txt")], "stopped") as api:
        run = await run_client(claude, api.url, home, *flags)
    assert run.exit_code == 0, run
    assert not (home / "job/out.txt").exists()
    assert "archive first" in api.tool_results()["toolu_1"]
    assert run.result["result"] == "stopped"


async def test_an_allowed_call_runs_and_the_hook_got_the_event(claude: Path, home: Path) -> None:
    write_hook_that_says(home, "allow", "fine")
    async with scripted_api([bash("echo original > out.txt")], "finished") as api:
        run = await run_client(claude, api.url, home)
    assert run.exit_code == 0, run
    assert (home / "job/out.txt").read_text() == "original\n"
    event = json.loads((home / "event.json").read_text())
    assert event["tool_use_id"] == "toolu_1"
    assert event["tool_input"]["command"] == "echo original > out.txt"
    assert event["cwd"] == str(home / "job")
    assert run.result["result"] == "finished"


async def test_two_turns_are_given_in_order(claude: Path, home: Path) -> None:
    async with scripted_api([bash("echo 1 >> out.txt", "a")], [bash("echo 2 >> out.txt", "b")], "end") as api:
        run = await run_client(claude, api.url, home, BYPASS)
    assert run.result["result"] == "end", run
    assert (home / "job/out.txt").read_text() == "1\n2\n"
    assert set(api.tool_results()) == {"a", "b"}
