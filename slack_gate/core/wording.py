"""What is said about a request wherever people are asked: who asks, where, how long the text is, what Always saves."""

from __future__ import annotations

from collections.abc import Sequence

from slack_gate.core.display import one_line, shape, units, visible
from slack_gate.core.event import APPROVAL, OWN_TOOLS, SHELL_TOOLS
from slack_gate.core.fields import Part, parts
from slack_gate.core.reach import mcp
from slack_gate.core.request import Request
from slack_gate.core.rules import Key
from slack_gate.core.secrets import mask

TAIL = 200  # UTF-16 units of the last line, next to the buttons
MAX_TOOL = 100
MAX_CWD = 1000
MAX_ARRIVAL = 400


def headline(request: Request) -> str:
    who = one_line(request.agent, 40)
    if request.tool == APPROVAL:
        return f"{who} asks:"
    if request.tool in OWN_TOOLS:
        return f"{who} wants to {request.tool}:"
    return f"{who} wants to {_deed(request)}{_flags(request)}:"


def _deed(request: Request) -> str:
    if request.command is not None:
        return "run"
    name = one_line(request.tool, MAX_TOOL)
    if request.tool in ("Task", "Agent"):
        return f"use {name}, which starts a subagent"
    if (found := mcp(request.tool)) is not None:
        server, tool = (one_line(word, MAX_TOOL) for word in found)
        return f"use {name} (the tool {tool} of the MCP server {server})"
    return f"use {name}"


def _flags(request: Request) -> str:
    """What the agent asks for beside the call itself."""
    said = {
        "dangerouslyDisableSandbox": "outside the agent's own sandbox",
        "run_in_background": "in the background",
    }
    found = [said[name] for name in request.event.unusual_flags]
    return f", {' and '.join(found)}" if found else ""


def arrival(request: Request) -> str:
    """One line, for whoever watches the daemon's output."""
    what = request.command if request.command is not None else request.tool
    return f"pending {request.id}: {one_line(mask(what), MAX_ARRIVAL)}"


def place(request: Request) -> str:
    return f"In {one_line(request.cwd, MAX_CWD)} on {one_line(request.host, 80)}"


def origin(request: Request) -> str:
    return f"Session {one_line(request.session, 40)}, request {request.id}"


def measure(request: Request, literal: Sequence[Part]) -> list[str]:
    """Size, hidden characters and the last line, next to the buttons: a long text cannot push its end out of view."""
    main = literal[0] if request.command is not None else literal[-1]
    size = shape(main.raw)
    facts = [f"{size.characters} characters, {size.lines} {'line' if size.lines == 1 else 'lines'}"]
    if hidden := sum(shape(part.raw).hidden for part in parts(request)):
        facts.append(f"{hidden} hidden or look-alike characters, drawn as \\u{{…}}")
    if size.lines > 1 or size.characters > TAIL or literal[-1] is not main:
        tail = visible(shape(main.text).last_line)  # a secret is known by its beginning, so masked before it is cut
        facts.append(f"Last line: {tail if units(tail) <= TAIL else '…' + _tail(tail)}")
    return facts


def _tail(line: str) -> str:
    end = line[-TAIL:]
    return end[(units(end) - TAIL + 1) // 2 :]


def always(keys: Sequence[Key], caged: bool) -> str:
    """The exact rule that Always would save, empty when nothing can be remembered."""
    if not keys:
        return ""
    rules = remembered(keys)
    scope = "any arguments, any directory" if keys[0].tool in SHELL_TOOLS else "any directory"
    return f"{rules} ({scope}{', runs in the cage' if caged else ''})"


def remembered(keys: Sequence[Key]) -> str:
    """What a rule names, without how far it reaches."""
    return ", ".join(visible(mask(str(key))) for key in keys)
