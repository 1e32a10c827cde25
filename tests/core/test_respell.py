"""Names become the trusted files; every other byte stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cage import cage_policy
from slack_gate.core.respell import placed, respelled

SBOX, GIT = "/home/u/.local/bin/sbox", "/usr/bin/git"
PROGRAMS = {"sbox": (SBOX,), "git": (GIT,)}


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("sbox ls", f"{SBOX} ls"),
        ("  sbox ls  ", f"  {SBOX} ls  "),
        ("sbox sbox git", f"{SBOX} sbox git"),
        ("git add x && git commit -m 'a && git b'", f"{GIT} add x && {GIT} commit -m 'a && git b'"),
        ('git add x&&sbox echo "&& sbox"', f'{GIT} add x&&{SBOX} echo "&& sbox"'),
        ("sbox bash -c 'git x && sbox y' 2>/dev/null", f"{SBOX} bash -c 'git x && sbox y' 2>/dev/null"),
        ("ls && git status", f"ls && {GIT} status"),
        ("make; git status | sbox cat", f"make; {GIT} status | {SBOX} cat"),
        ("git x && git x && git x", f"{GIT} x && {GIT} x && {GIT} x"),
        ("ls", "ls"),
    ],
)
def test_names_become_paths(command: str, result: str) -> None:
    assert respelled(command, PROGRAMS) == result


@pytest.mark.parametrize(
    "command",
    [
        " && ".join(["git add x"] * 17),
        "sbox echo '" + "x" * 8192 + "' && git status",
        "sbox echo '" + "&&" * 9 + "' && git status",
    ],
)
def test_a_text_made_to_be_slow_is_not_rewritten(command: str) -> None:
    assert cage_policy.read(command) is not None
    assert respelled(command, PROGRAMS) is None


def test_a_long_single_command_is() -> None:
    assert respelled("sbox echo '" + "&&" * 50_000 + "'", PROGRAMS) == f"{SBOX} echo '" + "&&" * 50_000 + "'"


@pytest.mark.parametrize("command", ["'sbox' ls", "s\\box ls", 'g""it status', "sbox ls > x", "sbox $(x)", ""])
def test_what_cannot_be_shown_is_not_rewritten(command: str) -> None:
    assert respelled(command, PROGRAMS) is None


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("gh pr list", "E /usr/bin/gh pr list"),
        ("gh x && gh y | jq .", "E /usr/bin/gh x && E /usr/bin/gh y | E /usr/bin/jq ."),
        ("cd a && echo gh", "cd a && echo gh"),  # of the shell
        ("/opt/tool gh", "E /opt/tool gh"),
        ("/opt/other gh", None),
        ("gh x && tool", None),
        ("'gh' x", None),
        ("gh $X", None),
    ],
)
def test_each_program_by_its_file(command: str, result: str | None) -> None:
    known = {"gh": ("E", "/usr/bin/gh"), "jq": ("E", "/usr/bin/jq"), "/opt/tool": ("E", "/opt/tool")}
    assert placed(command, lambda argv: known.get(argv[0])) == result


def test_a_path_with_a_blank_is_quoted() -> None:
    assert respelled("sbox ls", {"sbox": ("/home/a b/sbox",)}) == "'/home/a b/sbox' ls"


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("git status", f"sbox {GIT} status"),
        (
            "git add 'a  b'&&  git commit -m \"it's && git\" 2>&1",
            f"sbox {GIT} add 'a  b'&&  sbox {GIT} commit -m \"it's && git\" 2>&1",
        ),
        ("sbox ls && git log", f"sbox ls && sbox {GIT} log"),
        ("'git' status", None),
    ],
)
def test_a_name_becomes_two_words(command: str, result: str | None) -> None:
    assert respelled(command, {"git": ("sbox", GIT)}) == result


WORDS = st.sampled_from(["sbox", "git", "ls", "'a && git'", '"; sbox x"', "x\\&\\&git", "--", "git&&sbox", "2>&1"])


@given(st.lists(st.tuples(WORDS, WORDS, st.sampled_from([" && ", "&&", " ; ", "|", " || "])), min_size=1, max_size=5))
def test_only_names_change(parts: list[tuple[str, str, str]]) -> None:
    command = "".join(f"{name} {word}{separator}" for name, word, separator in parts).rstrip(" &;|")
    before, result = cage_policy.read(command), respelled(command, PROGRAMS)
    if result is None:
        return
    assert before is not None
    after = cage_policy.read(result)
    assert after is not None
    assert [s.argv[1:] for s in after] == [s.argv[1:] for s in before]
    assert [s.argv[0] for s in after] == [PROGRAMS.get(s.argv[0], s.argv)[0] for s in before]
