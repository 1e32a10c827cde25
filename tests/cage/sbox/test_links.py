"""Links that the cage leaves: in a git directory, where git outside empties what they lead to, and in its cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cage.sbox.world import World

# `git gc`, which git outside starts by itself, empties each of these that is no worktree.
PLACES = ["worktrees/x", "modules/old/worktrees/x", "worktrees/linked/worktrees/x"]


@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_a_link_leads_to_is_removed(world: World, place: str) -> None:
    repository = world.repository("shared")
    prepare = "git worktree add -q ../linked; git init -q --bare .git/modules/old"
    assert world.bare("bash", "-ec", prepare, cwd=repository).returncode == 0
    (kept := world.home / "kept").mkdir()
    (kept / "file").write_text("x")
    world.give(kept)
    path = f".git/{place}"
    make = f"mkdir -p {Path(path).parent}; ln -s {kept} {path}"
    assert world.caged("bash", "-ec", make, cwd=repository).returncode == 0
    assert not (repository / path).is_symlink()
    world.bare("git", "gc", "-q", cwd=repository)
    assert (kept / "file").exists()
    if place == "worktrees/x":
        world.bare("bash", "-ec", f"{make}; git gc -q", cwd=repository)
        assert not (kept / "file").exists(), "this link proves nothing"
    else:
        (kept / "file").unlink()
    kept.rmdir()


@pytest.mark.parametrize("leads", ["/nowhere", "../projects", "../plain"])
def test_a_link_in_the_cache_stops_and_covers_nothing(world: World, leads: str) -> None:
    """The cage made it before the host had anything of that name."""
    name = f"later-{Path(leads).name}"
    assert world.caged("bash", "-c", f"ln -s {leads} ~/.cache/{name}").returncode == 0
    (real := world.home / ".cache" / name).mkdir()
    (real / "of the host").write_text("x")
    world.give(real)
    done = world.caged("bash", "-c", f"readlink ~/.cache/{name}; touch new; ls ~/projects ~/plain")
    assert done.returncode == 0 and done.stdout.splitlines()[0] == leads, done
    assert (world.projects / "new").exists() and "of the host" not in done.stdout
