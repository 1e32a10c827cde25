"""Who draws a card: a message is drawn by one daemon at a time, whichever of its cards is to be drawn."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("cards", sa.Column("drawer", sa.Text, nullable=False, server_default=""))
    where = sa.text("strays <> ''")
    op.create_index("cards_with_strays", "cards", ["strays"], sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    op.drop_index("cards_with_strays", "cards")
    op.drop_column("cards", "drawer")
