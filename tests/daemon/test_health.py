"""What `status` says of the link, the newest card and the files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slack_gate.daemon import health as module
from slack_gate.daemon.health import health


class Hearing:
    """A link as it might be."""

    lines = 2
    others = 0
    ends: Mapping[str, int] = {"link_disabled": 3}

    def __init__(self, down: str | None = None, fix: str = "", notes: tuple[str, ...] = ()) -> None:
        self._down, self._fix, self._notes = down, fix, list(notes)

    def down(self) -> str | None:
        return self._down

    def fix(self) -> str:
        return self._fix

    def notes(self) -> list[str]:
        return self._notes

    def silent_s(self) -> float:
        return 1.26


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "gate-log.jsonl"
    path.write_text("{}\n")
    return path


def test_all_is_well(log: Path) -> None:
    assert health(Hearing(), None, {"log": log, "database": None}) == {
        "healthy": True,
        "lastInboundSeconds": 1.3,
        "fault": None,
        "lines": 2,
        "lineEnds": {"link_disabled": 3},
        "otherConnections": 0,
        "notes": [],
        "writable": True,
    }
    assert log.read_text() == "{}\n"


def test_without_slack(log: Path) -> None:
    found = health(None, None, {"log": log})
    assert (found["healthy"], found["lastInboundSeconds"], found["lines"]) == (True, None, None)


@pytest.mark.parametrize(
    ("link", "refused", "fault", "notes"),
    [
        (Hearing("it is down", "Mend it."), None, "it is down. Mend it", []),
        (Hearing("it is down"), "the card was refused", "it is down", []),
        (Hearing(), "the card was refused.", "the card was refused", []),
        (Hearing(notes=("one line is away",)), None, None, ["one line is away"]),
        (Hearing("link_disabled", notes=("link_disabled",)), None, "link_disabled", []),  # said once
    ],
)
def test_the_link_and_the_newest_card(
    link: Any, refused: str | None, fault: str | None, notes: list[str], log: Path
) -> None:
    found = health(link, refused, {"log": log})
    assert (found["fault"], found["notes"], found["healthy"]) == (fault, notes, fault is None)


def test_a_file_that_is_gone_or_a_directory(log: Path, tmp_path: Path) -> None:
    log.unlink()
    found = health(Hearing("it is down"), None, {"log": log, "database": tmp_path})
    assert found["healthy"] is False and found["writable"] is False
    assert found["fault"] == (f"it is down. the log {log} is missing. the database {tmp_path} cannot be written")


def test_a_full_disk(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = os.statvfs(log)
    monkeypatch.setattr(module, "LEAST_FREE", free.f_bavail * free.f_frsize * 2)
    assert "KiB of disk left" in health(Hearing(), None, {"log": log})["fault"]
