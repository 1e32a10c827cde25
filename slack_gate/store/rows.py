"""A request as a row, and a row as a request; what the log says of it."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from slack_gate.core.ports import Entry
from slack_gate.core.request import Request, State
from slack_gate.store.tables import requests

_NAMES = tuple(requests.columns.keys())


def columns_of(request: Request) -> dict[str, Any]:
    values = {column.name: getattr(request, column.name) for column in requests.columns if column.name != "chain"}
    values["tool_input"] = json.dumps(dict(request.tool_input))
    values["votes"] = json.dumps(list(request.votes))
    values |= {name: int(getattr(request, name)) for name in ("rewritable", "caged")}
    return values


def as_request(row: Row[*tuple[Any, ...]]) -> Request:
    """The request of a row that begins with the columns of `requests`, in their order."""
    values = dict(zip(_NAMES, row, strict=False))
    values["state"] = State(values["state"])
    values["tool_input"] = json.loads(values["tool_input"])
    values["votes"] = tuple((user, name) for user, name in json.loads(values["votes"]))
    values |= {name: bool(values[name]) for name in ("rewritable", "caged")}
    return Request(**values)


def entry_of(request: Request, by: str, now: float, user: str = "") -> Entry:
    return Entry(
        decision=request.state.value,
        by=by,
        request=request.id,
        digest=request.digest,
        agent=request.agent,
        session=request.session,
        tool=request.tool,
        command=request.command,
        edited=request.edited,
        cwd=request.cwd,
        latency=round(now - request.created_at, 3),
        user=user or None,
        reason=request.reason or None,
    )
