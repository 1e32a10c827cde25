"""Hundreds of requests while Slack fails in every way at once: nothing lost, nothing decided twice, no live button."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.request import State
from slack_gate.daemon import lanes, outbox, posts, redraws
from slack_gate.daemon.serve import Running, running
from slack_gate.local_slack import Person, socket_mode
from slack_gate.local_slack.server import LocalSlack
from slack_gate.local_slack.workspace import Message
from slack_gate.slack import line, link, messenger, people
from tests.daemon.house import settings_for
from tests.daemon.serving import Wire

LONG = "SLACK_GATE_LONG" in os.environ
REQUESTS = 2000 if LONG else 250
AT_ONCE = 30
WAIT = 8
SEEDS = range(5) if LONG else (1,)

CALLS = ("chat.postMessage", "chat.update", "conversations.history", "users.info", "apps.connections.open")
KINDS = ("error internal_error", "http 503", "html", "limited 0.1", "reset", "lost", "broken", "late 0.3", "late 1.2")
LASTING = (
    "token revoked token_revoked",
    "token revoked account_inactive bot",
    "token revoked invalid_auth app",
    "scope missing chat:write",
    "scope missing im:history",
    "user gone U0ANA",
    "messages off",
    "links refuse too_many_websockets",
    "links refuse link_disabled",
    "apps.connections.open http 503 x20",
)
PASSING = (
    "links drop",
    "links drop 1",
    "links silence",
    "links silence 1",
    "links away warning 1",
    "links away refresh_requested",
    "links away too_many_websockets 1",
    "links away link_disabled 1",
    "acks lost 2",
    "response_url http 503",
    "response_url reset",
)


def hurry(monkeypatch: pytest.MonkeyPatch, slower: int) -> None:
    """Every wait of the product about a tenth as long, times `slower`."""
    for place, name, seconds in (
        (line, "PING_S", 0.2),
        (line, "SILENT_S", 0.8),
        (line, "DRAIN_S", 0.5),
        (link, "CALL_S", 1),
        (link, "OPEN_S", 1.5),
        (link, "DOWN_S", 2.0),
        (link, "SENT_AWAY_S", 0.5),
        (link, "FIRST_PAUSE_S", 0.05),
        (link, "MOST_PAUSE_S", 0.4),
        (messenger, "RETRY_S", 0.1),
        (people, "FRESH_S", 0.2),
        (posts, "POST_S", 3.0),
        (posts, "LAST_TRY_S", 0.3),
        (posts, "QUEUED_S", 2.0),
        (outbox, "WATCH_S", 0.1),
        (lanes, "MAX_RETRY_S", 1.0),
        (lanes, "PACED_S", 1.0),
        (redraws, "LATE_S", 3.0),
        (redraws, "LOOK_AGAIN_S", 1.0),
        (socket_mode, "ACK_SECONDS", 0.5),
    ):
        monkeypatch.setattr(place, name, seconds * slower)


@dataclass
class Run:
    """One run: what was asked, pressed and answered."""

    slack: LocalSlack
    ana: Person
    daemon: Running
    dice: random.Random
    slower: int
    pressed: dict[str, set[str]] = field(default_factory=dict)  # by command: the labels that somebody pressed
    answers: dict[str, str] = field(default_factory=dict)
    caused: Counter[str] = field(default_factory=Counter)

    async def agents(self) -> None:
        """Asks everything, so many at once, and waits for every answer."""
        places = asyncio.Semaphore(AT_ONCE)

        async def ask(number: int) -> None:
            command = f"git push origin b{number}x"
            async with places:
                wire = await Wire.open(self.daemon.settings.socket_path)
                await wire.ask(event(command, number))
                self.answers[command] = await wire.decision(timeout=WAIT * self.slower + 100)
                wire.close()

        async with asyncio.TaskGroup() as group:
            for number in range(REQUESTS):
                group.create_task(ask(number))

    async def person(self) -> None:
        """Presses each card once or twice, some never, some late; what is still to come is known by `change`."""
        handled: set[str] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                change = self.slack.workspace.change
                for card in [card for card in self.ana.messages if card.ts not in handled]:
                    handled.add(card.ts)
                    if self.dice.random() < 0.92:
                        group.create_task(self.press(card))
                await change.wait()

    async def press(self, card: Message) -> None:
        labels = self.dice.choice((["Approve"], ["Deny"], ["Approve", "Deny"], ["Deny", "Deny", "Approve"]))
        await self.rest(0, 0.4)
        for label in labels:
            self.pressed.setdefault(asked_by(card), set()).add(label)
            if not (await self.ana.click(card, label, version=0)).acknowledged:  # Slack warns, and people press again
                await self.ana.click(card, label, version=0)

    async def rest(self, least: float, most: float) -> None:
        await asyncio.sleep(self.dice.uniform(least, most) * self.slower)

    async def trouble(self) -> None:
        """One fault after the other, of every kind; what would last is mended after a while."""
        while True:
            await self.rest(0.02, 0.3)
            chance = self.dice.random()
            if chance < 0.6:
                words = f"{self.dice.choice(CALLS)} {self.dice.choice(KINDS)} x{self.dice.randint(1, 2)}"
            else:
                words = self.dice.choice(PASSING if chance < 0.95 else LASTING)
            await self.slack.cause(words)
            self.caused[words.rpartition(" x")[0] or words] += 1
            if words in LASTING:
                await self.rest(0.1, 0.6)
                self.slack.mend()


def event(command: str, number: int) -> dict[str, Any]:
    return {
        "session_id": "s1",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": f"toolu_{number}",
        "cwd": "/w/app",
    }


def asked_by(card: Message) -> str:
    """The command that the card asks about."""
    words = card.versions[0].plain()
    start = words.index("git push origin b")
    return words[start : words.index("x", start) + 1]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_slack_does(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What must hold holds on any machine; one that is too slow for such haste, so that nothing at all was approved or
    denied, gets more time."""
    for slower in (1, 4, 16):
        hurry(monkeypatch, slower)
        (place := tmp_path / str(slower)).mkdir()
        states = await one_run(place, seed, slower)
        if states[State.APPROVED] and states[State.DENIED]:
            return
    raise AssertionError(states)


