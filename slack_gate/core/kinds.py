"""What would run, cut into parts for a card, by the kind of tool: what a file gets as a change to the file as it is
now, everything else as `fields.parts` has it. All of the input stays in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cage import cage_policy
from slack_gate.core.change import FileNow, change
from slack_gate.core.display import one_line, shape, visible
from slack_gate.core.fields import MAX_FIELDS, Part, fields_of, parts
from slack_gate.core.request import Request
from slack_gate.core.secrets import mask

MAX_GIST = 60  # lines of the file around an edit
_SIGNS = "- goes, + comes"


def parts_now(request: Request, file: FileNow | None = None) -> list[Part]:
    """All of the input, never empty; `file` is the one that the call would change, None when nobody looked."""
    if request.command is not None:
        return parts(request)
    fields = dict(request.tool_input)
    found: list[Part] = []
    match request.tool:
        case "Write" if isinstance(fields.get("content"), str):
            found = [_written("content", fields.pop("content"), file)]
        case "Edit" if _is_edit({name: fields.get(name) for name in ("old_string", "new_string")}):
            every = bool(fields.get("replace_all"))
            found = list(_edited("change", fields.pop("old_string"), fields.pop("new_string"), every, file))
        case "MultiEdit" if _edits(fields.get("edits")):
            found = list(_all_edited(fields.pop("edits"), file))
        case "NotebookEdit" if isinstance(fields.get("new_source"), str) and _replaces(fields.get("edit_mode")):
            found = [_written("new_source", fields.pop("new_source"), _cell(file, fields.get("cell_id")))]
    return [*fields_of(fields), *found] or parts(request)


def remark(request: Request, file: FileNow | None) -> str:
    """What is to be said about the file as it is now; empty for nothing."""
    if request.tool not in cage_policy.FILE_TOOLS:
        return ""
    if file is None:  # asked about by another daemon, or before this one was started
        return f"The file is on {one_line(request.host, 80)}: what stands in it now is not shown here"
    return f"What stands in the file now is not shown: {file.why}" if file.why else ""


def _written(name: str, text: str, file: FileNow | None) -> Part:
    size = _size(text)
    if file is not None and file.missing:
        return Part(f"{name} of a new file, {size}", text, mask(text), visible(mask(text)))
    found = None if file is None or file.text is None else change(file.text, text)
    if found is None:
        return Part(f"{name}, {size}", text, mask(text), visible(mask(text)))
    if file is not None and file.text == text:
        return Part(f"{name}, {size}, as it is already", text, mask(text), found.whole)
    return Part(
        f"{name}, {size}, as a change to what is there now: {_SIGNS}", text, mask(text), found.whole, gist=found.gist
    )


def _edited(name: str, old: str, new: str, every: bool, file: FileNow | None) -> Iterator[Part]:
    where, text = _where(old, every, file), None if file is None else file.text
    if text is not None and _fits(old, every, text) and not _whole_lines(old, text):
        around = change(text, text.replace(old, new))
        if around is not None and around.gist.count("\n") < MAX_GIST:
            yield Part(f"In the file as it is now,{where}: {_SIGNS}", "", "", around.gist, gist=around.gist)
            where = ""
    yield from _exactly(name, where, old, new)


def _all_edited(edits: list[Mapping[str, Any]], file: FileNow | None) -> Iterator[Part]:
    """Several edits, one after the other; first the file as all of them would leave it, where each finds its place."""
    before = now = None if file is None else file.text
    found: list[Part] = []
    for number, edit in enumerate(edits, 1):
        old, new, every = edit["old_string"], edit["new_string"], bool(edit.get("replace_all"))
        where = _where(old, every, file if before is None else FileNow(now))
        if every:  # a field of its own that has no line of its own
            where = f", in every place{f' ({where[1:]})' if where[:1] == ' ' else where}"
        found += _exactly(f"change {number} of {len(edits)}", where, old, new)
        now = now.replace(old, new) if now is not None and _fits(old, every, now) else None
    around = change(before, now) if before is not None and now is not None else None
    if around is not None and around.gist.count("\n") < MAX_GIST:
        yield Part(f"In the file as it is now: {_SIGNS}", "", "", around.gist, gist=around.gist)
    yield from found


def _exactly(name: str, where: str, old: str, new: str) -> Iterator[Part]:
    """Both texts of an edit, whole."""
    found = change(old, new)
    if found is None:
        yield Part(f"{name}: what goes{where}, {_size(old)}", old, mask(old), visible(mask(old)))
        yield Part(f"{name}: what comes, {_size(new)}", new, mask(new), visible(mask(new)))
    else:
        yield Part(f"{name}{where}: {_SIGNS}", new, mask(new), found.whole, gist=found.gist)


def _where(old: str, every: bool, file: FileNow | None) -> str:
    """Where the old text stands, in words that follow a name."""
    if file is None or file.text is None or not old:
        return ", a new file" if file is not None and file.missing else ""
    text, count = file.text, file.text.count(old)
    if not count:
        return ", whose old text is not in the file as it is now"
    if count > 1 and not every:
        return f", whose old text stands in {count} places: it may fail"
    line = text.count("\n", 0, text.index(old)) + 1
    return f" at line {line}" if count == 1 else f" in {count} places, the first at line {line}"


def _fits(old: str, every: bool, text: str) -> bool:
    """Whether it is clear what an edit of this text would change."""
    return bool(old) and (text.count(old) == 1 or (every and old in text))


def _whole_lines(old: str, text: str) -> bool:
    """Whether the old text stands there as lines of its own; else the change reads better with the lines around."""
    at = text.index(old)
    return (at == 0 or text[at - 1] == "\n") and (old[-1] == "\n" or text[at + len(old) :][:1] in ("", "\n"))


def _is_edit(edit: Any) -> bool:
    return (
        isinstance(edit, Mapping)
        and {"old_string", "new_string"} <= set(edit) <= {"old_string", "new_string", "replace_all"}
        and isinstance(edit["old_string"], str)
        and isinstance(edit["new_string"], str)
        and isinstance(edit.get("replace_all", False), bool)
    )


def _edits(edits: Any) -> bool:
    return isinstance(edits, list) and 0 < len(edits) <= MAX_FIELDS and all(map(_is_edit, edits))


def _replaces(mode: Any) -> bool:
    return mode is None or mode == "replace"


def _cell(file: FileNow | None, cell: Any) -> FileNow | None:
    """The source of a notebook's cell in place of the file."""
    if file is None or file.text is None:
        return file
    try:
        cells = json.loads(file.text)["cells"]
        source = next(one["source"] for one in cells if one.get("id") == cell)
        return FileNow("".join(source))
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration, RecursionError):
        return FileNow(why="it has no such cell")


def _size(text: str) -> str:
    size = shape(text)
    return f"{size.characters} characters, {size.lines} {'line' if size.lines == 1 else 'lines'}"
