"""A minute of anything (ten with `--long`): no exception, no two answers, no more than linear work."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from cage.cage_policy import (
    BASH_FIELDS,
    FILE_TOOLS,
    MAX_COMMAND,
    base_tokens,
    classify,
    covers,
    explain,
    keys,
    read,
    shown,
)
from tests.attack.work import calls_of

from .conftest import House, argvs, entries
from .test_policy_commands import CAGED_LINES, GATED, GIT_LINES, JOINED, NOT_SPLIT
from .test_policy_keys import NO_KEY, RUNNERS
from .test_policy_oracle import HOSTILE, PLAIN, QUOTED, REDIRECTS, SEPARATORS, TAIL

SECONDS, LONG_SECONDS = 60, 600
ROUND = 400  # examples between two looks at the clock

SEEDS = [*CAGED_LINES, *GIT_LINES, *JOINED, *NOT_SPLIT, *entries(RUNNERS)]
SEEDS += [line for table in (*GATED.values(), *NO_KEY.values()) for line in entries(table)]
PIECES = [
    *PLAIN,
    *QUOTED,
    *TAIL,
    *HOSTILE,
    *REDIRECTS,
    *SEPARATORS,
    " ",
    "\t",
    "git",
    "sbox",
    "-C",
    "~/",
    "é",
    "\ud800",
]
TEXTS = st.one_of(
    st.sampled_from(SEEDS),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.tuples(st.sampled_from(SEEDS), st.integers(0, 60), st.integers(0, 9), st.sampled_from(PIECES)).map(
        lambda cut: cut[0][: cut[1]] + cut[3] + cut[0][cut[1] + cut[2] :]
    ),
    st.text(max_size=40),
)
PATHS = st.lists(st.sampled_from(["/", "~", "..", ".", "tmp", "a", ".git", "proc", "self", "x" * 300, "\0", ""])).map(
    "/".join
)
FIELDS = st.one_of(
    TEXTS.map(lambda text: {"command": text}),
    st.dictionaries(st.sampled_from(sorted(BASH_FIELDS | {"env"})), TEXTS | st.booleans() | st.none() | st.integers()),
    st.dictionaries(st.sampled_from(["file_path", "notebook_path", "content"]), PATHS | TEXTS | st.none()),
)


def check(tool: str, fields: dict[str, object], cwd: str | None) -> None:
    verdict = explain(tool, fields, cwd)
    assert verdict.verdict in ("green", "gated", "ungated")
    assert classify(tool, fields, cwd) == verdict.verdict
    assert all(type(part) is str for part in (verdict.segment, verdict.rule, verdict.hint))
    text = fields.get("command")
    segments = read(text) if isinstance(text, str) else None
    for segment in segments or ():
        assert argvs(shown(segment.argv)) == [segment.argv]
    if isinstance(text, str):
        found = keys(text)
        assert base_tokens(text) == [" ".join(key) for key in found]
        assert all(covers(key, segment.argv) for key, segment in zip(found, segments or (), strict=bool(found)))


@pytest.mark.timeout(0)
def test_anything(house: House, long_run: bool) -> None:
    end = time.monotonic() + (LONG_SECONDS if long_run else SECONDS)
    start = int.from_bytes(os.urandom(4))
    rounds = 0
    while time.monotonic() < end:
        number = start + rounds

        @seed(number)
        @settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(st.sampled_from(["Bash", *FILE_TOOLS]), FIELDS, st.sampled_from([str(house.repo), "/", "x", None]))
        def one_round(tool: str, fields: dict[str, object], cwd: str | None) -> None:
            check(tool, fields, cwd)

        one_round()
        rounds += 1
    assert rounds > 0


# ---------------------------------------------------------------- work, counted


def repeated(piece: str) -> Callable[[int], str]:
    return lambda size: piece * (size // len(piece))


def quoted(piece: str) -> Callable[[int], str]:
    return lambda size: 'a "' + piece * (size // len(piece)) + '"'


SHAPES = {
    **{repr(piece): repeated(piece) for piece in sorted({*PIECES, "a;", "a ", "\\a", "''", "a'b'\"c\""} - {""})},
    **{"in quotes: " + repr(piece): quoted(piece) for piece in ("\\\\", "\\a", '\\"', "'", "a", "é", "\\$", "\n")},
    "words of git": lambda size: "git log " + "-p " * (size // 3),
    "options in a cluster": lambda size: "git commit -" + "a" * size,
    "segments of git": lambda size: "git log&&" * (size // 9) + "git log",
    "plain words of git": lambda size: "git push origin " + "a " * (size // 2),
    "segments of sbox": lambda size: "sbox a&&" * (size // 8) + "sbox a",
    "keys": lambda size: "ls;" * (size // 3) + "ls",
    "long words": lambda size: "make " + "a" * size,
    "noise": lambda size: "".join(random.Random(5).choice(PIECES) for _ in range(size // 2)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_linear(shape: str, house: House) -> None:
    def work(text: str) -> int:
        def all_of_it() -> None:
            explain("Bash", {"command": text}, "/")
            base_tokens(text)

        return calls_of(all_of_it)

    small, large = work(SHAPES[shape](4_000)), work(SHAPES[shape](16_000))
    assert large <= 5 * small + 200


@pytest.mark.parametrize("shape", SHAPES)
def test_a_megabyte_costs_no_more_than_a_line(shape: str, house: House) -> None:
    text = SHAPES[shape](1 << 20) + " " * 8
    assert len(text) > MAX_COMMAND or not text.strip()
    fields = {"command": text}
    assert calls_of(lambda: classify("Bash", fields, "/")) < 50 * calls_of(
        lambda: classify("Bash", {"command": "sbox ls"}, "/")
    )


def test_names_of_one_remote_cost_no_more_for_its_addresses(house: House) -> None:
    """Both grow: the addresses in the configuration, and how often the command names the remote."""

    def work(size: int) -> int:
        (house.repo / ".git" / "config").write_text('[remote "o"]\n' + "url = git://h/a\n" * size)
        return calls_of(lambda: house.bash("git fetch --multiple" + " o" * size))

    assert house.bash("git fetch origin") == "green"
    assert work(400) <= 5 * work(100) + 200
    assert house.bash("git fetch --multiple o o") == "green"