async def one_run(place: Path, seed: int, slower: int) -> Counter[State]:
    """How many requests ended in each state."""
    async with LocalSlack(posting_limit=100, tiers=100, ping_seconds=0.2, redeliveries=2, seed=seed) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        async with running(settings_for(slack, place, wait=WAIT * slower)) as daemon:
            run = Run(slack, ana, daemon, random.Random(seed), slower)
            others = [asyncio.create_task(work) for work in (run.person(), run.trouble())]
            agents = asyncio.create_task(run.agents())
            async with asyncio.timeout(600 * slower):
                await asyncio.wait([agents, *others], return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                other.cancel()
            results = await asyncio.gather(agents, *others, return_exceptions=True)
            assert [type(result) for result in results] == [type(None), *[asyncio.CancelledError] * 2], results
            slack.mend()
            await no_live_button(run)
            return await the_record_is_whole(run)


async def no_live_button(run: Run) -> None:
    """Every message of every request, copies included, loses its buttons and says how it ended."""
    ends = {request.command: request.state for request in await run.daemon.store.requests(10 * REQUESTS)}
    assert set(ends) == set(run.answers) and State.PENDING not in ends.values()

    def live() -> list[Message]:
        return [card for card in run.ana.messages if card.buttons]

    await run.slack.workspace.wait_for(
        lambda: None if live() else True, 20, lambda: f"{[(card.ts, asked_by(card)) for card in live()]} are live"
    )
    said = {
        State.APPROVED: "Approved by Ana",
        State.DENIED: "Denied by Ana",
        State.UNDELIVERABLE: "Could not be asked",
        State.EXPIRED: "xpired",
    }
    for card in run.ana.messages:
        words = said.get(ends[asked_by(card)])
        assert words is None or words in card.plain(), (ends[asked_by(card)], card.plain())


async def the_record_is_whole(run: Run) -> Counter[State]:
    """Each request has one end; an answer is what its row says; nothing was decided that nobody pressed. The ends."""
    requests = {request.command: request for request in await run.daemon.store.requests(10 * REQUESTS)}
    lines = run.daemon.settings.log_path.read_text().splitlines()
    ended = Counter(
        entry["command"]
        for entry in map(json.loads, lines)
        if entry["decision"] in ("approved", "denied", "expired", "cancelled", "undeliverable")
    )
    assert ended == Counter(dict.fromkeys(requests, 1))
    for command, answer in run.answers.items():
        state = requests[command].state
        assert (answer == "allow") is (state is State.APPROVED), (command, answer, state)
        pressed = run.pressed.get(command, set())
        assert state is not State.APPROVED or "Approve" in pressed
        assert state is not State.DENIED or "Deny" in pressed
    states = Counter(request.state for request in requests.values())
    print(states, run.caused)
    return states
