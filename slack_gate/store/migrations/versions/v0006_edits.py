"""A changed text decided by another daemon than the one that was asked, and word of every new rule to all of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "edits",
        sa.Column("request", sa.Text, sa.ForeignKey("requests.id"), primary_key=True),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("made_at", sa.Double, nullable=False),
    )
    if _on_postgresql():
        op.execute(
            "CREATE FUNCTION told_of_rule() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_notify('slack_gate', ''); RETURN NULL; END $$"
        )
        op.execute("CREATE TRIGGER told AFTER INSERT OR UPDATE OF until ON rules EXECUTE FUNCTION told_of_rule()")


def downgrade() -> None:
    if _on_postgresql():
        op.execute("DROP TRIGGER told ON rules")
        op.execute("DROP FUNCTION told_of_rule()")
    op.drop_table("edits")


def _on_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"
