"""tree-sitter-bash and bashlex read the texts that `read` accepts; each kind of disagreement is named here.

bash itself is the judge: whatever the two say, bash must run what `read` says (test_policy_oracle.py runs the rest).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cage.cage_policy import read

from .conftest import argvs
from .test_policy_oracle import compare, text_from
from .test_policy_oracle import place as place  # a fixture

ASKED_OF_BASH = 60  # disagreements put to bash; each costs a process
Words = list[tuple[str, ...]]

NAME = r"(?:^|[;|&]|[12]|/dev/null)\s*"  # where the name of a command begins
WORD = r"""(?:[^\s;|&<>'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*"""  # the beginning of a word
# Where each parser is known to err on texts that bash reads our way, with a text that shows it.
TREE_SITTER = {
    "#, braces or % in the name of a command are an error": (rf"{NAME}{WORD}[#{{}}%]", "a#b"),
    "a name that only begins with a keyword is one": (rf"{NAME}(?:if|then|time|coproc|do|fi)\S", "time%1 x"),
    "words behind a redirect belong to the redirect": (r"(?:/dev/null|[12]?>&[12])\s+[^\s;|&<>]", "ls 2>&1 a"),
    "an escape behind a quote or brace begins a word": (r"""['"}]\\.""", "ls ''\\~a"),
    "an escaped blank is no word": (r"(?:^|[\s;|&])\\ ", "ls \\  a"),
    "a word with a dash before a redirect is lost": (rf"[\s;|&]-[^\s;|&<>]*\s*[12&]?[<>]|^-|{NAME}-", "ls - 2>&1"),
}
BASHLEX = {
    "quotes after the first quote of a word stay": (
        r"""(?:'[^']*'|"(?:[^"\\]|\\.)*"|\\.)[^\s;|&<>]*['"\\]""",
        "ls 'a''b'",
    ),
    "quotes inside quotes go": (r"""'[^']*"[^']*'|"[^"]*'[^"]*\"""", "ls a'it\"s'"),
}


def unquoted(word: str) -> str:
    """What the shell passes for one word as written; told apart from `read` on purpose."""
    pieces = re.findall(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""", word, re.DOTALL)
    return "".join(a + re.sub(r'\\([$`"\\])', r"\1", b) + c + d for a, b, c, d in pieces)


def by_tree_sitter(text: str) -> Words | None:
    tree_sitter = pytest.importorskip("tree_sitter")
    language = tree_sitter.Language(pytest.importorskip("tree_sitter_bash").language())
    data = text.encode()
    root = tree_sitter.Parser(language).parse(data).root_node

    def commands(node: Any) -> Iterator[tuple[str, ...]]:
        if node.type == "command":
            words = [child for child in node.children if "redirect" not in child.type]
            yield tuple(unquoted(data[word.start_byte : word.end_byte].decode()) for word in words)
        else:
            for child in node.children:
                yield from commands(child)

    return None if root.has_error else list(commands(root))


def by_bashlex(text: str) -> Words | None:
    bashlex = pytest.importorskip("bashlex")

    def commands(node: Any) -> Iterator[tuple[str, ...]]:
        if node.kind == "command":
            yield tuple(part.word for part in node.parts if part.kind == "word")
        else:
            for child in [*getattr(node, "parts", []), *getattr(node, "list", [])]:
                yield from commands(child)

    try:
        trees = bashlex.parse(text)
    except Exception:  # noqa: BLE001  (its errors are of many types)
        return None
    return [argv for tree in trees for argv in commands(tree)]


BOTH = pytest.mark.parametrize(
    ("parse", "causes"), [(by_tree_sitter, TREE_SITTER), (by_bashlex, BASHLEX)], ids=["tree-sitter", "bashlex"]
)


@BOTH
@pytest.mark.timeout(0)
def test_each_disagreement_is_explained(parse: Any, causes: dict[str, Any], place: Path, long_run: bool) -> None:
    pick, found, agreed, put, odd = random.Random(2027), Counter[str](), 0, 0, []
    while agreed + found.total() < (50_000 if long_run else 3_000):
        text = text_from(pick, hostile=0.06)
        if (words := argvs(text)) is None:
            continue
        if (other := parse(text)) == words:
            agreed += 1
            continue
        cause = next((cause for cause, (where, _) in causes.items() if re.search(where, text)), "")
        found[cause] += 1
        if not cause:
            odd.append((text, words, other))
        if put < ASKED_OF_BASH:
            put += compare(text, place)
    assert odd == []
    assert agreed > found.total(), "a parser that mostly disagrees says nothing"


@BOTH
def test_each_cause_is_one(parse: Any, causes: dict[str, Any], place: Path) -> None:
    for cause, (where, example) in causes.items():
        assert re.search(where, example), cause
        assert parse(example) != argvs(example) is not None, cause
        assert compare(example, place)


KNOWN_TO_FOOL = {  # texts that `read` refuses, and what the parser takes for a plain word or another command
    "a brace expansion is a word": ("git log {--output=F,-1}", by_tree_sitter),
    "a glob is a word": ("git log *", by_tree_sitter),
    "a vertical tab splits words": ("git\x0bstatus", by_tree_sitter),
    "a number in other digits": ("sbox ls >&٣", by_bashlex),
    "a substitution glued to quotes is a word": ("echo 'a'$(id)'b'", by_bashlex),
}


@pytest.mark.parametrize("kind", KNOWN_TO_FOOL)
def test_what_a_parser_takes_for_harmless_is_refused(kind: str) -> None:
    text, parse = KNOWN_TO_FOOL[kind]
    assert parse(text) is not None
    assert read(text) is None
