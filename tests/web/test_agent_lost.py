"""What a caller of the agent endpoint is told of a run that may have happened: over real HTTP, in both forms."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from slack_gate.core.ports import Event
from slack_gate.core.run import Result, not_started, unknown
from tests.web.conftest import Doors


@pytest.mark.parametrize(
    ("result", "lost"),
    [
        (Result(None, code="E500", error="it broke", known=False), True),
        (unknown("The Sandboxer hung up;"), True),
        (not_started("Bad key.", "E401"), False),
        (Result(0, b"done"), False),
        (Result(None, timed_out=True), False),
    ],
)
async def test_whether_it_may_have_run(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, result: Result, lost: bool
) -> None:
    class Broken:
        name = "cage"

        async def run(
            self, command: str, cwd: str, timeout: float, stop: Event, output: Callable[[str, bytes], None]
        ) -> Result:
            return result

    runs = doors.daemon.runs
    monkeypatch.setattr(runs, "_executors", {"cage": Broken()})
    monkeypatch.setattr(runs, "_ahead", lambda event: None)
    answer = await doors.run(command="pwd")
    assert (answer["lost"], answer["exitCode"], answer["code"]) == (lost, result.exit_code, result.code)
    head = {"Accept": "application/x-ndjson"}
    async with doors.agent.post(doors.run_url, json={"command": "pwd"}, headers=head) as streamed:
        end = json.loads((await streamed.read()).splitlines()[-1])
    assert (end["event"], end["lost"]) == ("end", lost)
    state = (await doors.daemon.store.request(answer["request"])).state  # type: ignore[union-attr]
    assert (state == "lost") is lost
