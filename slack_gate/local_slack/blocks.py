"""What Slack refuses in blocks, messages and modals.

Only the blocks and elements a decision is made of are known here (no images, files, tables or date pickers): anything
else is refused as an unsupported type, so nothing is tested against this server that it does not really check.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterator
from typing import Any

from slack_gate.local_slack.schema import Check, boolean, fault, integer, items, length, one_of, record, string, tagged

Blocks = list[dict[str, Any]]

MESSAGE_BLOCKS = 50
VIEW_BLOCKS = 100
"""Of a modal and of a Home tab."""
# Undocumented in Slack: refusals were reported from 11,341 characters on, nothing below.
MESSAGE_TOTAL = 11_340
POST_TEXT = 40_000  # characters; postMessage cuts what is longer
UPDATE_TEXT = 4_000  # characters; update refuses what is longer
VIEW_BYTES = 250_000


def plain(longest: int) -> Check:
    return tagged({"plain_text": record({"text": string(longest)}, {"emoji": boolean})})


def either_text(longest: int) -> Check:
    return tagged(
        {
            "plain_text": record({"text": string(longest)}, {"emoji": boolean}),
            "mrkdwn": record({"text": string(longest)}, {"verbatim": boolean}),
        }
    )


ID = string(255)
STYLE = one_of("primary", "danger")
CONFIRM = record(
    {"title": plain(100), "text": either_text(300), "confirm": plain(30), "deny": plain(30)}, {"style": STYLE}
)


def option(**more: Check) -> Check:
    return record({"text": either_text(75), "value": string(150)}, {"description": either_text(75), **more})


BUTTON = record(
    {"text": plain(75)},
    {
        "action_id": ID,
        "value": string(2000),
        "url": string(3000),
        "style": STYLE,
        "confirm": CONFIRM,
        "accessibility_label": string(75),
    },
)
OVERFLOW = record({"options": items(option(url=string(3000)), 1, 5)}, {"action_id": ID, "confirm": CONFIRM})


def chooser(most: int, initial: str) -> Check:
    first = items(option(), 1, most) if initial == "initial_options" else option()
    return record({"options": items(option(), 1, most)}, {"action_id": ID, "confirm": CONFIRM, initial: first})


SELECT = record(
    {"options": items(option(), 1, 100)},
    {"action_id": ID, "placeholder": plain(150), "confirm": CONFIRM, "initial_option": option()},
)
TEXT_INPUT = record(
    {},
    {
        "action_id": ID,
        "initial_value": string(3000, 0),
        "multiline": boolean,
        "min_length": integer(0, 3000),
        "max_length": integer(1, 3000),
        "placeholder": plain(150),
        "focus_on_load": boolean,
    },
)
CHECKBOXES = chooser(10, "initial_options")
RADIO = chooser(10, "initial_option")
PRESSED = {"button": BUTTON, "overflow": OVERFLOW}
CHOSEN = {"static_select": SELECT, "checkboxes": CHECKBOXES, "radio_buttons": RADIO}

_LOOK = {"style": record({}, {name: boolean for name in ("bold", "italic", "strike", "code")})}
_WORDS = {
    "text": record({"text": string(100_000)}, _LOOK),
    "link": record({"url": string(3000)}, {"text": string(100_000), "unsafe": boolean, **_LOOK}),
}
_INLINE = tagged(
    {
        **_WORDS,
        "emoji": record({"name": string(255)}, {"unicode": string(255), "skin_tone": integer(1, 6)}),
        "user": record({"user_id": ID}, _LOOK),
        "channel": record({"channel_id": ID}, _LOOK),
        "usergroup": record({"usergroup_id": ID}, _LOOK),
        "broadcast": record({"range": one_of("here", "channel", "everyone")}),
        "date": record(
            {"timestamp": integer(0, 2**53), "format": string(255)}, {"url": string(3000), "fallback": string(255)}
        ),
    }
)
_BORDER = {"border": integer(0, 1)}
_SECTION = record({"elements": items(_INLINE, 1, 10_000)})
_RICH = tagged(
    {
        "rich_text_section": _SECTION,
        "rich_text_quote": record({"elements": items(_INLINE, 1, 10_000)}, _BORDER),
        "rich_text_preformatted": record(
            {"elements": items(tagged(_WORDS), 1, 10_000)}, {"language": string(255), **_BORDER}
        ),
        "rich_text_list": record(
            {"style": one_of("bullet", "ordered"), "elements": items(tagged({"rich_text_section": _SECTION}), 1, 1000)},
            {"indent": integer(0, 8), "offset": integer(0, 10_000), **_BORDER},
        ),
    }
)

_NAMED = {"block_id": ID}
BLOCK = tagged(
    {
        "section": record(
            {},
            {
                "text": either_text(3000),
                "fields": items(either_text(2000), 1, 10),
                "accessory": tagged({**PRESSED, **CHOSEN}),
                "expand": boolean,
                **_NAMED,
            },
        ),
        "header": record({"text": plain(150)}, _NAMED),
        "divider": record({}, _NAMED),
        "context": record({"elements": items(either_text(3000), 1, 10)}, _NAMED),
        "actions": record({"elements": items(tagged({**PRESSED, **CHOSEN}), 1, 25)}, _NAMED),
        "rich_text": record({"elements": items(_RICH, 1, 1000)}, _NAMED),
        "input": record(
            {"label": plain(2000), "element": tagged({"plain_text_input": TEXT_INPUT, **CHOSEN})},
            {"hint": plain(2000), "optional": boolean, "dispatch_action": boolean, **_NAMED},
        ),
    }
)
_VIEW_NAMES = {"private_metadata": string(3000, 0), "callback_id": string(255, 0), "external_id": string(255, 0)}
HOME = tagged({"home": record({"blocks": items(BLOCK, 0, VIEW_BLOCKS)}, _VIEW_NAMES)})
MODAL = tagged(
    {
        "modal": record(
            {"title": plain(24), "blocks": items(BLOCK, 0, VIEW_BLOCKS)},
            {
                "submit": plain(24),
                "close": plain(24),
                **_VIEW_NAMES,
                "clear_on_close": boolean,
                "notify_on_close": boolean,
                "submit_disabled": boolean,
            },
        )
    }
)


def message_faults(blocks: object) -> list[str]:
    """Slack's sentences about a message's blocks; empty when it would take them."""
    faults: list[str] = []
    items(BLOCK, 0, MESSAGE_BLOCKS)(blocks, "/blocks", faults)
    return faults or _content_faults(blocks, "/blocks")


def view_faults(view: object) -> list[str]:
    """Slack's sentences about a modal; empty when it would take it."""
    faults: list[str] = []
    MODAL(view, "/view", faults)
    if faults or not isinstance(view, dict):
        return faults
    if "submit" not in view and any(block["type"] == "input" for block in view["blocks"]):
        faults.append(fault("missing required field: submit", "/view"))
    return faults + _content_faults(view["blocks"], "/view/blocks")


