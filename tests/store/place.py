"""A home with its log, a database of either kind, and what tests file in it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slack_gate.core.request import Choice, Decision, Request, State
from slack_gate.core.rules import Key
from slack_gate.store.cards import Cards
from slack_gate.store.store import Store

NOW = float(int(time.time()))  # a shared database compares deadlines with its own clock
ENDS = NOW + 86_400  # NOW is the start of the whole run of the tests, and that clock goes on
HOME = "box:/run/gate.sock"
REQUEST = Request(
    id="SG-1",
    digest="d1",
    state=State.PENDING,
    agent="claude-code",
    session="s1",
    key="toolu_1",
    nonce="n1",
    tool="Bash",
    tool_input={"command": "curl -u a:b --password hunter2"},
    command="curl -u a:b --password hunter2",
    cwd="/w",
    host="box",
    home=HOME,
    why="not green",
    created_at=NOW,
    expires_at=ENDS,
)
TOUCH = (Key("Bash", ("touch",)),)


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class Place:
    """One daemon's home at `path`, its database at `url`."""

    path: Path
    url: str
    clock: Clock = field(default_factory=Clock)

    @property
    def log(self) -> Path:
        return self.path / "gate-log.jsonl"

    @asynccontextmanager
    async def store(self, repair: bool = True, home: str = HOME) -> AsyncIterator[Store]:
        async with Store(self.url, self.log, self.clock, repair, home) as store:
            yield store

    def decisions(self) -> list[str]:
        return [json.loads(line)["decision"] for line in self.log.read_text().splitlines()]


def click(choice: Choice = Choice.APPROVE, **changes: Any) -> Decision:
    values: dict[str, Any] = {
        "request": "SG-1",
        "digest": "d1",
        "choice": choice,
        "by": "human-slack",
        "user": "U0ANA",
        "name": "Ana",
        "team": "T1",
        "channel": "D1",
        "message": "1.1",
    }
    return Decision(**{**values, **changes})


async def submitted(store: Store, request: Request = REQUEST) -> None:
    """Files it, and a card for Ana that Slack has taken."""
    await store.submitted(request, ["U0ANA"], "slack")
    cards = Cards(store.database, "slack", "")
    for card in await cards.due(NOW):
        await cards.posted(card.id, "D1", "1.1")
