"""Values that look like secrets, replaced by a mark that tells only their length, for every sink: card, log, page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Where a value ends: never past a blank, quote, separator or line end, so a mask cannot swallow a command.
_VALUE = r"[^\s'\"`;|&<>()]+"
_NAME = r"[\w.-]*(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential)[\w.-]*"

_PATTERNS = (
    # tokens with a format of their own
    re.compile(
        r"(?P<keep>)(?P<value>\b(?:xox[a-z]-|xapp-|gh[opsur]_|github_pat_|glpat-|sk-|sk_live_|rk_live_|npm_|pypi-|hf_|AKIA|ASIA|AIza|eyJ)"
        r"[\w.\-/+=]{8,})"
    ),
    # NAME=value, "name": "value", --name value
    re.compile(rf"(?P<keep>(?i:{_NAME})[\"']?\s*[=:]\s*[\"']?)(?P<value>{_VALUE})"),
    re.compile(rf"(?P<keep>--(?i:{_NAME})[= ][\"']?)(?P<value>{_VALUE})"),
    # Authorization: Bearer value
    re.compile(rf"(?P<keep>(?i:\b(?:bearer|basic|token)\s+))(?P<value>{_VALUE})(?=[\"'\s]|$)"),
    # scheme://user:value@host
    re.compile(r"(?P<keep>\b[a-zA-Z][\w+.-]*://[^\s:/@'\"]*:)(?P<value>[^\s@/'\"]+)(?=@)"),
    re.compile(r"(?P<keep>-----BEGIN [A-Z ]*PRIVATE KEY-----)(?P<value>[^-]+)"),
)


def _mark(match: re.Match[str]) -> str:
    value = match.group("value")
    if value.startswith("[masked "):
        return match.group()
    return f"{match.group('keep')}[masked {len(value)}]"


def mask(text: str) -> str:
    """The same text with each secret's value replaced by `[masked N]`, N its length in characters."""
    for pattern in _PATTERNS:
        text = pattern.sub(_mark, text)
    return text


def mask_value(value: Any) -> Any:
    """`mask` over every string of a JSON value; a field named like a secret is masked whole."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: _mask_field(key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask_value(item) for item in value]
    return value


def _mask_field(key: str, item: Any) -> Any:
    if isinstance(item, str) and item and re.fullmatch(_NAME, key, re.IGNORECASE):
        return f"[masked {len(item)}]"
    return mask_value(item)
