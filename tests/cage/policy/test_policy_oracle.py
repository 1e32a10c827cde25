"""bash as the oracle: whatever `read` accepts, bash runs exactly those words and nothing else.

Every program and builtin is replaced by a recorder, the search path leads nowhere, and the working directory must stay
empty. Texts come from a grammar of ordinary pieces and of pieces that fool readers.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cage.cage_policy import Segment, read, shown

from .conftest import argvs

# The handler runs for every word that is no program; builtins are switched off, so every simple command ends here.
SETUP = r"""
command_not_found_handle() { /usr/bin/printf '%s\0' "$#" "$@" >&"$RECORD"; [[ $ANSWER == ok ]]; }
enable -n . : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown \
  echo eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf \
  pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit \
  umask unalias unset wait enable
"""
PLAIN = [
    "a",
    "bc",
    "git",
    "x-y",
    "--opt=v",
    "a=b",
    "HEAD~1",
    "HEAD^",
    "a.b",
    "@{u}",
    "s@{0}",
    "{}",
    "1",
    "2",
    "a#b",
    "%1",
    "+x",
    "-",
]
QUOTED = [
    "'a b'",
    '"c d"',
    "''",
    '""',
    "e\\ f",
    "'it\"s'",
    '"it\'s"',
    "'$HOME `x` *'",
    '"\\$x \\" \\\\ \\n"',
    "\\#",
    "\\~",
    "'\n'",
    "'é☕'",
]
TAIL = ["", "", "", "", "''", '"q"', "\\'", "x", "~", "#", "2", "{a}", "=", "'#'", "~/x"]
HOSTILE = [
    "$HOME",
    "$(id)",
    "`id`",
    "*",
    "?",
    "[a]",
    "{a,b}",
    "{1..3}",
    "~root",
    "#",
    "# c",
    "\n",
    "\\\n",
    "\r",
    "\x01",
    "é",
    "\u00a0",
    "'",
    '"',
    "\\",
    "$'x'",
    '$"x"',
    "!",
    "a=~/x",
    "~+",
    "<x",
    ">y",
    ">|z",
    ">&٣",
    "<<E",
    "&",
    "|&",
    "(",
    ")",
    ";;",
    "<(a)",
    "if",
    "then",
    "time",
    "[[",
    "A=b",
    "!x",
    "=ls",
    "{fd}>/dev/null",
    "3>/dev/null",
    ">/dev/nullx",
    ">'/dev/null'x",
    "coproc",
    '"a$b"',
]
REDIRECTS = [
    "2>/dev/null",
    ">/dev/null",
    "2>&1",
    ">&2",
    "1>&2",
    "&>/dev/null",
    "</dev/null",
    "2> /dev/null",
    ">>/dev/null",
    ">&1",
    "2>>/dev/null",
]
SEPARATORS = ["&&", "||", ";", "|", " && ", " || ", " ; ", " | ", "&& ", "\t;\t"]
BLANKS = [" ", " ", " ", "  ", "\t"]


def text_from(pick: random.Random, hostile: float) -> str:
    """One line: commands of words, now and then with a redirect, a glued piece or something hostile."""
    parts: list[str] = []
    for at in range(pick.choice((1, 1, 2, 3))):
        if at:
            parts.append(pick.choice(SEPARATORS))
        for _ in range(pick.randint(1, 4)):
            roll = pick.random()
            if roll < hostile:
                parts.append(pick.choice(HOSTILE))
            elif roll < hostile + 0.12:
                parts.append(pick.choice(REDIRECTS))
            else:
                parts.append(pick.choice(PLAIN if pick.random() < 0.6 else QUOTED) + pick.choice(TAIL))
            parts.append(pick.choice(BLANKS) if pick.random() < 0.92 else "")
    return "".join(parts)


def runs(text: str, answer: str, where: Path) -> list[tuple[str, ...]]:
    """The argv of every simple command bash ran, sorted (the parts of a pipe run side by side)."""
    with tempfile.TemporaryFile() as record:
        env = {"PATH": "/nonexistent", "HOME": str(where), "BASH_ENV": str(where / "setup"), "ANSWER": answer}
        env |= {"LC_ALL": "C.UTF-8", "RECORD": str(record.fileno())}
        subprocess.run(
            ["/bin/bash", "-c", text],
            cwd=where / "empty",
            env=env,
            pass_fds=[record.fileno()],
            timeout=100,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        record.seek(0)
        fields = iter(record.read().decode().split("\0")[:-1])
    return sorted(tuple(next(fields) for _ in range(int(count))) for count in fields)


def predicted(segments: list[Segment], ok: bool) -> list[tuple[str, ...]]:
    """Which of the segments bash runs when every command answers `ok`: a status survives what is skipped."""
    ran: list[tuple[str, ...]] = []
    status, running = True, True
    for segment in segments:
        if segment.op != "|":
            running = segment.op in ("", ";") or (status if segment.op == "&&" else not status)
        if running:
            ran.append(segment.argv)
            status = ok
    return sorted(ran)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "empty").mkdir()
    (tmp_path / "setup").write_text(SETUP)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    assert list((tmp_path / "empty").iterdir()) == [], "an accepted text wrote a file"


def compare(text: str, place: Path, ok: bool = True) -> bool:
    """Was the text accepted? Then bash must run what was read."""
    segments = read(text)
    if segments is None or any("/" in segment.argv[0] for segment in segments):
        return False  # a path is not looked up, so the recorder would not see it
    assert runs(text, "ok" if ok else "no", place) == predicted(segments, ok), repr(text)
    return True


@pytest.mark.timeout(0)
def test_bash_runs_what_was_read(place: Path, long_run: bool) -> None:
    wanted, pick, accepted, refused = (200_000 if long_run else 10_000), random.Random(2026), 0, 0
    while accepted < wanted:
        if compare(text_from(pick, hostile=0.06), place, ok=pick.random() < 0.5):
            accepted += 1
        else:
            refused += 1
    assert refused > accepted / 10, "the generator must also make texts that are refused"


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(st.sampled_from("ab \t'\"\\$`#~={},.;&|<>()!*?[]-+@%^:\n\r12é/"), max_size=14))
def test_bash_agrees_on_any_short_text(place: Path, text: str) -> None:
    compare(text, place)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n"), max_size=8), min_size=1, max_size=4
    )
)
def test_what_is_shown_reads_back(words: list[str]) -> None:
    words[0] = "-x+"[len(words[0]) % 3] + words[0].replace("=", "")
    assert argvs(shown(tuple(words))) == [tuple(words)]
