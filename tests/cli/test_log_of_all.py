"""`slack-gate log --all`: the logs of a fleet as one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from slack_gate.core.ports import Entry
from slack_gate.store.log import verify
from slack_gate.store.store import Store
from tests.cli.conftest import Home
from tests.store.conftest import postgresql
from tests.store.server import Server

__all__ = ["postgresql"]


async def _written(url: str, place: Path, moments: list[float]) -> None:
    place.mkdir(exist_ok=True)
    for moment in moments:
        async with Store(url, place / "gate-log.jsonl", lambda at=moment: at) as store:
            await store.answered(Entry("green", "policy", command=f"at {moment:.0f}"))


def _write(url: str, place: Path, moments: list[float]) -> None:
    asyncio.run(_written(url, place, moments))


def test_all_logs_in_the_order_of_time(
    postgresql: Server, tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.new_database()
    monkeypatch.setenv("SLACK_GATE_DATABASE_URL", url)
    _write(url, tmp_path / "a", [1_000_000_001.0, 1_000_000_004.0])
    _write(url, tmp_path / "b", [1_000_000_002.0, 1_000_000_003.0])
    ended = home.run("log", "--all", "--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0
    assert [line["command"] for line in lines] == [f"at {1_000_000_000 + second}" for second in (1, 2, 3, 4)]
    names = {line["daemon"] for line in lines}
    assert names == {(tmp_path / place / "gate-log.name").read_text() for place in "ab"}
    for name in names:
        kept = [{key: line[key] for key in line if key != "daemon"} for line in lines if line["daemon"] == name]
        head = (kept[-1]["seq"], kept[-1]["hash"])
        assert verify([json.dumps(line).encode() + b"\n" for line in kept], head) is None
    shown = home.run("log", "--all").out
    assert [line.split()[0] in names for line in shown.splitlines()] == [True] * 4
