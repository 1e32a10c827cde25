"""The tables. States move only as core/request.py says; the CHECKs and indexes below hold the same rules again.

requests   pending → approved | denied | expired | cancelled | undeliverable; approved → running → finished | lost
runs       one row a request that the gate carries out itself: written before anything starts, never twice
cards      one row an approver; `drawn` is the state last shown there: unlike the request's, it is work for the outbox
rules      `revoked_at` ends a rule; a key is active at most once
log        append-only, chained by hash; gate-log.jsonl is written from it
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from slack_gate.core.request import State

SCHEMA_VERSION = 1

metadata = MetaData()

_STATES = ", ".join(f"'{state.value}'" for state in State)
_PERSON = f"'{State.APPROVED.value}', '{State.DENIED.value}'"

requests = Table(
    "requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("key", Text, nullable=False),  # the host's call id, else the hook's nonce
    Column("nonce", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("tool_input", Text, nullable=False),  # JSON; masked as soon as the request has ended
    Column("command", Text),  # masked likewise; null for a tool that is not a shell
    Column("cwd", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("home", Text, nullable=False),  # the daemon whose socket the agent waits on
    Column("why", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("decided_at", Float),
    Column("decided_by", Text, nullable=False, default=""),
    Column("decided_name", Text, nullable=False, default=""),
    Column("reason", Text, nullable=False, default=""),
    Column("via", Text, nullable=False, default=""),
    UniqueConstraint("agent", "session", "key", name="one_request_a_call"),
    CheckConstraint(f"state IN ({_STATES})", name="known_state"),
    CheckConstraint("(state = 'pending') = (decided_at IS NULL)", name="ended_has_a_time"),
    CheckConstraint(f"state NOT IN ({_PERSON}) OR decided_by <> ''", name="decided_by_someone"),
    CheckConstraint("expires_at > created_at", name="expires_later"),
)
Index("pending_requests", requests.c.home, requests.c.expires_at, sqlite_where=requests.c.state == "pending")

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("request", Text, ForeignKey("requests.id"), nullable=False, unique=True),
    Column("home", Text, nullable=False),
    Column("executor", Text, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),  # null: still running, or its daemon died
    Column("exit_code", Integer),
    Column("timed_out", Integer, nullable=False, default=0),
    Column("command_id", Text),
    Column("code", Text),
    Column("error", Text),
    Column("stdout", Text, nullable=False, default=""),  # masked and made printable
    Column("stderr", Text, nullable=False, default=""),
)
Index("open_runs", runs.c.home, sqlite_where=runs.c.ended_at.is_(None))

cards = Table(
    "cards",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("request", Text, ForeignKey("requests.id"), nullable=False),
    Column("surface", Text, nullable=False),
    Column("approver", Text, nullable=False),
    Column("channel", Text, nullable=False, default=""),
    Column("message", Text, nullable=False, default=""),  # Slack's ts; empty until the post was accepted
    # Other messages that may show this card: their ts, and `?` for a post whose answer is not on file (yet).
    Column("strays", Text, nullable=False, default="", server_default=""),
    Column("drawn", Text, nullable=False, default=""),
    Column("error", Text, nullable=False, default=""),
    Column("attempts", Integer, nullable=False, default=0),
    Column("due_at", Float, nullable=False, default=0.0),
    UniqueConstraint("request", "surface", "approver", name="one_card_an_approver"),
)
Index("cards_by_request", cards.c.request)
Index("cards_by_drawn", cards.c.drawn, cards.c.due_at)

rules = Table(
    "rules",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("words", Text, nullable=False),  # JSON list of literal words
    Column("shown", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("revoked_at", Float),
)
Index("one_active_rule_a_key", rules.c.tool, rules.c.words, unique=True, sqlite_where=rules.c.revoked_at.is_(None))

log = Table(
    "log",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("line", Text, nullable=False),  # the JSON line as it stands in the file, without its line end
    Column("hash", Text, nullable=False),
)

about = Table(
    "about",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
