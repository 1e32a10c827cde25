"""A request as a Slack message, pure. Untrusted text stands only in literal elements (`plain_text`, preformatted).

What is longer than a card stands there with its beginning and its end, and whole in files of its thread (`files_of`):
such a card has no Approve before they are there. From the top: who asks, why and what it reaches, what would run, then
where and until when, its size and last line, and the buttons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cage.cage_policy import FILE_TOOLS
from slack_gate.core.change import FileNow
from slack_gate.core.display import one_line, sentence, shortened, units, visible
from slack_gate.core.fields import Part, parts
from slack_gate.core.kinds import parts_now
from slack_gate.core.offers import NOTHING, Offers
from slack_gate.core.outcome import ended_at, outcome_of
from slack_gate.core.reach import first_programs, reach
from slack_gate.core.request import Choice, Request, State
from slack_gate.core.wording import (
    MAX_CWD,
    MAX_TOOL,
    always,
    counted,
    grounds,
    headline,
    measure,
    named,
    no_always,
    origin,
    place,
    remarks,
)
from slack_gate.slack.blocks import Block, button, clock, confirm, context, plain, section

# Lengths in UTF-16 units. All blocks of a message together fail at an undocumented 11,000 or so; planned are 8,000,
# of which everything but the literal texts takes less than 2,800.
MAX_SHOWN = 5200  # working directory included
MAX_CLIPPED = 2000  # of texts that stand whole in the thread
MAX_WHY = 300
MAX_TEXT = 3000  # of one text
MAX_RAW = 1_000_000  # characters of an input; a longer one is not even drawn
MAX_FILE = 1_000_000  # bytes of a snippet; Slack's own limit is a little higher
MAX_NOTIFICATION = 400
MIN_QUOTED = 40  # of the text in it; of less, none
MAX_CONFIRM = 300
MAX_REASON = 600
# What the options of the overflow menu stand for: their values are request, digest and one of these.
MENU = "deny-with-reason"
WITH_REASON, EDITED, CAGED, SCOPED, MORE = "reason", "edit", "caged", "scope", "more"


@dataclass(frozen=True, slots=True)
class Picture:
    """`text` is the notification; both go into every post and update."""

    text: str
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class File:
    """A text that stands whole in the thread; `title` says which."""

    title: str
    text: str


def unshowable(request: Request) -> str | None:
    """Why not even a card and its thread can show this request whole, with its length; None when they can."""
    whole = json.dumps(dict(request.tool_input), ensure_ascii=False)
    what, length = ("input", len(whole)) if request.command is None else ("command", len(request.command))
    if len(whole) > MAX_RAW:
        return _too_long(what, length, length, MAX_RAW)
    cwd, tool = units(visible(request.cwd)), units(visible(request.tool))
    if cwd > MAX_CWD:
        return _too_long("working directory", len(request.cwd), cwd, MAX_CWD)
    if tool > MAX_TOOL:
        return _too_long("tool's name", len(request.tool), tool, MAX_TOOL)
    longest = max((len(file.text.encode("utf-8", "replace")) for file in files_of(request)), default=0)
    return _too_long(what, length, longest, MAX_FILE) if longest > MAX_FILE else None


def _too_long(what: str, length: int, drawn: int, limit: int) -> str:
    grown = f" ({drawn} as drawn)" if drawn > length else ""
    return (
        f"The {what} has {length} characters{grown}; at most {limit} can be shown, and nothing is approved that is "
        "not shown whole. Ask in shorter steps."
    )


def files_of(request: Request, file: FileNow | None = None) -> list[File]:
    """What must stand in the thread before it may be approved: every text that the card does not show whole."""
    found = parts_now(request, file)
    clipped = _clipped(found, _room(request))
    return [
        File(f"Whole {part.caption or 'command'}"[:200], part.shown)
        for part, drawn in zip(found, clipped, strict=True)
        if drawn is not None
    ]


def card(request: Request, offers: Offers = NOTHING, file: FileNow | None = None, complete: bool = True) -> Picture:
    """The card of a request in any state. `file` is what a call would change, as it was when it was asked; `complete`
    whether everything that the card does not show is in its thread."""
    shown = parts_now(request, file)
    # Short fields beside a command are the agent's remarks on it: they stand below it with the facts.
    brief = request.command is not None and all(part.brief for part in shown[1:])
    clipped = _clipped(shown, _room(request))
    number = 1 if brief else len(shown)
    literal = [block for pair in list(zip(shown, clipped, strict=True))[:number] for block in _literal(*pair)]
    said = [part.shown for part in shown[number:]]
    if request.state is not State.PENDING:
        return _ended(request, shown, literal, said)
    hidden = any(drawn is not None for drawn in clipped)
    offer = _offer(offers)
    where = context(plain(place(request)), clock(request.expires_at, "Expires "))
    facts = [
        *remarks(request, file),
        origin(request),
        _about_always(request, offers, offer),
        *counted(request),
        *measure(request, shown[:number]),
    ]
    blocks = [section("\n".join([headline(request), *grounds(request, MAX_WHY)])), where, *literal, _facts(said, facts)]
    if hidden and not complete:
        blocks.append(section(_INCOMPLETE))
    blocks.append(_buttons(request, offers, offer, complete or not hidden))
    return Picture(notification(request), blocks)


def _ended(request: Request, shown: Sequence[Part], literal: Sequence[Block], said: Sequence[str]) -> Picture:
    outcome = outcome_of(request)
    asked = list(literal)
    if request.edited is not None:
        text = visible(request.edited)
        drawn = None if units(text) <= MAX_CLIPPED // 2 else ends_of(text, MAX_CLIPPED // 2)
        changed = _literal(Part("What was approved in its place", "", "", text), drawn)
        asked = [context(plain("What was asked")), *literal, *changed]
    facts = [_asked_by(request)]
    if request.state is State.DENIED and request.form:
        facts.append(_taken_back(request))
    return Picture(
        _announced(f"{outcome.splitlines()[0].rstrip('.')}: ", _summary(request, shown)),
        [section(outcome), *asked, _facts(said, facts, clock(ended_at(request)))],
    )


def _taken_back(request: Request) -> str:
    if request.lifted_at is not None:
        return "The denial was taken back: the same may be asked again in this session."
    return f"Asked again in this session, it is denied at once. Home takes that back, or /gate lift {request.id}."


def ending(request: Request) -> Picture:
    """The outcome in few words, for a message whose full picture Slack refuses: better bare than with live buttons."""
    outcome = outcome_of(request)
    asked = one_line(_summary(request, parts_now(request)), 300)
    return Picture(_announced(sentence(outcome)), [section(f"{outcome}\n{asked}\n{origin(request)}")])


def notice(sentence: str) -> list[Block]:
    """A short message to one person."""
    return [section(sentence)]


def value_of(request: Request) -> str:
    """What a button carries: the request and the digest of exactly what was shown; of a call that changes a file also
    the revision, which tells the file as it was shown."""
    revision = f" r{request.revision}" if request.tool in FILE_TOOLS else ""
    return f"{request.id} {request.digest}{revision}"


def revision_in(value: str) -> int | None:
    """The revision of the request that a button was drawn in; None where it carries none."""
    found = _REVISION.search(value)
    return None if found is None else int(found[1])


_REVISION = re.compile(r" r(\d{1,9})(?: |\Z)", re.ASCII)


def more(request: Request) -> str:
    """What the option for more time stands for: until when it waits as drawn, so that it counts once."""
    return f"{int(request.expires_at)} {MORE}"


# Texts that are longer than a card


def _room(request: Request) -> int:
    return MAX_SHOWN - min(units(visible(request.cwd)), MAX_CWD)


def _clipped(shown: Sequence[Part], room: int) -> list[tuple[str, str] | None]:
    """For each part None where it is drawn whole, else its beginning and its end; short ones stay whole."""
    if sum(units(part.caption) + units(part.shown) for part in shown) <= room:
        return [None] * len(shown)
    share = MAX_CLIPPED // len(shown)
    return [None if units(part.shown) <= share else ends_of(part.shown, share) for part in shown]


_TORN = re.compile(
    r"(?:\\u\{[0-9a-f]{0,6}|\\u?|\u27e8[0-9a-z ]{0,30})\Z"
)  # an escape or marker that a cut went through
_TORN_END = re.compile(r"\A(?:u?\{?[0-9a-f]{0,6}\}|[0-9a-z ]{0,30}\u27e9)")


def ends_of(shown: str, limit: int) -> tuple[str, str]:
    """The first three fifths and the last two of `limit` UTF-16 units, never half of an escape."""
    head = _up_to(shown, limit * 3 // 5)
    tail = _up_to(shown[::-1], limit * 2 // 5)[::-1]
    return _TORN.sub("", head), _TORN_END.sub("", tail)


def _up_to(text: str, limit: int) -> str:
    kept = text[:limit]
    while units(kept) > limit:
        kept = kept[: limit - units(kept)]
    return kept


# Parts


def _literal(part: Part, ends: tuple[str, str] | None = None) -> list[Block]:
    caption = [context(plain(part.caption))] if part.caption else []
    if ends is None:
        return [*caption, *([preformatted(part.shown)] if part.shown else [])]
    if part.gist and units(part.gist) <= sum(map(units, ends)):
        return [
            *caption,
            preformatted(part.gist),
            context(plain(_CHANGED_LINES)),
        ]
    left = len(part.shown) - sum(map(len, ends))
    between = f"{left} characters are left out here; the whole is in the thread"
    return [*caption, *_preformatted_if(ends[0]), context(plain(between)), *_preformatted_if(ends[1])]


def preformatted(text: str) -> Block:
    """A literal text: nothing in it is parsed."""
    inside = [{"type": "text", "text": text}]
    return {"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": inside}]}


def _facts(said: Sequence[str], facts: Sequence[str], *more: Block) -> Block:
    """One text, a fact a line, the agent's own first: side by side on a wide screen they would not be read in order."""
    lines = "\n".join([*said, *facts])
    if units(lines) <= MAX_TEXT:
        return context(plain(lines), *more)
    return context(*map(plain, said), plain("\n".join(facts)), *more)


