"""JSON in which nothing can be understood differently by two readers, or by a person and a program."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 64  # values within values: whoever reads, masks or draws it later goes down once a level


class NotStrict(Exception):
    """The message is a sentence's end: "… is not UTF-8"."""


def strict_object(data: bytes) -> dict[str, Any]:
    """The one JSON object in `data`. Raises NotStrict for duplicate keys, NaN, NUL, lone surrogates, a BOM, and what is
    nested deeper than MAX_DEPTH."""
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise NotStrict("is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise NotStrict("is not one JSON object") from error
    if not isinstance(value, dict):
        raise NotStrict("is not one JSON object")
    _plain_texts(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotStrict("names a key twice, so two readers could understand it differently")
    return value


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise NotStrict(f"holds {number[:40]}, which is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise NotStrict(f"holds {name}, which is not JSON")


def _plain_texts(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and ("\0" in item or not _encodable(item)):
                raise NotStrict("holds a NUL or a lone surrogate")
        level = below
    if level:
        raise NotStrict(f"is nested deeper than {MAX_DEPTH} levels")


def _encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
