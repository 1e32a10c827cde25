"""A text put in place of another, line by line, with both of them whole: what is added begins with `+`, what goes with
`-`, what stays with a blank.

The new text is every line but those with `-`, the old one every line but those with `+`; secrets are masked in both,
and a line whose secret alone changes is still drawn as a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from slack_gate.core.display import visible
from slack_gate.core.secrets import mask

MAX_WORK = 3_000_000  # steps that comparing may take at the worst, about a second
AROUND = 3  # lines as they are, on both sides of a changed one
Lines = list[tuple[str, str]]  # as it is, as it is shown


@dataclass(frozen=True, slots=True)
class FileNow:
    """The file that a call would change, as it was when the call was asked about; `text` is None where `why` says why
    it is not known. `missing`: there is none yet."""

    text: str | None = None
    why: str = ""
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """`whole` holds both texts; `gist` the changed lines with three around them; `line` is where the first one stands,
    counted from 1."""

    whole: str
    gist: str
    line: int


def change(before: str, after: str) -> Change | None:
    """Both texts as one, drawn visibly; None when comparing them would take too long."""
    old, new = _lines(before), _lines(after)
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rest = min(len(old), len(new)) - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    middle = old[start : len(old) - end], new[start : len(new) - end]
    if _work(*middle) > MAX_WORK:
        return None
    lines = [f" {shown}" for _, shown in old[:start]]
    lines += _compared(*middle)
    lines += [f" {shown}" for _, shown in old[len(old) - end :]]
    return Change("\n".join(lines), "\n".join(_gist(lines)), start + 1)


def _gist(lines: list[str]) -> Iterator[str]:
    changed = [n for n, line in enumerate(lines) if line[0] != " "]
    near = sorted({m for n in changed for m in range(n - AROUND, n + AROUND + 1) if 0 <= m < len(lines)})
    last = -1
    for n in near:
        if n > last + 1:
            yield f"@@ {n - last - 1} lines as they are"
        yield lines[n]
        last = n
    if last + 1 < len(lines):
        yield f"@@ {len(lines) - last - 1} lines as they are"


def _compared(old: Lines, new: Lines) -> Iterator[str]:
    matcher = SequenceMatcher(None, [line for line, _ in old], [line for line, _ in new], autojunk=False)
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind == "equal":
            yield from (f" {shown}" for _, shown in new[new_from:new_to])
        else:
            yield from (f"-{shown}" for _, shown in old[old_from:old_to])
            yield from (f"+{shown}" for _, shown in new[new_from:new_to])


def _work(old: Lines, new: Lines) -> int:
    """An upper bound of what SequenceMatcher does: the pairs of equal lines, looked through for every block."""
    counted = Counter(line for line, _ in old)
    pairs = sum(counted[line] for line, _ in new)
    return (pairs + len(old) + len(new)) * (1 + min(pairs, len(old), len(new)))


def _lines(text: str) -> Lines:
    """A mask replaces no line end, so both have the same lines, and so have they once padding is counted."""
    masked = visible(mask(text)).split("\n")
    raw = visible(text).split("\n")
    return list(zip(raw if len(raw) == len(masked) else masked, masked, strict=True))
