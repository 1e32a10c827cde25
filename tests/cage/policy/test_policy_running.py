"""Git that is to run outside, in a repository that a running cage may have made: it could change it meanwhile."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slack_gate.daemon import cages
from tests.daemon.desk import Desk, desk

from .conftest import House, git, make_repository


@contextmanager
def cage_since(house: House, began: float) -> Iterator[None]:
    """What a cage shows of itself for as long as it runs; tests/cage/sbox/test_hold.py has it from real ones."""
    file = house.home / ".local/state/sbox/running"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as held:
        os.utime(file, (began, began))
        fcntl.flock(held, fcntl.LOCK_SH)
        yield


async def asked(one: Desk, command: str, cwd: Path) -> str:
    """Why it is asked; empty where it is not."""
    found = one.gate._judge.outcome(one.event(command, str(cwd), rewritable=True), (), time.time())
    return getattr(found, "why", "")


@pytest.mark.parametrize(
    "command", ["git branch -D other", "git status && git branch -d other", "git -C d branch -m x"]
)
async def test_git_outside_is_asked_where_a_running_cage_may_have_made_the_repository(
    house: House, tmp_path: Path, command: str
) -> None:
    made = (house.repo / ".git/description").lstat().st_ctime
    async with desk(tmp_path, sbox="/usr/bin/sbox", cages=True) as one:
        assert await asked(one, command, house.repo) == ""
        with cage_since(house, made - 1):
            assert await asked(one, command, house.repo) == cages.DOUBT
        with cage_since(house, made + 1):
            assert await asked(one, command, house.repo) == ""
        (house.repo / ".git/description").unlink()
        assert await asked(one, command, house.repo) == ""
        with cage_since(house, made + 1):
            assert await asked(one, command, house.repo) == cages.DOUBT


async def test_a_linked_worktree_made_in_a_running_cage_is_asked_about(house: House, tmp_path: Path) -> None:
    made = (house.repo / ".git/description").lstat().st_ctime
    git(house.repo, "worktree", "add", "-q", "../linked", "-b", "linked")
    linked = house.repo.parent / "linked"
    file = house.repo / ".git/worktrees/linked/commondir"
    while file.lstat().st_ctime < made + 0.02:  # the grain of these times is some milliseconds
        file.touch()
    async with desk(tmp_path, sbox="/usr/bin/sbox", cages=True) as one:
        with cage_since(house, made + 0.01):
            assert await asked(one, "git branch -D other", house.repo) == ""
            assert await asked(one, "git branch -D other", linked) == cages.DOUBT


async def test_git_where_no_cage_writes_is_not_asked_about(house: House, tmp_path: Path) -> None:
    make_repository(house.outside / "app")
    event_of = {"cwd": str(house.outside / "app"), "rewritable": True}
    async with desk(tmp_path, sbox="/usr/bin/sbox", cages=True) as one:
        with cage_since(house, 1):
            assert not cages.may_have_made(one.event("git branch -D other", **event_of))
            assert not cages.may_have_made(one.event("ls; git --version", **event_of))
            assert cages.may_have_made(one.event("git branch -D other", str(house.repo)))
            assert cages.may_have_made(one.event("git frobnicate", str(house.repo)))
