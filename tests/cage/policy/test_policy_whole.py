"""Git in the cage that moves files: done whole where nothing guarded is in its way, else not at all."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cage import cage_policy, moves, whole_git
from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.cage_first import caged_first
from slack_gate.core.caged import caged_git, caged_words
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import Choice
from slack_gate.core.respell import respelled
from tests.daemon.desk import SECOND, Desk

from .conftest import CAGE, House, git, make_repository
from .test_policy_gate import gate
from .test_policy_network import port as port  # fixtures
from .test_policy_network import remote as remote
from .test_policy_network import run as run_outside

pytestmark = pytest.mark.skipif(not CAGE, reason="bubblewrap cannot make namespaces here")
SOURCES = Path(whole_git.__file__).parent


@pytest.fixture(scope="session")
def programs() -> Iterator[dict[str, str]]:
    """The program where there is a compiler, else the script, with what lies beside it."""
    with tempfile.TemporaryDirectory(prefix="whole-", dir="/var/tmp") as made:
        subprocess.run([SOURCES / "build-sbox", f"{made}/sbox"], check=True, capture_output=True)
        yield {"sbox": f"{made}/sbox", "git": "/usr/bin/git", "python3": "/usr/bin/python3"}


@pytest.fixture(autouse=True)
def person(house: House) -> None:
    (house.home / ".gitconfig").write_text("[user]\n\tname = Dev\n\temail = dev@example.com\n")


def write(house: House, name: str, text: str) -> None:
    path = house.repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commit(house: House, name: str, text: str) -> None:
    write(house, name, text)
    git(house.repo, "add", "-f", name)
    git(house.repo, "commit", "-q", "-m", f"{name}: {text}")


def event(house: House, line: str) -> ToolEvent:
    return ToolEvent("claude-code", "s", "c", "Bash", {"command": line}, str(house.repo), rewritable=True)


def worded(house: House, programs: dict[str, str], line: str) -> str:
    """What the gate runs for a line of local git."""
    text = caged_git(event(house, line), programs)
    assert text is not None, line
    assert cage_policy.classify("Bash", {"command": text}, str(house.repo)) == "green"
    return pinned_sbox(text, programs)


def pinned_sbox(text: str, programs: dict[str, str]) -> str:
    """As the gate does at last."""
    return respelled(text, {"sbox": (programs["sbox"],)}) or ""


def run(house: House, programs: dict[str, str], line: str) -> subprocess.CompletedProcess[str]:
    command = worded(house, programs, line)
    return subprocess.run(["/bin/bash", "-c", command], cwd=house.repo, capture_output=True, text=True)


def state(house: House) -> tuple[object, ...]:
    """Everything that a half-done command would leave different; the index only by what it says."""
    files = {str(path.relative_to(house.repo)): (path.is_symlink(), path.is_file() and path.read_bytes())
             for path in house.repo.rglob("*") if ".git" not in path.relative_to(house.repo).parts}  # fmt: skip
    asked = ("status --porcelain -z --ignored", "rev-parse HEAD", "symbolic-ref -q HEAD", "ls-files -s", "stash list")
    return files, *(git(house.repo, *words.split()) for words in (*asked, "for-each-ref"))


SETTINGS, PLAIN = ".claude/settings.json", "src/plain.json"


def branches(house: House, name: str) -> None:
    """`main` and `side` have gone apart; `side` has changed `name`."""
    commit(house, name, "first\n")
    git(house.repo, "branch", "side")
    commit(house, "ours.txt", "ours\n")
    git(house.repo, "checkout", "-q", "side")
    commit(house, name, "second\n")
    git(house.repo, "checkout", "-q", "main")


def followed(house: House, name: str) -> None:
    branches(house, name)
    git(house.repo, "branch", "-u", "side")


def on_side(house: House, name: str) -> None:
    branches(house, name)
    git(house.repo, "checkout", "-q", "side")
    git(house.repo, "checkout", "-q", "main")


def changed(house: House, name: str) -> None:
    branches(house, name)
    write(house, name, "changed\n")


def staged(house: House, name: str) -> None:
    """As HEAD has it in the tree, but not in the index."""
    changed(house, name)
    git(house.repo, "add", name)
    write(house, name, "first\n")


def untracked(house: House, name: str) -> None:
    write(house, name + ".local", "mine\n")
    write(house, "other.txt", "mine\n")


def stashed(house: House, name: str) -> None:
    changed(house, name)
    git(house.repo, "stash")
    if name == SETTINGS:
        assert git(house.repo, "stash", "list")


def stashed_untracked(house: House, name: str) -> None:
    untracked(house, name)
    git(house.repo, "stash", "-u")


def ours(house: House, name: str) -> None:
    """`main` has a commit of its own on it."""
    branches(house, name)
    git(house.repo, "checkout", "-q", "main")
    commit(house, name, "ours\n")


def quarrel(house: House, name: str) -> None:
    """Both branches have a last commit to the same file."""
    branches(house, name)
    commit(house, "both.txt", "ours\n")
    git(house.repo, "checkout", "-q", "side")
    commit(house, "both.txt", "theirs\n")
    git(house.repo, "checkout", "-q", "main")


def merging(house: House, name: str) -> None:
    """A merge that stopped, having brought `name`."""
    quarrel(house, name)
    git(house.repo, "merge", "side")


def picking(house: House, name: str) -> None:
    """`cherry-pick` of two commits that stopped at the second."""
    quarrel(house, name)
    git(house.repo, "cherry-pick", "side~1", "side")


def rebasing(house: House, name: str) -> None:
    merging(house, name)
    git(house.repo, "merge", "--abort")
    git(house.repo, "rebase", "side")


def renamed(house: House, name: str) -> None:
    """What `side` has changed has another name on `main`."""
    text = "".join(f"line {number}\n" for number in range(30))
    commit(house, "old.json", text)
    git(house.repo, "branch", "side")
    (house.repo / name).parent.mkdir(exist_ok=True)
    git(house.repo, "mv", "old.json", name)
    git(house.repo, "commit", "-q", "-m", "renamed")
    git(house.repo, "checkout", "-q", "side")
    commit(house, "old.json", text + "more\n")
    git(house.repo, "checkout", "-q", "main")


def no_commit(house: House, name: str) -> None:
    branches(house, name)
    git(house.repo, "checkout", "-q", "--orphan", "new")
    git(house.repo, "rm", "-rqf", ".")


MOVES = [
    (branches, "checkout side"),
    (branches, "checkout -q side --"),
    (on_side, "checkout -"),
    (branches, "switch side"),
    (branches, "switch --discard-changes side"),
    (changed, "checkout -f main"),
    (changed, "checkout -f -b new"),
    (staged, "checkout -f main"),
    (changed, "checkout -m -B new HEAD~1"),
    (ours, "checkout -b new HEAD~1"),
    (ours, "switch --detach HEAD~1"),
    (no_commit, "checkout side"),
    (changed, "checkout -- ."),
    (branches, "checkout side -- ."),
    (branches, "checkout --no-overlay side ."),
    (changed, "restore ."),
    (branches, "restore -s side ."),
    (staged, "restore -S -W ."),
    (branches, "restore --overlay -s side ."),
    (changed, "reset --hard"),
    (staged, "reset --hard"),
    (branches, "reset -q --hard side"),
    (branches, "reset --keep side"),
    (branches, "reset --merge side"),
    (changed, "stash"),
    (staged, "stash push -q"),
    (changed, "stash save some words"),
    (changed, "stash push -- ."),
    (untracked, "stash -u"),
    (untracked, "stash push -u -- ."),
    (stashed, "stash pop"),
    (stashed, "stash apply 0"),
    (stashed, "stash apply stash@{0}"),
    (stashed_untracked, "stash pop"),
    (branches, "merge side -m x"),
    (branches, "merge --squash side"),
    (followed, "merge -m x"),
    (branches, "merge --allow-unrelated-histories side -m x"),
    (merging, "merge --abort"),
    (branches, "rebase side"),
    (followed, "rebase"),
    (branches, "rebase main side"),
    (branches, "rebase --onto side HEAD~1"),
    (ours, "rebase --keep-base -f side"),
    (branches, "rebase -r side"),
    (rebasing, "rebase --abort"),
    (branches, "cherry-pick side"),
    (branches, "cherry-pick main..side"),
    (picking, "cherry-pick --abort"),
    (ours, "revert --no-edit HEAD"),
    (renamed, "merge side -m x"),
    (renamed, "cherry-pick side"),
]
NAMES = [f"{make.__name__}: {line}" for make, line in MOVES]


@pytest.mark.parametrize(("make", "line"), MOVES, ids=NAMES)
def test_what_would_change_a_guarded_file_changes_nothing(make, line, house: House, programs) -> None:  # type: ignore[no-untyped-def]
    make(house, SETTINGS)
    before = state(house)
    done = run(house, programs, f"git {line}")
    assert done.returncode == whole_git.REFUSED, (done.stdout, done.stderr)
    assert ".claude/settings.json" in done.stderr and "begin the command with `: uncaged;`" in done.stderr
    assert state(house) == before


@pytest.mark.parametrize(("make", "line"), MOVES, ids=NAMES)
def test_what_would_change_none_is_done_as_outside(make, line, house: House, programs) -> None:  # type: ignore[no-untyped-def]
    """In a repository that has guarded files, tracked ones and others; the same as git alone."""
    commit(house, ".vscode/settings.json", "kept\n")
    write(house, ".claude/settings.local.json", "mine\n")
    write(house, ".gitignore", ".claude\n.gitignore\n")
    make(house, PLAIN)
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    alone = subprocess.run(["git", *shlex.split(line)], cwd=house.repo, capture_output=True, text=True)
    wanted = contents(house)
    shutil.rmtree(house.projects)
    kept.rename(house.projects)
    before = contents(house)
    done = run(house, programs, f"git {line}")
    assert (done.returncode, alone.returncode) == (0, 0), (done.stderr, alone.stderr)
    assert contents(house) == wanted != before


def contents(house: House) -> tuple[object, ...]:
    """Without what the time makes different."""
    files, status, _, branch, index, stash, _ = state(house)
    logs = sorted(git(house.repo, "log", "--all", "--format=%s").splitlines()), git(house.repo, "reflog").count("\n")
    return files, status, branch, index, stash, logs


LATER = [
    ("the first .claude", ".claude/settings.json"),
    ("a file in the place of a directory", ".claude"),
    ("a name with a blank", ".claude/a b.json"),
    ("a name with a line break", ".claude/a\nb.json"),
    ("a name that is not ASCII", ".claude/é.json"),
]


@pytest.mark.parametrize(("name", "file"), LATER, ids=[name for name, _ in LATER])
def test_what_a_branch_brings_for_the_first_time(name: str, file: str, house: House, programs: dict[str, str]) -> None:
    """git alone would end well in the cage, with half of it done: on the branch, without its file."""
    git(house.repo, "checkout", "-q", "-b", "side")
    commit(house, file, "theirs\n")
    git(house.repo, "checkout", "-q", "main")
    before = state(house)
    done = run(house, programs, "git checkout side")
    assert done.returncode == whole_git.REFUSED, (done.stdout, done.stderr)
    said = file if file.isprintable() else repr(file)
    assert done.stderr.count("\n") == 1 and f"would have changed {said}, which the cage guards" in done.stderr
    assert state(house) == before


@pytest.mark.parametrize(
    "line", ["git checkout 'a b%20'", "git -C d -C .. checkout -q side", "git -C d restore -s side b.txt"]
)
def test_words_get_through_as_they_are(line: str, house: House, programs: dict[str, str]) -> None:
    commit(house, SETTINGS, "kept\n")
    git(house.repo, "checkout", "-q", "-b", "side")
    commit(house, "d/b.txt", "theirs\n")
    git(house.repo, "checkout", "-q", "main")
    write(house, "a b%20", "")
    words = caged_words([("git", "checkout", "--", "a b%20", "a%25\nb")], str(house.repo), programs)
    ((*_, question, _, _),) = (words or {}).values()
    assert whole_git.words_of(question) == ["diff-files", "--", "a b%20", "a%25\nb"]
    if "%" in line:
        return
    done = run(house, programs, line)
    assert done.returncode == 0, done.stderr
    assert (house.repo / "d" / "b.txt").read_text() == "theirs\n"
    write(house, SETTINGS, "changed\n")
    done = run(house, programs, "git -C d stash")
    assert done.returncode == whole_git.REFUSED and SETTINGS in done.stderr


@pytest.mark.parametrize("directory", ["log", "-C", "stash/diff", "--"])
def test_wherever_git_is_sent(directory: str, house: House, programs: dict[str, str]) -> None:
    (house.repo / directory).mkdir(parents=True)
    branches(house, SETTINGS)
    before = state(house)
    done = run(house, programs, f"git -C {directory} checkout side")
    assert done.returncode == whole_git.REFUSED and SETTINGS in done.stderr, done.stderr
    assert state(house) == before


@pytest.mark.parametrize("place", ["a b", "tab\tbed", "été", "back\\040slash", "# x"])
def test_wherever_the_repository_lies(place: str, house: House, programs: dict[str, str]) -> None:
    house.repo = make_repository(house.projects / place)
    branches(house, SETTINGS)
    before = state(house)
    assert run(house, programs, "git checkout -q side").returncode == whole_git.REFUSED
    assert state(house) == before
    assert run(house, programs, "git checkout -q --detach HEAD~1").returncode == 0


def test_the_first_commit_of_all(house: House, programs: dict[str, str]) -> None:
    commit(house, SETTINGS, "first\n")
    git(house.repo, "checkout", "-q", "-b", "side")
    git(house.repo, "checkout", "-q", "--orphan", "new")
    git(house.repo, "rm", "-rqf", ".")
    assert not git(house.repo, "ls-files")
    before = state(house)
    assert run(house, programs, "git merge side -m x").returncode == whole_git.REFUSED
    assert state(house) == before


def test_what_git_refuses_it_refuses_in_its_own_words(house: House, programs: dict[str, str]) -> None:
    commit(house, SETTINGS, "kept\n")
    for line in ("git merge nowhere", "git cherry-pick 1234567", "git stash pop", "git rebase nowhere"):
        alone = subprocess.run(shlex.split(line), cwd=house.repo, capture_output=True, text=True)
        done = run(house, programs, line)
        assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
        assert done.returncode not in (0, whole_git.REFUSED)


def test_a_submodule_that_moves_on(house: House, programs: dict[str, str]) -> None:
    """The cage guards its `.git`; no file of it is written by git in the tree around it."""
    commit(house, SETTINGS, "kept\n")
    make_repository(house.repo / "sub")
    git(house.repo, "add", "sub")
    git(house.repo, "commit", "-q", "-m", "sub")
    git(house.repo, "checkout", "-q", "-b", "side")
    git(house.repo / "sub", "commit", "-q", "--allow-empty", "-m", "on")
    git(house.repo, "add", "sub")
    git(house.repo, "commit", "-q", "-m", "sub moves on")
    git(house.repo, "checkout", "-q", "main")
    done = run(house, programs, "git checkout -q side")
    assert done.returncode == 0 and git(house.repo, "branch", "--show-current") == "side\n", done.stderr


def test_what_was_only_touched_is_no_change(house: House, programs: dict[str, str]) -> None:
    commit(house, SETTINGS, "kept\n")
    os.utime(house.repo / SETTINGS, (1, 1))
    write(house, "a.txt", "changed\n")
    done = run(house, programs, "git reset -q --hard")
    assert done.returncode == 0 and (house.repo / "a.txt").read_text() == "a\n", done.stderr


SWITCHED = """
[diff]
    orderFile = /nowhere
    relative = true
    renames = copies
    noprefix = true
    ignoreSubmodules = all
    external = false
