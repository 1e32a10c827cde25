"""Claude Code: PreToolUse and PermissionRequest hooks (measured with 2.1.197 and 2.1.332)."""

from __future__ import annotations

import json
from typing import Any

from slack_gate.agents.event_json import strict_object, text_field
from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.event import OWN_TOOLS, SHELL_TOOLS, MalformedEvent, NoDecision, ToolEvent

NAME = "claude-code"
MAX_ID = 400  # characters of a session's or a call's id, which stand on each card and in each line of the log
DECIDING = frozenset({"PreToolUse", "PermissionRequest"})
# Modes in which "ask" brings up a prompt that nothing but a person answers; in `auto` older versions override it,
# `dontAsk` and `bypassPermissions` are set where nobody is to be asked.
PROMPTING = frozenset({"default", "acceptEdits", "plan"})
# Hook events that only announce something; an unknown one is refused, since it might decide.
ANNOUNCING = frozenset(
    {"Notification", "PermissionDenied", "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop", "SubagentStart"}
    | {"SessionStart", "SessionEnd", "UserPromptSubmit", "PreCompact", "PostCompact"}
)


def parse(event: bytes) -> ToolEvent | NoDecision:
    value = strict_object(event)
    moment = text_field(value, "hook_event_name")
    if moment in ANNOUNCING:
        return NoDecision(NAME, _optional(value, "session_id")[:MAX_ID], moment)
    if moment not in DECIDING:
        raise MalformedEvent(f"The hook event {moment!r} is not one that slack-gate knows.")
    tool_input = value.get("tool_input")
    if not isinstance(tool_input, dict):
        raise MalformedEvent("The hook event has no tool_input object.")
    tool = text_field(value, "tool_name")
    if tool in OWN_TOOLS:
        raise MalformedEvent(f"The tool {tool!r} is none of the agent's.")
    if tool in SHELL_TOOLS and not isinstance(tool_input.get("command"), str):
        raise MalformedEvent("The shell call has no command text.")
    mode = _optional(value, "permission_mode")
    return ToolEvent(
        agent=NAME,
        session=_session(value),
        call=_call(value),
        tool=tool,
        tool_input=tool_input,
        cwd=_cwd(value),
        moment=moment,
        mode=mode,
        subagent=_optional(value, "agent_id"),
        rewritable=True,
        prompts=moment == "PreToolUse" and mode in PROMPTING,
    )


def _call(value: dict[str, Any]) -> str | None:
    call = value.get("tool_use_id")
    if call is None or (isinstance(call, str) and 0 < len(call) <= MAX_ID):
        return call
    raise MalformedEvent(f"The hook event's tool_use_id is not a text of at most {MAX_ID} characters.")


def _session(value: dict[str, Any]) -> str:
    session = text_field(value, "session_id")
    if len(session) > MAX_ID:
        raise MalformedEvent(f"The hook event's session_id is longer than {MAX_ID} characters.")
    return session


def _cwd(value: dict[str, Any]) -> str:
    cwd = text_field(value, "cwd")
    if not cwd.startswith("/"):
        raise MalformedEvent("The hook event's cwd is not an absolute path.")
    return cwd


def _optional(value: dict[str, Any], name: str) -> str:
    field = value.get(name)
    return field if isinstance(field, str) else ""


def render(answer: Answer, event: ToolEvent | NoDecision | None) -> tuple[int, bytes]:
    """Exactly one JSON object: any other byte on stdout is no decision, and the host runs the call."""
    if answer.ruling is Ruling.SILENT:
        return 0, b""
    if isinstance(event, ToolEvent) and event.moment == "PermissionRequest":
        return 0, _permission_request(answer, event)
    output: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": answer.ruling.value,
        "permissionDecisionReason": answer.reason,
    }
    if answer.command is not None and isinstance(event, ToolEvent):
        output["updatedInput"] = _rewritten(answer.command, event)
    if answer.advice:
        output["additionalContext"] = answer.advice
    return 0, _object(output)


def _permission_request(answer: Answer, event: ToolEvent) -> bytes:
    decision: dict[str, Any] = {"behavior": answer.ruling.value}
    if answer.ruling is Ruling.DENY:
        decision["message"] = answer.reason
    elif answer.command is not None:
        decision["updatedInput"] = _rewritten(answer.command, event)
    return _object({"hookEventName": "PermissionRequest", "decision": decision})


def _rewritten(command: str, event: ToolEvent) -> dict[str, Any]:
    """The host replaces the whole input by this one, so every other field is carried over."""
    return {**event.tool_input, "command": command}


def _object(output: dict[str, Any]) -> bytes:
    return json.dumps({"hookSpecificOutput": output}, allow_nan=False).encode()
