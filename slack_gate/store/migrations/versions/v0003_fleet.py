"""Several daemons on one database: heartbeats, a chain of log lines for each.

And the law of the tables in the database itself: a state moves only as the table of transitions says, what runs was
approved, the log only grows; PostgreSQL tells the other daemons of every change, with its commit.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

MOVES = (
    "(OLD.state = 'pending' AND NEW.state IN ('approved', 'denied', 'expired', 'cancelled', 'undeliverable')) "
    "OR (OLD.state = 'approved' AND NEW.state = 'running') "
    "OR (OLD.state = 'running' AND NEW.state IN ('finished', 'lost'))"
)
RUNS = "EXISTS (SELECT 1 FROM requests WHERE id = NEW.request AND state = 'running')"
# Name, event, table, the condition that must hold, what is said otherwise.
LAWS = (
    ("begins_pending", "INSERT", "requests", "NEW.state = 'pending'", "a request begins as pending"),
    ("known_move", "UPDATE OF state", "requests", MOVES, "no request moves from that state to this one"),
    ("runs_approved", "INSERT", "runs", RUNS, "only a request that was moved to running may run"),
    ("log_unchanged", "UPDATE", "log", "1 = 0", "the log only grows"),
    ("log_kept", "DELETE", "log", "1 = 0", "the log only grows"),
)


def upgrade() -> None:
    op.add_column("requests", sa.Column("chain", sa.Text, nullable=False, server_default=""))
    op.add_column("log", sa.Column("chain", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "heartbeats",
        sa.Column("home", sa.Text, primary_key=True),
        sa.Column("instance", sa.Text, nullable=False),
        sa.Column("beat_at", sa.Double, nullable=False),
        sa.Column("hears", sa.Integer, nullable=False),
    )
    for law in LAWS:
        enact(*law)
    if _on_postgresql():
        op.execute(
            "CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_notify('slack_gate', NEW.id); RETURN NULL; END $$"
        )
        op.execute("CREATE TRIGGER told AFTER INSERT OR UPDATE ON requests FOR EACH ROW EXECUTE FUNCTION told()")
        op.drop_constraint("log_pkey", "log")
        op.create_primary_key("log_pkey", "log", ["chain", "seq"])


def downgrade() -> None:
    if _on_postgresql():
        if op.get_bind().execute(sa.text("SELECT count(DISTINCT chain) FROM log")).scalar_one() > 1:
            raise ValueError("the logs of several daemons do not fit into the older tables")
        op.drop_constraint("log_pkey", "log")
        op.create_primary_key("log_pkey", "log", ["seq"])
        op.execute("DROP TRIGGER told ON requests")
        op.execute("DROP FUNCTION told()")
    for name, _, table, *_ in LAWS:
        if _on_postgresql():
            op.execute(f"DROP TRIGGER {name} ON {table}")
            op.execute(f"DROP FUNCTION {name}()")
        else:
            op.execute(f"DROP TRIGGER {name}")
    op.drop_table("heartbeats")
    op.drop_column("log", "chain")
    op.drop_column("requests", "chain")


def _on_postgresql() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def enact(name: str, event: str, table: str, holds: str, otherwise: str) -> None:
    if _on_postgresql():
        op.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {holds} THEN RETURN NEW; END IF;"
            f" RAISE EXCEPTION '{otherwise}' USING ERRCODE = 'check_violation'; END $$"
        )
        op.execute(f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()")
    else:
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} WHEN NOT ({holds}) "
            f"BEGIN SELECT RAISE(ABORT, '{otherwise}'); END"
        )
