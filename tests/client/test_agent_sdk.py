"""`can_use_tool` of the Claude Agent SDK, asked through the hook against a real daemon."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slack_gate import agent_sdk
from slack_gate.client import CanUseTool
from slack_gate.slack import modals
from tests.daemon.house import House, house

SAMPLE = {
    "subtype": "can_use_tool",
    "tool_name": "Bash",
    "input": {"command": "npm publish", "description": "Publish"},
    "permission_suggestions": [],
    "tool_use_id": "toolu_01Sdk0000000000000000000",
    "decision_reason": "hook asked",
}


@dataclass
class Context:
    """As the SDK's ToolPermissionContext, as far as it is read."""

    tool_use_id: str | None = None
    agent_id: str | None = None


@pytest.fixture
async def h(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    async with house(tmp_path) as one:
        monkeypatch.setenv("SLACK_GATE_SOCKET", str(one.settings.socket_path))
        yield one


async def test_approved(h: House) -> None:
    tool = CanUseTool(cwd="/w/app")
    asking = asyncio.create_task(tool(SAMPLE["tool_name"], SAMPLE["input"], Context(SAMPLE["tool_use_id"], "sub-1")))
    card = await h.card("npm publish")
    assert "/w/app" in card.plain()
    await h.ana.click(card, "Approve")
    result = await asking
    assert (result.behavior, result.updated_input) == ("allow", None)
    (pending, approved) = h.log()
    assert (pending["decision"], approved["decision"]) == ("pending", "approved")
    assert (approved["session"], approved["cwd"]) == (tool.session, "/w/app")


async def test_denied_with_the_hooks_own_words(h: House) -> None:
    asking = asyncio.create_task(CanUseTool()("Bash", {"command": "npm publish"}, Context("toolu_2")))
    await h.ana.click(await h.card("npm publish"), "Deny")
    result = await asking
    assert (result.behavior, result.interrupt) == ("deny", False)
    assert "Denied by Ana" in result.message


async def test_a_persons_change_runs_and_its_result_holds_no_words(h: House) -> None:
    """As the SDK's own PermissionResultAllow; of the hook's words on the change there is nothing to be told with."""
    asking = asyncio.create_task(CanUseTool()("Bash", {"command": "npm publish", "timeout": 5000}, Context("toolu_5")))
    await h.ana.choose(await h.card("npm publish"), "Edit and approve")
    await h.ana.submit(await h.ana.wait_for_modal(), {modals.TEXT: "npm publish --dry-run"})
    changed = {"command": "npm publish --dry-run", "timeout": 5000}
    assert vars(await asking) == {"behavior": "allow", "updated_input": changed, "updated_permissions": None}


async def test_the_input_to_run_is_passed(h: House) -> None:
    told = {"command": "sbox true", "description": "look", "timeout": 5000}
    direct = await h.ask(h.event(**told))
    result = await CanUseTool()("Bash", told, None)
    assert result.behavior == "allow"
    assert result.updated_input == direct.output["updatedInput"]
    assert result.updated_input["command"] != told["command"]
    assert result.updated_input["timeout"] == 5000


async def test_a_tool_that_touches_nothing(h: House) -> None:
    result = await CanUseTool()("TodoWrite", {"todos": []}, Context("toolu_3"))
    assert (result.behavior, result.updated_input) == ("allow", None)


async def test_the_same_call_gets_the_same_answer(h: House) -> None:
    tool, context = CanUseTool(), Context("toolu_4")
    both = [asyncio.create_task(tool("Bash", {"command": "npm publish"}, context)) for _ in range(2)]
    await h.ana.click(await h.card("npm publish"), "Approve")
    assert [result.behavior for result in await asyncio.gather(*both)] == ["allow", "allow"]
    assert len(h.ana.messages) == 1


async def test_cancelled_it_withdraws(h: House) -> None:
    asking = asyncio.create_task(CanUseTool()("Bash", {"command": "npm publish"}, None))
    card = await h.card("npm publish")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await card.wait_for_update(lambda version: "Withdrawn" in version.plain())


async def test_no_daemon_denies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_GATE_SOCKET", str(tmp_path / "gate.sock"))
    tmp_path.chmod(0o700)
    result = await CanUseTool()("Bash", {"command": "ls"}, None)
    assert (result.behavior, "no daemon listens" in result.message) == ("deny", True)


HOOKS = {
    "silent but not well": ("import sys; sys.exit(1)", "ended with code 1"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "ended with code -9"),
    "says allow and fails": (
        'import sys; print(\'{"hookSpecificOutput": {"permissionDecision": "allow"}}\'); sys.exit(2)',
        "ended with code 2",
    ),
    "half an answer": ('print(\'{"hookSpecificOutput": {"permissionDec\')', "ended with code 0"),
    "another word": ('print(\'{"hookSpecificOutput": {"permissionDecision": "ask"}}\')', "ended with code 0"),
    "no object": ("print('[]')", "ended with code 0"),
}


@pytest.mark.parametrize(("program", "words"), HOOKS.values(), ids=HOOKS.keys())
async def test_whatever_the_hook_does_only_an_allow_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
) -> None:
    hook = tmp_path / "hook.py"
    hook.write_text(program)
    monkeypatch.setattr(agent_sdk, "HOOK", hook)
    result = await CanUseTool()("Bash", {"command": "ls"}, None)
    assert (result.behavior, words in result.message) == ("deny", True), result


@pytest.mark.parametrize("odd", [{"command": object()}, {"command": {1, 2}}])
async def test_an_input_that_is_no_json_is_denied(odd: dict[str, Any]) -> None:
    assert (await CanUseTool()("Bash", odd, None)).behavior == "deny"


async def test_the_sdks_own_classes_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class PermissionResultAllow:
        behavior: str = "allow"
        updated_input: Any = None
        updated_permissions: Any = None

    @dataclass
    class PermissionResultDeny:
        behavior: str = "deny"
        message: str = ""
        interrupt: bool = False

    sdk = types.ModuleType("claude_agent_sdk")
    sdk.__dict__.update(PermissionResultAllow=PermissionResultAllow, PermissionResultDeny=PermissionResultDeny)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", sdk)
    for program, shape in [("", PermissionResultAllow), ("raise SystemExit(2)", PermissionResultDeny)]:
        hook = tmp_path / "hook.py"
        hook.write_text(program)
        monkeypatch.setattr(agent_sdk, "HOOK", hook)
        assert type(await CanUseTool()("Read", {"file_path": "/w/a"}, None)) is shape
