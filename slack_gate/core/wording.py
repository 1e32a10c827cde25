"""What is said about a request wherever people are asked: who asks, where, how long the text is, what Always saves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from cage import cage_policy
from slack_gate.core import hosts
from slack_gate.core.change import FileNow
from slack_gate.core.cord import moment
from slack_gate.core.display import one_line, shape, units, visible
from slack_gate.core.event import APPROVAL, OWN_TOOLS, SHELL_TOOLS
from slack_gate.core.fields import Part, parts
from slack_gate.core.kinds import remark
from slack_gate.core.reach import mcp, programs, reach, unpinned
from slack_gate.core.request import Request
from slack_gate.core.rules import Key, Rule
from slack_gate.core.secrets import mask

TAIL = 200  # UTF-16 units of the last line, next to the buttons
SEGMENT = 200  # characters of the part of a call that a reason names
MAX_TOOL = 100
MAX_CWD = 1000
MAX_ARRIVAL = 400
UNPINNED = "It names what it runs by a pattern or a variable: another file may run than stands there now"


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
        return f"use {tool} of the MCP server {server} ({name})"
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
    return f"pending {request.id}: {one_line(what, MAX_ARRIVAL)}"


def place(request: Request) -> str:
    return f"In {one_line(request.cwd, MAX_CWD)} on {one_line(request.host, 80)}"


def named(request: Request, asked: str) -> str:
    """What a line on a request names: a text that a person put in place of what was asked is what runs."""
    return asked if request.edited is None else f"{request.edited} (instead of: {asked})"


def origin(request: Request) -> str:
    return f"Session {one_line(request.session, 40)}, request {request.id}"


def because(request: Request, limit: int) -> str:
    """Why it is asked. The part of the call that a reason names in brackets is left out where that is a whole text of
    the call: it stands there anyway, and one with brackets of its own could take more of the reason with it."""
    why = mask(request.why)
    wholes = [value for value in request.tool_input.values() if isinstance(value, str)]
    segments = [] if request.command is None else cage_policy.read(request.command) or []
    if len(segments) == 1 and not segments[0].redirected:  # the same words, quoted as a reason quotes them
        wholes.append(cage_policy.shown(segments[0].argv))
    for whole in wholes:
        if not {"(", ")"} & set(part := mask(whole[: 2 * SEGMENT])[:SEGMENT]):
            why = why.replace(f" ({part})", "", 1)
    return one_line(why, limit)


def grounds(request: Request, limit: int) -> list[str]:
    """Why it is asked, and what it reaches."""
    touched = ", ".join(reach(request))
    return [f"Asked because {because(request, limit)}", *([f"Reaches: {touched}"] if touched else [])]


def remarks(request: Request, file: FileNow | None = None) -> list[str]:
    """What is to be said about its hosts, its file, and what it names by a pattern."""
    if request.command is not None:
        return list(filter(None, [hosts.listed(mask(request.command)), UNPINNED if unpinned(request.command) else ""]))
    url = request.tool_input.get("url")
    return list(filter(None, [hosts.about_host(mask(url)) if isinstance(url, str) else "", remark(request, file)]))


def counted(request: Request) -> list[str]:
    """The programs of a command; who has approved so far, where several must."""
    found = [] if request.command is None else [programs(request.command)]
    if request.quorum > 1:
        names = ", ".join(one_line(name or user, 40) for user, name in request.votes[:5])
        found.append(f"Approvals: {len(request.votes)} of {request.quorum}{f': {names}' if names else ''}")
    return found


def measure(request: Request, literal: Sequence[Part]) -> list[str]:
    """Size, hidden characters and the last line, next to the buttons: a long text cannot push its end out of view."""
    long = [part for part in literal if not part.brief]
    main = literal[0] if request.command is not None or not long else long[-1]
    facts = [_size(request)]
    if hidden := sum(shape(part.raw).hidden for part in parts(request)):
        facts.append(f"{hidden} hidden or look-alike {_many('character', hidden)}, drawn as \\u{{…}}")
    # A text of one line ends right above, unless another one stands below it.
    if not main.brief and (shape(main.raw).lines > 1 or literal[-1] is not main):
        tail = visible(shape(main.text).last_line)  # a secret is known by its beginning, so masked before it is cut
        facts.append(f"Last line: {tail if units(tail) <= TAIL else '…' + _tail(tail)}")
    return facts


def _size(request: Request) -> str:
    """Of the command, else of all texts of the input together."""
    texts = list(_texts(dict(request.tool_input))) if request.command is None else [request.command]
    characters, lines = sum(map(len, texts)), sum(shape(text).lines for text in texts)
    together = " in all" if len(texts) > 1 else ""
    return f"{characters} {_many('character', characters)}, {lines} {_many('line', lines)}{together}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


def _many(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


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


def no_always(request: Request) -> str:
    """Why nothing can be remembered, as a clause."""
    return "several people must approve" if request.quorum > 1 else "nothing of this can be remembered exactly"


def range_of(rule: Rule) -> str:
    """Where, in which session and until when a saved rule counts."""
    where = f"in {one_line(rule.cwd, 200)}" if rule.cwd else "any directory"
    session = f", session {one_line(rule.session, 40)} only" if rule.session else ""
    return f"{where}{session}{'' if rule.until is None else f', until {moment(rule.until)}'}"


def remembered(keys: Sequence[Key]) -> str:
    """What a rule names, without how far it reaches."""
    return ", ".join(visible(mask(str(key))) for key in keys)
