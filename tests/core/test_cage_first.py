"""Which gated commands are tried in the cage, and which are asked: the cage holds in any case."""

from __future__ import annotations

from typing import Any

import pytest

from cage import cage_policy
from slack_gate.core.cage_first import UNCAGED, caged_first
from slack_gate.core.caged import caged_git
from slack_gate.core.event import ToolEvent
from tests.cage.policy.conftest import House, git, house, template

__all__ = ["house", "template"]  # fixtures


PROGRAMS = {"sbox": "/usr/bin/sbox", "git": "/usr/bin/git"}


def event(house: House, command: Any, **changes: Any) -> ToolEvent:
    values = {"tool": "Bash", "tool_input": {"command": command}, "cwd": str(house.repo), "rewritable": True}
    return ToolEvent(**{"agent": "claude-code", "session": "s", "call": "c", **values, **changes})


TRIED = [
    "ls -la",
    "make test",
    "npm test 2>&1 | tail -5",
    "pytest -q && echo 'it''s done'",
    "cd d && make",
    "grep -rn curl . | head",
    "python3 - <<'EOF'\nprint('open', \"at\")\nEOF",
    'for f in *.py; do wc -l "$f"; done',
    "git add -A && git commit -m \"$(cat <<'EOF'\nAdd it\n\nopen at top\nEOF\n)\"",
    "git log --oneline | head -3",
    "echo $HOME/projects && FOO=1 make",
    "uv run pytest",
    "printf '\u00e9'",
    "git status && make 2>err.log",
    "git rm -r old && git commit -m x",
    "git mv a.txt b.txt; ls",
]
ASKED = [
    "curl -s example.com",
    "/usr/bin/curl x",
    "cat x | ssh host",
    "env A=1 curl x",
    "timeout 5 wget x",
    "bash -c 'curl x'",
    "if true; then curl x; fi",
    "X=$(gh pr list)",
    "FOO=1 docker ps | tail -n $N",
    "npm install",
    "npm ci && npm test",
    "pip install x",
    "uv sync",
    "git push origin main | tail -1",
    "cd d && git push",
    "git branch -m main trunk && make",
    "git checkout origin | cat",
    "git push $X",
    "git $X",
    "(git)",
    "git -C $X status",
    "python3 fetch.py https://example.com",
    "cat ~/.bashrc",
    "cat $HOME/.bashrc > x",
    "sleep $N &",
    "kill 123",
    "ps aux | grep x",
    "cd d",
    "cd d && export A",
    "sbox ls; make",
    "sudo make $X",
    "make $X; sbox ls",
    f"{UNCAGED} make",
    f"  {UNCAGED} make",
    "-x",
    "",
    "make \x1b",
    "cat <<X\nX\ncurl x",
    "echo " + "x" * 32_768,
]


@pytest.mark.parametrize("command", TRIED)
def test_it_is_tried_with_exactly_its_text(command: str, house: House) -> None:
    caged = caged_first(event(house, command), PROGRAMS)
    assert caged is not None
    assert house.bash(command) == "gated"
    assert [segment.argv for segment in cage_policy.read(caged) or []] == [("sbox", "bash", "-c", command)]


@pytest.mark.parametrize("command", ASKED)
def test_what_points_outside_is_asked(command: str, house: House) -> None:
    assert caged_first(event(house, command), PROGRAMS) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"rewritable": False},
        {"tool": "WebFetch"},
        {"cwd": "/srv"},
        {"cwd": "relative"},
        {"cwd": "/tmp/missing-directory"},
        {"cwd": "/\0"},
        {"tool_input": {"command": "make", "dangerouslyDisableSandbox": True}},
        {"tool_input": {"command": "make", "run_in_background": True}},
        {"tool_input": {"command": "make", "sudo": True}},
    ],
)
def test_odd_calls_are_asked(changes: dict[str, Any], house: House) -> None:
    assert caged_first(event(house, "make"), PROGRAMS) is not None
    assert caged_first(event(house, "make", **changes), PROGRAMS) is None


def test_places_where_the_cage_is_another(house: House) -> None:
    (house.cache / "x").mkdir()
    for place in (house.cache / "x", house.outside, house.home):
        assert caged_first(event(house, "make", cwd=str(place)), PROGRAMS) is None


def test_a_commit_that_would_be_signed_is_asked(house: House) -> None:
    command = 'git commit -m "$(date)"'
    assert caged_first(event(house, command), PROGRAMS) is not None
    (house.home / ".gitconfig").write_text("[commit]\n\tgpgsign = true\n")
    assert caged_first(event(house, command), PROGRAMS) is None


def test_asking_for_the_run_outside_never_lowers_the_gate(house: House) -> None:
    for command in ("git status", "sbox ls", "ls"):
        assert house.bash(f"{UNCAGED} {command}") == "gated"
        assert caged_git(event(house, f"{UNCAGED} {command}"), PROGRAMS) is None


def test_local_git_is_caged_by_its_words(house: House) -> None:
    git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
    assert caged_git(event(house, "git  status 2>&1"), PROGRAMS) == "sbox /usr/bin/git  status 2>&1"
    for command in ("'git' status", "git status; git log", "git push", "ls", "git $X"):
        assert caged_git(event(house, command), PROGRAMS) is None
    for changes in ({"rewritable": False}, {"tool": "Read"}, {"tool_input": {"command": "git status", "x": 1}}):
        assert caged_git(event(house, "git status", **changes), PROGRAMS) is None