def _preformatted_if(text: str) -> list[Block]:
    return [preformatted(text)] if text else []


def _asked_by(request: Request) -> str:
    tool = "" if request.command is not None else f" for {one_line(request.tool, MAX_TOOL)}"
    return f"{one_line(request.agent, 40)} asked{tool}\n{place(request)}\n{origin(request)}"


def _offer(offers: Offers) -> str:
    """The exact rule in words, empty when nothing can be remembered or a dialog could not say it whole."""
    words = always(offers.keys, offers.caged)
    return words if units(words) + len(_CONFIRM) <= MAX_CONFIRM else ""


def _about_always(request: Request, offers: Offers, offer: str) -> str:
    if offer:
        return f"Always covers {offer}"
    why = "the rule is too long for its dialog" if offers.keys else no_always(request)
    return f"Always is not offered: {why}"


def _buttons(request: Request, offers: Offers, offer: str, complete: bool) -> Block:
    value = value_of(request)
    elements: list[Block] = [_button("Deny", Choice.DENY, value, style="danger")]
    if complete:
        elements.insert(0, _button("Approve", Choice.APPROVE, value, style="primary"))
    if offer and complete:
        sure = confirm("Always allow?", _CONFIRM + offer, "Always allow")
        elements.append(_button("Always", Choice.ALWAYS, value, confirm=sure))
    options = [("Deny with a reason", WITH_REASON)]
    if complete:
        options += [("Edit and approve", EDITED)] if offers.edit else []
        options += [("Approve in the cage", CAGED)] if offers.cage else []
        options += [("Always with scope", SCOPED)] if offer else []
    options += [("More time", more(request))] if offers.more else []
    # An option's value holds 150 characters; with the id, the digest and its word it is near 90.
    menu = [{"text": plain(label), "value": f"{value} {way}"} for label, way in options]
    elements.append({"type": "overflow", "action_id": MENU, "options": menu})
    return {"type": "actions", "block_id": f"gate.{request.id}", "elements": elements}


