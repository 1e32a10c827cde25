"""A request as the page shows it, pure: what the templates write out, literally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from slack_gate.core.change import FileNow
from slack_gate.core.display import one_line
from slack_gate.core.fields import Part
from slack_gate.core.kinds import parts_now
from slack_gate.core.offers import Offers
from slack_gate.core.outcome import ended_at, outcome_of
from slack_gate.core.request import Request
from slack_gate.core.wording import (
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

MAX_SUMMARY = 300  # of what was asked, in the history
MAX_READ = 4000  # characters of a text that are looked at for it
MAX_WHY = 400
SPOKEN = 300  # characters of a text that a screen reader says with a button
FOLDED = 60  # lines of a change; of a longer one, those that change stand above, and the whole unfolds


@dataclass(frozen=True, slots=True)
class Moment:
    """A time for people and for machines."""

    epoch: int
    iso: str
    words: str


@dataclass(frozen=True, slots=True)
class Text:
    """Literal lines below a caption, which may be empty; `whole` unfolds where `lines` are not all."""

    caption: str
    lines: Sequence[Line]
    whole: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    kind: str = ""  # `added` or `removed`, in a change


@dataclass(frozen=True, slots=True)
class Pending:
    id: str
    token: str
    headline: str
    grounds: Sequence[str]
    texts: Sequence[Text]
    short: bool  # whether a screen reader says the first text with each button; else the facts about it
    facts: Sequence[str]
    always: str  # what Always would remember, empty where it is not offered
    no_always: str  # why not
    cage: bool  # whether it can be approved for the cage only
    more: bool  # whether it can be given more time
    expires: Moment


@dataclass(frozen=True, slots=True)
class Past:
    id: str
    outcome: Sequence[str]
    summary: str
    facts: Sequence[str]
    ended: Moment


def pending(request: Request, token: str, offers: Offers, file: FileNow | None = None) -> Pending:
    """All of it: what is not shown whole is not offered for approval. `file` is the one that the call would change."""
    found = parts_now(request, file)
    texts = [_text(part) for part in found]
    # As on the card: the size and the last line are those of the command, or of the content below its path.
    literal = found[:1] if request.command is not None else found
    return Pending(
        request.id,
        token,
        headline(request),
        grounds(request, MAX_WHY),
        texts,
        sum(len(line.text) for line in texts[0].lines) <= SPOKEN,
        [*remarks(request, file), *counted(request), *measure(request, literal), place(request), origin(request)],
        always(offers.keys, offers.caged),
        no_always(request),
        offers.cage,
        offers.more,
        moment(request.expires_at),
    )


def _text(part: Part) -> Text:
    lines = _lines(part.shown, bool(part.gist))
    if not part.gist or len(lines) <= FOLDED or len(part.gist) >= len(part.shown):
        return Text(part.caption, lines)
    return Text(part.caption, _lines(part.gist, True), lines)


def _lines(text: str, changes: bool) -> list[Line]:
    kinds = {"+": "added", "-": "removed"} if changes else {}
    return [Line(line, kinds.get(line[:1], "")) for line in text.split("\n")]


def past(request: Request) -> Past:
    what = parts_now(_beginning(request))[0]
    summary = what.text or what.caption
    if request.command is None:
        summary = f"{request.tool}: {summary}"
    summary = named(request, summary)
    return Past(
        request.id,
        outcome_of(request).splitlines(),
        one_line(summary, MAX_SUMMARY),
        [place(request), f"{one_line(request.agent, 40)}, {origin(request)}"],
        moment(ended_at(request), "%Y-%m-%d %H:%M:%S UTC"),
    )


def _beginning(request: Request) -> Request:
    """Enough of it for a line; what has ended is masked on file, so that no secret is cut."""
    texts = request.tool_input.items()
    cut = {name: text[:MAX_READ] if isinstance(text, str) else text for name, text in texts}
    return replace(request, tool_input=cut, command=None if request.command is None else request.command[:MAX_READ])


def moment(epoch: float, words: str = "%H:%M:%S UTC") -> Moment:
    at = datetime.fromtimestamp(int(epoch), UTC)
    return Moment(int(epoch), at.strftime("%Y-%m-%dT%H:%M:%SZ"), at.strftime(words))
