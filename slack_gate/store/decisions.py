"""What people decide: the first answer that matches wins, with its rules and its log line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, bindparam, delete, insert, select, update

from cage.cage_policy import FILE_TOOLS
from slack_gate.core.ports import Click, Entry, Verdict
from slack_gate.core.request import BY_RULES, BY_SLACK, ON_HOME, Choice, Decision, Request, State
from slack_gate.core.rules import Key
from slack_gate.store.ends import decision_of, end, moved, redraw
from slack_gate.store.ledger import Ledger
from slack_gate.store.questions import changed, denied_before
from slack_gate.store.rows import as_request, entry_of
from slack_gate.store.rules import count_use, remember, revoke_saved
from slack_gate.store.tables import cards, edits, log, requests
from slack_gate.store.transaction import SERVERS_TIME, Transaction

MORE_S = 300.0  # what "more time" gives
_NAMELESS = ""  # who votes on the page or at the terminal: only Slack tells people apart
_NOBODY_ELSE = (
    "Several people must approve it, and here nobody can tell whether you are another one than who did. "
    "Approve it in Slack."
)
_newest = log.alias("newest")
_head = select(_newest).where(_newest.c.chain == requests.c.chain).order_by(_newest.c.seq.desc()).limit(1)
_TO_DECIDE = (
    select(
        requests,
        cards.c.approver.label("asked"),
        cards.c.channel,
        cards.c.message,
        cards.c.revision.label("drawn_in"),
        _head.with_only_columns(_newest.c.seq).scalar_subquery().label("last_seq"),
        _head.with_only_columns(_newest.c.hash).scalar_subquery().label("last_hash"),
    )
    .outerjoin(cards, (cards.c.request == requests.c.id) & (cards.c.approver == bindparam("user")))
    .where(requests.c.id == bindparam("id"))
)
_DECIDES = {
    Choice.DENY: State.DENIED,
    **dict.fromkeys((Choice.APPROVE, Choice.ALWAYS, Choice.CAGED), State.APPROVED),
}


class Decisions(Ledger):
    """A decision counts when its digest, its person and its message are those on file, and in time."""

    async def decided(self, decision: Decision, keys: Sequence[Key], shown: Sequence[str], now: float) -> Click:
        """A person's answer, and for Always the rules it saves, if the request is still theirs to decide."""

        always = decision.choice is Choice.ALWAYS

        def work(tx: Transaction) -> Click:
            row = tx.connection.execute(_TO_DECIDE, {"id": decision.request, "user": decision.user}).first()
            if row is None:
                return Click(Verdict.UNKNOWN)
            request = as_request(row)
            if row.last_seq is not None:
                tx.heads[request.chain] = row.last_seq, row.last_hash
            if (verdict := _refusal(row, request, decision)) is not None:
                return Click(verdict, request)
            if now >= request.expires_at or request.state is not State.PENDING:
                return Click(Verdict.ENDED, request)
            if decision.choice is Choice.MORE:
                return _extended(tx, request, decision)
            if decision.choice is not Choice.DENY:
                if request.quorum > 1 and decision.by != BY_SLACK and request.votes:
                    return Click(Verdict.UNFIT, request, why=_NOBODY_ELSE)
                if (counted := _counted(tx, request, decision)) is not None:
                    return Click(Verdict.COUNTED, counted)
            state = _DECIDES[decision.choice]
            ended = end(tx, request, state, decision, in_time=True)
            if ended is None:
                return Click(Verdict.ENDED, request)
            if decision.edited is not None and self.database.shared and request.home != self._home:
                made = {"request": request.id, "command": decision.edited, "made_at": tx.time}
                tx.connection.execute(insert(edits).values(**made))
            pairs = zip(keys, shown, strict=True) if always else ()
            saved = [remember(tx, key, text, decision, request) for key, text in pairs]
            return Click(Verdict.DECIDED, ended, tuple(saved))

        return await self.transact(work, now, alone=not always and decision.edited is None)

    async def undone(self, decision: Decision, filed_at: float, now: float) -> None:
        """What was filed of this approval as of `filed_at`, though its person was told that nothing was approved: it is
        released to nobody, as a vote it is not counted, and the rules that it saved are revoked. Twice is once."""

        def work(tx: Transaction) -> None:
            of_it = (requests.c.id == decision.request) & (requests.c.digest == decision.digest)
            if (row := tx.one(requests, of_it & (requests.c.state == State.PENDING))) is not None:
                return _uncounted(tx, as_request(row), decision)
            decided = (requests.c.decided_by == (decision.user or decision.by)) & (requests.c.decided_at == filed_at)
            approved = of_it & decided & (requests.c.state == State.APPROVED)
            if (undone := moved(tx, approved, State.NOT_RUN, "The approval could not be recorded.")) is not None:
                tx.log(_unrecorded(undone, decision, tx.now), undone.chain)
            if tx.one(requests, of_it & decided & (requests.c.state == State.NOT_RUN)) is not None:
                revoke_saved(tx, decision, filed_at)

        await self.transact(work, now)

    async def remembered(self, request: str, digest: str, rules: Sequence[str], now: float) -> Request | None:
        """A rule saved since covers what waits: approved by it. None when it had ended or is not what was covered, when
        the very same was denied in its session, or when the rules do not count any more."""

        def work(tx: Transaction) -> Request | None:
            row = tx.one(requests, (requests.c.id == request) & (requests.c.digest == digest))
            if row is None or row.state != State.PENDING or now >= row.expires_at or row.quorum > 1:
                return None
            if tx.one(requests, denied_before(row.agent, row.session, row.form)) is not None:
                return None
            if not count_use(tx, rules):
                return None
            return end(tx, as_request(row), State.APPROVED, decision_of(BY_RULES, ", ".join(rules)))

        return await self.transact(work, now)

    async def taken(self, request: str) -> str | None:
        """The text that a person put in place on another daemon, once; from then on it is on file no more."""
        query = delete(edits).where(edits.c.request == request).returning(edits.c.command)
        return await self.database.run(lambda connection: connection.execute(query).scalar())

    async def forgotten(self, kept: float) -> None:
        """Changed texts that no daemon has taken within `kept` seconds are on file no more."""
        query = delete(edits).where(edits.c.made_at < SERVERS_TIME - kept)
        await self.database.run(lambda connection: connection.execute(query), alone=True)

    async def lifted(self, request: str, by: str, user: str, name: str, now: float) -> Request | None:
        """A denial is taken back: the same may be asked again in its session. None when there is none."""

        def work(tx: Transaction) -> Request | None:
            denied = (requests.c.id == request) & (requests.c.state == State.DENIED) & requests.c.lifted_at.is_(None)
            query = update(requests).where(denied).values(lifted_at=tx.now, revision=requests.c.revision + 1)
            row = tx.connection.execute(query.returning(requests)).first()
            if row is None:
                return None
            found = as_request(row)
            redraw(tx, found.id)
            tx.log(replace(entry_of(found, by, tx.now, user), decision="lifted", reason=None), found.chain)
            return found

        return await self.transact(work, now)


