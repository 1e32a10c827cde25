"""What is on file at a glance, for one approver: a few rows, and how many there are in all."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, and_, func, or_, select

from slack_gate.core.overview import Waiting
from slack_gate.core.request import BY_PAGE, BY_SLACK, BY_TERMINAL, Request, State
from slack_gate.store.database import Database
from slack_gate.store.store import as_request
from slack_gate.store.tables import cards, requests

_ASKED = or_(requests.c.via.in_((BY_SLACK, BY_PAGE, BY_TERMINAL)), requests.c.state == State.EXPIRED)


class Glance:
    """Reads only. `surface` is whose cards they are (`slack`)."""

    def __init__(self, database: Database, surface: str) -> None:
        self._database = database
        self._surface = surface

    async def waiting(self, approver: str, limit: int) -> tuple[list[Waiting], int]:
        """Pending requests, those that end soonest first, with the approver's card where there is one."""
        pending = requests.c.state == State.PENDING
        card = and_(cards.c.request == requests.c.id, cards.c.surface == self._surface, cards.c.approver == approver)
        found = (
            select(requests, cards.c.id.label("card"), cards.c.channel, cards.c.message)
            .join(cards, card, isouter=True)
            .where(pending)
            .order_by(requests.c.expires_at, requests.c.id)
            .limit(limit)
        )
        count = select(func.count()).where(pending)

        def read(connection: Connection) -> tuple[list[Row[Any]], int]:
            return list(connection.execute(found).all()), connection.execute(count).scalar() or 0

        rows, number = await self._database.run(read)
        waiting = [Waiting(as_request(row), row.card is not None, row.channel or "", row.message or "") for row in rows]
        return waiting, number

    async def ended(self, since: float, limit: int) -> tuple[list[Request], int]:
        """What people were asked and answered, or did not, since then; the newest first."""
        ended = and_(requests.c.decided_at >= since, _ASKED)
        found = select(requests).where(ended).order_by(requests.c.decided_at.desc()).limit(limit)
        count = select(func.count()).where(ended)

        def read(connection: Connection) -> tuple[list[Row[Any]], int]:
            return list(connection.execute(found).all()), connection.execute(count).scalar() or 0

        rows, number = await self._database.run(read)
        return [as_request(row) for row in rows], number

    async def card_at(self, channel: str, message: str) -> Request | None:
        """The request that this message shows, also as a second copy; None for any other message."""
        here = (cards.c.surface == self._surface) & (cards.c.channel == channel)
        shown = or_(cards.c.message == message, cards.c.strays.contains(message, autoescape=True))
        query = select(requests, cards.c.message, cards.c.strays).join(cards, cards.c.request == requests.c.id)
        rows = await self._database.run(lambda connection: connection.execute(query.where(here, shown)).all())
        return next(
            (as_request(row) for row in rows if message in (row.message, *row.strays.split()) and message), None
        )
