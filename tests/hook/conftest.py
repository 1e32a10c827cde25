from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .doubles import Agent, Daemon, Reply


@pytest.fixture
def folder() -> Iterator[Path]:
    """The socket's directory: mode 700, and a path short enough for a socket's address."""
    with tempfile.TemporaryDirectory(prefix="sg-") as path:
        yield Path(path)


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Daemon]]:
    """Start a daemon with these replies, at the usual place unless `path` says otherwise."""
    daemons: list[Daemon] = []

    def start(*replies: Reply, path: Path = folder / "gate.sock") -> Daemon:
        daemons.append(Daemon(path, *replies))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


@pytest.fixture
def agent(folder: Path) -> Agent:
    return Agent(folder / "gate.sock")


@pytest.fixture(params=["process", "here"])
def each(folder: Path, request: pytest.FixtureRequest) -> Agent:
    """An agent that runs the client as a process, then one that calls it."""
    return Agent(folder / "gate.sock", how=request.param)
