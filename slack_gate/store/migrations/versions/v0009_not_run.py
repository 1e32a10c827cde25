"""A state of its own for what was approved and did not run: until now it stood as approved, or as finished.

A program that does not know it can read no list that holds one: `about.schema` becomes 3.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from slack_gate.store.migrations.versions.v0003_fleet import enact

revision = "0009"
down_revision = "0008"

FORMER, STATES = "'finished', 'lost')", "'finished', 'lost', 'not-run')"  # how the list of states ends
MOVES = (
    "(OLD.state = 'pending' AND NEW.state IN ('approved', 'denied', 'expired', 'cancelled', 'undeliverable')) "
    "OR (OLD.state = 'approved' AND NEW.state IN ('running'{0})) "
    "OR (OLD.state = 'running' AND NEW.state IN ('finished', 'lost'{0}))"
)


def upgrade() -> None:
    _drop_the_law()
    _rewrite_the_check(FORMER, STATES)
    op.execute(  # told to be none, when it could not be recorded
        "UPDATE requests SET state = 'not-run', lifted_at = NULL, reason = 'The approval could not be recorded.' "
        "WHERE state = 'approved' AND lifted_at IS NOT NULL"
    )
    _enact_the_law(", 'not-run'")
    op.execute("UPDATE about SET value = '3' WHERE name = 'schema'")


def downgrade() -> None:
    """What did not run is never approved again."""
    op.execute("UPDATE about SET value = '2' WHERE name = 'schema'")
    _drop_the_law()
    op.execute("UPDATE requests SET state = 'finished' WHERE state = 'not-run'")
    _rewrite_the_check(STATES, FORMER)
    _enact_the_law("")


def _rewrite_the_check(former: str, states: str) -> None:
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        every = f"'pending', 'approved', 'denied', 'expired', 'cancelled', 'undeliverable', 'running', {states}"
        op.drop_constraint("known_state", "requests")
        op.execute(f"ALTER TABLE requests ADD CONSTRAINT known_state CHECK (state IN ({every})")
        return
    # SQLite cannot alter a CHECK; other tables refer to this one, so it is not made anew: its text is changed, as
    # https://sqlite.org/lang_altertable.html#otheralter has it.
    op.execute("PRAGMA writable_schema = ON")
    change = sa.text("UPDATE sqlite_master SET sql = replace(sql, :former, :states) WHERE name = 'requests'")
    connection.execute(change, {"former": former, "states": states})
    version = connection.execute(sa.text("PRAGMA schema_version")).scalar_one()
    op.execute(f"PRAGMA schema_version = {version + 1}")
    op.execute("PRAGMA writable_schema = RESET")


def _enact_the_law(more: str) -> None:
    said = "no request moves from that state to this one"
    enact("known_move", "UPDATE OF state", "requests", MOVES.format(more), said)


def _drop_the_law() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP TRIGGER known_move ON requests")
        op.execute("DROP FUNCTION known_move()")
    else:
        op.execute("DROP TRIGGER known_move")