def home_faults(view: object) -> list[str]:
    """Slack's sentences about a Home tab; empty when it would take it."""
    faults: list[str] = []
    HOME(view, "/view", faults)
    if faults or not isinstance(view, dict):
        return faults
    return _content_faults(view["blocks"], "/view/blocks")


def _content_faults(blocks: Any, at: str) -> list[str]:
    """What a shape alone does not show: empty sections and names used twice."""
    faults: list[str] = []
    seen: set[str] = set()
    for number, block in enumerate(blocks):
        here = f"{at}/{number}"
        if block["type"] == "section" and not ("text" in block or "fields" in block):
            faults.append(fault("missing required field: text", here))
        name = block.get("block_id")
        if name in seen:
            faults.append(fault(f"block_id {name} already exists", f"{here}/block_id"))
        if name is not None:
            seen.add(name)
        actions: set[str] = set()
        for element in elements(block):
            action = element.get("action_id")
            if action in actions:
                faults.append(fault(f"action_id {action} already exists for block_id {name}", here))
            if action is not None:
                actions.add(action)
    return faults


def elements(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The interactive elements of one block, in the order they are drawn."""
    if block["type"] == "actions":
        yield from block["elements"]
    elif block["type"] == "section" and "accessory" in block:
        yield block["accessory"]
    elif block["type"] == "input":
        yield block["element"]


def total(value: object) -> int:
    """Characters of all texts in `value`, the sum Slack limits for one message."""
    if isinstance(value, dict):
        own = length(value["text"]) if isinstance(value.get("text"), str) else 0
        return own + sum(total(item) for item in value.values())
    if isinstance(value, list):
        return sum(total(item) for item in value)
    return 0


def completed(blocks: Blocks) -> Blocks:
    """A copy with the names that Slack gives to unnamed blocks and elements."""
    named = copy.deepcopy(blocks)
    for block in named:
        block.setdefault("block_id", secrets.token_urlsafe(4))
        for element in elements(block):
            element.setdefault("action_id", secrets.token_urlsafe(4))
    return named
