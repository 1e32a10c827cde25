"""The tables. States move only as core/request.py says; the CHECKs and indexes below hold the same rules again.

requests   pending → approved | denied | expired | cancelled | undeliverable; approved → running → finished | lost;
           approved or running → not-run
runs       one row a request that the gate carries out itself: written before anything starts, never twice
cards      one row an approver; `drawn` is the state last shown there: unlike the request's, it is work for the outbox
notes      what was said in a card's thread: written before it is said, never twice
edits      the true text of a change, from the daemon where it was decided to the one that answers: gone once taken
rules      `revoked_at` ends a rule; a key is active at most once
log        append-only, one chain by hash for each log file (`chain` names it); gate-log.jsonl is written from it
heartbeats one row a daemon of a fleet: when it last said that it lives, and that it hears Slack

The tables are made and changed by migrations/ alone: a new column here needs one there (tests/store/test_schema.py).
A change adds, so that an older program goes on working; where it could not, the migration raises `about.schema`, and
programs that know less refuse to start.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

from slack_gate.core.request import State

SCHEMA_VERSION = 3  # `about.schema` up to which this program understands a database


class Shown(TypeDecorator[str]):
    """Text from outside: what a database cannot hold as a character (NUL, half a pair) is held as it is shown."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        return value.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


_Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts by itself only in an INTEGER

metadata = MetaData()


def _where(condition: ColumnElement[bool]) -> dict[str, Any]:
    """The rows a partial index is over."""
    return {"sqlite_where": condition, "postgresql_where": condition}


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
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("decided_at", Double),
    Column("decided_by", Text, nullable=False, default=""),
    Column("decided_name", Shown, nullable=False, default=""),
    Column("reason", Shown, nullable=False, default=""),
    Column("via", Text, nullable=False, default="", server_default=""),
    Column("chain", Text, nullable=False, default="", server_default=""),  # the log that it stands in: its home's
    # What a denial is remembered by in its session: the SHA-256 of what would run, whatever the agent says of it.
    Column("form", Text, nullable=False, default="", server_default=""),
    Column("lifted_at", Double),  # a denial that an approver took back: the same may be asked again
    Column("quorum", Integer, nullable=False, default=1, server_default="1"),  # how many people must approve
    Column("latest_at", Double, nullable=False, default=0.0, server_default="0"),  # until when its client can wait
    Column("votes", Shown, nullable=False, default="[]", server_default="[]"),  # JSON: [user, name] of who approved
    Column("revision", Integer, nullable=False, default=0, server_default="0"),  # grows when a waiting card changes
    Column("rewritable", Integer, nullable=False, default=0, server_default="0"),  # its client runs another text
    Column("edited", Shown),  # masked: the text that the approver put in place of the agent's
    Column("caged", Integer, nullable=False, default=0, server_default="0"),  # approved for the cage only
    Column("search_path", Text, nullable=False, default="", server_default=""),  # the PATH of the agent
    UniqueConstraint("agent", "session", "key", name="one_request_a_call"),
    CheckConstraint(f"state IN ({_STATES})", name="known_state"),
    CheckConstraint("(state = 'pending') = (decided_at IS NULL)", name="ended_has_a_time"),
    CheckConstraint(f"state NOT IN ({_PERSON}) OR decided_by <> ''", name="decided_by_someone"),
    CheckConstraint("expires_at > created_at", name="expires_later"),
)
Index("pending_requests", requests.c.home, requests.c.expires_at, **_where(requests.c.state == "pending"))

Index("denials", requests.c.session, requests.c.form, **_where(requests.c.state == "denied"))

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("request", Text, ForeignKey("requests.id"), nullable=False, unique=True),
    Column("home", Text, nullable=False),
    Column("executor", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),  # null: still running, or its daemon died
    Column("exit_code", Integer),
    Column("timed_out", Integer, nullable=False, default=0),
    Column("command_id", Shown),
    Column("code", Shown),
    Column("error", Shown),
    Column("stdout", Shown, nullable=False, default=""),  # masked and made printable
    Column("stderr", Shown, nullable=False, default=""),
)
Index("open_runs", runs.c.home, **_where(runs.c.ended_at.is_(None)))

cards = Table(
    "cards",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("request", Text, ForeignKey("requests.id"), nullable=False),
    Column("surface", Text, nullable=False),
    Column("approver", Text, nullable=False),
    Column("channel", Text, nullable=False, default=""),
    Column("message", Text, nullable=False, default=""),  # Slack's ts; empty until the post was accepted
    # Other messages that may show this card: their ts, and `?` for a post whose answer is not on file (yet).
    Column("strays", Text, nullable=False, default="", server_default=""),
    Column("drawn", Text, nullable=False, default=""),
    Column("revision", Integer, nullable=False, default=0, server_default="0"),  # of the request, as drawn
    Column("error", Shown, nullable=False, default=""),
    Column("attempts", Integer, nullable=False, default=0),
    Column("due_at", Double, nullable=False, default=0.0),
    Column("drawer", Text, nullable=False, default="", server_default=""),  # the daemon that draws it until due_at
    UniqueConstraint("request", "surface", "approver", name="one_card_an_approver"),
)
Index("cards_by_request", cards.c.request)
Index("cards_by_drawn", cards.c.drawn, cards.c.due_at)
Index("cards_by_message", cards.c.message, **_where(cards.c.message != ""))
Index("cards_with_strays", cards.c.strays, **_where(cards.c.strays != ""))

notes = Table(
    "notes",
    metadata,
    Column("card", _Number, ForeignKey("cards.id"), nullable=False, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, primary_key=True),
    Column("said_at", Double, nullable=False),
)

edits = Table(
    "edits",
    metadata,
    Column("request", Text, ForeignKey("requests.id"), primary_key=True),
    Column("command", Text, nullable=False),
    Column("made_at", Double, nullable=False),  # by the database's clock
)

rules = Table(
    "rules",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("words", Text, nullable=False),  # JSON list of literal words
    Column("shown", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("revoked_at", Double),
    Column("session", Text, nullable=False, default="", server_default=""),  # it counts in this session alone
    Column("cwd", Text, nullable=False, default="", server_default=""),  # in this directory alone
    Column("until", Double),  # null: until revoked
    Column("used_at", Double),
    Column("uses", Integer, nullable=False, default=0, server_default="0"),
)
Index(
    "one_active_rule_a_key_and_scope",
    *(rules.c.tool, rules.c.words, rules.c.session, rules.c.cwd),
    unique=True,
    **_where(rules.c.revoked_at.is_(None)),
)

log = Table(
    "log",
    metadata,
    Column("chain", Text, primary_key=True, server_default=""),  # SQLite has one, without a name
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("line", Text, nullable=False),  # the JSON line as it stands in the file, without its line end
    Column("hash", Text, nullable=False),
)

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("home", Text, primary_key=True),
    Column("instance", Text, nullable=False),  # random, new at every start
    Column("beat_at", Double, nullable=False),  # by the database's clock
    Column("hears", Integer, nullable=False, default=0),  # its Slack link brings answers
)

about = Table(
    "about",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
