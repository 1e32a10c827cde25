"""What the person is told, and what then happens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from slack_gate.core.answer import Ruling
from slack_gate.errors import GateError, LogError
from slack_gate.store.log import Line
from tests.daemon.desk import desk


async def test_told_that_nothing_was_approved_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log refuses once (a full disk) while the click is recorded: the person reads "Nothing was approved: …"."""
    async with desk(tmp_path) as d:
        request = await d.asked()
        append = d.store.journal.append
        faults = [LogError("The log cannot be written: No space left on device.") for _ in range(2)]  # tried twice

        def once(lines: Sequence[Line]) -> int:
            if faults:
                raise faults.pop()
            return append(lines)

        monkeypatch.setattr(d.store.journal, "append", once)
        with pytest.raises(GateError):
            await d.click(request)
        assert (await d.answer()).ruling is Ruling.DENY
