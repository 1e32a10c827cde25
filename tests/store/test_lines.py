"""Lines of one log, made by several daemons, read twice and in any order: the file holds each once, in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from slack_gate.core.ports import Entry
from slack_gate.store.log import Line, verify
from slack_gate.store.store import Store

NOW = 1_000_000.0


async def written(store: Store, *groups: list[int]) -> None:
    """As after a commit of transactions that made or read these lines, of those that are on file."""
    made = {number: text for number, text in enumerate(await store.log_lines("", 0), 1)}

    def write() -> None:
        done = []
        for numbers in groups:
            tx, _ = store._looking(None)  # type: ignore[arg-type]
            tx.wants_all = False
            tx.lines = [Line(number, made[number], "") for number in numbers]
            done.append((tx, None))
        store._write_out(done)
        assert [tx.fault for tx, _ in done] == [None] * len(done)

    await asyncio.get_running_loop().run_in_executor(store.database._thread, write)


@pytest.mark.parametrize(
    "groups",
    [
        [[3], [2, 3], [5]],  # one that was written stands where another one's would
        [[3, 5], [4], [6]],
        [[3], [5], [3, 4, 5], [6]],
        [[5], [3, 4]],
        [[4], [6]],
        [[1, 2], [2]],
        [],
    ],
)
async def test_lines_in_any_order(tmp_path: Path, groups: list[list[int]]) -> None:
    url = f"sqlite:///{tmp_path / 'gate.db'}"
    async with (
        Store(url, tmp_path / "other.jsonl", lambda: NOW) as other,
        Store(url, tmp_path / "gate-log.jsonl", lambda: NOW, repair=False) as store,
    ):
        for number in range(2):
            await other.answered(Entry("green", "green", reason=str(number)))
        await written(store, [1, 2])
        for number in range(2, 6):
            await other.answered(Entry("green", "green", reason=str(number)))
        await written(store, *groups)
        lines = store.journal.path.read_bytes().splitlines(keepends=True)
        assert len(lines) >= max((number for group in groups for number in group), default=2)
        assert verify(lines, None) == "it goes on after line 0, the last one that the database knows"  # and is a chain
        await store.recorded()
        lines = store.journal.path.read_bytes().splitlines(keepends=True)
        assert verify(lines, await store.log_head()) is None
