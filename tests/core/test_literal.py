"""A message by `cat` and a heredoc is the word it stands for: bash passes the same either way."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cage.cage_policy import MAX_COMMAND, read
from slack_gate.core.caged import caged_git
from slack_gate.core.event import ToolEvent
from slack_gate.core.literal import literal
from tests.attack.work import calls_of
from tests.cage.policy.conftest import House
from tests.cage.policy.conftest import house as house  # fixtures
from tests.cage.policy.conftest import template as template


def message(body: str, word: str = "EOF") -> str:
    return f"\"$(cat <<'{word}'\n{body}{word}\n)\""


def passed(text: str) -> bytes:
    """What bash passes to each `git` of this text."""
    script = f'git() {{ printf \'%s\\0\' "$#" "$@"; }}\n{text}'
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run(["/bin/bash", "-c", script], env=env, capture_output=True, timeout=100).stdout


BODIES = [
    "one line\n",
    'Fix it\n\nIt\'s "quoted", $HOME `id` $(id) \\n \\\\ * {a,b} ~ # !\n',
    "ends in lines\n\n\n",
    "\n\nbegins with them\n",
    "",
    "\n",
    " EOF\nxEOF\nEO\n",
    "Grüße ☕\n\ttab\n",
    "a ) \" ' ( ; & | <<'X'\n",
]


@pytest.mark.parametrize("body", BODIES)
def test_the_same_words_reach_git(body: str) -> None:
    for text in (
        f"git commit -m {message(body)}",
        f"git add 'a b' && git commit -m {message(body)} 2>&1 && git status",
        f"git commit -m {message(body)} -m {message('second' + chr(10), 'END')}",
    ):
        changed = literal(text)
        assert changed != text and read(changed) is not None
        assert passed(changed) == passed(text) != b""


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.text(st.sampled_from("ab '\"\\$`(){}!#EOF\t;&|<>"), max_size=8), max_size=4),
    st.sampled_from(["EOF", "E", "a"]),
)
def test_bash_agrees_on_any_body(lines: list[str], word: str) -> None:
    body = "".join(line + "\n" for line in lines)
    text = f"git commit -m {message(body, word)}"
    changed = literal(text)
    if read(changed) is not None:
        assert passed(changed) == passed(text)


@pytest.mark.parametrize(
    "text",
    [
        "git status",
        "git commit -m 'x'",
        'git commit -m "$(cat <<EOF\nx $HOME\nEOF\n)"',
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\n); id\"",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\nid)\"",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"y",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"$(id)",
        "git commit -m x\"$(cat <<'EOF'\nx\nEOF\n)\"",
        "git commit -m \"$(cat x <<'EOF'\nx\nEOF\n)\"",
        "git commit -m \"$(cat <<-'EOF'\nx\nEOF\n)\"",
        "git commit -m $(cat <<'EOF'\nx\nEOF\n)",
        "git commit -m \"$(cat <<'EOF'\nEOF)\nEOF\n)\"",
        "git commit -m \"$(cat <<'EOF'\nx\nEOFX\nEOF\n)\"",
        "git commit -m \"a $(cat <<'EOF'\nx\nEOF\n)\"",
        "git commit -m 'a \"$(cat <<'EOF'\nx\nEOF\n)\"",
        "id; $X \"$(cat <<'EOF'\nx\nEOF\n)\"",
        "# \"$(cat <<'EOF'\nx\nEOF\n)\"",
        "git commit -m \"$(cat <<'E F'\nx\nE F\n)\"",
        "git commit -m \"$(cat <<'EÉ'\nx\nEÉ\n)\"",
        "git commit -m " + message("x" * MAX_COMMAND),
        "git commit -m " + message("x\n") + "\nid",
        "git commit" + " -m \"$(cat <<'E'\nx\nE\n)\"" * 5,
    ],
)
def test_what_is_not_certain_stays_as_it_is(text: str) -> None:
    assert literal(text) == text


def test_a_commit_with_such_a_message_runs_in_the_cage(house: House) -> None:
    text = f"git add -A && git commit -m {message('It works' + chr(10))}"
    event = ToolEvent("claude-code", "s", "c", "Bash", {"command": text}, str(house.repo), rewritable=True)
    programs = {"sbox": "/usr/bin/sbox", "git": "/usr/bin/git"}
    assert caged_git(event, programs) == ("sbox /usr/bin/git add -A && sbox /usr/bin/git commit -m 'It works'")
    assert house.bash(text) == "gated", "by itself it runs a program outside the cage"


def test_a_text_made_to_be_slow(house: House) -> None:
    openings = "git commit " + "\"$(cat <<'A'\n" * 9000
    assert literal(openings) == openings
    assert calls_of(lambda: literal(openings)) < 20
