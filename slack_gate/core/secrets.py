"""Values that look like secrets, replaced by a mark that tells only their length, for every sink: card, log, page.

A mask hides a value, never what runs or where: what might be a command, an option or a path stays in view.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

# The closed class of what a mark may stand for: no blank, quote, separator, expansion or escape, so that a mask
# swallows no command and no quote changes its meaning. Neither a mark: masking twice changes nothing.
_CLOSED = r"\s'\"`;|&<>(){},$\\@"
# What begins otherwise is an option, a file to read (`@`), a program (`!`), a comment, an operator or a place.
# (Only single characters are repeated possessively: of groups, Python before 3.11.5 makes false matches.)
_VALUE = rf"(?P<value>(?!\[masked |--)(?=[^{_CLOSED}!@#=~.])[^{_CLOSED}\[]*+(?:\[(?!masked )[^{_CLOSED}\[]*+)*)"
_SPACED = r"[ \t]++(?!\\?[\"']?-)"  # within a line; a value set off by blanks must not be an option
_NAME = r"(?i:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key)"
# `--password-command=x`, `TOKEN_FILE=x`: names of what runs or where the secret lies, not of the secret.
_PLACE = r"(?i:command|cmd|helper|program|exec|script|hook|file|path|dir|ur[il]|host|server|endpoint|name|stdin|env)"
_OPTIONS = r"password|passwd|passphrase|secret|token|api-key|apikey|access-token|auth-token|access-key|secret-key"
# Tokens known by their beginning. No `/`, `.` or `=` inside, and lengths that names do not have.
_FORMS = (
    r"(?:xox[a-z]-|xapp-|gh[opsur]_|github_pat_|glpat-)[\w-]{8,}",
    r"(?:sk-(?=[A-Za-z_-]{0,40}\d)|[sr]k_live_|pypi-AgE|AIza)[\w-]{16,}",
    r"(?:npm_|hf_|AKIA|ASIA)[A-Za-z0-9]{16,}",
    r"eyJ[\w-]{4,}\.eyJ[\w-]{4,}\.[\w-]+",
)

# Where blanks part name and value they may be two shell words, and the second a command: `x=token: reboot`,
# `TOKEN= reboot`, `> --password reboot`. So such values are masked only where the words before leave no doubt.
_SCHEME = r"(?:(?i:bearer|basic|token)[ \t]++)?(?!(?i:bearer|basic|token)[ \t])"
_PATTERNS = (
    re.compile(rf"(?<![A-Za-z0-9/@])(?P<value>{'|'.join(_FORMS)})"),
    # NAME=value; what has no value is taken up too, or hostile texts would cost their square.
    re.compile(rf"(?P<name>{_NAME}[\w.-]*+)(?:[\"']?=[\"']?{_VALUE})?"),
    # A line that begins `name: value`, `"name": "value"`, `name = value` or `Authorization: Bearer value`.
    re.compile(
        rf"(?m:(?<!\\\n)^)[ \t]*+(?:- )?(?P<q>[\"']?)(?P<name>[\w.-]++)(?P=q)"
        rf"(?:[ \t]*+:|[ \t]++=){_SPACED}[\"']?{_SCHEME}{_VALUE}"
    ),
    # A whole header: -H 'name: value'
    re.compile(rf"(?:-H|--header)[= \t]*+(?P<q>[\"'])(?P<name>[\w-]++):[ \t]*+{_SCHEME}{_VALUE}(?P=q)(?=\s|\Z)"),
    re.compile(rf"(?P<q>\\?[\"'])(?P<name>[\w.-]++)(?P=q):[ \t]++(?P=q){_SCHEME}{_VALUE}(?P=q)[,}}\]]"),
    re.compile(rf"[{{,](?P<q>\\?[\"'])(?P<name>[\w.-]++)(?P=q):(?P=q){_VALUE}"),  # {"name":"value"}
    re.compile(rf"(?<=[^\s<>&\\])(?:[ \t]|\\\n)+--(?:{_OPTIONS}){_SPACED}[\"']?{_VALUE}"),
    re.compile(rf"(?<=://)[^\s:/@?#'\"]{{0,256}}+:(?P<value>[^{_CLOSED}\[/?#]++)@"),
)
_MARK = re.compile(r"\[masked \d+\]")
# A key's lines of base64. Shorter ones could be commands.
_KEY_LINE = r"(?:\s|\\[nr])+(?P<line>[A-Za-z0-9+/]{40,}={0,2})"
_KEY = re.compile(rf"-----BEGIN [A-Z ]{{0,40}}PRIVATE KEY-----((?:{_KEY_LINE})+)")
# A value with slashes is taken for a path, unless it is long and mixed as base64 is.
_BASE64 = re.compile(r"(?!/)(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=\D*\d)[A-Za-z0-9+/]{20,}={0,2}")


def mask(text: str) -> str:
    """The same text with each secret's value replaced by `[masked N]`, N its length in characters."""
    spans = deque(sorted([*(span for pattern in _PATTERNS for span in _values(pattern, text)), *_key_lines(text)]))
    pieces: list[str] = []
    done = 0
    while spans:
        start, end = spans.popleft()
        while spans and spans[0][0] < end:  # two patterns see the same value
            end = max(end, spans.popleft()[1])
        pieces += [text[done:start], f"[masked {end - start}]"]
        done = end
    return "".join(pieces) + text[done:]


def readable(text: str) -> str:
    """A masked text with a plain word for each mark: its blank and brackets would end an address, or no shell text."""
    return _MARK.sub("masked", text)


def _values(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while match := pattern.search(text, at):
        at = match.end()
        start, end = match.span("value")
        if start < 0 or not _secret(match.groupdict().get("name", "token")) or text.startswith("[masked ", end):
            continue
        slash = text.rfind("/", start, end)
        if slash < 0 or _BASE64.fullmatch(text, start, end):
            yield start, end
        else:
            at = slash + 1  # a value that begins before it holds it too


def _key_lines(text: str) -> Iterator[tuple[int, int]]:
    for key in _KEY.finditer(text):
        yield from (line.span("line") for line in re.compile(_KEY_LINE).finditer(text, *key.span(1)))


def _secret(name: str) -> bool:
    return bool(re.search(rf"{_NAME}|(?i:authorization)", name)) and not re.search(_PLACE, name)


def mask_value(value: Any) -> Any:
    """`mask` over every string of a JSON value; an opaque word in a field named like a secret is masked whole."""
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
    if not isinstance(item, str):
        return mask_value(item)
    # Masked as it would be in a text of its own: `name=value`, or a header.
    before = "token=" if _secret(key) and re.fullmatch(rf"[^{_CLOSED}]+", item) else ""
    if key.lower() == "authorization":
        before = "authorization: "
    return mask(before + item)[len(before) :]
