"""Time: ends what is over. The gate compares deadlines at every click too; this only makes the end visible.

And trouble: what could not be filed, told or put away at its time is, as soon as it can be.
"""

from __future__ import annotations

import asyncio

import structlog

from slack_gate.core.ports import Store
from slack_gate.daemon.gate import Gate
from slack_gate.daemon.runs import Runs
from slack_gate.errors import StoreError

SWEEP_S = 0.5  # how late an end may be noticed, also after the machine was suspended
LATE = "lines of the log were late"

log = structlog.get_logger()


async def sweep(gate: Gate, runs: Runs, store: Store) -> None:
    """Runs until cancelled. A database that is away is tried again: until it is back nothing is allowed anyway."""
    trouble = ""
    while True:
        try:
            await gate.expire()
            await runs.file()
            if trouble:  # an end may be on file that nobody was told of
                await gate.look_again()
            trouble = LATE if await store.tidied() else ""
        except StoreError as error:
            if str(error) != trouble:
                log.error("what has ended cannot be put away", error=str(error))
            trouble = str(error)
        await asyncio.sleep(SWEEP_S)
