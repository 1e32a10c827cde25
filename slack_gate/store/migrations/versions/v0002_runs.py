"""Commands that the gate runs itself; how a request was decided; messages that may show a card too.

Programs before the first migration made some of this by themselves: what is there already is left.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    found = sa.inspect(op.get_bind())
    for table, column in (("requests", "via"), ("cards", "strays")):
        if column not in {known["name"] for known in found.get_columns(table)}:
            op.add_column(table, sa.Column(column, sa.Text, nullable=False, server_default=""))
    if not found.has_table("runs"):
        op.create_table(
            "runs",
            sa.Column("id", sa.Text, primary_key=True),
            sa.Column("request", sa.Text, sa.ForeignKey("requests.id"), nullable=False, unique=True),
            *(sa.Column(name, sa.Text, nullable=False) for name in ("home", "executor")),
            sa.Column("started_at", sa.Double, nullable=False),
            sa.Column("ended_at", sa.Double),
            sa.Column("exit_code", sa.Integer),
            sa.Column("timed_out", sa.Integer, nullable=False),
            *(sa.Column(name, sa.Text) for name in ("command_id", "code", "error")),
            *(sa.Column(name, sa.Text, nullable=False) for name in ("stdout", "stderr")),
        )
        running = sa.text("ended_at IS NULL")
        op.create_index("open_runs", "runs", ["home"], sqlite_where=running, postgresql_where=running)
    op.create_index("cards_by_drawn", "cards", ["drawn", "due_at"], if_not_exists=True)


def downgrade() -> None:
    op.drop_index("cards_by_drawn", "cards")
    op.drop_table("runs")
    op.drop_column("cards", "strays")
    op.drop_column("requests", "via")
