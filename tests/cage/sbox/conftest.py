"""Both builds of sbox, as root and as an ordinary user, each with a throw-away home full of secrets."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cage.sbox.world import World

CAGE = Path(__file__).parents[3] / "cage"
ORDINARY = 65534  # owns nothing and has no entry of its own that a test could harm


@pytest.fixture(scope="session")
def tools() -> Iterator[Path]:
    """A directory that every user can read, with the shell script and, where there is a compiler, the program."""
    with tempfile.TemporaryDirectory(prefix="sbox-tools-", dir="/var/tmp") as made:
        directory = Path(made)
        directory.chmod(0o755)
        shutil.copy(CAGE / "sbox", directory / "script")
        for name in ("sbox_proxy.py", "whole_git.py"):
            shutil.copy(CAGE / name, directory)
        if shutil.which("cc"):
            sources = sorted((CAGE / "sbox_src").glob("*.c"))
            flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11", "-static"]
            subprocess.run(["cc", *flags, "-o", directory / "program", *sources], check=True)
        yield directory


BUILDS = ("script", "program")
USERS = ("ordinary", "caller")
# One of the four combinations adds little to the other three; without a compiler it takes the place of two.
COMBINATIONS = [(build, user) for build in BUILDS for user in USERS]
if shutil.which("cc") and not os.environ.get("SLACK_GATE_LONG"):
    COMBINATIONS.remove(("script", "ordinary"))


@pytest.fixture(scope="session", params=COMBINATIONS, ids="-".join)
def made_world(request: pytest.FixtureRequest, tools: Path) -> Iterator[World]:
    """`ordinary` is a user without rights; `caller` is whoever runs the tests, root in CI."""
    build, user = request.param
    sbox = tools / build
    if not sbox.exists():
        pytest.skip("there is no C compiler (cc) to build the program with")
    if subprocess.run(["/usr/bin/bwrap", "--ro-bind", "/", "/", "true"], check=False).returncode:
        pytest.skip("bubblewrap cannot make namespaces here")
    uid = ORDINARY if user == "ordinary" else os.geteuid()
    if uid != os.geteuid() and os.geteuid() != 0:
        pytest.skip("only root can run as another user")
    with World.make(sbox, uid) as made:
        yield made


@pytest.fixture
def world(made_world: World) -> Iterator[World]:
    yield made_world
    for left in made_world.projects.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
