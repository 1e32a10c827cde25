"""Decisions that an older program would take for wider ones: several approvers, rules with a scope, other texts.

Therefore programs that know only what was before are refused: `about.schema` becomes 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


ACTIVE = sa.text("revoked_at IS NULL")
DENIED = sa.text("state = 'denied'")
TEXTS = {"requests": ("form", "votes"), "rules": ("session", "cwd")}
COUNTS = {"requests": ("quorum", "revision", "rewritable", "caged"), "cards": ("revision",), "rules": ("uses",)}
TIMES = {"requests": ("lifted_at",), "rules": ("until", "used_at")}
DEFAULTS = {"votes": "[]", "quorum": "1"}


def upgrade() -> None:
    for kind, names, empty in ((sa.Text, TEXTS, ""), (sa.Integer, COUNTS, "0")):
        for table, name in _each(names):
            column = sa.Column(name, kind, nullable=False, server_default=DEFAULTS.get(name, empty))
            op.add_column(table, column)
    for table, name in _each(TIMES):
        op.add_column(table, sa.Column(name, sa.Double))
    op.add_column("requests", sa.Column("latest_at", sa.Double, nullable=False, server_default="0"))
    op.add_column("requests", sa.Column("edited", sa.Text))
    op.create_index("denials", "requests", ["session", "form"], sqlite_where=DENIED, postgresql_where=DENIED)
    op.drop_index("one_active_rule_a_key", "rules")
    _unique("one_active_rule_a_key_and_scope", ["tool", "words", "session", "cwd"])
    op.execute("UPDATE about SET value = '2' WHERE name = 'schema'")


def downgrade() -> None:
    """Rules with a scope are revoked: without it they would count everywhere."""
    op.execute("UPDATE about SET value = '1' WHERE name = 'schema'")
    op.execute(
        "UPDATE rules SET revoked_at = created_at "
        "WHERE revoked_at IS NULL AND (session <> '' OR cwd <> '' OR until IS NOT NULL)"
    )
    op.drop_index("one_active_rule_a_key_and_scope", "rules")
    _unique("one_active_rule_a_key", ["tool", "words"])
    op.drop_index("denials", "requests")
    op.drop_column("requests", "edited")
    op.drop_column("requests", "latest_at")
    for names in (TEXTS, COUNTS, TIMES):
        for table, name in _each(names):
            op.drop_column(table, name)


def _each(names: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    return ((table, name) for table in names for name in names[table])


def _unique(name: str, columns: list[str]) -> None:
    op.create_index(name, "rules", columns, unique=True, sqlite_where=ACTIVE, postgresql_where=ACTIVE)
