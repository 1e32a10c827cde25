"""Random repositories and moves: what git does in the cage by the gate's way is what it does outside, or nothing."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from cage import whole_git
from slack_gate.core.caged import caged_words

from .conftest import CAGE, House, entries, git
from .test_policy_whole import person as person  # fixtures
from .test_policy_whole import programs as programs
from .test_policy_whole import write

pytestmark = pytest.mark.skipif(not CAGE, reason="bubblewrap cannot make namespaces here")
NAMES = entries(".claude/settings.json; .claude/x; a; b; d/c; .vscode/s; .envrc; d/.claude/z")
BRANCHES = ["main", "s", "t"]
LINES = entries(
    """checkout s; checkout main; checkout -f t; checkout -m s; checkout -b n HEAD~1; checkout -- .; checkout s -- .
    checkout s -- d a; checkout --no-overlay s .; switch t; switch --discard-changes s; switch --detach s; restore .
    restore -s s .; restore -S -W .; restore -s HEAD~1 d; reset --hard; reset --hard s; reset --keep HEAD~1
    reset --merge s; stash; stash -u; stash -k; stash -S; stash push -- d; stash pop; stash apply; stash pop --index
    merge s -m x; merge t -m x; merge s t -m x; merge --ff-only s; merge --squash t; merge --abort; merge -m x
    merge --autostash s -m x; rebase s; rebase main t; rebase -r s; rebase; rebase --onto s HEAD~1
    rebase --keep-base -f s; rebase --abort; rebase --autostash t; cherry-pick t; cherry-pick s~1 s
    cherry-pick main..s; cherry-pick -n t; cherry-pick --abort; revert --no-edit HEAD; revert --no-edit HEAD~1
    revert --abort"""
)


def edit(house: House, chance: random.Random) -> None:
    path = house.repo / chance.choice(NAMES)
    if path.exists() and chance.random() < 0.2:
        path.unlink()
    else:
        write(house, str(path), "".join(f"{chance.choice('xyz')}{number}\n" for number in range(3)))


def commit(house: House, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 2)):
        edit(house, chance)
    git(house.repo, "add", "-A")
    git(house.repo, "commit", "-q", "--allow-empty", "-m", str(chance.random()))


def make(house: House, chance: random.Random) -> None:
    shutil.rmtree(house.repo)
    house.repo.mkdir()
    git(house.repo, "init", "-q", "-b", "main")
    commit(house, chance)
    commit(house, chance)
    for branch in BRANCHES[1:]:
        git(house.repo, "branch", branch)
    for _ in range(chance.randint(1, 5)):
        git(house.repo, "checkout", "-qf", chance.choice(BRANCHES))
        if chance.random() < 0.25:
            git(house.repo, "merge", "-q", "-m", "m", chance.choice(BRANCHES))
            git(house.repo, "merge", "--abort")
        commit(house, chance)
    if chance.random() < 0.4:
        edit(house, chance)
        git(house.repo, "stash", *chance.choice([[], ["-u"]]))
    git(house.repo, "checkout", "-qf", chance.choice(BRANCHES))
    git(house.repo, "branch", "-q", "-u", chance.choice(BRANCHES[:2]))
    git(house.repo, "clean", "-fdq")
    for _ in range(chance.choice([0, 0, 1, 2])):
        edit(house, chance)
        if chance.random() < 0.4:
            git(house.repo, "add", "-A")
    if chance.random() < 0.15:
        git(house.repo, *chance.choice(entries("merge -m m s; rebase s; cherry-pick t~1 t")).split())


def state(house: House) -> list[object]:
    files = {
        str(path): path.read_text() for path in house.repo.rglob("*") if path.is_file() and ".git" not in path.parts
    }
    asked = "status --porcelain; ls-files -s; rev-parse --abbrev-ref HEAD; diff HEAD; stash list --format=%gd"
    told = [git(house.repo, *words.split()) for words in entries(asked)]
    return [files, *told, sorted(git(house.repo, "log", "--all", "--format=%s").splitlines())]


def test_whole_or_not_at_all(house: House, programs: dict[str, str], long_run: bool) -> None:
    chance = random.Random(7)
    refused = done = 0
    kept = house.home / "kept"
    for _ in range(1000 if long_run else 40):
        make(house, chance)
        argv = ("git", *chance.choice(LINES).split())
        words = caged_words([argv], str(house.repo), programs)
        if words is None:  # no branch of that name
            continue
        before = state(house)
        shutil.copytree(house.repo, kept, symlinks=True)
        alone = subprocess.run(argv, cwd=house.repo, capture_output=True)
        wanted = state(house)
        shutil.rmtree(house.repo)
        kept.rename(house.repo)
        git(house.repo, "status")  # it is a copy: what is written down of its files is not true of it
        caged = subprocess.run([*words[argv], *argv[1:]], cwd=house.repo, capture_output=True)
        if caged.returncode == whole_git.REFUSED:
            refused += 1
            assert state(house) == before, argv
        else:
            done += 1
            assert (caged.returncode, state(house)) == (alone.returncode, wanted), (argv, caged.stderr)
    assert refused > 5 and done > 5