def _button(label: str, choice: Choice, value: str, **extra: Any) -> Block:
    return button(label, choice.value, value=value, **extra)


def summary(request: Request, limit: int = 300) -> str:
    """What is asked, on one line: for a dialog's first, or where there is no room for more."""
    return one_line(_summary(request, parts_now(request)), limit)


def _summary(request: Request, shown: Sequence[Part]) -> str:
    return named(request, _what(shown)) if request.command is not None else f"{request.tool} {_what(shown)}"


def _what(shown: Sequence[Part]) -> str:
    """The command, the path or address, else the first fields."""
    first = shown[0].text or shown[0].caption
    named = re.match(r"(?:file_path|notebook_path|path|url): (.+)", first) if shown[0].brief else None
    return named[1] if named else first


def notification(request: Request, before: str = "") -> str:
    """For a watch: the program, what it reaches, the host; then who asks, and for what."""
    what = request.tool if request.command is None else ", ".join(first_programs(request.command)[:3]) or "a command"
    touched = ", ".join(reach(request)[:3])
    first = f"{one_line(what, 60)}{f' ({touched})' if touched else ''} on {one_line(request.host, 30)}"
    return _announced(f"{before}{first}. {one_line(request.agent, 40)}: ", _what(parts(request)))


def _announced(said: str, text: str = "") -> str:
    """A notification: what is said, drawn already, then as much of a text as there is room for."""
    room = MAX_NOTIFICATION - units(said)
    return escaped(said + one_line(text, room) if room > MIN_QUOTED else shortened(said, MAX_NOTIFICATION))


def escaped(line: str) -> str:
    """One line for a lock screen; `text` is parsed as mrkdwn, so `&<>` are escaped and nothing in it can link."""
    escapes = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    pieces = [escapes.get(char, char) for char in line]
    if sum(map(units, pieces)) <= MAX_NOTIFICATION:
        return "".join(pieces)
    while sum(map(units, pieces)) >= MAX_NOTIFICATION:
        pieces.pop()
    return "".join(pieces) + "…"


_CONFIRM = "From now on this runs without asking, until revoked: "
_INCOMPLETE = "The whole of it is being put into the thread. Until it is there, it cannot be approved."
_CHANGED_LINES = "Only the changed lines; the whole is in the thread."
