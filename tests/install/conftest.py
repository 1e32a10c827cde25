"""A HOME where a program may be installed: /tmp, and so pytest's `tmp_path`, is in the agent's reach."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="slack-gate-install-", dir="/var/tmp")).resolve()
    yield directory
    shutil.rmtree(directory)
