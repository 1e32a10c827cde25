"""One agent's long inputs while others wait: nothing long is drawn in the event loop, nor all of it at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slack_gate.slack import home_tab, messenger
from slack_gate.slack.home import MAX_LONG
from slack_gate.web import page as page_module
from slack_gate.web.page import LONG, ROOM
from tests.daemon.house import house
from tests.daemon.serving import Wire
from tests.slack.test_home import asked, drawn, overview, request
from tests.web.conftest import Doors, doors, home

__all__ = ["doors", "home"]


def noted(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> set[int]:
    """The threads that call it from now on."""
    seen: set[int] = set()
    real: Callable[..., Any] = getattr(module, name)

    def call(*args: Any, **more: Any) -> Any:
        seen.add(threading.get_ident())
        return real(*args, **more)

    monkeypatch.setattr(module, name, call)
    return seen


def write(number: int, size: int) -> dict[str, Any]:
    return {
        "session_id": "s1",
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_input": {"file_path": f"/etc/{number}", "content": "x" * size},
        "tool_use_id": f"toolu_{number}",
        "cwd": "/w",
    }


async def test_the_page_opens_while_much_waits(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty files of 900 kB made one page, and with it every answer to an agent, wait for more than a minute."""
    pending, past = (noted(monkeypatch, page_module, name) for name in ("pending", "past"))
    wires = []
    sizes = [ROOM * 2 // 3, ROOM * 2 // 3, 100, ROOM // 100, LONG // 2]
    for number, size in enumerate(sizes):
        wires.append(await Wire.open(doors.daemon.settings.socket_path))
        await wires[-1].ask(write(number, size), limit=300)
        waiting = await doors.pending(number + 1)
    async with doors.person.get(doors.page_url) as response:
        page = await response.text()
    names = {str(one.tool_input["file_path"]): one.id for one in waiting}
    assert [number for number in range(5) if f'id="{names[f"/etc/{number}"]}"' in page] == [0, 2, 4]
    assert "5 waiting for you, 2 of them long: they follow when these are decided" in page
    for wire in wires:
        await wire.send(b"withdraw\n")
        assert await wire.decision() == "deny"
    async with doors.person.get(doors.page_url) as response:
        assert "/etc/0" in await response.text()
    assert pending and past and threading.get_ident() not in pending | past


def test_what_is_too_long_for_the_home_tab_is_not_drawn_there() -> None:
    def picture(*_: object) -> list[dict[str, Any]]:
        raise AssertionError("it takes a second for each")

    command = "make " + "x" * MAX_LONG
    long = request(command, tool_input={"command": command, "description": "y" * MAX_LONG})
    fields = {"to": "prod", "what": "z" * MAX_LONG}
    other = replace(request(number=2), tool="mcp__a__b", command=None, tool_input=fields)
    text = str(drawn(overview(*asked(long, other)), picture=picture))
    assert text.count("Too long for this tab") == 2 and "make xxx" in text and "to: prod" in text
    assert text.count("'text': 'Deny'") == 2 and "'text': 'Approve'" not in text and "zzz" not in text


async def test_long_texts_within_a_list_are_drawn_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ten changes of a MultiEdit take a second each to compare."""
    cards, tab = noted(monkeypatch, messenger, "picture_of"), noted(monkeypatch, home_tab, "drawing")
    async with house(tmp_path) as h:
        edits = [{"old_string": "a" * 300, "new_string": "b" * 300} for _ in range(20)]
        await h.start(h.event("MultiEdit", file_path="/etc/x", edits=edits))
        await h.ana.wait_for_message(lambda m: m.has_button("Approve") and "/etc/x" in m.plain())
    assert cards and tab and threading.get_ident() not in cards | tab
