"""A request as the page shows it, pure: what the templates write out, literally."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from slack_gate.core.display import one_line, visible
from slack_gate.core.fields import parts
from slack_gate.core.offers import Offers
from slack_gate.core.outcome import ended_at, outcome_of
from slack_gate.core.request import Request
from slack_gate.core.secrets import mask
from slack_gate.core.wording import always, headline, measure, origin, place

MAX_SUMMARY = 300  # of what was asked, in the history


@dataclass(frozen=True, slots=True)
class Moment:
    """A time for people and for machines."""

    epoch: int
    iso: str
    words: str


@dataclass(frozen=True, slots=True)
class Text:
    """Literal lines below a caption, which may be empty."""

    caption: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    kind: str = ""  # `added` or `removed`, in a change


@dataclass(frozen=True, slots=True)
class Pending:
    id: str
    token: str
    headline: str
    texts: Sequence[Text]
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


def pending(request: Request, token: str, offers: Offers) -> Pending:
    """All of it: what is not shown whole is not offered for approval."""
    found = parts(request)
    texts = [Text(part.caption, [Line(line) for line in part.shown.split("\n")]) for part in found]
    # As on the card: the size and the last line are those of the command, or of the content below its path.
    literal = found[:1] if request.command is not None else found
    return Pending(
        request.id,
        token,
        headline(request),
        [*texts, *_change(request)],
        [
            *_votes(request),
            *measure(request, literal),
            place(request),
            f"Asked because {one_line(mask(request.why), 400)}",
            origin(request),
        ],
        always(offers.keys, offers.caged),
        "several people must approve" if request.quorum > 1 else "nothing of this can be remembered exactly",
        offers.cage,
        offers.more,
        moment(request.expires_at),
    )


def _votes(request: Request) -> list[str]:
    if request.quorum <= 1:
        return []
    names = ", ".join(one_line(name or user, 40) for user, name in request.votes)
    return [f"Approvals: {len(request.votes)} of {request.quorum}{f' ({names})' if names else ''}"]


def _change(request: Request) -> Iterator[Text]:
    """Of a call that puts one text in place of another: both, line by line, below the whole of them."""
    old, new = (request.tool_input.get(name) for name in ("old_string", "new_string"))
    if request.command is not None or not isinstance(old, str) or not isinstance(new, str):
        return
    before, after = (visible(mask(text)).split("\n") for text in (old, new))
    lines = list(difflib.unified_diff(before, after, n=len(before) + len(after), lineterm=""))[3:]
    kinds = {"+": "added", "-": "removed"}
    yield Text("The change, line by line", [Line(line, kinds.get(line[0], "")) for line in lines])


def past(request: Request) -> Past:
    what = parts(request)[0]
    summary = what.text or what.caption
    if request.command is None:
        summary = f"{request.tool}: {summary}"
    return Past(
        request.id,
        outcome_of(request).splitlines(),
        one_line(summary, MAX_SUMMARY),
        [place(request), f"{one_line(request.agent, 40)}, {origin(request)}"],
        moment(ended_at(request)),
    )


def moment(epoch: float) -> Moment:
    at = datetime.fromtimestamp(int(epoch), UTC)
    return Moment(int(epoch), at.strftime("%Y-%m-%dT%H:%M:%SZ"), at.strftime("%H:%M:%S UTC"))
