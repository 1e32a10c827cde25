"""Untrusted text made safe to look at: every character visible, nothing hidden by padding, and back again exactly.

`visible` and `exact` are inverse: what a card shows decodes to the bytes that are digested and run.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from slack_gate.core.secrets import mask

BLANKS_SHOWN = 8
TABS_SHOWN = 2
EMPTY_LINES_SHOWN = 2

# Nothing to see, another blank, marks drawn over their neighbours, and dashes and quotes that the shell does not know.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs", "Mn", "Me", "Pd", "Pi", "Pf"})
# Drawn as nothing or as a blank although Unicode files them as letters, marks or symbols.
_BLANK = frozenset(
    [
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C),
        *(0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    ]
)
# Symbols drawn like one that the shell or an address knows, by Unicode's list of confusables; a line for each few.
_ALIKE = frozenset(
    "\u01c3\u2d51"  # !
    "\u2033\u2036\u3003\u05f4 \u2032\u2035\ua78c\u05f3\u07f4\u07f5"  # " '
    "\u066d\u204e\u2217 \u16ed\u2795 \u2303"  # * + ^
    "\u201a\u201e\u060d\u066b\ua4f9 \u037e\u061b\u204f"  # , ;
    "\u2043\u2212\u2500\u2501\u2574\u2796\u06d4\ua4fe"  # -
    "\u00b7\u0660\u06f0\u0701\u0702\u2022\u2027\u22c5\ua4f8\u3002"  # .
    "\u2044\u2215\u2571\u27cb\u29f8\u1735\u4e3f \u2216\u2572\u27cd\u29f5\u29f9\u4e36"  # / \
    "\u0589\u05c3\u0703\u0704\u16ec\u1803\u1809\u205a\u2236\ua4fd"  # :
    "\u276e\u1438\u16b2\u2329\u3008 \u276f\u1433\u232a\u3009 \u1400\ua4ff"  # < > =
    "\u2768\u2772 \u2769\u2773 \u2774 \u2775"  # ( ) { }
    "\u00a6\u01c0\u01c1\u05c0\u0964\u2016\u2223\u2225\u23d0\u2502\u2503\u2758\u2759\u275a\u2d4f"  # |
    "\u0241\u0294\u097d\ua6eb \u223c\u2053 \u066a \u066c"  # ? ~ % '
) - {" "} | frozenset(map(chr, (*range(0x02B9, 0x0300), *range(0xA700, 0xA722), 0xA789, 0xA78A)))  # phonetic marks
_OPEN, _CLOSE = "\u27e8", "\u27e9"  # ⟨ ⟩ frame our markers
_RETURN = "\u23ce"  # ⏎ stands for a line end in one_line; these three are escaped where the text holds them
_OURS = frozenset({_OPEN, _CLOSE, _RETURN})
_WORD = re.compile(r"\w+")
_RUNS = re.compile(rf"[ \t]{{{BLANKS_SHOWN + 1},}}|\t{{{TABS_SHOWN + 1},}}|\n{{{EMPTY_LINES_SHOWN + 2},}}")
_SAME = re.compile(r" +|\t+|\n+")
_NAMES = {" ": "blanks", "\t": "tabs", "\n": "line ends"}
_ENCODED = re.compile(rf"\\u\{{([0-9a-f]{{1,6}})\}}|{_OPEN}(\d+) (blanks|tabs|line ends){_CLOSE}\n?")
_ESCAPE = re.compile(r"\\u\{(?!5c\})[0-9a-f]+\}")  # 5c only marks a backslash of the text's own
_JOINTS = frozenset("./:@-")
_ASCII_LETTER = re.compile(r"[A-Za-z]")


def _hides(char: str) -> bool:
    """Whether a reader could overlook this character or take it for another one."""
    if char in "\n\t" or " " <= char <= "~":
        return False
    category = unicodedata.category(char)
    if category in _HIDDEN or ord(char) in _BLANK or char in _ALIKE or char in _OURS:
        return True
    # Compatibility forms (full-width letters, ligatures, mathematical letters) imitate plain ones.
    return unicodedata.normalize("NFKC", char) != char


def _escape(char: str) -> str:
    return f"\\u{{{ord(char):x}}}"


def _telling_word(match: re.Match[str]) -> str:
    """A word with another script's letters that mixes them with ASCII is how `gi\u0442` imitates `git`, and one that is
    part of a name of a host, path or option may imitate that: show which is which."""
    word = match.group()
    if word.isascii() or not (_ASCII_LETTER.search(word) or _in_a_name(match)):
        return word
    return "".join(char if _latin(char) else _escape(char) for char in word)


def _in_a_name(match: re.Match[str]) -> bool:
    """Whether the word touches `.`, `/`, `:`, `@` or `-`; a dot or colon that only ends a sentence does not count."""
    text, (start, end) = match.string, match.span()
    after = text[end : end + 2]
    before = text[start - 1 : start]
    return before in _JOINTS or (after[:1] in _JOINTS and (after[0] in "/@-" or after[1:].isalnum()))


@lru_cache(4096)
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
        text = text.translate({ord(char): _escape(char) if _hides(char) else char for char in set(text)})
        text = text if text.isascii() else _WORD.sub(_telling_word, text)
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
    """A single visible line of at most `limit` UTF-16 units, secrets masked; a cut says how many characters are
    missing. Whatever stands in a sentence goes through here: a name, a directory or a session may hold a secret too."""
    lines = visible(mask(text)).replace(f"{_NAMES[chr(10)]}{_CLOSE}\n", f"{_NAMES[chr(10)]}{_CLOSE}")
    return shortened(lines.replace("\n", _RETURN), limit)


def shortened(line: str, limit: int) -> str:
    """At most `limit` UTF-16 units of a line that is drawn already; a cut says how many characters are missing."""
    if units(line) <= limit:
        return line
    room = limit - len("… (+ more)") - len(str(len(line)))
    kept = line[:room]
    while units(kept) > room:
        kept = kept[: room - units(kept)]
    return f"{kept}… (+{len(line) - len(kept)} more)"


def sentence(text: str) -> str:
    """A sentence of ours on one line: what it quotes was drawn when it was put in, and is not drawn a second time."""
    text = mask(text)
    drawn = {char: _escape(char) for char in set(text) if char != "…" and char not in _OURS and _hides(char)}
    return text.translate({ord(char): escape for char, escape in drawn.items()} | {ord("\n"): _RETURN})
