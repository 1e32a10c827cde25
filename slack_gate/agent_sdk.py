"""`can_use_tool` for the Claude Agent SDK: the verdicts of the hook, since the hook itself is asked."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slack_gate.whereabouts import hook_socket

HOOK = Path(__file__).with_name("hook.py")
LONGEST_S = 86_460  # outlasts every wait that the settings allow: the daemon decides when time is over


@dataclass(frozen=True)
class Allow:
    """The SDK's PermissionResultAllow, where the SDK is not installed."""

    behavior: str = "allow"
    updated_input: dict[str, Any] | None = None
    updated_permissions: list[Any] | None = None


@dataclass(frozen=True)
class Refuse:
    """The SDK's PermissionResultDeny, where the SDK is not installed."""

    behavior: str = "deny"
    message: str = ""
    interrupt: bool = False


@dataclass(frozen=True)
class CanUseTool:
    """`ClaudeAgentOptions(can_use_tool=CanUseTool(cwd="/home/me/projects/app"))`

    `cwd` is where the agent works, by default this process's directory. The SDK asks only about calls that none of its
    own settings allows; where every call is to be judged, install the hook.
    """

    cwd: str = ""
    session: str = field(default_factory=lambda: f"sdk-{secrets.token_hex(8)}")

    async def __call__(self, tool_name: str, tool_input: dict[str, Any], context: Any = None) -> Any:
        """PermissionResultAllow with the input to run, or PermissionResultDeny with the sentence for the model.

        Never raises for what the daemon does or is not there to do: then it denies. Cancelled, it withdraws.
        """
        allow, refuse = _shapes()
        try:
            code, output, said = await _hook(json.dumps(self._event(tool_name, tool_input, context)).encode())
        except Exception as error:  # noqa: BLE001 - also what cannot be written as JSON, or is too deep for it
            return refuse(message=f"slack-gate could not be asked, so this call did not run: {error}")
        if (code, output) == (0, b""):  # the daemon's word for a tool that touches nothing
            return allow(updated_input=None)
        found = _decided(output)
        if code == 0 and found.get("permissionDecision") == "allow":
            return allow(updated_input=found.get("updatedInput"))
        why = found.get("permissionDecisionReason") or said.decode("utf-8", "backslashreplace").strip()
        return refuse(message=why or f"slack-gate's hook ended with code {code}, so this call did not run.")

    def _event(self, tool: str, tool_input: dict[str, Any], context: Any) -> dict[str, Any]:
        event = {
            "session_id": self.session,
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
            "tool_input": tool_input,
            "cwd": self.cwd or os.getcwd(),
        }
        told = {name: getattr(context, name, None) for name in ("tool_use_id", "agent_id")}
        return event | {name: value for name, value in told.items() if value}


can_use_tool = CanUseTool()
"""`ClaudeAgentOptions(can_use_tool=can_use_tool)`, for an agent that works in this process's directory."""


async def _hook(event: bytes) -> tuple[int | None, bytes, bytes]:
    """The hook's exit code, stdout and stderr. Told to stop, it withdraws the question."""
    hook = await asyncio.create_subprocess_exec(
        *(sys.executable, "-IS", str(HOOK), "claude-code"),
        *("--socket", str(hook_socket()), "--limit", str(LONGEST_S)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, said = await hook.communicate(event)
    finally:
        if hook.returncode is None:
            hook.terminate()
    return hook.returncode, output, said


def _decided(output: bytes) -> dict[str, Any]:
    try:
        found = json.loads(output)["hookSpecificOutput"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _shapes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The SDK checks the class of what it gets, so its own are used where they are."""
    try:
        sdk = importlib.import_module("claude_agent_sdk")
    except ModuleNotFoundError:
        return Allow, Refuse
    return sdk.PermissionResultAllow, sdk.PermissionResultDeny
