"""What other daemons have committed, as PostgreSQL tells it: a hint to look, never the truth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from slack_gate.errors import StoreError
from slack_gate.store.database import Database
from slack_gate.store.engines import connect_arguments

CHANNEL = "slack_gate"  # the database itself tells it of every request and rule filed or changed, at the commit


async def notices(database: Database) -> AsyncIterator[str]:
    """Ids of requests that other daemons changed, on a connection of its own. An empty one says to look at everything:
    first, when it hears, and whenever a rule was saved.

    Raises StoreError when the connection is lost: what was told meanwhile was missed.
    """
    import psycopg  # only a fleet needs the driver

    url = database.url
    named = url.translate_connect_args(username="user", database="dbname")
    arguments: dict[str, Any] = {**named, **url.query, **connect_arguments(url)}
    try:
        async with await psycopg.AsyncConnection.connect(**arguments, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            yield ""
            something = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(fd := connection.fileno(), something.set)  # psycopg's own way makes a new wait each time
            try:
                while await something.wait():
                    something.clear()
                    connection.pgconn.consume_input()
                    while (notice := connection.pgconn.notifies()) is not None:
                        if notice.be_pid != database.backend:
                            yield notice.extra.decode()
            finally:
                loop.remove_reader(fd)
    except psycopg.Error:  # its words could hold the address' password
        raise StoreError("What other daemons do is not heard: the connection to the database was lost.") from None
