"""Repositories with odd names are guarded and cleared up after like any other."""

from __future__ import annotations

import signal

import pytest

from tests.cage.sbox.test_hold import finish, running
from tests.cage.sbox.world import World

NAMES = ["my 2nd one", "[a]*", "-n", " lead", "a$(id)'\"", "new\nline"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_planted_is_removed_whatever_the_repository_is_called(world: World, name: str) -> None:
    repository = world.repository(f"./{name}")
    commondir = repository / ".git/commondir"
    commondir.write_text(".\n")
    world.give(commondir)
    link = "ln -s x .git/logs/link"
    with running(world, repository, f"{link}; echo ../evil >.git/commondir; echo wrote") as second:
        commondir.unlink()  # as the end of an older cage does
        said = finish(second)[1]
    assert not commondir.exists() and not (repository / ".git/logs/link").is_symlink()
    assert f"{repository}/.git/logs/link became a link".replace("\n", "?") in said
    assert not list(world.projects.rglob(".claude"))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_when_sbox_is_killed(world: World, name: str) -> None:
    repository = world.repository(f"./{name}")
    make = "ln -s x .git/logs/link; echo up; sleep 60"
    with world.start([str(world.sbox), "bash", "-c", make], cwd=repository) as cage:
        assert cage.stdout and cage.stdout.readline() == "up\n"
        cage.send_signal(signal.SIGKILL)
        cage.communicate()  # ends when the process that clears up does
    assert not (repository / ".git/logs/link").is_symlink() and not list(world.projects.rglob(".claude"))
