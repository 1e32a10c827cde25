"""What alembic runs: the migrations on the connection, and in the transaction, that `store/schema.py` hands over."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
