"""Strict JSON for hook events: what two readers could understand differently is refused."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from slack_gate.core.event import MalformedEvent

MAX_EVENT = 8 * 1024 * 1024  # bytes; hosts pass whole files in Write events


def strict_object(event: bytes) -> dict[str, Any]:
    """The event's JSON object; raises MalformedEvent for anything odd (duplicate keys, NUL, lone surrogates, BOM)."""
    if not event.strip():
        raise MalformedEvent("The hook event is empty.")
    try:
        text = event.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise MalformedEvent("The hook event is not UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise MalformedEvent("The hook event is not one JSON object.") from error
    if not isinstance(value, dict):
        raise MalformedEvent("The hook event is not one JSON object.")
    _no_odd_text(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise MalformedEvent("The hook event names a key twice, so two readers could understand it differently.")
    return value


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise MalformedEvent(f"The hook event holds {number}, which no JSON writer can give back.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise MalformedEvent(f"The hook event holds {name}, which is not JSON.")


def _no_odd_text(value: Any) -> None:
    """Raises on NUL and lone surrogates, which no shell and no file takes as they are shown."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, str) and ("\0" in item or not _encodable(item)):
            raise MalformedEvent("The hook event holds a NUL or a lone surrogate.")


def _encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def text_field(value: dict[str, Any], name: str) -> str:
    """A string field that must be there and not be empty."""
    field = value.get(name)
    if not isinstance(field, str) or not field:
        raise MalformedEvent(f"The hook event has no {name}.")
    return field
