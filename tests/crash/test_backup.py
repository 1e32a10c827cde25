"""Backup and restore as docs/operations.md tells them, with a daemon that runs meanwhile."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from slack_gate.config import Settings
from slack_gate.core.request import State
from slack_gate.local_slack.server import LocalSlack
from slack_gate.store.log import verify
from slack_gate.store.store import Store
from tests.crash.test_restart import GREEN, asked, event, on_file, refused
from tests.daemon.house import settings_for
from tests.daemon.serving import Wire, serving


def back_up(settings: Settings, place: Path) -> None:
    """State first, then the log."""
    place.mkdir()
    with (
        closing(sqlite3.connect(settings.home / "gate.db")) as running,
        closing(sqlite3.connect(place / "gate.db")) as copy,
    ):
        running.backup(copy)
    shutil.copy(settings.log_path, place / "gate-log.jsonl")


def restore(settings: Settings, place: Path, *names: str) -> None:
    for name in names:
        shutil.copy(place / name, settings.home / name)
        (settings.home / name).chmod(0o600)
    for name in ("gate.db-wal", "gate.db-shm"):
        (settings.home / name).unlink(missing_ok=True)


async def goes_on(settings: Settings) -> None:
    """From what was restored: it answers, the log is whole, and what waited then is not allowed by itself."""
    async with serving(settings):
        assert await asked(settings, "again", GREEN) == "allow"
    async with Store(settings.database, settings.log_path, lambda: 0.0, repair=False) as store:
        lines = settings.log_path.read_bytes().splitlines(keepends=True)
        assert verify(lines, await store.log_head()) is None
        [row] = await store.requests(10)
    assert row.state in (State.PENDING, State.CANCELLED)  # nobody comes back for it


async def test_state_and_log_are_restored_together(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        async with serving(settings):
            assert await asked(settings, "before", GREEN) == "allow"
            waits = await Wire.open(settings.socket_path)
            await waits.ask(event("waits", "git push origin main"))
            card = await ana.wait_for_message(lambda m: m.has_button("Approve"))
            await on_file(settings)
            back_up(settings, tmp_path / "backup")
            await ana.click(card, "Approve")
            assert await waits.decision() == "allow"
            assert await asked(settings, "after", GREEN) == "allow"
        newer = settings.log_path.read_bytes()

        restore(settings, tmp_path / "backup", "gate.db")
        assert "which is not in the database" in await refused(settings)  # the newer log is still there

        settings.log_path.rename(tmp_path / "aside.jsonl")
        restore(settings, tmp_path / "backup", "gate-log.jsonl")
        await goes_on(settings)
        kept = newer.splitlines(keepends=True)
        assert verify(kept, None) == "it goes on after line 0, the last one that the database knows"  # a whole chain
