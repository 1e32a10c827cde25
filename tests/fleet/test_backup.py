"""Backup and restore of a shared database as docs/operations.md tells them, with a daemon that runs meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from slack_gate.local_slack.server import LocalSlack
from tests.crash.test_backup import goes_on
from tests.crash.test_restart import GREEN, asked, event, refused
from tests.daemon.house import settings_for
from tests.daemon.serving import Wire, serving
from tests.store.server import PASSWORD, Server, binaries


def client(program: str, server: Server, url: str, *arguments: str) -> None:
    """A program of PostgreSQL's own, on the database at `url`."""
    words = (str((binaries() or Path()) / program), "-h", server.host, "-p", str(server.port), "-U", "gate")
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    subprocess.run([*words, "-d", url.rpartition("/")[2], *arguments], env=environment, check=True)


async def test_a_shared_database_and_a_log_are_restored_together(tmp_path: Path, postgresql: Server) -> None:
    dump, log = tmp_path / "gate.dump", tmp_path / "backup.jsonl"
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path, database_url=postgresql.new_database())
        async with serving(settings):
            assert await asked(settings, "before", GREEN) == "allow"
            waits = await Wire.open(settings.socket_path)
            await waits.ask(event("waits", "git push origin main"))
            card = await ana.wait_for_message(lambda m: m.has_button("Approve"))
            client("pg_dump", postgresql, settings.database_url, "-Fc", "-f", str(dump))
            shutil.copy(settings.log_path, log)
            await ana.click(card, "Approve")
            assert await waits.decision() == "allow"
            assert await asked(settings, "after", GREEN) == "allow"

        settings = settings_for(slack, tmp_path, database_url=postgresql.new_database())
        client("pg_restore", postgresql, settings.database_url, str(dump))
        assert "which is not in the database" in await refused(settings)  # the newer log is still there

        settings.log_path.rename(tmp_path / "aside.jsonl")
        shutil.copy(log, settings.log_path)
        await goes_on(settings)
