"""Time: ends what is over. The gate compares deadlines at every click too; this only makes the end visible."""

from __future__ import annotations

import asyncio

import structlog

from slack_gate.core.ports import Store
from slack_gate.daemon.gate import Gate
from slack_gate.errors import StoreError

SWEEP_S = 0.5  # how late an end may be noticed, also after the machine was suspended

log = structlog.get_logger()


async def sweep(gate: Gate, store: Store) -> None:
    """Runs until cancelled. A database that is away is tried again: until it is back nothing is allowed anyway."""
    while True:
        try:
            await gate.expire()
            await store.tidied()
        except StoreError as error:
            log.error("ended requests cannot be put away", error=str(error))
        await asyncio.sleep(SWEEP_S)
