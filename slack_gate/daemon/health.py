"""Whether the daemon can ask, hear and record: what `slack-gate status` prints."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from slack_gate.core.cord import Cord
from slack_gate.errors import GateError

LOOK_S = 2.0  # for the database; whoever asks for the status waits 5 s
LEAST_FREE = 4 * 1024 * 1024  # bytes; below, the next log lines may not fit


class Hearing(Protocol):
    """The link, as far as health goes."""

    @property
    def lines(self) -> int: ...

    @property
    def others(self) -> int: ...

    @property
    def ends(self) -> Mapping[str, int]: ...

    def down(self) -> str | None: ...

    def fix(self) -> str: ...

    def notes(self) -> list[str]: ...

    def silent_s(self) -> float: ...


class Cords(Protocol):
    """The store, as far as it knows where people are asked."""

    async def cord(self) -> Cord: ...


class Count(Protocol):
    @property
    def waiting_count(self) -> int: ...


class Counts(Protocol):
    """What is on file at a glance (`store/glance.py`)."""

    async def look(self, approver: str, since: float, most_waiting: int, most_ended: int) -> Count: ...


def health(link: Hearing | None, refused: str | None, files: Mapping[str, Path | None]) -> dict[str, Any]:
    """One JSON object without secrets. `refused` says why the newest card was not taken.

    `files` are what must be writable, by what they are called; None: not a file of ours. `link` None: Slack is off.
    """
    cannot_write = [f"the {name} {why}" for name, path in files.items() if path and (why := _unwritable(path))]
    down = link.down() if link else None
    fault = f"{down}. {link.fix()}" if link and down else refused
    notes = [note for note in link.notes() if link and note not in (fault or "")] if link else []
    return {
        "healthy": not (fault or cannot_write),
        "lastInboundSeconds": round(link.silent_s(), 1) if link else None,
        "fault": ". ".join([*([fault.rstrip(". ")] if fault else []), *cannot_write]) or None,
        "lines": link.lines if link else None,
        "lineEnds": dict(link.ends) if link else None,
        "otherConnections": link.others if link else None,
        "notes": notes,
        "writable": not cannot_write,
    }


async def asked_now(store: Cords, glance: Counts) -> dict[str, Any]:
    """How many requests wait for a person, and where people are asked; nothing while the database cannot say."""
    try:
        async with asyncio.timeout(LOOK_S):
            cord, seen = await store.cord(), await glance.look("", math.inf, 0, 0)  # of what ended, nothing
    except (GateError, TimeoutError):
        return {}
    paused = {"by": cord.paused_by, "at": cord.paused_at} if cord.paused else None
    return {"pending": seen.waiting_count, "cord": cord.place.value, "paused": paused}


def _unwritable(path: Path) -> str | None:
    """Why nothing could be added to the file now, None when something could."""
    try:
        disk = os.statvfs(path)
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be written ({error.strerror})"
    # Not opened: closing the database's file would drop the locks that SQLite holds on it for this process.
    if path.is_dir() or not os.access(path, os.W_OK) or disk.f_flag & os.ST_RDONLY:
        return f"{path} cannot be written"
    free = disk.f_bavail * disk.f_frsize
    return None if free >= LEAST_FREE else f"{path} has {free // 1024} KiB of disk left"
