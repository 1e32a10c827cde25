"""Cards are found by their message, which several may share; what was said in their threads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

POSTED = sa.text("message <> ''")
NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_index("cards_by_message", "cards", ["message"], sqlite_where=POSTED, postgresql_where=POSTED)
    op.create_table(
        "notes",
        sa.Column("card", NUMBER, sa.ForeignKey("cards.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("said_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("card", "name"),
    )


def downgrade() -> None:
    op.drop_table("notes")
    op.drop_index("cards_by_message", "cards")
