"""Local git by the gate's own route, with a real sbox and real git: nothing planted gets out, daily work goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from slack_gate.core.answer import Answer
from slack_gate.core.event import ToolEvent
from slack_gate.daemon.programs import PACKAGED, cage_starts
from tests.daemon.desk import SECOND, Desk, desk

from .conftest import SYSTEM_PATH, House, entries, git
from .test_policy_planted import PLANTS, other_branch

SBOX = str(PACKAGED)
CAGE = shutil.which("bwrap") is not None and not subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"]).returncode
pytestmark = pytest.mark.skipif(not CAGE, reason="bubblewrap cannot make namespaces here")

DAILY = [
    "git status",
    "git status -s -uall",
    "git diff HEAD",
    "git log -p -3",
    "git log --oneline --all --graph",
    "git show HEAD",
    "git add -A",
    "git add a.txt && git commit -m 'a  \"b\"' && git log --format='%an %s' -1",
    "git commit -a -m x",
    "git commit --amend --no-edit",
    "git checkout other",
    "git checkout -b new",
    "git checkout -- .",
    "git stash",
    "git branch new",
    "git tag v1",
    "git merge other -m x",
    "git -C d status",
]
EVERY_KIND = [
    "git status",
    "git diff HEAD",
    "git log -p -2",
    "git add -A",
    "git add -A && git commit -m x && git status",
    "git checkout other",
]
# The repository itself is odd, or its configuration is not wholly read: asked, as without a cage.
ASKED = entries(
    """.git link; .git file; commondir; include.path; includeIf; carriage returns; key behind a header
    value over two lines"""
)


@asynccontextmanager
async def gate(place: Path) -> AsyncIterator[Desk]:
    async with desk(place, sbox=SBOX, cages=True) as one:
        yield one


async def answer(one: Desk, command: str, cwd: Path, **changes: object) -> Answer | None:
    """What the gate says at once; None when it asks."""
    event: ToolEvent = one.event(command, str(cwd), **{"rewritable": True, **changes})
    said = await one.gate.submit(event, SECOND)
    return said if isinstance(said, Answer) else None


def run(command: str, cwd: Path, house: House) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(house.home), "PATH": SYSTEM_PATH, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["/bin/bash", "-c", command],
        **{"cwd": cwd, "env": env, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60},
    )


@pytest.fixture(autouse=True)
def person(house: House) -> None:
    other_branch(house.repo)
    (house.home / ".gitconfig").write_text("[user]\n\tname = Dev\n\temail = dev@example.com\n[alias]\n\tst = status\n")


@pytest.mark.parametrize("name", PLANTS)
async def test_nothing_planted_gets_out(name: str, house: House, tmp_path: Path) -> None:
    plant = PLANTS[name]
    plant.plant(house)
    (house.home / "mark").unlink(missing_ok=True)
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    caged = 0
    async with gate(tmp_path) as one:
        for command in dict.fromkeys([plant.trigger, *EVERY_KIND]):
            for where in {".", plant.where}:
                said = await answer(one, command, house.repo / where)
                if said is None:
                    continue
                assert said.command is not None
                caged += said.command.startswith(SBOX)
                run(said.command, house.repo / where, house)
                assert not (house.home / "mark").exists(), said.command
                shutil.rmtree(house.projects)
                shutil.copytree(kept, house.projects, symlinks=True)
    assert caged or name in ASKED


@pytest.mark.parametrize("command", DAILY)
async def test_daily_work_is_the_same_in_the_cage(command: str, house: House, tmp_path: Path) -> None:
    (house.repo / "a.txt").write_text(
        "changed\n"
    ) if "checkout other" not in command and "merge" not in command else None
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    outside = run(command, house.repo, house)
    left = state(house)
    shutil.rmtree(house.projects)
    kept.rename(house.projects)
    async with gate(tmp_path) as one:
        said = await answer(one, command, house.repo)
        assert one.log()[-1]["command"] == command
        assert (one.log()[-1]["decision"], one.log()[-1]["by"]) == ("green", "policy")
    assert said is not None
    assert said.command == command.replace("git ", f"{SBOX} /usr/bin/git ")
    caged = run(said.command, house.repo, house)
    assert outside.returncode == 0, outside.stderr
    assert (caged.returncode, told(caged)) == (outside.returncode, told(outside))
    assert state(house) == left


def told(done: subprocess.CompletedProcess[str]) -> str:
    """Output without what the time of a commit makes different."""
    return re.sub(r"\b[0-9a-f]{7,40}\b|Date: .*", "", done.stdout + done.stderr)


def state(house: House) -> list[str]:
    asked = ("status --porcelain -b", "log --all --format=%an%ae%s", "diff HEAD", "branch -a", "tag", "stash list")
    return [git(house.repo, *words.split()) for words in asked]


async def test_an_exit_code_is_the_same(house: House, tmp_path: Path) -> None:
    async with gate(tmp_path) as one:
        for command in ("git show nothing", "git diff --exit-code HEAD~0 other", "git commit -m x"):
            said = await answer(one, command, house.repo)
            assert said is not None and said.command is not None and said.command.startswith(SBOX)
            outside, caged = run(command, house.repo, house), run(said.command, house.repo, house)
            assert outside.returncode != 0
            assert (caged.returncode, caged.stdout, caged.stderr) == (
                outside.returncode,
                outside.stdout,
                outside.stderr,
            )


async def test_what_the_cage_is_a_loss_to_runs_as_before(house: House, tmp_path: Path) -> None:
    async with gate(tmp_path) as one:
        for command in ("git branch -m main trunk", "git checkout -b x origin/main", "git push origin main"):
            said = await answer(one, command, house.repo)
            assert said is not None
            assert said.command == command.replace("git", "/usr/bin/git", 1)
        (house.home / ".gitconfig").write_text("[commit]\n\tgpgsign = true\n")
        assert await answer(one, "git commit -m x", house.repo) is None


async def test_planted_and_a_loss_in_the_cage_is_asked(house: House, tmp_path: Path) -> None:
    git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
    async with gate(tmp_path) as one:
        for command in ("git branch -m main trunk", "git checkout -b x origin/main", "git push origin main"):
            assert await answer(one, command, house.repo) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"rewritable": False},
        {"tool_input": {"command": "git status", "sudo": True}},
        {"tool_input": {"command": "git status", "dangerouslyDisableSandbox": True}},
        {"tool": "Shell"},
    ],
)
async def test_odd_calls_are_asked(changes: dict[str, object], house: House, tmp_path: Path) -> None:
    git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
    async with gate(tmp_path) as one:
        assert await answer(one, "git status", house.repo, **changes) is None
        assert await answer(one, "'git' status", house.repo) is None
        assert await answer(one, "git status; git log", house.repo) is None


async def test_where_no_cage_starts_git_goes_on_uncaged(house: House, tmp_path: Path) -> None:
    async with desk(tmp_path, sbox=SBOX) as one:
        said = await answer(one, "git status", house.repo)
        assert said is not None and said.command == "/usr/bin/git status"
    async with desk(tmp_path, sbox=SBOX, cages=True) as one:
        one.gate._programs = {"git": "/usr/bin/git"}
        said = await answer(one, "git status", house.repo)
        assert said is not None and said.command == "/usr/bin/git status"
        git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
        assert await answer(one, "git status", house.repo) is None


async def test_whether_a_cage_starts(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await cage_starts(SBOX)
    assert not await cage_starts(None)
    assert not await cage_starts(str(tmp_path / "missing"))
    assert not await cage_starts("/bin/false")
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr("slack_gate.daemon.programs.START_S", 0.05)
    assert not await cage_starts(str(slow))
    assert os.path.isdir(house.projects)
