"""The cord's row: one JSON object in `about`, read at each gated call, so that every daemon sees it at once."""

from __future__ import annotations

import json

from sqlalchemy import Connection, insert, select, update

from slack_gate.core.cord import Cord, Hand, Place, Pull
from slack_gate.core.ports import Entry
from slack_gate.errors import StoreError
from slack_gate.store.tables import about
from slack_gate.store.transaction import Transaction

_NAME = "cord"
_ROW = select(about.c.value).where(about.c.name == _NAME)
PRESSES = 100  # whose ids are kept: of a press that Slack brings again, minutes later at most, there are few after it
_DECISIONS = {Pull.PAUSE: "paused", Pull.RESUME: "resumed"}


def cord_of(connection: Connection) -> Cord:
    """Raises StoreError for a row that is not understood: then nothing that needs asking runs."""
    return _read(connection.execute(_ROW).scalar())


def pull_cord(tx: Transaction, pull: Pull, hand: Hand) -> tuple[Cord, bool]:
    """The cord after the pull, and whether it changed; only a change is logged. A press that was done before, by
    whichever daemon, does nothing: what came after it stands."""
    text = tx.connection.execute(_ROW.with_for_update()).scalar()
    before, done = _read(text), _presses(text)
    if hand.press in done:
        return before, False
    after = before.pulled(pull, hand, tx.now)
    if after == before and not hand.press:
        return before, False
    presses = [*done, hand.press][-PRESSES:] if hand.press else done
    fields = {"place": after.place, "pausedAt": after.paused_at, "pausedBy": after.paused_by, "presses": presses}
    value = json.dumps(fields)
    if text is None:
        tx.connection.execute(insert(about).values(name=_NAME, value=value))
    else:
        tx.connection.execute(update(about).where(about.c.name == _NAME).values(value=value))
    if after == before:
        return before, False
    decision = _DECISIONS.get(pull, f"ask-on-{pull.value}")
    tx.log(Entry(decision, hand.by, user=hand.user or None, reason=hand.name))
    return after, True


def _presses(text: str | None) -> list[str]:
    return [] if text is None else [str(press) for press in json.loads(text).get("presses", [])]


def _read(text: str | None) -> Cord:
    if text is None:
        return Cord()
    try:
        value = json.loads(text)
        at = value["pausedAt"]
        return Cord(Place(value["place"]), None if at is None else float(at), str(value["pausedBy"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            "The database does not say plainly where gated calls are asked, so none is.",
            "Restore the database, or delete the row `cord` of its table `about`.",
        ) from error
