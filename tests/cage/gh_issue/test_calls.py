"""Which calls are understood, how the program is started, and that it and the gate agree."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading

import pytest

from cage import cage_policy, gh_issue
from tests.cage.gh_issue.conftest import SHEBANG, SOURCE, Desk
from tests.cage.gh_issue.github import TOKEN, GitHub

# A call of the program that must end with exit code 2 before anything is asked; {body} is a file that may be sent.
WRONG = """|merge 1|pr-merge 1|issue list|lis|LIST|view|view x|view 1 2|view 0|view 01|view -1|view +1|view 1.0|view 1_0
view ٣|view #1|view 12345678901|view 1/../2|view 1?x|view --repo|--repo acme/app view 1|view 1 --repository acme/app
list 1|list --state merged|list --state|list --limit 0|list --limit 1001|list --limit -5|list --limit x|list --stat open
list --format json|create --title x|create --body-file {body}|create --title x --body text
create --title x --body-fil {body}|create --titl x --body-file {body}|create --title x --body-file|comment 1
comment --body-file {body}|comment 1 text|comment 1 --body text|close|close 1 --comment x|close 1 --reason x
reopen 1 2|label 1|label --add x|label 1 --add|label 1 --remove .|label 1 --remove ..|label 1 --label x
pr-create --title x --head y|pr-create --title x --body-file {body}|pr-create --head x --body-file {body}
pr-create --title x --head y --body-file {body} --draft|pr-list 1|pr-list --state all|pr-view|pr-diff|pr-diff x
pr-diff 1 --output x|link-branch 1|link-branch x 1|link-branch 1 a b|link-branch 1 --branch b|view 1 --repo acme
view 1 --repo acme/|view 1 --repo /app|view 1 --repo acme/app/x|view 1 --repo acme/..|view 1 --repo ../app
view 1 --repo acme/.|view 1 --repo acme/a%2fb|view 1 --repo acme/app?x|view 1 --repo https://github.com/acme/app
view 1 --repo -acme/app|view 1 --repo=|list --repo ac me/app"""
# The same, with words that a table on one line cannot hold.
ODD: list[list[str | bytes]] = [
    ["label", "1", "--remove", ""],
    ["label", "1", "--add", " "],
    ["label", "1", "--add", "a\nb"],
    ["view", "1\n"],
    ["view", ""],
    ["create", "--title", "", "--body-file", "body.md"],
    ["create", "--title", "a\nb", "--body-file", "body.md"],
    ["create", "--title", "a\x1b[2Jb", "--body-file", "body.md"],
    ["create", "--title", b"caf\xe9", "--body-file", "body.md"],
    ["view", "1", "--repo", "acme/app\n"],
    ["view\x1b[2J", "1"],
    ["view", "1", "\x1b[2J"],
    ["link-branch", "1", "a\tb"],
]


def test_calls_that_are_wrong(desk: Desk, github: GitHub, capsys: pytest.CaptureFixture[str]) -> None:
    """In one process, for there are many; `test_a_wrong_call` starts the program."""
    body = desk.body()
    lines = WRONG.replace("\n", "|").format(body=body).split("|")
    accepted = []
    for words in [*(line.split() for line in lines), *ODD]:
        try:
            accepted.append(gh_issue.read_call([os.fsdecode(word) for word in words]))
        except SystemExit as exit:
            said = capsys.readouterr().err
            assert exit.code == 2 and said.startswith("usage: ") and "\x1b" not in said
            assert len(said) < 1000
    assert accepted == []


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GH_ISSUE_REPO", "acme/app")


@pytest.mark.parametrize(
    "words", [[], ["merge", "1"], ["label", "1", "--remove", ""], ["create", "--title", b"caf\xe9\x1b"]]
)
def test_a_wrong_call(words: list[str | bytes], desk: Desk, github: GitHub) -> None:
    said = desk.fails(*words, code=2)
    assert "\ngh_issue.py: " in said and "\x1b" not in said
    assert github.asked == []


def test_a_repository_is_needed(desk: Desk, github: GitHub) -> None:
    for named in ("", "acme", "acme/app/../../user", "acme/.."):
        assert "name the repository" in desk.fails("view", "1", code=2, env={"GH_ISSUE_REPO": named})
    assert github.asked == []


def test_help_lists_every_verb(desk: Desk) -> None:
    for words in (["--help"], ["label", "-h"]):
        text = desk.does(*words)
        assert text.startswith("usage: ")
    assert all(f"    {verb}" in desk.does("-h") for verb in gh_issue.VERBS)


def test_the_gate_and_the_program_know_the_same_calls() -> None:
    known = {}
    for verb, (_, options, _) in gh_issue.VERBS.items():
        plain = [name for name in options.split() if name[:2] != "--"]
        named = {name for name in options.split() if name[:2] == "--"}
        known[verb] = len(plain), named, {name for name in named if gh_issue.OPTIONS[name].get("required")}
    gate = cage_policy.HELPER_VERBS  # an option that takes a value ends in a colon there
    allowed = {
        verb: (count, {word.rstrip(":") for word in may.split()}, {word.rstrip(":") for word in must.split()})
        for verb, (count, may, must) in gate.items()
    }
    assert known == allowed


def test_what_the_gate_lets_through_the_program_understands(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(desk.home))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    body = desk.body()
    calls = f"""list; list --state closed --limit 1000; view 1; create --title x --body-file {body}; close 1; reopen 1
        comment 1 --body-file {body}; label 1 --add x --remove y --add z; pr-list; pr-view 1; pr-diff 1
        pr-create --title x --head y --base z --body-file {body}; link-branch 1 feature/x; view 1 --repo acme/app"""
    for call in (part.strip() for row in calls.splitlines() for part in row.split("; ")):
        for program in (str(desk.helper), f"python3 {desk.helper}", "~/work/gh-issue/gh_issue.py"):
            assert cage_policy.classify("Bash", {"command": f"{program} {call}"}, str(desk.projects)) == "green"
        assert gh_issue.read_call(call.split()).verb == call.split()[0]


def test_both_ways_to_start_it(desk: Desk, github: GitHub) -> None:
    github.add("Title")
    if SHEBANG.exists():
        assert desk.does("view", "1").startswith("#1 Title")
    assert desk.does("view", "1", before=(sys.executable,)).startswith("#1 Title")
    assert desk.does("view", "1", before=(sys.executable, "-I", "-O")).startswith("#1 Title")


def test_one_file_that_an_old_python_reads() -> None:
    """Python 3.9, the standard library and nothing else."""
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 9))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    assert SOURCE.stat().st_mode & 0o111 and SOURCE.read_text().startswith("#!/usr/bin/python3 -IS\n")


def test_a_stop_from_the_keyboard_is_one_sentence(desk: Desk, github: GitHub) -> None:
    arrived, over = threading.Event(), threading.Event()

    def fault(_: object) -> None:
        arrived.set()
        over.wait(60)

    github.fault = fault
    running = subprocess.Popen(desk.command("close", "1"), env=desk.env, stderr=subprocess.PIPE, text=True)
    assert arrived.wait(60)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=100)[1]
    over.set()
    assert running.returncode == 1 and said.startswith("gh_issue.py: Broken off: KeyboardInterrupt. It is not known")
    assert TOKEN not in said
