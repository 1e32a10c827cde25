"""One call whose input is so deep that those who read it later, with less of the stack left, fall over it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slack_gate.agent_sdk import CanUseTool
from slack_gate.agents.claude_code import MAX_ID, parse
from slack_gate.core.event import MalformedEvent, ToolEvent
from slack_gate.core.strict_json import MAX_DEPTH, NotStrict, strict_object
from tests.daemon.serving import Wire
from tests.web.conftest import Doors, doors, home

__all__ = ["doors", "home"]


def nested(depth: int, kind: str) -> dict[str, Any]:
    """An object of `depth` levels, itself among them."""
    value: Any = 1
    for _ in range(depth - 1):
        value = [value] if kind == "lists" else {"a": value}
    return {"a": value}


@pytest.mark.parametrize("kind", ["lists", "objects"])
async def test_the_page_opens_whatever_an_agent_asked(doors: Doors, kind: str) -> None:
    """Long ones are looked at in a thread, whose stack is shallower than the page's."""
    for depth in (MAX_DEPTH - 1, 300, 480, 486, 490, 494, 498, 600):
        wire = await Wire.open(doors.daemon.settings.socket_path)
        tool_input = {"padding": "x" * 20_000, **nested(depth, kind)}
        await wire.ask(
            {
                "session_id": "s1",
                "hook_event_name": "PreToolUse",
                "tool_name": "mcp__a__b",
                "tool_input": tool_input,
                "tool_use_id": f"toolu_{depth}",
                "cwd": "/w",
            }
        )
        if depth >= MAX_DEPTH:
            assert await wire.decision() == "deny"
        else:
            await doors.pending()
        wire.close()
    async with doors.person.get(doors.page_url) as page:
        assert page.status == 200


@pytest.mark.parametrize("kind", ["lists", "objects"])
def test_the_depth_of_json_is_bounded(kind: str) -> None:
    assert strict_object(json.dumps(nested(MAX_DEPTH, kind)).encode()) == nested(MAX_DEPTH, kind)
    for depth in (MAX_DEPTH + 1, 900, 200_000):
        opening, closing = ("[", "]") if kind == "lists" else ('{"a":', "}")
        data = '{"a":' + opening * (depth - 1) + "1" + closing * (depth - 1) + "}"
        with pytest.raises(NotStrict, match=r"nested deeper than|is not one JSON object"):
            strict_object(data.encode())


@pytest.mark.parametrize("field", ["session_id", "tool_use_id"])
def test_ids_of_megabytes_are_refused(field: str) -> None:
    """A session's id stands on each card and in each line, and is drawn whole before it is cut."""
    event = {
        "session_id": "s" * MAX_ID,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "t" * MAX_ID,
        "cwd": "/w",
    }
    assert isinstance(parse(json.dumps(event).encode()), ToolEvent)
    with pytest.raises(MalformedEvent, match=field):
        parse(json.dumps({**event, field: "x" * (MAX_ID + 1)}).encode())
    told = parse(json.dumps({**event, "hook_event_name": "Stop", "session_id": "x" * 5000}).encode())
    assert len(told.session) == MAX_ID


async def test_an_input_too_deep_for_json_is_denied() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert (await CanUseTool()("Bash", deep, None)).behavior == "deny"
