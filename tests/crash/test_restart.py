"""A daemon that was killed comes back to a disk that is full, read-only or torn, or to a database that is locked: it
starts whole or says in one sentence why not, and what was asked before is never allowed by it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from slack_gate.cli.status import _ask, _read
from slack_gate.config import Settings
from slack_gate.core.request import State
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.server import LocalSlack
from slack_gate.local_slack.workspace import Message
from slack_gate.store.log import verify
from slack_gate.store.store import Store
from tests.crash.test_disk import fill, small
from tests.daemon.house import settings_for
from tests.daemon.serving import Wire, serving, spawn

__all__ = ["small"]

GREEN = "sbox true"


def event(call: str, command: str) -> dict[str, object]:
    return {
        "session_id": "s1",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": call,
        "cwd": "/srv",
    }


@asynccontextmanager
async def killed(place: Path) -> AsyncIterator[tuple[Settings, Person, Message]]:
    """After a kill: one call was answered, one is asked about."""
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, place)
        async with serving(settings) as daemon:
            assert await asked(settings, "done", GREEN) == "allow"
            waits = await Wire.open(settings.socket_path)
            await waits.ask(event("waits", "git push origin main"))
            card = await ana.wait_for_message(lambda m: m.has_button("Approve"))
            await on_file(settings)
            daemon.kill()
            await daemon.wait()
            waits.close()
        yield settings, ana, card


async def on_file(settings: Settings) -> None:
    """Returns once the daemon knows which message its card is."""
    async with asyncio.timeout(100):
        while True:
            with closing(sqlite3.connect(f"file:{settings.home / 'gate.db'}?mode=ro", uri=True)) as database:
                if database.execute("SELECT 1 FROM cards WHERE message != ''").fetchone():
                    return
            await asyncio.sleep(0.05)


async def asked(settings: Settings, call: str, command: str) -> str:
    """`allow`, or why not."""
    wire = await Wire.open(settings.socket_path)
    await wire.ask(event(call, command))
    code, answer = await wire.answer(timeout=60)
    assert code == 0
    found = json.loads(answer)["hookSpecificOutput"]
    return "allow" if found["permissionDecision"] == "allow" else str(found["permissionDecisionReason"])


async def refused(settings: Settings) -> str:
    """What it says when it does not start."""
    daemon = await spawn(settings, "serve")
    async with asyncio.timeout(100):
        _, error = await daemon.communicate()
    said = error.decode()
    assert daemon.returncode not in (0, None) and "Traceback" not in said, said
    return said


async def comes_back(settings: Settings, ana: Person, card: Message) -> None:
    """All is as it was: the hook finds its request and its card again, and the log is whole."""
    async with serving(settings):
        again = asyncio.create_task(asked(settings, "waits", "git push origin main"))
        while not (await ana.click(card, "Approve")).acknowledged:  # noqa: ASYNC110 - people press again
            await asyncio.sleep(0.05)
        assert await again == "allow"
        assert await asked(settings, "next", GREEN) == "allow"
        await card.wait_for_update(lambda version: not version.buttons)
        assert [message for message in ana.messages if message.metadata] == [card]
    async with Store(settings.database, settings.log_path, lambda: 0.0, repair=False) as store:
        lines = settings.log_path.read_bytes().splitlines(keepends=True)
        assert verify(lines, await store.log_head()) is None
        [row] = await store.requests(10)
    assert (row.key, row.state) == ("waits", State.APPROVED)
    logged = [json.loads(line) for line in lines]
    assert [line["decision"] for line in logged if line["request"] == row.id] == ["pending", "approved"]


async def test_killed_and_the_disk_is_full(small: Path) -> None:
    async with killed(small) as (settings, ana, card):
        ballast = fill(small)
        async with serving(settings):  # what it puts away itself may make room for a little
            told = _read(await asyncio.to_thread(_ask, settings.socket_path))
            assert told["healthy"] is False and "KiB of disk left" in str(told["fault"])
            async with asyncio.timeout(100):
                while (why := await asked(settings, "full", GREEN)) == "allow":
                    pass
            assert "nothing runs" in why
            ballast.unlink()
            assert await asked(settings, "free", GREEN) == "allow"
        await comes_back(settings, ana, card)


async def test_killed_and_the_directory_is_read_only(small: Path) -> None:
    async with killed(small) as (settings, ana, card):
        subprocess.run(["mount", "--bind", str(small), str(small)], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(small)], check=True)
        try:
            said = await refused(settings)
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)
        assert "ead-only" in said or "readonly" in said, said
        await comes_back(settings, ana, card)


async def test_killed_and_the_database_is_locked(tmp_path: Path) -> None:
    async with killed(tmp_path) as (settings, ana, card):
        other = sqlite3.connect(settings.home / "gate.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        said = await refused(settings)
        assert "locked" in said, said
        other.execute("ROLLBACK")
        other.close()
        await comes_back(settings, ana, card)


@pytest.mark.parametrize("kept", [0, 1, 40, -1])
async def test_killed_and_the_last_line_is_torn(tmp_path: Path, kept: int) -> None:
    """So many bytes of it are there; -1: all but the end of the line."""
    async with killed(tmp_path) as (settings, ana, card):
        whole = settings.log_path.read_bytes()
        last = whole.splitlines(keepends=True)[-1]
        settings.log_path.write_bytes(whole[: -len(last)] + last[:kept])
        await comes_back(settings, ana, card)
        assert settings.log_path.read_bytes().startswith(whole)


async def test_killed_and_the_last_line_is_not_ours(tmp_path: Path) -> None:
    async with killed(tmp_path) as (settings, ana, card):
        whole = settings.log_path.read_bytes()
        settings.log_path.write_bytes(whole + b'{"seq": 3, "decision": "appro')
        said = await refused(settings)
        assert "last line" in said, said
        settings.log_path.write_bytes(whole)
        await comes_back(settings, ana, card)
