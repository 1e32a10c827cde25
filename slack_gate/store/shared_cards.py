"""Cards that several daemons could draw: one whose link is down leaves them to the others."""

from __future__ import annotations

from collections.abc import Callable, Collection

from slack_gate.store.cards import Card, Cards
from slack_gate.store.database import Database


class SharedCards(Cards):
    """`left_to_others`: whether this daemon could not draw now, and another one can."""

    def __init__(self, database: Database, surface: str, home: str, left_to_others: Callable[[], bool]) -> None:
        super().__init__(database, surface, home)
        self._left_to_others = left_to_others

    async def due(
        self, now: float, limit: int = 100, blocked: Collection[str] = (), redraws: bool = True
    ) -> list[Card]:
        return [] if self._left_to_others() else await super().due(now, limit, blocked, redraws)
