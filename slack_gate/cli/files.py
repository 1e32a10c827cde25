"""What the subcommands that read the gate's files share: the store opened from the settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from slack_gate.config import load
from slack_gate.errors import NotFound
from slack_gate.store.store import Store

T = TypeVar("T")


def with_store(use: Callable[[Store], Awaitable[T]]) -> T:
    """Runs `use` on the store of the settings in force. Raises NotFound when there is none yet.

    Looking changes nothing: log lines that a crash left out are written by whoever logs the next one.
    """
    settings = load()
    if not settings.database_url and not (settings.home / "gate.db").exists():
        raise NotFound(f"There is no database in {settings.home} yet.", "`slack-gate serve` makes it.")

    async def run() -> T:
        async with Store(settings.database, settings.log_path, time.time, repair=False) as store:
            return await use(store)

    return asyncio.run(run())
