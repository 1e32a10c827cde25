"""Requests, cards, rules, the log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "requests",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("digest", "state", "agent", "session", "key", "nonce")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("tool", "tool_input")),
        sa.Column("command", sa.Text),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("cwd", "host", "home", "why")),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("decided_at", sa.Double),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("decided_by", "decided_name", "reason")),
        sa.UniqueConstraint("agent", "session", "key", name="one_request_a_call"),
        sa.CheckConstraint(
            "state IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'undeliverable', 'running', "
            "'finished', 'lost')",
            name="known_state",
        ),
        sa.CheckConstraint("(state = 'pending') = (decided_at IS NULL)", name="ended_has_a_time"),
        sa.CheckConstraint("state NOT IN ('approved', 'denied') OR decided_by <> ''", name="decided_by_someone"),
        sa.CheckConstraint("expires_at > created_at", name="expires_later"),
    )
    pending = sa.text("state = 'pending'")
    op.create_index(
        "pending_requests", "requests", ["home", "expires_at"], sqlite_where=pending, postgresql_where=pending
    )
    op.create_table(
        "cards",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("request", sa.Text, sa.ForeignKey("requests.id"), nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("surface", "approver", "channel", "message")),
        sa.Column("drawn", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.UniqueConstraint("request", "surface", "approver", name="one_card_an_approver"),
    )
    op.create_index("cards_by_request", "cards", ["request"])
    op.create_table(
        "rules",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("tool", "words", "shown")),
        sa.Column("created_at", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("created_by", "request")),
        sa.Column("revoked_at", sa.Double),
    )
    active = sa.text("revoked_at IS NULL")
    op.create_index(
        "one_active_rule_a_key",
        "rules",
        ["tool", "words"],
        unique=True,
        sqlite_where=active,
        postgresql_where=active,
    )
    op.create_table(
        "log",
        sa.Column("seq", NUMBER, primary_key=True),
        sa.Column("line", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    about = op.create_table(
        "about",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.bulk_insert(about, [{"name": "schema", "value": "1"}])


def downgrade() -> None:
    for table in ("about", "log", "rules", "cards", "requests"):
        op.drop_table(table)
