"""What other daemons have committed, as PostgreSQL tells it: a hint to look, never the truth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from slack_gate.errors import StoreError
from slack_gate.store.engines import connect_arguments
from slack_gate.store.transaction import CHANNEL

if TYPE_CHECKING:
    from sqlalchemy import URL


async def notices(url: URL, home: str) -> AsyncIterator[str]:
    """Ids of requests that daemons other than `home` changed, on a connection of its own; an empty one first, when it
    hears.

    Raises StoreError when the connection is lost: what was told meanwhile was missed.
    """
    import psycopg  # only a fleet needs the driver

    named = url.translate_connect_args(username="user", database="dbname")
    arguments: dict[str, Any] = {**named, **url.query, **connect_arguments(url)}
    try:
        async with await psycopg.AsyncConnection.connect(**arguments, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            yield ""
            async for notice in connection.notifies():
                request, _, by = notice.payload.partition(" ")
                if by != home:
                    yield request
    except psycopg.Error:  # its words could hold the address' password
        raise StoreError("What other daemons do is not heard: the connection to the database was lost.") from None
