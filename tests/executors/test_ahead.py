"""A place that is made ready while the gate decides: used for what runs unasked, given up for everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slack_gate.core.event import RUNS, ToolEvent
from slack_gate.core.ports import Event
from slack_gate.core.request import Choice, Request, State
from slack_gate.core.run import Ran, Result
from slack_gate.daemon.house import Caller
from slack_gate.daemon.runs import Runs, Unwatched
from slack_gate.daemon.serve import _ahead
from slack_gate.errors import StoreError
from slack_gate.executors.cage import Cage
from tests.daemon.desk import Desk, desk

SBOX = Path(__file__).parents[2] / "cage" / "sbox"


@dataclass
class Place:
    """Says what became of it, and in which state its request was then."""

    d: Desk
    ended: list[str] = field(default_factory=list)

    async def run(self, timeout: float, stop: Event, output: Callable[[str, bytes], None]) -> Result:
        row = (await self.d.store.since(RUNS["cage"], 0.0))[0]
        self.ended.append(f"run when {row.state}")
        return Result(0, b"here\n")

    def drop(self) -> None:
        self.ended.append("dropped")


class Asked(Unwatched):
    """Hands the request to the test."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Request] = asyncio.Queue()

    def asked(self, request: Request) -> None:
        self.requests.put_nowait(request)


@pytest.fixture
async def d(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "projects").mkdir(parents=True)
    async with desk(tmp_path, executors=("cage", "sandboxer")) as one:
        yield one


async def _asking(d: Desk, place: Place, command: str, watch: Unwatched) -> Ran:
    runs = Runs(d.gate, d.store, {"cage": Cage(str(SBOX))}, d.clock, lambda event: place)
    tool_input = {"command": command, "timeoutSeconds": 30}
    event = ToolEvent("agent", "/run", None, RUNS["cage"], tool_input, str(Path.home() / "projects"))
    return await runs.ask(event, Caller("0" * 32, 330.0), watch)


async def test_it_starts_when_the_claim_is_on_file(d: Desk) -> None:
    place = Place(d)
    ran = await _asking(d, place, "pwd", Unwatched())
    assert (place.ended, ran.by) == (["run when running"], "allowlist")
    assert ran.result == Result(0, b"here\n")
    assert (await d.store.request(ran.request or "")).state is State.FINISHED  # type: ignore[union-attr]


async def test_nothing_starts_in_it_for_what_is_asked(d: Desk) -> None:
    place, watch = Place(d), Asked()
    asking = asyncio.create_task(_asking(d, place, "echo approved", watch))
    request = await watch.requests.get()
    assert place.ended == ["dropped"]  # not kept while a person thinks
    await d.click(request, Choice.APPROVE)
    ran = await asking
    assert place.ended == ["dropped"]
    assert ran.result is not None and ran.result.stdout == b"approved\n"  # in a cage of its own


async def test_nothing_starts_in_it_when_the_claim_cannot_be_filed(d: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> Request:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(d.store, "admitted", full)
    place = Place(d)
    with pytest.raises(StoreError):
        await _asking(d, place, "pwd", Unwatched())
    assert place.ended == ["dropped"]


@pytest.mark.parametrize(
    ("command", "executor", "made"),
    [
        ("pwd", "cage", True),
        ("sbox make test", "cage", True),  # green
        ("make test", "cage", False),
        ("pwd; id", "cage", False),
        ("pwd", "sandboxer", False),
        (f"ls {'x' * 20_000}", "cage", False),  # too long to be judged twice
    ],
)
async def test_the_daemon_makes_it_for_what_will_run_unasked(
    d: Desk, monkeypatch: pytest.MonkeyPatch, command: str, executor: str, made: bool
) -> None:
    cage, asked = Cage(None), []
    monkeypatch.setattr(cage, "built", lambda *words: asked.append(words))
    tool_input = {"command": command, "timeoutSeconds": 30}
    event = ToolEvent("agent", "/run", None, RUNS[executor], tool_input, str(Path.home() / "projects"))
    _ahead(d.gate._judge, cage)(event)
    assert asked == ([(command, event.cwd)] if made else [])
