"""How a request ends: one conditional UPDATE, which the first one wins, and which masks what was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Double, Update, bindparam, case, select, true, update

from slack_gate.core.request import Choice, Decision, Request, State, may
from slack_gate.core.secrets import mask, mask_value
from slack_gate.store.ledger import Ledger
from slack_gate.store.rows import as_request, entry_of
from slack_gate.store.tables import cards, requests
from slack_gate.store.transaction import SERVERS_TIME, Transaction

_SET_AT_THE_END = (
    *("state", "decided_at", "decided_by", "decided_name", "reason", "via", "edited", "caged"),
    *("tool_input", "command"),
)


class Ends(Ledger):
    """Ends without a person: time, a caller that is gone, nobody who could be asked."""

    async def expired(self, home: str, now: float) -> list[Request]:
        """Ends every pending request of `home` whose time is over; in a database of its own those too that it filed
        under another name, with another socket: nobody else would."""
        mine = requests.c.home == home if self.database.shared else true()
        return await self._end_all(lambda tx: mine & (requests.c.expires_at <= tx.time), State.EXPIRED, "timeout", now)

    async def cancelled(self, request: str, by: str, now: float) -> Request | None:
        """The caller is gone; None when the request had ended before."""
        return _first(await self._end_all(lambda tx: requests.c.id == request, State.CANCELLED, by, now))

    async def undeliverable(self, request: str, reason: str, now: float) -> Request | None:
        """No approver could be asked; None when the request had ended before."""
        return _first(
            await self._end_all(lambda tx: requests.c.id == request, State.UNDELIVERABLE, "gate", now, reason)
        )

    async def _end_all(
        self,
        condition: Callable[[Transaction], ColumnElement[bool]],
        state: State,
        by: str,
        now: float,
        reason: str = "",
    ) -> list[Request]:
        return await self.transact(lambda tx: end_all(tx, condition(tx), state, by, reason), now)


def end_all(tx: Transaction, condition: ColumnElement[bool], state: State, by: str, reason: str = "") -> list[Request]:
    """Ends every pending request that the condition holds for, without a person."""
    how = decision_of(by, reason)
    query = select(requests).where(condition, requests.c.state == State.PENDING)
    found = [as_request(row) for row in tx.connection.execute(query).all()]
    ended = [end(tx, request, state, how) for request in found]
    return [request for request in ended if request is not None]


def end(
    tx: Transaction, request: Request, state: State, how: Decision, in_time: bool = False, log: bool = True
) -> Request | None:
    """The conditional UPDATE that decides: the first one wins. Masks what was asked, logs, returns the ended row."""
    query = _ending(state, in_time, tx.database.shared)
    command = None if request.command is None else mask(request.command)
    edited = None if how.edited is None else mask(how.edited)
    reason = mask(how.reason)
    values: dict[str, Any] = {
        "this": request.id,
        "shown": request.digest,
        "to_state": state,
        "to_decided_at": tx.now,
        "to_decided_by": how.user or how.by,
        "to_decided_name": how.name,
        "to_reason": reason,
        "to_via": how.by,
        "to_edited": edited,
        "to_caged": int(request.caged or how.choice is Choice.CAGED),
        "to_tool_input": json.dumps(mask_value(dict(request.tool_input))),
        "to_command": command,
    }
    if in_time and not tx.database.shared:
        values["moment"] = tx.now
    if log:
        now = replace(request, state=state, command=command, edited=edited, reason=reason)
        entry = entry_of(now, how.by, tx.now, how.user)
        row = tx.changed(query, values, entry, request.chain)
    else:
        row = tx.connection.execute(query, values).first()
    tx.masked = tx.masked or row is not None
    return None if row is None else as_request(row)


@cache
def _ending(state: State, in_time: bool, shared: bool) -> Update:
    """The conditional UPDATE that ends a request; what is set comes with the call. Building it costs more than running
    it."""
    query = update(requests).where(
        requests.c.id == bindparam("this"),
        requests.c.digest == bindparam("shown"),
        requests.c.state.in_([start for start in State if may(start, state)]),
    )
    query = query.values({name: bindparam(f"to_{name}", type_=requests.c[name].type) for name in _SET_AT_THE_END})
    if in_time:
        query = query.where(requests.c.expires_at > (SERVERS_TIME if shared else bindparam("moment", type_=Double)))
    return query.returning(requests)


def moved(tx: Transaction, which: ColumnElement[bool], state: State, reason: str | None = None) -> Request | None:
    """A step after the decision: only from where the table of transitions allows it. `which` is of one request."""
    values = {"state": state} if reason is None else {"state": state, "reason": mask(reason)}
    start = requests.c.state.in_([start for start in State if may(start, state)])
    row = tx.connection.execute(update(requests).where(which, start).values(**values).returning(requests)).first()
    if row is None:
        return None
    if state is State.NOT_RUN:  # its cards may have said for long that it was approved
        redraw(tx, row.id)
    return as_request(row)


def redraw(tx: Transaction, request: str) -> None:
    """Its cards are drawn anew, however long ago it ended; one that is being drawn, after that."""
    due_at = case((cards.c.drawer == "", 0.0), else_=cards.c.due_at)
    tx.connection.execute(update(cards).where(cards.c.request == request).values(drawn="", due_at=due_at))


def decision_of(by: str, reason: str) -> Decision:
    """What decides without a person."""
    return Decision("", "", Choice.DENY, by=by, user="", name="", reason=reason)


def _first(ended: Sequence[Request]) -> Request | None:
    return ended[0] if ended else None
