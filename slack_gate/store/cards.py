"""What each approver has been shown, and what is still to be shown: the outbox's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, or_, select, update

from slack_gate.core.request import Request, State
from slack_gate.store.database import Database
from slack_gate.store.store import as_request
from slack_gate.store.tables import cards, requests

GIVEN_UP = 1e18  # a `due_at` that never comes


@dataclass(frozen=True, slots=True)
class Card:
    """One approver's copy of a request; `message` is empty until the post was accepted, `drawn` is the state shown."""

    id: int
    approver: str
    channel: str
    message: str
    attempts: int
    request: Request


class Cards:
    """Rows of one surface (`slack`)."""

    def __init__(self, database: Database, surface: str) -> None:
        self._database = database
        self._surface = surface

    async def due(self, now: float, limit: int = 100) -> list[Card]:
        """Cards whose picture is older than their row, oldest request first."""
        query = (
            select(requests, *(column.label(f"card_{column.name}") for column in cards.columns))
            .join(requests, cards.c.request == requests.c.id)
            .where(cards.c.surface == self._surface, cards.c.due_at <= now, self._stale())
            .order_by(requests.c.created_at)
            .limit(limit)
        )
        rows = await self._database.run(lambda connection: connection.execute(query).all())
        return [_as_card(row) for row in rows]

    async def next_due(self) -> float | None:
        """When the next retry is due (seconds since the epoch), None when nothing is left to draw."""
        query = (
            select(func.min(cards.c.due_at))
            .join(requests, cards.c.request == requests.c.id)
            .where(cards.c.surface == self._surface, cards.c.due_at < GIVEN_UP, self._stale())
        )
        return await self._database.run(lambda connection: connection.execute(query).scalar())

    async def posted(self, card: int, channel: str, message: str) -> None:
        """The surface accepted the post; it shows the request as pending."""
        await self._set(card, channel=channel, message=message, drawn=State.PENDING.value, error="", attempts=0)

    async def drawn(self, card: int, state: State) -> None:
        await self._set(card, drawn=state.value, error="", attempts=0)

    async def failed(self, card: int, error: str, due_at: float) -> None:
        """The surface refused or was away; `due_at` is GIVEN_UP when trying again cannot help."""
        await self._set(card, error=error, attempts=cards.c.attempts + 1, due_at=due_at)

    async def hopeless(self, request: str) -> str | None:
        """The error of the last card given up, if no card of the request arrived or can still arrive; else None."""
        query = select(cards.c.error, cards.c.message, cards.c.due_at).where(cards.c.request == request)
        rows = await self._database.run(lambda connection: connection.execute(query).all())
        if not rows or any(row.message or row.due_at < GIVEN_UP for row in rows):
            return None
        return str(rows[-1].error)

    async def _set(self, card: int, **values: object) -> None:
        query = update(cards).where(cards.c.id == card).values(**values)
        await self._database.run(lambda connection: connection.execute(query))

    @staticmethod
    def _stale() -> ColumnElement[bool]:
        unposted = and_(cards.c.message == "", requests.c.state == State.PENDING)
        outdated = and_(cards.c.message != "", cards.c.drawn != requests.c.state)
        return or_(unposted, outdated)


def _as_card(row: Row[*tuple[Any, ...]]) -> Card:
    return Card(
        id=row.card_id,
        approver=row.card_approver,
        channel=row.card_channel,
        message=row.card_message,
        attempts=row.card_attempts,
        request=as_request(row),
    )
