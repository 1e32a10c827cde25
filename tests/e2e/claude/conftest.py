"""The client's executable and a HOME for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .client import NpmUnreachable, fetch_client, throw_away_home


@pytest.fixture(scope="session")
def claude() -> Path:
    """The real Claude Code client; skips only where npm cannot be reached."""
    try:
        return fetch_client()
    except NpmUnreachable as error:
        pytest.skip(str(error))


@pytest.fixture
def home() -> Iterator[Path]:
    with throw_away_home() as directory:
        yield directory
