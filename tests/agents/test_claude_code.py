"""Claude Code's events and answers, to the byte."""

import json
from typing import Any

import pytest

from slack_gate.agents import claude_code
from slack_gate.core.answer import Answer, Ruling, deny
from slack_gate.core.event import MalformedEvent, NoDecision, ToolEvent

GOOD: dict[str, Any] = {
    "session_id": "s1",
    "transcript_path": "/t",
    "cwd": "/w/app",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "git push", "description": "push it"},
    "tool_use_id": "toolu_1",
}


def _event(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def _parsed(**changes: Any) -> ToolEvent:
    event = claude_code.parse(_event(**changes))
    assert isinstance(event, ToolEvent)
    return event


def test_parse_takes_every_field() -> None:
    assert _parsed(agent_id="sub", permission_mode="plan") == ToolEvent(
        agent="claude-code",
        session="s1",
        call="toolu_1",
        tool="Bash",
        tool_input=GOOD["tool_input"],
        cwd="/w/app",
        moment="PreToolUse",
        mode="plan",
        subagent="sub",
        rewritable=True,
        prompts=True,
    )


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({"permission_mode": "default"}, True),
        ({"permission_mode": "acceptEdits"}, True),
        ({"permission_mode": "plan"}, True),
        ({"permission_mode": "bypassPermissions"}, False),
        ({"permission_mode": "dontAsk"}, False),
        ({"permission_mode": "auto"}, False),
        ({"permission_mode": "a mode to come"}, False),
        ({"permission_mode": None}, False),
        ({"permission_mode": "default", "hook_event_name": "PermissionRequest"}, False),
    ],
)
def test_where_the_agents_own_prompt_holds_a_call(changes: dict[str, Any], holds: bool) -> None:
    assert _parsed(**changes).prompts is holds


def test_asking_at_the_agents_own_prompt() -> None:
    code, output = claude_code.render(Answer(Ruling.ASK, "slack-gate leaves this to you."), _parsed())
    assert (code, json.loads(output)) == (
        0,
        {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "ask",
                "permissionDecisionReason": "slack-gate leaves this to you.",
            }
        },
    )


def test_a_permission_request_has_no_call_id() -> None:
    event = json.loads(_event(hook_event_name="PermissionRequest"))
    del event["tool_use_id"]
    parsed = claude_code.parse(json.dumps(event).encode())
    assert isinstance(parsed, ToolEvent)
    assert (parsed.moment, parsed.call) == ("PermissionRequest", None)


@pytest.mark.parametrize("moment", ["Notification", "PermissionDenied", "SessionStart"])
def test_events_that_decide_nothing(moment: str) -> None:
    event = claude_code.parse(_event(hook_event_name=moment))
    assert event == NoDecision("claude-code", "s1", moment)


MALFORMED = [
    b"",
    b" \n",
    b"{",
    b"[]",
    b"null",
    b"7",
    b"\xff\xfe{}",
    b"\xef\xbb\xbf" + _event(),
    _event() + b"\n" + _event(),
    _event().replace(b'"tool_name": "Bash"', b'"tool_name": "Read", "tool_name": "Bash"'),
    _event().replace(b'"command": "git push"', b'"command": "ls", "command": "git push"'),
    _event(tool_input={"command": "echo \ud800"}),
    _event(tool_input={"command": "ls\x00-la"}),
    _event(tool_input={"command": ["rm", "-rf", "src"]}),
    _event(tool_input={"command": 7}),
    _event(tool_input={"command": None}),
    _event(tool_input={}),
    _event(tool_input=None),
    _event(tool_input="ls"),
    _event(tool_input={"command": "ls", "deep": [{"x": "\udfff"}]}),
    _event(tool_name=""),
    _event(tool_name=None),
    _event(tool_name=["Bash"]),
    _event(session_id=""),
    _event(session_id=None),
    _event(cwd=""),
    _event(cwd="relative"),
    _event(cwd=3),
    _event(tool_use_id=""),
    _event(tool_use_id=5),
    _event(hook_event_name=""),
    _event(hook_event_name="SomethingNew"),
    b'{"hook_event_name": "PreToolUse", "x": NaN}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
]


@pytest.mark.parametrize("event", MALFORMED, ids=lambda event: repr(event[:60]))
def test_odd_events_are_malformed(event: bytes) -> None:
    with pytest.raises(MalformedEvent) as caught:
        claude_code.parse(event)
    assert str(caught.value).endswith(".")


def _output(answer: Answer, event: ToolEvent | NoDecision | None) -> Any:
    code, output = claude_code.render(answer, event)
    assert code == 0
    return json.loads(output)


def test_allow() -> None:
    assert _output(Answer(Ruling.ALLOW, "Approved by Ana"), _parsed()) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "permissionDecisionReason": "Approved by Ana",
        }
    }


def test_deny_without_an_event() -> None:
    assert _output(deny("no: archive first"), None) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "no: archive first",
        }
    }


def test_silence_is_exit_0_and_not_one_byte() -> None:
    assert claude_code.render(Answer(Ruling.SILENT), _parsed()) == (0, b"")


def test_a_rewrite_replaces_the_command_and_carries_the_rest() -> None:
    output = _output(Answer(Ruling.ALLOW, "ok", "sbox make"), _parsed())["hookSpecificOutput"]
    assert output["updatedInput"] == {"command": "sbox make", "description": "push it"}


def test_advice_is_for_the_agent() -> None:
    output = _output(Answer(Ruling.ALLOW, "ok", "sbox make", "it is caged"), _parsed())["hookSpecificOutput"]
    assert (output["additionalContext"], output["permissionDecisionReason"]) == ("it is caged", "ok")


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (deny("no"), {"behavior": "deny", "message": "no"}),
        (Answer(Ruling.ALLOW, "yes"), {"behavior": "allow"}),
        (
            Answer(Ruling.ALLOW, "yes", "sbox make"),
            {"behavior": "allow", "updatedInput": {"command": "sbox make", "description": "push it"}},
        ),
    ],
)
def test_permission_request(answer: Answer, decision: dict[str, Any]) -> None:
    assert _output(answer, _parsed(hook_event_name="PermissionRequest")) == {
        "hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}
    }


def test_a_large_event_is_read() -> None:
    assert _parsed(tool_name="Write", tool_input={"content": "x" * 1_000_000}).command is None
