"""The PATH by which an agent finds programs: an approval is for those that lie where caged code can write."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("requests", sa.Column("search_path", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("requests", "search_path")
