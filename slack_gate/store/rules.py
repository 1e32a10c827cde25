"""Rules that people saved with Always: found, used, revoked."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, insert, select, update

from slack_gate.core.ports import Entry
from slack_gate.core.request import BY_TERMINAL, Decision, Request
from slack_gate.core.rules import Key, Rule
from slack_gate.core.secrets import mask
from slack_gate.errors import NotFound, RuleGone
from slack_gate.store.cord import cord_of
from slack_gate.store.ledger import Ledger
from slack_gate.store.tables import rules
from slack_gate.store.transaction import Transaction


class Rules(Ledger):
    """The rules of all daemons on this database."""

    async def rules(self) -> list[Rule]:
        """Active rules, oldest first; those whose time is over stay on file and count no more."""
        over = rules.c.until.is_not(None) & (rules.c.until <= self._clock())
        query = select(rules).where(rules.c.revoked_at.is_(None), ~over).order_by(rules.c.created_at)
        return [_as_rule(row) for row in await self.read(lambda c: c.execute(query).all())]

    async def answered(self, entry: Entry, used: Sequence[str] = ()) -> None:
        """An answer that needed no request: green, ungated, remembered, malformed, a late click.

        `used` are the rules of Always that it rests on. Raises RuleGone when they do not all count any more.
        """

        def work(tx: Transaction) -> None:
            if not count_use(tx, used):
                raise RuleGone("What it was allowed by does not count any more.")
            tx.log(entry)

        await self.transact(work)

    async def revoked(self, rule: str, now: float, by: str = BY_TERMINAL, user: str = "") -> Rule:
        """Ends a rule at once; raises NotFound."""

        def work(tx: Transaction) -> Rule:
            active = (rules.c.id == rule) & rules.c.revoked_at.is_(None)
            row = tx.one(rules, active)
            if row is None:
                raise NotFound(f"There is no active rule {rule}.", "`slack-gate rules` lists them.")
            if not tx.connection.execute(update(rules).where(active).values(revoked_at=now)).rowcount:
                raise NotFound(f"The rule {rule} was revoked by somebody else just now.")
            tx.log(Entry("revoked", by, request=row.request, user=user or None, reason=row.shown))
            return _as_rule(row)

        return await self.transact(work, now)


def remember(tx: Transaction, key: Key, text: str, decision: Decision, request: Request) -> Rule:
    """The rule of this key and scope. One that is there already gets the new end; was its time over, whoever saves it
    now has saved it."""
    words = json.dumps(key.words)
    scope = decision.scope
    session, cwd = request.session if scope.session else "", request.cwd if scope.directory else ""
    until = None if scope.seconds is None else tx.now + scope.seconds
    who = decision.user or decision.by
    same = (rules.c.tool == key.tool) & (rules.c.words == words) & rules.c.revoked_at.is_(None)
    same &= (rules.c.session == session) & (rules.c.cwd == cwd)
    if (known := tx.one(rules, same)) is not None:
        over = known.until is not None and known.until <= tx.now
        anew = {"created_at": tx.now, "created_by": who, "request": decision.request} if over else {}
        row = tx.connection.execute(update(rules).where(same).values(until=until, **anew).returning(rules)).one()
        return _as_rule(row)
    identity = f"R-{secrets.token_hex(4)}"
    rule = Rule(identity, key, mask(text), tx.now, who, decision.request, session, cwd, until)
    tx.connection.execute(
        insert(rules).values(
            id=rule.id,
            tool=key.tool,
            words=words,
            shown=rule.shown,
            created_at=rule.created_at,
            created_by=rule.created_by,
            request=rule.request,
            session=session,
            cwd=cwd,
            until=until,
        )
    )
    return rule


def revoke_saved(tx: Transaction, decision: Decision, saved_at: float) -> None:
    """Ends the rules that this decision saved then."""
    by_it = (rules.c.request == decision.request) & (rules.c.created_at == saved_at) & rules.c.revoked_at.is_(None)
    query = update(rules).where(by_it).values(revoked_at=tx.now).returning(rules)
    for row in tx.connection.execute(query).all():
        tx.log(Entry("revoked", decision.by, request=row.request, user=decision.user or None, reason=row.shown))


def count_use(tx: Transaction, used: Sequence[str]) -> bool:
    """Whether all of these count at this moment, whatever was read before; then they are used. A rule counts until it
    is revoked or its time is over, and while nothing is paused."""
    if not used:
        return True
    counts = rules.c.id.in_(used) & rules.c.revoked_at.is_(None) & (rules.c.until.is_(None) | (rules.c.until > tx.now))
    found = tx.connection.execute(select(rules.c.id).where(counts).with_for_update()).all()
    if len(found) < len(set(used)) or cord_of(tx.connection).paused:
        return False
    tx.connection.execute(update(rules).where(counts).values(used_at=tx.now, uses=rules.c.uses + 1))
    return True


def _as_rule(row: Row[*tuple[Any, ...]]) -> Rule:
    key = Key(row.tool, tuple(json.loads(row.words)))
    scope = row.session, row.cwd, row.until
    return Rule(row.id, key, row.shown, row.created_at, row.created_by, row.request, *scope, row.used_at, row.uses)
