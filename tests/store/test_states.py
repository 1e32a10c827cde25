"""The table of states against the store, in any order of events, on two daemons of one database that are restarted at
will. The model is a dict; what the store says, and what the log holds, must be the same."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import func, select

from slack_gate.core.ports import Verdict
from slack_gate.core.request import Choice, Request, State, may
from slack_gate.core.rules import Key
from slack_gate.core.run import Result, not_started, unknown
from slack_gate.store.log import verify
from slack_gate.store.store import Store
from slack_gate.store.tables import runs
from tests.store.place import NOW, REQUEST, Place, click, submitted
from tests.store.server import Server

HOMES = ("a:/run", "b:/run")
WHO = st.sampled_from(HOMES)
LONG = bool(os.environ.get("SLACK_GATE_LONG"))


class States(RuleBasedStateMachine):
    """`new_url` makes an empty database; set by the test."""

    new_url: Callable[[Path], str]
    asked = Bundle("asked")
    claimed = Bundle("claimed")

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="gate-states-"))
        self.loop = asyncio.new_event_loop()
        self.model: dict[str, State] = {}
        self.home: dict[str, str] = {}
        self.over: set[str] = set()
        self.lines: dict[str, list[str]] = {}
        self.words: set[tuple[str, ...]] = set()
        self.open: dict[str, tuple[Place, Store, AsyncExitStack]] = {}

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        url = type(self).new_url(self.place)
        for number, home in enumerate(HOMES):
            path = self.place / str(number)
            path.mkdir()
            # In SQLite both write one log; a fleet has one for each home.
            place = Place(self.place if url.startswith("sqlite") else path, url)
            self._open(home, place)

    def _open(self, home: str, place: Place) -> None:
        stack = AsyncExitStack()
        self.open[home] = place, self.run(stack.enter_async_context(place.store(home=home))), stack

    def store(self, home: str) -> Store:
        return self.open[home][1]

    def moved(self, request: str, state: State) -> None:
        assert may(self.model[request], state)
        self.model[request] = state
        self.lines[request].append(state.value)

    @rule(target=asked, home=WHO, over=st.booleans())
    def submit(self, home: str, over: bool) -> str:
        number = len(self.model)
        times = {"created_at": NOW - 20, "expires_at": NOW - 10} if over else {}
        request = replace(REQUEST, id=f"SG-{number}", key=f"toolu_{number}", home=home, **times)
        self.run(submitted(self.store(home), request))
        self.model[request.id], self.home[request.id] = State.PENDING, home
        self.lines[request.id] = ["pending"]
        if over:
            self.over.add(request.id)
        return request.id

    @rule(home=WHO, request=asked)
    def submit_the_same_call(self, home: str, request: str) -> None:
        key = f"toolu_{request.removeprefix('SG-')}"
        again: Request = self.run(
            self.store(home).submitted(replace(REQUEST, id="SG-again", key=key), ["U0ANA"], "slack")
        )
        assert (again.id, again.state) == (request, self.model[request])

    @rule(home=WHO, request=asked, choice=st.sampled_from([Choice.APPROVE, Choice.DENY, Choice.ALWAYS]))
    def decide(self, home: str, request: str, choice: Choice) -> None:
        keys = [Key("Bash", ("touch",))]
        made = self.run(self.store(home).decided(click(choice, request=request), keys, ["touch"], NOW))
        wins = self.model[request] is State.PENDING and request not in self.over
        assert made.verdict is (Verdict.DECIDED if wins else Verdict.ENDED)
        if wins:
            self.moved(request, State.DENIED if choice is Choice.DENY else State.APPROVED)
            if choice is Choice.ALWAYS:
                self.words.add(("touch",))

    @rule(home=WHO, request=asked, wrong=st.sampled_from([{"digest": "d2"}, {"user": "U0EVE"}, {"message": "9.9"}]))
    def decide_something_else(self, home: str, request: str, wrong: dict[str, str]) -> None:
        made = self.run(self.store(home).decided(click(request=request, **wrong), (), (), NOW))
        assert made.verdict in (Verdict.STALE, Verdict.FOREIGN)

    @rule(home=WHO)
    def expire(self, home: str) -> None:
        store = self.store(home)
        ended = {request.id for request in self.run(store.expired(home, NOW))}
        due = {one for one in self.over if self.model[one] is State.PENDING}
        if store.database.shared:  # the others' are theirs to end
            due = {one for one in due if self.home[one] == home}
        assert ended == due
        for request in due:
            self.moved(request, State.EXPIRED)

    @rule(home=WHO, request=asked, state=st.sampled_from([State.CANCELLED, State.UNDELIVERABLE]))
    def end(self, home: str, request: str, state: State) -> None:
        store = self.store(home)
        work = store.cancelled if state is State.CANCELLED else store.undeliverable
        ended = self.run(work(request, "gone", NOW))
        assert (ended is not None) == (self.model[request] is State.PENDING)
        if ended is not None:
            self.moved(request, state)

    @rule(target=claimed, request=asked)
    def claim(self, request: str) -> tuple[str, str]:
        run = f"run-{request}-{len(self.lines[request])}"
        started = self.run(self.store(self.home[request]).claimed(request, run, "cage", NOW))
        assert (started is not None) == (self.model[request] is State.APPROVED)
        if started is not None:
            self.moved(request, State.RUNNING)
        return request, run

    @rule(which=consumes(claimed), end=st.sampled_from([State.FINISHED, State.LOST, State.NOT_RUN]))
    def finish(self, which: tuple[str, str], end: State) -> None:
        request, run = which
        result = {State.LOST: unknown("the daemon died"), State.NOT_RUN: not_started("no cage")}.get(end, Result(0))
        ended = self.run(self.store(self.home[request]).finished(run, result, "", "", NOW))
        if ended is not None:
            self.moved(request, end)

    @rule(request=asked, filed=st.booleans())
    def do_not_run(self, request: str, filed: bool) -> None:
        """Its claim may have been filed or not; another one's is left alone."""
        state = self.model[request]
        run = f"run-{request}-{self.lines[request].index(state.value)}" if filed and state is State.RUNNING else "run-x"
        store = self.store(self.home[request])
        ended = self.run(store.not_run(request, run, not_started("the log is full"), NOW))
        assert (ended is not None) == (state is State.APPROVED or run != "run-x")
        if ended is not None:
            assert ended.reason == "the log is full"
            self.moved(request, State.NOT_RUN)

    @rule(home=WHO)
    def lose(self, home: str) -> None:
        ended = {request.id for request in self.run(self.store(home).lost(home, NOW))}
        assert ended == {one for one in self.model if self.model[one] is State.RUNNING and self.home[one] == home}
        for request in ended:
            self.moved(request, State.LOST)

    @rule(home=WHO)
    def restart(self, home: str) -> None:
        place, _, stack = self.open[home]
        self.run(stack.aclose())
        self._open(home, place)

    @invariant()
    def the_rows_are_as_the_model_says(self) -> None:
        if not self.open:
            return
        for home in HOMES:
            rows = self.run(self.store(home).requests(1000))
            assert {row.id: row.state for row in rows} == self.model
            assert {rule.key.words for rule in self.run(self.store(home).rules())} == self.words

    @invariant()
    def nothing_ran_twice(self) -> None:
        if self.open:
            count = self.run(
                self.store(HOMES[0]).database.run(
                    lambda c: c.execute(select(func.count(), func.count(runs.c.request.distinct()))).one()
                )
            )
            filed = sum("running" in lines for lines in self.lines.values())
            assert tuple(count) == (filed, filed)

    def teardown(self) -> None:
        try:
            if self.open:
                self.the_logs_are_whole()
        finally:
            for _, _, stack in self.open.values():
                self.run(stack.aclose())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.place)

    def the_logs_are_whole(self) -> None:
        found: dict[str, list[str]] = {request: [] for request in self.model}
        at = {place.log: store for place, store, _ in self.open.values()}
        for path, store in at.items():
            self.run(store.recorded())
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
            assert verify(lines, self.run(store.log_head())) is None
            for line in map(json.loads, lines):
                found[line["request"]].append(line["decision"])
        assert {one: sorted(lines) for one, lines in found.items()} == {
            one: sorted(lines) for one, lines in self.lines.items()
        }


def play(new_url: Callable[[Path], str], examples: int) -> None:
    machine = type("Machine", (States,), {"new_url": staticmethod(new_url)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=not LONG,
            database=None,
        ),
    )


@pytest.mark.timeout(3600)
def test_sqlite() -> None:
    play(lambda place: f"sqlite:///{place / 'gate.db'}", 400 if LONG else 10)


@pytest.mark.timeout(3600)
def test_postgresql(postgresql: Server) -> None:
    play(lambda place: postgresql.new_database(), 200 if LONG else 5)


def test_the_model_knows_every_state() -> None:
    assert set(State) == {state for start in State for state in State if may(start, state)} | {State.PENDING}
