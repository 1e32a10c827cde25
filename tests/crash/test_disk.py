"""A disk that is full, read-only or robbed, a database that is locked: nothing is allowed, it is said, and when it is
over all goes on without a restart."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slack_gate.cli.status import _ask, _read
from slack_gate.store import engines
from slack_gate.store.log import verify
from tests.daemon.house import House, house

FILL = b"\0" * 4096


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Takes what is left of the disk, to the last block."""
    ballast = place / "ballast"
    fd = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(fd, FILL)
    except OSError:
        return ballast
    finally:
        os.close(fd)


async def status(h: House) -> dict[str, Any]:
    return _read(await asyncio.to_thread(_ask, h.settings.socket_path))


async def whole(h: House) -> None:
    head = await h.running.store.log_head()
    assert verify(h.settings.log_path.read_bytes().splitlines(keepends=True), head) is None


async def refused(h: House) -> None:
    """Neither what is green nor what would be asked."""
    for command in ("sbox true", "git push origin main"):
        ended = await h.bash(command)
        assert ended.decision == "deny"
        assert "nothing runs" in ended.reason


async def test_a_full_disk(small: Path) -> None:
    async with house(small) as h:
        assert (await h.bash("sbox true")).decision == "allow"
        hook, card = await h.asked("git push origin waits")
        await h.running.store.tidied()
        ballast = fill(small)
        async with asyncio.timeout(100):
            while (await h.bash("sbox true")).decision == "allow":  # what is begun still has room
                pass
        await refused(h)
        told = await status(h)
        assert told["healthy"] is False
        await h.press(card, "Approve")
        ballast.unlink()
        assert (await h.bash("sbox true")).decision == "allow"
        if hook.returncode is None:
            await h.press(card, "Approve")
        assert (await h.ended(hook)).decision in ("allow", "deny")
        async with asyncio.timeout(100):
            while (await status(h))["healthy"] is False:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await h.running.store.recorded()
        await whole(h)


async def test_a_read_only_disk(small: Path) -> None:
    async with house(small) as h:
        hook, card = await h.asked("git push origin waits")
        subprocess.run(["mount", "--bind", str(small), str(small)], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(small)], check=True)
        try:
            await refused(h)
            await h.press(card, "Approve")
            assert (await h.ended(hook)).decision == "deny"
            assert (await status(h))["healthy"] is False
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)
        assert (await h.bash("sbox true")).decision == "allow"
        await whole(h)


async def test_a_log_that_was_deleted_is_written_again_from_the_database(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        for _ in range(3):
            assert (await h.bash("sbox true")).decision == "allow"
        h.settings.log_path.unlink()
        assert "missing" in str((await status(h))["fault"])
        assert (await h.bash("sbox true")).decision == "allow"
        await whole(h)
        assert len(h.log()) == 4


async def test_a_log_whose_end_is_not_ours(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        assert (await h.bash("sbox true")).decision == "allow"
        kept = h.settings.log_path.read_bytes()
        h.settings.log_path.write_bytes(kept + b'{"seq": 2, "decision": "appro')
        await refused(h)
        assert "last line of the log file is damaged" in str((await status(h))["fault"])
        h.settings.log_path.write_bytes(kept)
        assert (await h.bash("sbox true")).decision == "allow"
        assert (await status(h))["healthy"] is True
        await whole(h)


async def test_a_directory_in_place_of_the_log(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        assert (await h.bash("sbox true")).decision == "allow"
        h.settings.log_path.rename(tmp_path / "aside")
        h.settings.log_path.mkdir()
        await refused(h)
        h.settings.log_path.rmdir()
        (tmp_path / "aside").rename(h.settings.log_path)
        assert (await h.bash("sbox true")).decision == "allow"
        await whole(h)


async def test_a_locked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BUSY_S", 0.3)
    async with house(tmp_path) as h:
        assert (await h.bash("sbox true")).decision == "allow"
        other = sqlite3.connect(h.settings.home / "gate.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        ended = await h.bash("sbox true")
        assert ended.decision == "deny"
        assert "locked" in ended.reason
        other.execute("ROLLBACK")
        other.close()
        assert (await h.bash("sbox true")).decision == "allow"
        await whole(h)
