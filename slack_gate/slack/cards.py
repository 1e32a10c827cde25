"""A request as a Slack message, pure. Untrusted text stands only in literal elements (`plain_text`, preformatted).

A pending card shows the whole of what would run or is refused by `unshowable`: there is no Approve below a cut text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slack_gate.core.display import one_line, shape, visible
from slack_gate.core.request import Choice, Request, State
from slack_gate.core.rules import Key
from slack_gate.core.secrets import mask, mask_value

# All blocks of a message together fail at an undocumented 11,000 or so characters; half of it leaves room for escapes.
MAX_SHOWN = 6000
MAX_RAW = 4 * MAX_SHOWN  # characters before counted padding; longer texts are not even drawn
MAX_NOTIFICATION = 400
MAX_CONFIRM = 300
DENY_WITH_REASON = "deny-with-reason"
REASON_MODAL = "reason"

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """`text` is the notification; both go into every post and update."""

    text: str
    blocks: list[Block]


def unshowable(request: Request) -> str | None:
    """Why a card cannot show this request whole, with its length; None when it can."""
    whole = json.dumps(dict(request.tool_input), ensure_ascii=False)
    if len(whole) <= MAX_RAW:
        texts = [request.cwd, request.tool, request.session]
        if sum(len(text) for _, text in _parts(request)) + sum(len(visible(text)) for text in texts) <= MAX_SHOWN:
            return None
    what, length = ("input", len(whole)) if request.command is None else ("command", len(request.command))
    return (
        f"The {what} has {length} characters; a card shows at most {MAX_SHOWN}, escapes counted, and nothing is "
        "approved that is not shown whole. Ask in shorter steps."
    )


def card(request: Request, keys: Sequence[Key], caged: bool) -> Picture:
    """The card of a request in any state. `keys` is what Always would save, `caged` whether it would then run caged."""
    if request.state is State.PENDING:
        blocks = [_headline(request), *_shown(request), _facts(request), _measure(request)]
        offer = _always_offer(keys, caged)
        blocks.append(_context([f"Always would remember {offer}" if offer else _NO_ALWAYS]))
        blocks.append(_buttons(request, offer))
        return Picture(_notification("Approve?", request), blocks)
    outcome = _outcome(request)
    blocks = [_headline(request), *_shown(request), _section(outcome), _context([_place(request)])]
    return Picture(_notification(f"{outcome.splitlines()[0]}:", request), blocks)


def reason_modal(request: Request) -> Block:
    """The dialog behind "Deny with a reason": one text, sent to the agent."""
    return {
        "type": "modal",
        "callback_id": REASON_MODAL,
        "private_metadata": value_of(request),
        "title": _plain("Deny"),
        "submit": _plain("Deny"),
        "close": _plain("Cancel"),
        "blocks": [
            _section(one_line(_summary(request), 300)),
            {
                "type": "input",
                "block_id": REASON_MODAL,
                "label": _plain("Reason, as the agent will read it"),
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
    return [_section(sentence)]


def value_of(request: Request) -> str:
    """What a button carries: the request and the digest of exactly what was shown."""
    return f"{request.id} {request.digest}"


# Parts


def _parts(request: Request) -> list[tuple[str, str]]:
    """(caption, visible text) of everything that would run or be passed on; captions are ours, texts are not."""
    rest = {name: value for name, value in request.tool_input.items() if name != "command" or request.command is None}
    parts = []
    if request.command is not None:
        parts.append(("", visible(mask(request.command))))
    if rest or not parts:
        caption = "Further fields, written by the agent:" if parts else ""
        parts.append((caption, visible(json.dumps(mask_value(rest), indent=1, ensure_ascii=False))))
    return parts


def _shown(request: Request) -> list[Block]:
    blocks: list[Block] = []
    for caption, text in _parts(request):
        if caption:
            blocks.append(_context([caption]))
        literal = {"type": "text", "text": text or "(empty)"}
        blocks.append({"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [literal]}]})
    return blocks


def _headline(request: Request) -> Block:
    asks = "asks to run a command" if request.command is not None else f"asks to use {one_line(request.tool, 100)}"
    return _section(f"{request.agent} {asks}")


def _facts(request: Request) -> Block:
    until = int(request.expires_at)
    clock = datetime.fromtimestamp(until, UTC).strftime("%H:%M:%S UTC")
    expires = {"type": "mrkdwn", "text": f"Expires <!date^{until}^{{time_secs}}|{clock}>"}
    return {
        "type": "context",
        "elements": [_plain(_place(request)), _plain(f"Asked because {one_line(request.why, 400)}"), expires],
    }


def _place(request: Request) -> str:
    session = one_line(request.session, 40)
    return f"In {one_line(request.cwd, 400)} on {one_line(request.host, 80)}, session {session}, request {request.id}"


def _measure(request: Request) -> Block:
    """Size, hidden characters and the last line, next to the buttons: a long text cannot push its end out of view."""
    text = request.command if request.command is not None else _parts(request)[-1][1]
    size = shape(text)
    facts = [f"{size.characters} characters, {size.lines} {'line' if size.lines == 1 else 'lines'}"]
    if size.hidden:
        facts.append(f"{size.hidden} hidden or look-alike characters, drawn as \\u{{…}}")
    if size.lines > 1 or size.characters > 200:
        tail = visible(mask(size.last_line))
        facts.append(f"Last line: {tail if len(tail) <= 300 else '…' + tail[-300:]}")
    return _context(facts)


def _always_offer(keys: Sequence[Key], caged: bool) -> str:
    """The exact rule in words, empty when nothing can be remembered (or not be said in a dialog)."""
    if not keys:
        return ""
    rules = ", ".join(visible(mask(str(key))) for key in keys)
    scope = "any arguments, any directory" if keys[0].tool == "Bash" else "any directory"
    offer = f"{rules} ({scope}{', runs in the cage' if caged else ''})"
    return offer if len(offer) + len(_CONFIRM) <= MAX_CONFIRM else ""


def _buttons(request: Request, offer: str) -> Block:
    value = value_of(request)
    elements: list[Block] = [
        _button("Approve", Choice.APPROVE, value, style="primary"),
        _button("Deny", Choice.DENY, value, style="danger"),
    ]
    if offer:
        confirm = {
            "title": _plain("Always allow?"),
            "text": _plain(_CONFIRM + offer),
            "confirm": _plain("Always"),
            "deny": _plain("Back"),
        }
        elements.append(_button("Always", Choice.ALWAYS, value, confirm=confirm))
    # An option's value holds 150 characters; with the id and the digest it is near 100.
    option = {"text": _plain("Deny with a reason"), "value": value}
    elements.append({"type": "overflow", "action_id": DENY_WITH_REASON, "options": [option]})
    return {"type": "actions", "block_id": f"gate.{request.id}", "elements": elements}


def _button(label: str, choice: Choice, value: str, **extra: Any) -> Block:
    return {"type": "button", "action_id": choice.value, "text": _plain(label), "value": value, **extra}


def _outcome(request: Request) -> str:
    """Who, when, and how long it took; each end has its own words."""
    ended = request.decided_at or request.created_at
    clock = datetime.fromtimestamp(ended, UTC).strftime("%H:%M:%S UTC")
    took = f"at {clock}, after {_duration(ended - request.created_at)}"
    who = one_line(request.decided_name or request.decided_by, 80)
    reason = f"\n{visible(request.reason)}" if request.reason else ""
    match request.state:
        case State.APPROVED:
            return f"Approved by {who} {took}"
        case State.DENIED:
            return f"Denied by {who} {took}{reason}"
        case State.EXPIRED:
            return f"Nobody answered: expired {took}. It did not run."
        case State.CANCELLED:
            return f"Withdrawn: the agent stopped waiting {took}. It did not run."
        case State.UNDELIVERABLE:
            return f"Could not be asked {took}. It did not run.{reason}"
        case state:
            return f"{state.value.capitalize()} {took}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _summary(request: Request) -> str:
    return mask(request.command) if request.command is not None else f"{request.tool} {request.id}"


def _notification(lead: str, request: Request) -> str:
    """One line for a lock screen; `text` is parsed as mrkdwn, so `&<>` are escaped and nothing in it can link."""
    line = one_line(f"{lead} {request.agent} on {request.host}: {_summary(request)}", MAX_NOTIFICATION)
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped if len(escaped) <= MAX_NOTIFICATION else escaped[:MAX_NOTIFICATION].rpartition(" ")[0]


def _plain(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": False}


def _section(text: str) -> Block:
    return {"type": "section", "text": _plain(text)}


def _context(texts: Sequence[str]) -> Block:
    return {"type": "context", "elements": [_plain(text) for text in texts]}


_NO_ALWAYS = "Always is not offered: nothing of this can be remembered exactly"
_CONFIRM = "From now on this runs without asking, until revoked: "
