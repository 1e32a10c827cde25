"""The dialogs behind a card's menu, pure. Each carries the request, its digest and the card's place in
`private_metadata`, so that a submission is bound to them like a click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slack_gate.core.display import one_line
from slack_gate.core.offers import MAX_EDIT
from slack_gate.core.request import Request, Scope
from slack_gate.core.wording import place
from slack_gate.slack.blocks import Block, plain, section
from slack_gate.slack.cards import summary

REASON_MODAL, EDIT_MODAL, SCOPE_MODAL = "reason", "edit", "scope"
CANNED, FREE = "canned", "reason"  # the two inputs of the reason
TEXT = "edit"
REACH, TIME = "reach", "time"
SESSION, DIRECTORY, EVERYWHERE = "session", "directory", "everywhere"
HOUR, GOOD = "hour", "good"
HOUR_S = 3600.0
REASONS = (
    "Not now; go on with other work.",
    "Use the cage: sbox CMD needs no asking.",
    "Too broad; ask in smaller steps.",
    "Wrong place or branch; check where you are.",
    "Explain first why this is needed.",
)
MAX_REASON = 500
MAX_RULE = 1500


def reason_modal(request: Request, carried: str) -> Block:
    """Deny with a reason: one of a few, or one's own words, or both."""
    options = [{"text": plain(reason), "value": str(number)} for number, reason in enumerate(REASONS)]
    choice = {"type": "radio_buttons", "action_id": CANNED, "options": options}
    words = {"type": "plain_text_input", "action_id": FREE, "max_length": MAX_REASON, "multiline": True}
    return _modal(
        REASON_MODAL,
        ("Deny", "Deny"),
        carried,
        [
            section(summary(request)),
            _input(CANNED, "A usual reason", choice, optional=True),
            _input(FREE, "Or in your own words, as the agent will read them", words, optional=True),
        ],
    )


def reason_in(values: Mapping[str, Any]) -> str:
    """The reason of a submission on one line, empty for none."""
    chosen = (_value(values, CANNED).get("selected_option") or {}).get("value", "")
    canned = REASONS[int(chosen)] if chosen.isdecimal() and int(chosen) < len(REASONS) else ""
    return " ".join(f"{canned} {_value(values, FREE).get('value') or ''}".split())


def edit_modal(request: Request, carried: str) -> Block:
    """Edit and approve: the whole text, which comes back as what runs."""
    words = {
        "type": "plain_text_input",
        "action_id": TEXT,
        "multiline": True,
        "max_length": MAX_EDIT,
        **({"initial_value": request.command} if request.command else {}),
    }
    field = _input(TEXT, "What runs instead; the agent is told", words)
    return _modal(EDIT_MODAL, ("Edit and approve", "Approve this"), carried, [field, section(place(request))])


def text_in(values: Mapping[str, Any]) -> str:
    return str(_value(values, TEXT).get("value") or "")


def scope_modal(request: Request, carried: str, rule: str, found: Sequence[tuple[str, int, str]]) -> Block:
    """Always with scope. `rule` is what is remembered, in words; `found` says of each reach how many requests of the
    last 30 days it would have answered, and what it would have covered that was denied (then it cannot be saved).
    Empty while that is being looked up."""
    about = {reach: (matched, denied) for reach, matched, denied in found}
    names = {
        SESSION: ("This session", one_line(request.session, 60)),
        DIRECTORY: ("This directory", one_line(request.cwd, 60)),
        EVERYWHERE: ("Everywhere", "any session, any directory"),
    }
    reaches = [_option(reach, label, hint) for reach, (label, hint) in names.items()]
    times = [_option(HOUR, "For an hour", ""), _option(GOOD, "For good", "until it is revoked")]
    looked = [f"{label}: {_found(*about[reach])}" for reach, (label, _) in names.items() if reach in about]
    past = "\n".join(["What it would have answered in the last 30 days:", *looked]) if looked else "Looking back …"
    return _modal(
        SCOPE_MODAL,
        ("Always with scope", "Always allow"),
        carried,
        [
            section(f"From now on this is not asked{_any_arguments(request)}:\n{one_line(rule, MAX_RULE)}"),
            _input(REACH, "Where", _radio(REACH, reaches)),
            _input(TIME, "How long", _radio(TIME, times)),
            section(past),
        ],
    )


def scope_in(values: Mapping[str, Any]) -> Scope:
    """The scope of a submission; the narrowest where it holds none."""
    reach, time = ((_value(values, name).get("selected_option") or {}).get("value", "") for name in (REACH, TIME))
    return Scope(
        session=reach not in (DIRECTORY, EVERYWHERE),
        directory=reach == DIRECTORY,
        seconds=None if time == GOOD else HOUR_S,
    )


def _any_arguments(request: Request) -> str:
    return "" if request.command is None else ", whatever its arguments"


def _found(matched: int, denied: str) -> str:
    requests = f"{matched} {'request' if matched == 1 else 'requests'}"
    return f"{requests}; it cannot be saved: {one_line(denied, 300)}" if denied else requests


def _value(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name, {}).get(name)
    return found if isinstance(found, Mapping) else {}


def _radio(name: str, options: list[Block]) -> Block:
    return {"type": "radio_buttons", "action_id": name, "options": options, "initial_option": options[0]}


def _option(value: str, label: str, hint: str) -> Block:
    described = {"description": plain(hint)} if hint else {}
    return {"text": plain(label), "value": value, **described}


def _input(name: str, label: str, element: Block, optional: bool = False) -> Block:
    return {"type": "input", "block_id": name, "label": plain(label), "element": element, "optional": optional}


def _modal(name: str, words: tuple[str, str], carried: str, blocks: list[Block]) -> Block:
    title, submit = words
    return {
        "type": "modal",
        "callback_id": name,
        "private_metadata": carried,
        "title": plain(title),
        "submit": plain(submit),
        "close": plain("Back"),
        "blocks": blocks,
    }