def _extended(tx: Transaction, request: Request, decision: Decision) -> Click:
    """More time, as far as the client can wait; once for each time that a card shows: a press may come twice."""
    if decision.until not in (None, int(request.expires_at)):
        return Click(Verdict.EXTENDED, request)
    until = min(request.expires_at + MORE_S, request.latest_at)
    if until <= request.expires_at:
        return Click(Verdict.LATEST, request)
    entry = replace(entry_of(request, decision.by, tx.now, decision.user), decision="extended")
    return Click(Verdict.EXTENDED, changed(tx, request, entry, expires_at=until))


def _counted(tx: Transaction, request: Request, decision: Decision) -> Request | None:
    """One approval of several, on file; None when it is the last one that was missing."""
    votes = dict(request.votes)
    if decision.by == BY_SLACK:
        votes.pop(_NAMELESS, None)  # may have been this very person
    votes[decision.user if decision.by == BY_SLACK else _NAMELESS] = decision.name
    if len(votes) >= request.quorum:
        return None
    entry = replace(entry_of(request, decision.by, tx.now, decision.user), decision="vote")
    return changed(tx, request, entry, votes=json.dumps(list(votes.items())))


def _uncounted(tx: Transaction, request: Request, decision: Decision) -> None:
    """Without this person's approval, where it is one of several."""
    voter = decision.user if decision.by == BY_SLACK else _NAMELESS
    votes = [vote for vote in request.votes if vote[0] != voter]
    if len(votes) < len(request.votes):
        changed(tx, request, _unrecorded(request, decision, tx.now), votes=json.dumps(votes))


def _unrecorded(request: Request, decision: Decision, now: float) -> Entry:
    return replace(entry_of(request, decision.by, now, decision.user), decision="unrecorded", reason=None)


def _refusal(row: Row[*tuple[Any, ...]], request: Request, decision: Decision) -> Verdict | None:
    """Why this click cannot decide this request, None when it can: digest, approver and message must all match."""
    if decision.digest != request.digest:
        return Verdict.STALE
    if decision.by != BY_SLACK:  # the page and the terminal know who is there, and show no messages
        return None
    if row.asked is None:
        return Verdict.FOREIGN
    approves = _DECIDES.get(decision.choice) is State.APPROVED
    drawn_in = row.drawn_in if decision.revision is None else decision.revision
    if approves and request.tool in FILE_TOOLS and drawn_in < request.revision:
        return Verdict.STALE  # the file may be another one than was shown
    if decision.surface == ON_HOME:  # no message: it shows each request whole, and the digest binds the button to that
        return None
    # A click can overtake the reply to our post: then the message is not on file yet, and the digest binds it.
    if row.message and (row.channel, row.message) != (decision.channel, decision.message):
        return Verdict.STALE
    return None
