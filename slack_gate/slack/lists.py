"""Several requests as one Slack message, pure: each with its own buttons below the whole of what would run.

For more requests at once than Slack takes messages, and for one that is asked again while it waits: then the text
stands there once, with buttons for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from slack_gate.core.display import one_line, sentence, shortened, units
from slack_gate.core.event import APPROVAL
from slack_gate.core.fields import Part, parts
from slack_gate.core.offers import NOTHING, Offers
from slack_gate.core.outcome import outcome_of
from slack_gate.core.request import Choice, Request, State
from slack_gate.core.secrets import mask
from slack_gate.core.wording import MAX_TOOL, counted, grounds, headline, measure, place, remarks
from slack_gate.slack.blocks import Block, button, confirm, context, divider, plain, section
from slack_gate.slack.cards import (
    MENU,
    SCOPED,
    WITH_REASON,
    Picture,
    escaped,
    more,
    preformatted,
    value_of,
)

APPROVE_ALL = "approve-all"
MAX_TEXT = 700  # UTF-16 units of what one item would run; a longer one gets a card of its own
MAX_PLACE = 300
MAX_WHY = 160
MAX_REMARK = 200
MAX_TOTAL = 6800  # of a message that waits; ended items may take a little more
MAX_BLOCKS = 46
MAX_VALUE = 2000  # characters of a button's value
FILE_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})

OffersOf = Callable[[Request], Offers]


def listable(request: Request) -> bool:
    """Whether it can stand whole among others; what needs several people, or a change drawn, has its own card."""
    if request.quorum > 1 or request.tool in FILE_TOOLS or request.tool == APPROVAL:
        return False
    whole = sum(units(part.caption) + units(part.shown) for part in parts(request))
    return whole <= MAX_TEXT and units(place(request)) <= MAX_PLACE and units(request.tool) <= MAX_TOOL


def fitting(requests: Sequence[Request], offers: OffersOf) -> int:
    """How many of the first of these fit into one message."""
    size = blocks = values = 0
    before = ""
    for number, request in enumerate(requests):
        drawn = listing([request], offers).blocks[1:]
        again = place(request) == before
        before = place(request)
        size += _total(drawn) - (units(before) if again else 0)
        blocks += len(drawn) - again + bool(number)  # a line between two texts, so that buttons belong to the upper
        values += len(value_of(request)) + 1
        if number and (size > MAX_TOTAL or blocks > MAX_BLOCKS or values > MAX_VALUE):
            return number
    return len(requests)


def listing(requests: Sequence[Request], offers: OffersOf = lambda request: NOTHING) -> Picture:
    """The message of these requests in whatever states they are, in this order."""
    waiting = [request for request in requests if request.state is State.PENDING]
    deeds = {headline(request) for request in waiting}
    alike = len(waiting) > 1 and len(deeds) == 1
    blocks: list[Block] = [section(_top(requests, waiting, deeds.pop() if alike else ""))]
    number = 0
    for where, here in groupby(requests, place):
        place_now = [context(plain(where))]
        for _, same in groupby(here, lambda request: (request.tool, _text(request))):
            twins = list(same)
            blocks += [*([divider()] if number else []), *place_now, *_text(twins[0])]
            place_now = []
            for request in twins:
                number += 1
                blocks += _item(request, f"{number} of {len(requests)}", alike, offers)
    if len(waiting) > 1:
        blocks += [divider(), _all_of(waiting)]
    return Picture(_notification(requests, waiting), blocks)


def _top(requests: Sequence[Request], waiting: Sequence[Request], deed: str) -> str:
    """`deed` is what all that wait have in common, empty where each says it for itself."""
    if not waiting:
        return f"All {len(requests)} have ended."
    ended = len(requests) - len(waiting)
    who = "request waits" if len(waiting) == 1 else "requests wait"
    counts = f"{len(waiting)} {who}{f', {ended} have ended' if ended else ''}"
    return f"{counts}, each with its buttons below it.{f' For each: {deed[:-1]}.' if deed else ''}"


def _text(request: Request) -> list[Block]:
    """What would run, whole; the agent's remarks on a command follow with each item."""
    found: list[Block] = []
    for part in _parted(request)[0]:
        found += [context(plain(part.caption))] if part.caption else []
        found += [preformatted(part.shown)] if part.shown else []
    return found


