"""Both kinds of database, for tests that must hold on either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.place import Place
from tests.store.server import Server, binaries, server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A running PostgreSQL server; skipped where its binaries are missing."""
    if binaries() is None:
        pytest.skip("PostgreSQL's server is not installed (Debian package `postgresql`)")
    with server() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'gate.db'}"
    found: Server = request.getfixturevalue("postgresql")
    return found.new_database()


@pytest.fixture
def place(url: str, tmp_path: Path) -> Place:
    """A home on each kind of database in turn."""
    return Place(tmp_path, url)
