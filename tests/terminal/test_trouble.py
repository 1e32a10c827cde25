"""The terminal beside a database that is away and a gate that fails: it says so, and goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slack_gate import terminal
from slack_gate.core.offers import Offers
from slack_gate.core.ports import Click, Verdict
from slack_gate.core.request import Choice, Decision, Request
from slack_gate.errors import StoreError
from slack_gate.terminal import PROMPT, Terminal
from tests.daemon.desk import Desk, desk


@dataclass
class Troubled:
    """A real gate and store that fail as often as told."""

    desk: Desk
    listeners: list[Callable[[], None]]
    reading: list[Exception] = field(default_factory=list)
    deciding: list[Exception] = field(default_factory=list)

    async def request(self, request: str) -> Request | None:
        return await self.desk.store.request(request)

    async def pending(self, home: str) -> list[Request]:
        if self.reading:
            raise self.reading.pop(0)
        return await self.desk.store.pending(home)

    def offers(self, request: Request) -> Offers:
        return self.desk.gate.offers(request)

    async def decide(self, decision: Decision) -> Click:
        if self.deciding:
            raise self.deciding.pop(0)
        return await self.desk.gate.decide(decision)


class Pipes:
    """What the person types and reads."""

    def __init__(self) -> None:
        self.stdin, self._typing = os.pipe()
        self._reading, self.stdout = os.pipe()
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._typing, text.encode())

    async def reads(self, text: str, times: int = 1) -> str:
        async with asyncio.timeout(100):
            while self.seen.count(text) < times:
                await terminal_readable(self._reading)
                self.seen += os.read(self._reading, 65536).decode()
        return self.seen

    def close(self) -> None:
        for descriptor in (self.stdin, self._typing, self._reading, self.stdout):
            os.close(descriptor)


async def terminal_readable(descriptor: int) -> None:
    ready = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, ready.set)
    await ready.wait()
    asyncio.get_running_loop().remove_reader(descriptor)


@pytest.fixture
async def sat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Troubled, Pipes]]:
    monkeypatch.setattr(terminal, "AGAIN_S", 0.0)
    listeners: list[Callable[[], None]] = []
    (tmp_path / "policy.toml").write_text('[[gate.rule]]\ncommand = "terraform ..."\ndo = "never-remember"\n')
    async with desk(tmp_path, lambda: [heard() for heard in listeners] and None, terminal=True) as one:
        troubled, pipes = Troubled(one, listeners), Pipes()
        sitting = Terminal(troubled, troubled, "box:/run/gate.sock", True, listeners.append, pipes.stdin, pipes.stdout)
        task = asyncio.create_task(sitting.run())
        yield troubled, pipes
        assert not task.done(), task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        pipes.close()


async def test_a_database_that_is_away(sat: tuple[Troubled, Pipes]) -> None:
    troubled, pipes = sat
    troubled.reading += [StoreError("The database is locked.")] * 2
    await troubled.desk.asked()
    await pipes.reads("The database is locked.", 2)
    await pipes.reads(PROMPT)
    pipes.type("y\n")
    await pipes.reads("Approved SG-")


async def test_always_is_offered_only_where_the_gate_takes_it(sat: tuple[Troubled, Pipes]) -> None:
    troubled, pipes = sat
    for command, offer in (
        ("terraform apply", "y: once. No always: nothing of this can be remembered exactly. r REASON"),
        ("make deploy", "y: once. a: always, make deploy (any arguments, any directory, runs in the cage). r REASON"),
    ):
        asked = await troubled.desk.asked(troubled.desk.event(command))
        assert bool(troubled.desk.gate.offers(asked).keys) is ("a: always" in offer)
        await pipes.reads(offer)
        pipes.type("y\n")
        await pipes.reads(f"Approved {asked.id}")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StoreError("The disk is full.\x1b[2J"), "Nothing was decided. The disk is full.\\u{1b}[2J"),
        (KeyError("oops"), "Nothing was decided. slack-gate failed (KeyError)."),
    ],
)
async def test_an_answer_that_cannot_be_recorded(sat: tuple[Troubled, Pipes], error: Exception, words: str) -> None:
    troubled, pipes = sat
    troubled.deciding.append(error)
    await troubled.desk.asked()
    await pipes.reads(PROMPT)
    pipes.type("y\n")
    await pipes.reads(words)
    assert troubled.desk.decisions() == ["pending"]
    await troubled.desk.asked()  # the next one is asked
    await pipes.reads(PROMPT, 2)
    pipes.type("n\n")
    await pipes.reads("Denied SG-")


async def test_a_late_answer_is_told(sat: tuple[Troubled, Pipes]) -> None:
    """Decided on another surface in the moment in which it is answered here."""
    troubled, pipes = sat
    request = await troubled.desk.asked()
    await pipes.reads(PROMPT)
    troubled.listeners.clear()  # the news is still on its way
    assert (await troubled.desk.click(request)).verdict is Verdict.DECIDED
    pipes.type("n\n")
    await pipes.reads("Too late, nothing changed: Ana approved it.")
    assert troubled.desk.decisions()[:2] == ["pending", "approved"]


async def test_a_decision_is_bound_to_what_was_shown(sat: tuple[Troubled, Pipes]) -> None:
    troubled, pipes = sat
    request = await troubled.desk.asked()
    forged = replace(request, digest="another")
    decision = Decision(forged.id, forged.digest, Choice.APPROVE, "human-cli", "me", "me")
    assert (await troubled.decide(decision)).verdict is Verdict.STALE
    await pipes.reads(PROMPT)
    pipes.type("y\n")
    await pipes.reads("Approved SG-")
