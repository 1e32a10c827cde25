"""Values that look like secrets, replaced by a mark that tells only their length, for every sink: card, log, page."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any

# Where a value ends: never past a blank, quote, separator or line end, so a mask cannot swallow a command. A mark is
# no value: masking twice changes nothing. Neither is what the shell expands (`$NAME`, `$(…)`), unless in single quotes.
_VALUE = r"(?!\[masked )(?:(?<=')|(?!\$[\w({]))[^\s'\"`;|&<>()]+"
# The start of a name may be anything, so it is not matched; the end is bounded, or long words would cost their square.
_NAME = r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential)[\w.-]{0,64}"
# Tokens known by their beginning. No `/`, `.` or `=` inside, and lengths that names do not have: a path, a program or a
# variable must not hide behind a mask.
_FORMS = (
    r"(?:xox[a-z]-|xapp-|gh[opsur]_|github_pat_|glpat-)[\w-]{8,}",
    r"(?:sk-(?=[\w-]*\d)|[sr]k_live_|pypi-AgE|AIza)[\w-]{16,}",
    r"(?:npm_|hf_|AKIA|ASIA)[A-Za-z0-9]{16,}",
    r"eyJ[\w-]{8,}(?:\.[\w-]+){0,4}",
)

# Group 1 of each is the value.
_PATTERNS = (
    re.compile(rf"\b({'|'.join(_FORMS)})"),
    re.compile(rf"(?i:{_NAME})[\"']?\s*[=:]\s*[\"']?({_VALUE})"),  # NAME=value, "name": "value"
    re.compile(rf"--[\w.-]{{0,30}}(?i:{_NAME})[= ][\"']?({_VALUE})"),  # --name value
    re.compile(rf"(?i:\b(?:bearer|basic))\s+({_VALUE})"),  # Authorization: Bearer value
    re.compile(r"\b[a-zA-Z][\w+.-]{0,30}://[^\s:/@'\"]{0,256}:((?!\[masked )[^\s@/'\"]+)@"),  # scheme://user:value@host
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----([^-]+)"),
)


def mask(text: str) -> str:
    """The same text with each secret's value replaced by `[masked N]`, N its length in characters."""
    spans = deque(sorted(match.span(1) for pattern in _PATTERNS for match in pattern.finditer(text)))
    pieces: list[str] = []
    done = 0
    while spans:
        start, end = spans.popleft()
        while spans and spans[0][0] < end:  # two patterns see the same value
            end = max(end, spans.popleft()[1])
        pieces += [text[done:start], f"[masked {end - start}]"]
        done = end
    return "".join(pieces) + text[done:]


def mask_value(value: Any) -> Any:
    """`mask` over every string of a JSON value; a field named like a secret is masked whole."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        masked: dict[str, Any] = {}
        for key, item in value.items():
            name = mask(key)
            while name in masked:  # two masked names must not become one field
                name += "'"
            masked[name] = _mask_field(key, item)
        return masked
    if isinstance(value, list):
        return [mask_value(item) for item in value]
    return value


def _mask_field(key: str, item: Any) -> Any:
    if isinstance(item, str) and item and re.search(_NAME, key, re.IGNORECASE):
        return item if re.fullmatch(r"\[masked \d+\]", item) else f"[masked {len(item)}]"
    return mask_value(item)
