"""What the words of a shell text could name: too many rather than too few, as a miss here would let a call through."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise

from cage import cage_policy

# These hold shell text or a program's text in a word, wherever they stand; of other carriers the first word tells.
_HOLDS_TEXT = cage_policy.INTERPRETERS | {"sh", "bash", "zsh", "dash", "ksh", "fish", "eval", "source", "xargs", "env"}
_DEPTH = 4  # shells within shells: sh -c "sh -c '…'"
_BLANKS = re.compile(r"[\s;|&<>()`,{}]+")
_BLANKS_AND_QUOTES = re.compile(r"[\s'\";|&<>()`,{}]+")
_QUOTES = re.compile(r"[$]?['\"]|\\\n|\\")
_WORD = re.compile(r"""(?>[^\s'"\\;|&<>()`]|\\.|'[^']*'|"(?>[^"\\]|\\.)*")+""", re.DOTALL)
_QUOTED = re.compile(r"""[$]?'([^']*)'|[$]?"((?>[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_KNOWN = re.compile(r"\$(?:PWD\b|\{PWD\})|\$(?:HOME\b|\{HOME\})")
_MARKS = re.compile(r"[=:,@]")
_MOVES = frozenset({"cd", "chdir", "pushd", "-C", "--directory", "--chdir", "--cwd", "--prefix"})
_MOVE_WORD = re.compile(r"(?:-C|--(?:directory|chdir|cwd|prefix|work-tree)=)(.+)", re.DOTALL)
_HOMEWARD = re.compile(r"\bcd\s*(?:--\s*)?(?=$|[;&|)}\n<>`'\"])")


def program(word: str) -> str:
    """The name of a program without its directory and version: `python` of `/usr/bin/python3.11`."""
    return os.path.basename(word).rstrip("0123456789.")


def certain(command: str) -> list[tuple[str, ...]] | None:
    """The words of each simple command, exactly as bash passes them; None if unsure or if one of them holds more."""
    segments = cage_policy.read(command)
    argvs = [one.argv for one in segments or ()]
    if any(program(argv[0]) in cage_policy.CARRIERS for argv in argvs):
        return None
    return None if any(program(word) in _HOLDS_TEXT for argv in argvs for word in argv) else argvs or None


def readings(command: str) -> list[list[str]]:
    """The words in order, once for each way to take quotes: as blanks, as nothing, and as bash and inner shells do."""
    text = _KNOWN.sub(lambda found: "." if "PWD" in found[0] else "~", command)
    split = [_BLANKS_AND_QUOTES.split(text), _BLANKS.split(_QUOTES.sub("", text))]
    exact = [_exact(text)]
    while len(exact) < _DEPTH and (inner := [word for word in exact[-1] if _BLANKS.search(word)]):
        exact.append([part for word in inner for part in _exact(word)])
    return [*exact, *([word for word in words if word] for words in split)]


def moves(words: list[str]) -> tuple[str, ...]:
    """The directories that the words change into, in order."""
    found = []
    for at, word in enumerate(words):
        if word in _MOVES:
            found += [after for after in words[at + 1 : at + 4] if after[:1] != "-"][:1]
        elif attached := _MOVE_WORD.fullmatch(word):
            found.append(attached[1])
    return tuple(found)


def goes_home(command: str) -> bool:
    """Whether a `cd` without a directory may stand in the text."""
    return _HOMEWARD.search(command) is not None


def meanings(word: str) -> Iterator[str]:
    """What could be a path in one word: all of it, or what stands behind `=`, `:`, `@`, `,` or an option's letter."""
    pieces = (piece for piece in _MARKS.split(word) if piece.strip("/"))  # of `s/:/,/` no part is the root
    for piece in (word, word.partition("=")[2], *pieces):
        if piece:
            yield piece
        if piece[:1] == "-":
            yield from (piece[at:] for at in range(2, min(len(piece), 12)))  # -Cpath, -rtpath
            yield piece[min((at for at in (piece.find("/"), piece.find("~")) if at > 0), default=len(piece)) :]


def modules(words: list[str]) -> Iterator[str]:
    """The files an interpreter could find for a name: `python3 -m a.b`, `python3 -ma`, `python3 app/`, `node run`."""
    for before, word in pairwise(words):
        name = word[2:] if word[:2] == "-m" else word
        if name is not word or before[:1] == "-" or program(before) in cage_policy.INTERPRETERS:
            yield from (f"{name.replace('.', '/')}{end}" for end in (".py", "/__init__.py", "/__main__.py"))
            yield from (f"{name}/__main__.py", f"{name}.js", f"{name}/index.js")


def _exact(text: str) -> list[str]:
    return [_QUOTED.sub(_unquoted, word) for word in _WORD.findall(text)]


def _unquoted(found: re.Match[str]) -> str:
    single, double, escaped = found.groups()
    if single is not None:
        return str(single)
    if double is not None:
        return re.sub(r'\\([$`"\\])|\\\n', lambda one: one[1] or "", double)
    return "" if escaped == "\n" else str(escaped)
