"""What is on file at a glance, for one approver: a few rows, and how many there are in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from slack_gate.core.overview import Waiting
from slack_gate.core.request import BY_PAGE, BY_SLACK, BY_TERMINAL, Request, State
from slack_gate.store.database import Database
from slack_gate.store.rows import as_request
from slack_gate.store.tables import cards, requests

_PENDING = requests.c.state == State.PENDING
# What people were asked and answered, or did not.
_ASKED = or_(requests.c.via.in_((BY_SLACK, BY_PAGE, BY_TERMINAL)), requests.c.state == State.EXPIRED)
_ended = select(requests).where(_ASKED).order_by(requests.c.decided_at.desc())


@dataclass(frozen=True, slots=True)
class Seen:
    """Some of what waits and of what ended, and how many there are of each."""

    waiting: Sequence[Waiting]
    waiting_count: int
    ended: Sequence[Request]
    ended_count: int


class Glance:
    """Reads only. `surface` is whose cards they are (`slack`)."""

    def __init__(self, database: Database, surface: str) -> None:
        self._database = database
        self._surface = surface

    async def look(self, approver: str, since: float, most_waiting: int, most_ended: int) -> Seen:
        """All of one moment: nothing is seen both waiting and ended, or neither."""

        def read(connection: Connection) -> Seen:
            waiting = connection.execute(self._waiting(approver).limit(most_waiting)).all()
            ended = connection.execute(_ended.where(requests.c.decided_at >= since).limit(most_ended)).all()
            return Seen(
                [
                    Waiting(as_request(row), row.card is not None, row.channel or "", row.message or "")
                    for row in waiting
                ],
                _count(connection, _PENDING),
                [as_request(row) for row in ended],
                _count(connection, _ASKED & (requests.c.decided_at >= since)),
            )

        return await self._database.run(read)

    def _waiting(self, approver: str) -> Select[Any]:
        """Those that end soonest first, with the approver's card where there is one."""
        own = and_(cards.c.request == requests.c.id, cards.c.surface == self._surface, cards.c.approver == approver)
        shown = select(requests, cards.c.id.label("card"), cards.c.channel, cards.c.message)
        return shown.join(cards, own, isouter=True).where(_PENDING).order_by(requests.c.expires_at, requests.c.id)

    async def card_at(self, channel: str, message: str) -> Request | None:
        """The one request that this message shows, also as a second copy; None for any other message."""
        here = (cards.c.surface == self._surface) & (cards.c.channel == channel)
        shown = or_(cards.c.message == message, cards.c.strays.contains(message, autoescape=True))
        query = select(requests, cards.c.message, cards.c.strays).join(cards, cards.c.request == requests.c.id)
        rows = await self._database.run(lambda connection: connection.execute(query.where(here, shown)).all())
        found = [as_request(row) for row in rows if message in (row.message, *row.strays.split()) and message]
        return found[0] if len(found) == 1 else None


def _count(connection: Connection, condition: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).select_from(requests).where(condition)).scalar() or 0