def _parted(request: Request) -> tuple[list[Part], list[Part]]:
    """What stands there literally, and the agent's remarks on it: short fields beside a command."""
    shown = parts(request)
    number = 1 if request.command is not None and all(part.brief for part in shown[1:]) else len(shown)
    return shown[:number], shown[number:]


def _item(request: Request, number: str, alike: bool, offers: OffersOf) -> list[Block]:
    """`alike`: who wants to do what stands at the top."""
    literal, remarked = _parted(request)
    said = [part.shown for part in remarked]
    if request.state is not State.PENDING:
        outcome = shortened(sentence(outcome_of(request)), 140)
        instead = "" if request.edited is None else f". What runs instead: {one_line(request.edited, MAX_REMARK)}"
        return [context(plain(f"{number}: {outcome.rstrip('.')}{instead}. Request {request.id}"), *map(plain, said))]
    facts = [
        number if alike else f"{number}: {headline(request)[:-1]}",
        *grounds(request, MAX_WHY),
        *(shortened(said, MAX_REMARK) for said in remarks(request)),
        *counted(request),
        *measure(request, literal),
        request.id,
    ]
    about = context(plain(". ".join(facts)), *map(plain, said))
    return [about, _buttons(request, offers(request))]


def _buttons(request: Request, offers: Offers) -> Block:
    value = value_of(request)
    ways = [("Deny with a reason", WITH_REASON)]
    ways += [("Always with scope", SCOPED)] if offers.keys else []
    ways += [("More time", more(request))] if offers.more else []
    options = [{"text": plain(label), "value": f"{value} {way}"} for label, way in ways]
    elements = [
        button("Approve", Choice.APPROVE.value, value=value, style="primary"),
        button("Deny", Choice.DENY.value, value=value, style="danger"),
        {"type": "overflow", "action_id": MENU, "options": options},
    ]
    return {"type": "actions", "block_id": f"gate.{request.id}", "elements": elements}


def _all_of(waiting: Sequence[Request]) -> Block:
    """Only of what stands whole in this message; a request that joined since is not in it."""
    value = " ".join(f"{request.id}:{request.digest}" for request in waiting)
    sure = confirm("Approve all?", f"The {len(waiting)} above, each once.", f"Approve {len(waiting)}")
    every = button(f"Approve all {len(waiting)}", APPROVE_ALL, value=value, confirm=sure)
    return {"type": "actions", "block_id": "gate.all", "elements": [every]}


def pairs(value: str) -> list[tuple[str, str]]:
    """The requests and digests that Approve all stands for."""
    found = (pair.partition(":") for pair in value.split(" "))
    return [(request, digest) for request, _, digest in found if request and digest]


def bare(requests: Sequence[Request]) -> Picture:
    """In few words, for a message whose full picture Slack refuses: better bare than with live buttons."""
    ended = "\n".join(f"{request.id}: {shortened(sentence(outcome_of(request)), 60)}" for request in requests)
    text = f"{len(requests)} requests"
    return Picture(text, [section(f"{text}\n{ended}"[:2900])])


def _notification(requests: Sequence[Request], waiting: Sequence[Request]) -> str:
    if not waiting:
        return f"All {len(requests)} requests have ended"
    names = dict.fromkeys(one_line(mask(request.command or request.tool).split(" ", 1)[0], 30) for request in waiting)
    return escaped(one_line(f"{len(waiting)} requests wait: {', '.join(names)}", 300))


def _total(value: Any) -> int:
    if isinstance(value, dict):
        own = units(value["text"]) if isinstance(value.get("text"), str) else 0
        return own + sum(_total(item) for item in value.values())
    return sum(_total(item) for item in value) if isinstance(value, list) else 0
