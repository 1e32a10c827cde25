"""All that is on file. One method a transaction, named for what happened; each returns only when its log lines are on
disk. Conditional UPDATEs decide."""

from __future__ import annotations

from slack_gate.core.cord import Cord, Hand, Pull
from slack_gate.store.cord import cord_of, pull_cord
from slack_gate.store.decisions import Decisions
from slack_gate.store.ends import Ends
from slack_gate.store.questions import Questions
from slack_gate.store.rules import Rules
from slack_gate.store.runs import Runs


class Store(Questions, Decisions, Ends, Runs, Rules):
    """What the daemon and the command line work on; opened as `Ledger` says."""

    async def cord(self) -> Cord:
        return await self.read(cord_of)

    async def pulled(self, pull: Pull, hand: Hand, now: float) -> tuple[Cord, bool]:
        """The cord after a person pulled it, and whether that changed it."""
        return await self.transact(lambda tx: pull_cord(tx, pull, hand), now)
