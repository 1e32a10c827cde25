"""A request as a Slack message, pure. Untrusted text stands only in literal elements (`plain_text`, preformatted).

A pending card shows the whole of what would run or is refused by `unshowable`: there is no Approve below a cut text.
From the top: who asks, what would run, then where, why and until when, its size and last line, and the buttons.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slack_gate.core.display import one_line, units, visible
from slack_gate.core.fields import Part, parts
from slack_gate.core.outcome import ended_at, outcome_of
from slack_gate.core.request import Choice, Request, State
from slack_gate.core.rules import Key
from slack_gate.core.secrets import mask
from slack_gate.core.wording import MAX_CWD, MAX_TOOL, always, headline, measure, origin, place
from slack_gate.slack.blocks import Block, clock, context, plain, section

# Lengths in UTF-16 units. All blocks of a message together fail at an undocumented 11,000 or so; planned are 8,000,
# of which everything but the literal texts takes less than 1,800.
MAX_SHOWN = 6200  # working directory included
MAX_RAW = 4 * MAX_SHOWN  # characters before counted padding; longer texts are not even drawn
MAX_NOTIFICATION = 400
MAX_CONFIRM = 300
DENY_WITH_REASON = "deny-with-reason"
REASON_MODAL = "reason"


@dataclass(frozen=True, slots=True)
class Picture:
    """`text` is the notification; both go into every post and update."""

    text: str
    blocks: list[Block]


def unshowable(request: Request) -> str | None:
    """Why a card cannot show this request whole, with its length; None when it can."""
    whole = json.dumps(dict(request.tool_input), ensure_ascii=False)
    what, length = ("input", len(whole)) if request.command is None else ("command", len(request.command))
    if len(whole) > MAX_RAW:
        return _too_long(what, length, length, MAX_SHOWN)
    cwd, tool = units(visible(request.cwd)), units(visible(request.tool))
    if cwd > MAX_CWD:
        return _too_long("working directory", len(request.cwd), cwd, MAX_CWD)
    if tool > MAX_TOOL:
        return _too_long("tool's name", len(request.tool), tool, MAX_TOOL)
    drawn = sum(units(part.caption) + units(part.shown) for part in parts(request))
    return _too_long(what, length, drawn, MAX_SHOWN - cwd) if drawn > MAX_SHOWN - cwd else None


def _too_long(what: str, length: int, drawn: int, limit: int) -> str:
    grown = f" ({drawn} as drawn)" if drawn > length else ""
    return (
        f"The {what} has {length} characters{grown}; a card shows at most {limit}, and nothing is approved that is "
        "not shown whole. Ask in shorter steps."
    )


def card(request: Request, keys: Sequence[Key], caged: bool) -> Picture:
    """The card of a request in any state. `keys` is what Always would save, `caged` whether it would then run caged."""
    shown = parts(request)
    # Short fields beside a command are the agent's remarks on it: they stand below it with the facts.
    brief = request.command is not None and all(part.brief for part in shown[1:])
    literal, remarks = (shown[:1], shown[1:]) if brief else (shown, [])
    said = [plain(part.shown) for part in remarks]
    if request.state is not State.PENDING:
        outcome = outcome_of(request)
        facts = [plain(_asked_by(request)), *said, clock(ended_at(request))]
        blocks = [section(outcome), *_literal(literal), context(*facts)]
        return Picture(_notification(f"{outcome.splitlines()[0].rstrip('.')}:", request, shown), blocks)
    offer = _offer(keys, caged)
    facts = [
        plain(f"{place(request)}\nAsked because {one_line(mask(request.why), 400)}"),
        clock(request.expires_at, "Expires "),
        *said,
        plain("\n".join([origin(request), _about_always(keys, offer), *measure(request, literal)])),
    ]
    blocks = [section(headline(request)), *_literal(literal), context(*facts), _buttons(request, offer)]
    return Picture(_notification(f"{one_line(request.agent, 40)} asks:", request, shown), blocks)


def ending(request: Request) -> Picture:
    """The outcome in few words, for a message whose full picture Slack refuses: better bare than with live buttons."""
    outcome = outcome_of(request)
    asked = one_line(_summary(request, parts(request)), 300)
    return Picture(_escaped(one_line(outcome, MAX_NOTIFICATION)), [section(f"{outcome}\n{asked}\n{origin(request)}")])


def reason_modal(request: Request) -> Block:
    """The dialog behind "Deny with a reason": one text, sent to the agent."""
    return {
        "type": "modal",
        "callback_id": REASON_MODAL,
        "private_metadata": value_of(request),
        "title": plain("Deny"),
        "submit": plain("Deny"),
        "close": plain("Cancel"),
        "blocks": [
            section(one_line(_summary(request, parts(request)), 300)),
            {
                "type": "input",
                "block_id": REASON_MODAL,
                "label": plain("Reason, as the agent will read it"),
                "element": {
                    "type": "plain_text_input",
                    "action_id": REASON_MODAL,
                    "max_length": 500,
                    "multiline": True,
                },
            },
        ],
    }


def notice(sentence: str) -> list[Block]:
    """A short message to one person."""
    return [section(sentence)]


def value_of(request: Request) -> str:
    """What a button carries: the request and the digest of exactly what was shown."""
    return f"{request.id} {request.digest}"


# Parts


def _literal(shown: Sequence[Part]) -> list[Block]:
    blocks: list[Block] = []
    for part in shown:
        if part.caption:
            blocks.append(context(plain(part.caption)))
        if part.shown:
            text = {"type": "text", "text": part.shown}
            blocks.append({"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [text]}]})
    return blocks


def _asked_by(request: Request) -> str:
    tool = "" if request.command is not None else f" for {one_line(request.tool, MAX_TOOL)}"
    return f"{one_line(request.agent, 40)} asked{tool}\n{place(request)}\n{origin(request)}"


def _offer(keys: Sequence[Key], caged: bool) -> str:
    """The exact rule in words, empty when nothing can be remembered or a dialog could not say it whole."""
    words = always(keys, caged)
    return words if units(words) + len(_CONFIRM) <= MAX_CONFIRM else ""


def _about_always(keys: Sequence[Key], offer: str) -> str:
    if offer:
        return f"Always would remember {offer}"
    why = "the rule is too long for its dialog" if keys else "nothing of this can be remembered exactly"
    return f"Always is not offered: {why}"


def _buttons(request: Request, offer: str) -> Block:
    value = value_of(request)
    elements: list[Block] = [
        _button("Approve", Choice.APPROVE, value, style="primary"),
        _button("Deny", Choice.DENY, value, style="danger"),
    ]
    if offer:
        confirm = {
            "title": plain("Always allow?"),
            "text": plain(_CONFIRM + offer),
            "confirm": plain("Always allow"),
            "deny": plain("Back"),
        }
        elements.append(_button("Always", Choice.ALWAYS, value, confirm=confirm))
    # An option's value holds 150 characters; with the id and the digest it is near 100.
    option = {"text": plain("Deny with a reason"), "value": value}
    elements.append({"type": "overflow", "action_id": DENY_WITH_REASON, "options": [option]})
    return {"type": "actions", "block_id": f"gate.{request.id}", "elements": elements}


def _button(label: str, choice: Choice, value: str, **extra: Any) -> Block:
    return {"type": "button", "action_id": choice.value, "text": plain(label), "value": value, **extra}


def _summary(request: Request, shown: Sequence[Part]) -> str:
    what = shown[0].text or shown[0].caption
    return what if request.command is not None else f"{request.tool} {what}"


def _notification(lead: str, request: Request, shown: Sequence[Part]) -> str:
    return _escaped(one_line(f"{lead} {_summary(request, shown)}", MAX_NOTIFICATION))


def _escaped(line: str) -> str:
    """One line for a lock screen; `text` is parsed as mrkdwn, so `&<>` are escaped and nothing in it can link."""
    escapes = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    pieces = [escapes.get(char, char) for char in line]
    if sum(map(units, pieces)) <= MAX_NOTIFICATION:
        return "".join(pieces)
    while sum(map(units, pieces)) >= MAX_NOTIFICATION:
        pieces.pop()
    return "".join(pieces) + "…"


_CONFIRM = "From now on this runs without asking, until revoked: "