[log]
    showRoot = false
    showSignature = true
[core]
    quotePath = true
"""


@pytest.mark.parametrize(
    ("make", "line"), [(branches, "checkout side"), (branches, "cherry-pick side"), (changed, "stash")]
)
def test_whatever_the_settings_say(make, line, house: House, programs) -> None:  # type: ignore[no-untyped-def]
    make(house, SETTINGS)
    (house.home / ".gitconfig").write_text(SWITCHED)
    assert run(house, programs, f"git -C d {line}").returncode == whole_git.REFUSED


@pytest.mark.parametrize("line", ["rebase side", "merge side -m x"])
def test_what_is_put_aside_meanwhile(line: str, house: House, programs: dict[str, str]) -> None:
    branches(house, PLAIN)
    commit(house, SETTINGS, "kept\n")
    write(house, SETTINGS, "changed\n")
    git(house.repo, "config", line.partition(" ")[0] + ".autoStash", "true")
    before = state(house)
    done = run(house, programs, f"git {line}")
    assert done.returncode == whole_git.REFUSED and SETTINGS in done.stderr
    assert state(house) == before


@pytest.mark.parametrize("onward", [False, True])
def test_a_merge_that_cannot_be_done(onward: bool, house: House, programs: dict[str, str]) -> None:
    """Git resets then, and puts back what was not committed; not where it only goes on to a later commit."""
    commit(house, SETTINGS, "kept\n")
    branches(house, PLAIN)
    if onward:
        git(house.repo, "reset", "-q", "--hard", "side~1")
        write(house, "a.txt", "changed\n")
    else:
        write(house, PLAIN, "changed\n")
    write(house, SETTINGS, "changed\n")
    before = state(house)
    done = run(house, programs, "git merge -q side -m x")
    if onward:
        assert done.returncode == 0 and (house.repo / PLAIN).read_text() == "second\n", done.stderr
    else:
        assert done.returncode == whole_git.REFUSED and state(house) == before


def test_several_moves_in_a_line_each_ask_for_themselves(house: House, programs: dict[str, str]) -> None:
    branches(house, SETTINGS)
    git(house.repo, "branch", "other")
    before = state(house)
    line = "git checkout -q other && git stash && git checkout -q side"
    done = run(house, programs, line.replace("git stash && ", "git reset -q --hard && "))
    assert done.returncode == whole_git.REFUSED
    assert git(house.repo, "branch", "--show-current") == "other\n" and state(house)[0] == before[0]


@pytest.mark.parametrize("name", [SETTINGS, PLAIN])
def test_in_a_line_that_is_tried_in_the_cage(name: str, house: House, programs: dict[str, str]) -> None:
    branches(house, name)
    before = state(house)
    line = "git checkout -q side && git log -1 --format='%s of $ %' | cat; ls src"
    text = caged_first(event(house, line), programs)
    assert text is not None and text.startswith("sbox bash -c ") and text.count("whole_git.py") == 1
    command = pinned_sbox(text, programs)
    done = subprocess.run(["/bin/bash", "-c", command], cwd=house.repo, capture_output=True, text=True)
    if name == PLAIN:
        assert (done.returncode, done.stdout) == (0, f"{PLAIN}: second of $ %\nplain.json\n"), done
    else:
        assert "which the cage guards" in done.stderr and state(house) == before
    assert caged_first(event(house, "'git' checkout side; ls"), programs) is None


@pytest.mark.parametrize("name", [SETTINGS, PLAIN])
def test_rm_in_such_a_line(name: str, house: House, programs: dict[str, str]) -> None:
    commit(house, SETTINGS, "kept\n")
    commit(house, PLAIN, "kept\n")
    before = state(house)
    text = caged_first(event(house, f"git rm -q '{name[:-4]}*' && ls"), programs)
    assert text is not None
    command = pinned_sbox(text, programs)
    done = subprocess.run(["/bin/bash", "-c", command], cwd=house.repo, capture_output=True, text=True)
    assert (done.returncode == 0) == (name == PLAIN), done.stderr
    assert state(house) == before or git(house.repo, "status", "--porcelain") == f"D  {PLAIN}\n"
    assert (house.repo / PLAIN).exists() == (name == SETTINGS)


def test_what_has_no_question_is_asked_where_something_guarded_is(house: House, programs: dict[str, str]) -> None:
    odd = ["checkout --orphan new", "rebase --root", "stash branch x", "rebase --onto main...side main"]
    lines = [("git", *line.split()) for line in odd]
    assert all(caged_words([argv], str(house.repo), programs) for argv in lines)
    assert not any(caged_words([argv, ("git", "checkout", "main")], str(house.repo), programs) for argv in lines)
    for name in (".vscode", ".cursor", ".codex", ".gemini"):
        (house.repo / name).mkdir()
        assert not any(caged_words([argv], str(house.repo), programs) for argv in lines)
        (house.repo / name).rmdir()


def test_without_the_script_or_what_runs_it(house: House, programs: dict[str, str], tmp_path: Path) -> None:
    argv = ("git", "checkout", "main")
    line = [argv]
    script = os.path.dirname(programs["sbox"]) + "/whole_git.py"
    started = (
        programs["sbox"],
        programs["python3"],
        "-I",
        "-S",
        script,
        "diff HEAD main",
        "diff HEAD refs/heads/main",
        "--",
        programs["git"],
    )
    asked = {argv: started}
    plain = {argv: (programs["sbox"], programs["git"])}
    assert caged_words(line, str(house.repo), programs) == asked
    alone = {name: path for name, path in programs.items() if name != "python3"}
    assert caged_words(line, str(house.repo), alone) == plain
    bare = tmp_path / "sbox"
    assert caged_words(line, str(house.repo), {**programs, "sbox": str(bare)}) == {argv: (str(bare), programs["git"])}
    for place, shown in ((".local/bin", True), (".local/share/x", False)):
        there = house.home / place
        there.mkdir(parents=True)
        shutil.copy(whole_git.__file__, there)
        words = (caged_words(line, str(house.repo), {**programs, "sbox": str(there / "sbox")}) or {})[argv]
        assert (str(there / "whole_git.py") in words) == shown
    (house.repo / ".claude").mkdir()
    assert caged_words(line, str(house.repo), programs) == asked
    assert caged_words(line, str(house.repo), alone) is None
    assert caged_words(line, str(house.repo), {"git": programs["git"]}) is None
    (house.gate / "policy.toml").write_text("[")
    assert caged_words(line, str(house.repo), programs) is None


def asked(line: str, *settings: tuple[str, str, str]) -> object:
    return moves.questions(cage_policy.parse_git(("git", *line.split())), list(settings))


SINGLE = ("merge-base --is-ancestor HEAD R", "diff-index HEAD")


def test_what_a_pull_is_going_to_do() -> None:
    merged = ("diff HEAD...R", "diff -M -l200 --diff-filter=R R...HEAD", *SINGLE)
    rebased = ("diff HEAD R", "log --no-merges R..HEAD")
    for line in ("pull . R", "pull --no-rebase . R", "pull --rebase=false . R", "pull --ff-only . R"):
        assert asked(line) == merged
    assert asked("pull --rebase=false . R", ("pull", "rebase", "true")) == merged
    assert asked("pull . R", ("pull", "rebase", "false"), ("other", "rebase", "true")) == merged
    for line in ("pull -r . R", "pull --rebase . R", "pull --rebase=true . R"):
        assert asked(line) == rebased + merged
    again = ("diff HEAD R", "log -m R..HEAD", *merged)
    assert asked("pull . R", ("branch.main", "rebase", "merges")) == asked("pull --rebase=merges . R") == again
    assert asked("pull -r . R", ("rebase", "rebasemerges", "true")) == again
    assert asked("rebase -r R")[0] == asked("rebase --rebase-merges R")[0] == again[1]  # type: ignore[index]
    assert asked("pull --autostash . R") == ("diff-index HEAD", *merged)
    assert asked("pull origin R") is asked("pull") is asked("pull . R S") is None


def test_what_surely_changes_no_file() -> None:
    for line in ("merge --quit", "rebase --quit", "cherry-pick --quit", "revert --quit"):
        assert asked(line) == ()


async def remembered(one: Desk, line: str, house: House) -> str:
    """What runs once a person has allowed the remote."""
    await one.click(await one.asked(one.event(line, str(house.repo), rewritable=True)), Choice.ALWAYS)
    await one.answer()
    said = await one.gate.submit(one.event(line, str(house.repo), rewritable=True), SECOND)
    assert isinstance(said, Answer) and said.ruling is Ruling.ALLOW and said.command is not None
    return said.command


def brings(house: House, name: str) -> None:
    """One commit more at the remote."""
    other = house.home / "other"
    (other / name).parent.mkdir(exist_ok=True)
    (other / name).write_text("theirs\n")
    git(other, "add", "-f", name)
    git(other, "commit", "-q", "-m", name)
    git(other, "push", "-q", "origin", "HEAD:main")


async def test_checkout_and_pull(house: House, remote: Path, tmp_path: Path) -> None:
    """The commonest line of agents, in a repository as they have it."""
    git(house.repo, "checkout", "-q", "-b", "work")
    write(house, ".claude/settings.local.json", "mine\n")
    commit(house, SETTINGS, "of the branch\n")
    git(house.repo, "checkout", "-q", "main")
    git(house.repo, "checkout", "-q", "-b", "other")
    commit(house, "more.txt", "more\n")
    write(house, ".claude/settings.local.json", "mine\n")
    async with gate(tmp_path) as one:
        command = await remembered(one, "git checkout main && git pull", house)
    done = run_outside(command, house)
    assert done.returncode == 0, done.stderr
    assert git(house.repo, "branch", "--show-current") == "main\n"
    assert git(house.repo, "status", "--porcelain", "-b") == "## main...origin/main\n?? .claude/\n"
    assert git(house.repo, "rev-parse", "HEAD") == git(remote, "rev-parse", "main")
    assert (house.repo / ".claude" / "settings.local.json").read_text() == "mine\n"
    git(house.repo, "checkout", "-q", "work")
    before = state(house)
    done = run_outside(command, house)
    assert done.returncode == whole_git.REFUSED and SETTINGS in done.stderr
    assert state(house) == before


@pytest.mark.parametrize("line", ["git pull", "git pull --rebase", "git pull --no-rebase -q"])
@pytest.mark.parametrize("name", [SETTINGS, ".claude/of theirs.json", PLAIN])
async def test_a_pull(line: str, name: str, house: House, remote: Path, tmp_path: Path) -> None:
    if line != "git pull":  # which asks then whether to merge or to rebase
        commit(house, "mine.txt", "mine\n")
    brings(house, name)
    before = state(house)
    async with gate(tmp_path) as one:
        done = run_outside(await remembered(one, line, house), house)
    assert git(house.repo, "rev-parse", "origin/main") == git(remote, "rev-parse", "main")
    if name == PLAIN:
        assert done.returncode == 0 and (house.repo / PLAIN).is_file(), done.stderr
        assert (house.repo / "mine.txt").is_file() or line == "git pull"
        assert git(house.repo, "merge-base", "HEAD", "origin/main") == git(remote, "rev-parse", "main")
    else:
        assert done.returncode == whole_git.REFUSED and name in done.stderr, done.stderr
        assert state(house)[:6] == before[:6]


def test_a_program_of_the_project_called_git_is_not_taken_for_it(house: House, programs: dict[str, str]) -> None:
    branches(house, PLAIN)
    first = event(house, "./git checkout side; ls")
    assert shlex.split(caged_first(first, programs) or "") == ["sbox", "bash", "-c", "./git checkout side; ls"]


SPOILS: list[Callable[[House], object]] = [
    lambda house: write(house, "side", "x\n"),
    lambda house: write(house, "HEAD", "x\n"),
    lambda house: git(house.repo, "tag", "side", "main"),
]


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("line", ["git switch side", "git checkout side --", "git rebase main side"])
def test_a_file_or_tag_of_a_branchs_name_hides_nothing(
    spoil: Callable[[House], object], line: str, house: House, programs: dict[str, str]
) -> None:
    branches(house, SETTINGS)
    spoil(house)
    before = state(house)
    done = run(house, programs, line)
    assert (done.returncode, state(house)) == (125, before), done.stderr


OPTIONS = """
git restore --source=--output=../other.py a.txt
git reset --hard -- --output=../other.py
git merge -- --output=../other.py
git rebase -- --output=../other.py
git rebase --onto=--output=../other.py main
git stash pop -- --output=../other.py
git cherry-pick -- --output=../other.py
""".strip().split("\n")


@pytest.mark.parametrize("line", OPTIONS)
def test_a_commits_name_is_no_option_of_a_question(line: str, house: House, programs: dict[str, str]) -> None:
    (house.projects / "other.py").write_text("precious\n")
    branches(house, SETTINGS)
    argv = tuple(shlex.split(line))
    words = caged_words([argv], str(house.repo), programs)
    assert words is None or not any("--output" in word for word in words[argv]), words
