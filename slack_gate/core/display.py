"""Untrusted text made safe to look at: every character visible, nothing hidden by padding, and back again exactly.

`visible` and `exact` are inverse: what a card shows decodes to the bytes that are digested and run.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

BLANKS_SHOWN = 8
TABS_SHOWN = 2
EMPTY_LINES_SHOWN = 2

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Drawn as nothing or as a blank although Unicode files them as letters, marks or symbols.
_BLANK = frozenset(
    [
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C),
        *(0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    ]
)
_OPEN, _CLOSE = "\u27e8", "\u27e9"  # ⟨ ⟩ frame our markers
_RETURN = "\u23ce"  # ⏎ stands for a line end in one_line; these three are escaped where the text holds them
_WORD = re.compile(r"\w+")
_RUNS = re.compile(rf"[ \t]{{{BLANKS_SHOWN + 1},}}|\t{{{TABS_SHOWN + 1},}}|\n{{{EMPTY_LINES_SHOWN + 2},}}")
_SAME = re.compile(r" +|\t+|\n+")
_NAMES = {" ": "blanks", "\t": "tabs", "\n": "line ends"}
_ENCODED = re.compile(rf"\\u\{{([0-9a-f]{{1,6}})\}}|{_OPEN}(\d+) (blanks|tabs|line ends){_CLOSE}\n?")
_ESCAPE = re.compile(r"\\u\{(?!5c\})[0-9a-f]+\}")  # 5c only marks a backslash of the text's own
_ASCII_LETTER = re.compile(r"[A-Za-z]")


def _hides(char: str) -> bool:
    """Whether a reader could overlook this character or take it for another one."""
    if char in "\n\t" or " " <= char <= "~":
        return False
    category = unicodedata.category(char)
    if category in _HIDDEN or category == "Zs" or char in (_OPEN, _CLOSE, _RETURN) or ord(char) in _BLANK:
        return True
    # Compatibility forms (full-width letters, ligatures, mathematical letters) imitate plain ones.
    return unicodedata.normalize("NFKC", char) != char


def _escape(char: str) -> str:
    return f"\\u{{{ord(char):x}}}"


def _mixed_word(match: re.Match[str]) -> str:
    """A word that mixes ASCII with another script's letters is how `gi\u0442` imitates `git`: show which is which."""
    word = match.group()
    if word.isascii() or not _ASCII_LETTER.search(word):
        return word
    return "".join(char if _latin(char) else _escape(char) for char in word)


def _latin(char: str) -> bool:
    """Letters of European languages, accents too; not dotless i, script g and the like, which pass for ASCII."""
    return (ord(char) < 0x180 and char != "\u0131") or unicodedata.normalize("NFD", char)[0].isascii()


def _counted(match: re.Match[str]) -> str:
    """Mixed blanks and tabs become one marker a kind, so no alternation of them pads either."""
    return _SAME.sub(_marker, match.group())


def _marker(match: re.Match[str]) -> str:
    run = match.group()
    marker = f"{_OPEN}{len(run)} {_NAMES[run[0]]}{_CLOSE}"
    return marker + "\n" if run[0] == "\n" else marker


def visible(text: str) -> str:
    r"""Every control, bidi, zero-width, look-alike character as `\u{hex}`; long padding as a counted marker."""
    if text and not text.strip(" \t\n"):
        return _SAME.sub(_marker, text)
    text = text.replace("\\u{", "\\u{5c}u{")
    if not text.isascii() or not text.isprintable():
        text = "".join(_escape(char) if _hides(char) else char for char in text)
        text = _WORD.sub(_mixed_word, text)
    return _RUNS.sub(_counted, text)


def exact(shown: str) -> str:
    """The inverse of `visible`."""
    chars = {name: char for char, name in _NAMES.items()}

    def decode(match: re.Match[str]) -> str:
        code, count, name = match.groups()
        if code:
            return chr(int(code, 16))
        run = chars[name] * int(count)
        # The line end after a marker belongs to the marker only when the marker stands for line ends.
        return run if name == _NAMES["\n"] or not match.group().endswith("\n") else run + "\n"

    return _ENCODED.sub(decode, shown)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a reader must know about a text's size: characters, lines, escapes that `visible` draws, and the last line
    that holds more than blanks."""

    characters: int
    lines: int
    hidden: int
    last_line: str


def shape(text: str) -> Shape:
    lines = text.count("\n") + (not text.endswith("\n"))
    last = text.rstrip(" \t\n").rpartition("\n")[2]
    return Shape(len(text), lines, len(_ESCAPE.findall(visible(text))), last)


def units(text: str) -> int:
    """Length in UTF-16 code units: what Slack counts, two for an emoji."""
    return len(text) + sum(char > "\uffff" for char in text)


def one_line(text: str, limit: int) -> str:
    """A single visible line of at most `limit` UTF-16 units; a cut says how many characters are missing."""
    line = visible(text).replace(f"{_NAMES[chr(10)]}{_CLOSE}\n", f"{_NAMES[chr(10)]}{_CLOSE}").replace("\n", _RETURN)
    if units(line) <= limit:
        return line
    room = limit - len("… (+ more)") - len(str(len(line)))
    kept = line[:room]
    while units(kept) > room:
        kept = kept[: room - units(kept)]
    return f"{kept}… (+{len(line) - len(kept)} more)"
