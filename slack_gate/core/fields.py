"""What would run, cut into parts for a card: the command first, a path before the content, long texts as they are.

Every part decodes to the exact input: a text stands as itself, a short field as `name: text` or `name = JSON` on a line
of its own, and what does not fit that scheme as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from slack_gate.core.display import shape, units, visible
from slack_gate.core.request import Request
from slack_gate.core.secrets import mask, mask_value

MAX_BRIEF = 200  # UTF-16 units of a field that stands on one line with its name
MAX_FIELDS = 10
_FIRST = ("file_path", "notebook_path", "path", "url")
_NAME = re.compile(r"[A-Za-z_][\w-]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Part:
    """One literal text below `caption` (may be empty). `raw` is what runs, `text` the same masked, `shown` visible.

    `brief` parts are lines of short fields. `gist` is a shorter picture of a change, where the whole is too long.
    """

    caption: str
    raw: str
    text: str
    shown: str
    brief: bool = False
    gist: str = ""


def length(value: Any) -> int:
    """Characters of all texts in a JSON value: what drawing it costs."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(name) + length(item) for name, item in value.items())
    return sum(map(length, value)) if isinstance(value, list) else 0


def parts(request: Request) -> list[Part]:
    """All of the input, never empty; a command is the first part."""
    found = [] if request.command is None else [_command(request.command)]
    rest = {name: value for name, value in request.tool_input.items() if name != "command" or request.command is None}
    if found and any(name[:1].isupper() for name in rest):  # `Programs: ls` beside a command reads like a line of ours
        return [*found, _json("Input, JSON", rest, mask_value(rest))]
    return [*found, *fields_of(rest)] or [Part("No input", "", "", "")]


def _command(command: str) -> Part:
    text = mask(command)
    return Part("" if command else "The command is empty", command, text, visible(text))


def fields_of(fields: dict[str, Any]) -> Iterator[Part]:
    """The fields of an input that are shown as they are; nothing for none."""
    masked = mask_value(fields)
    if len(fields) > MAX_FIELDS or not all(_NAME.fullmatch(name) for name in masked):
        yield _json("Input, JSON", fields, masked)
        return
    found = [_field(name, fields[name], masked[name]) for name in sorted(fields, key=lambda name: name not in _FIRST)]
    for brief, group in groupby(found, lambda part: part.brief):
        run = list(group)
        yield from [_joined(run)] if brief else run


def _field(name: str, raw: Any, masked: Any) -> Part:
    if not isinstance(raw, str):
        line = f"{name} = {visible(json.dumps(masked, ensure_ascii=False))}"
        return Part("", line, line, line, True) if units(line) <= MAX_BRIEF else _json(f"{name}, JSON", raw, masked)
    line = f"{name}: {visible(masked)}"
    if "\n" not in line and units(line) <= MAX_BRIEF:
        return Part("", f"{name}: {raw}", f"{name}: {masked}", line, True)
    size = shape(raw)
    return Part(f"{name}, {size.characters} characters, {size.lines} lines", raw, masked, visible(masked))


def _json(caption: str, raw: Any, masked: Any) -> Part:
    text = json.dumps(masked, ensure_ascii=False, indent=1)
    return Part(caption, json.dumps(raw, ensure_ascii=False, indent=1), text, visible(text))


def _joined(lines: list[Part]) -> Part:
    return Part(
        "",
        "\n".join(part.raw for part in lines),
        "\n".join(part.text for part in lines),
        "\n".join(part.shown for part in lines),
        True,
    )
