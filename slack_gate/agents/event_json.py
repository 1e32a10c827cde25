"""A hook's event: one JSON object, strictly, and its fields."""

from __future__ import annotations

from typing import Any

from slack_gate.core import strict_json
from slack_gate.core.event import MalformedEvent

MAX_EVENT = 8 * 1024 * 1024  # bytes; hosts pass whole files in Write events


def strict_object(event: bytes) -> dict[str, Any]:
    """The event's JSON object; raises MalformedEvent for anything odd (duplicate keys, NUL, lone surrogates, BOM)."""
    if not event.strip():
        raise MalformedEvent("The hook event is empty.")
    try:
        return strict_json.strict_object(event)
    except strict_json.NotStrict as error:
        raise MalformedEvent(f"The hook event {error}.") from error


def text_field(value: dict[str, Any], name: str) -> str:
    """A string field that must be there and not be empty."""
    field = value.get(name)
    if not isinstance(field, str) or not field:
        raise MalformedEvent(f"The hook event has no {name}.")
    return field
