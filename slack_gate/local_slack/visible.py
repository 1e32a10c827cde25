"""What a person reads and can press in blocks."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from slack_gate.local_slack.blocks import Blocks, elements


@dataclass(frozen=True)
class Control:
    """One thing to press: a button, or one option of an overflow menu."""

    label: str
    block_id: str
    element: dict[str, Any]
    option: dict[str, Any] | None = None

    @property
    def names(self) -> tuple[str, str, str | None]:
        """Block id, action id and the option's value: what tells this control from all others of its message."""
        return self.block_id, self.element["action_id"], self.option["value"] if self.option else None

    @property
    def confirm(self) -> dict[str, Any] | None:
        return self.element.get("confirm")


def controls(blocks: Blocks) -> Iterator[Control]:
    for block in blocks:
        for element in elements(block):
            if element["type"] == "button":
                yield Control(element["text"]["text"], block["block_id"], element)
            elif element["type"] == "overflow":
                for option in element["options"]:
                    yield Control(option["text"]["text"], block["block_id"], element, option)


def words(value: object) -> Iterator[str]:
    """Every text below `value` in drawing order, mrkdwn without its escapes; confirm dialogs are left out."""
    if isinstance(value, list):
        for item in value:
            yield from words(item)
    elif isinstance(value, dict):
        if value.get("type") in ("rich_text_section", "rich_text_quote", "rich_text_preformatted"):
            yield "".join(words(value["elements"]))
            return
        if isinstance(value.get("text"), str):
            yield html.unescape(value["text"]) if value.get("type") == "mrkdwn" else value["text"]
        elif value.get("type") == "link":
            yield value["url"]
        elif value.get("type") == "user":
            yield f"@{value['user_id']}"
        elif value.get("type") == "broadcast":
            yield f"@{value['range']}"
        for name in ("label", "hint", "text", "fields", "accessory", "element", "elements", "options"):
            yield from words(value.get(name))


def confirm_text(confirm: dict[str, Any]) -> str:
    return " ".join(words([confirm["title"], confirm["text"]]))


@dataclass(frozen=True)
class Version:
    """What a message said between two updates."""

    text: str
    blocks: Blocks = field(default_factory=list)

    @property
    def controls(self) -> list[Control]:
        return list(controls(self.blocks))

    @property
    def buttons(self) -> list[str]:
        """Labels of the buttons (not of the overflow options), in the order they are drawn."""
        return [control.label for control in self.controls if control.option is None]

    @property
    def options(self) -> list[str]:
        """Labels of the overflow options."""
        return [control.label for control in self.controls if control.option is not None]

    def has_button(self, label: str) -> bool:
        return label in self.buttons

    def plain(self) -> str:
        """All visible text, one piece a line: the blocks, or `text` where there are none."""
        return "\n".join(words(self.blocks)) if self.blocks else html.unescape(self.text)
