"""`--long`: tests that have a longer size run it, and examples are new ones each time. `paced`: new messages as slow as
Slack wants them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

from slack_gate.daemon import apart, posts, programs, turns
from slack_gate.local_slack import grants, socket_mode
from slack_gate.local_slack.workspace import Workspace
from slack_gate.slack import link

PATIENCE_S = 100.0  # below what a test may take, so that what did not come is named


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the longer sizes of tests that have one")


def pytest_configure(config: pytest.Config) -> None:
    long = bool(config.getoption("--long"))
    if long:
        os.environ["SLACK_GATE_LONG"] = "1"
    slow = [hypothesis.HealthCheck.too_slow]  # a slow machine is no fault
    hypothesis.settings.register_profile("tests", deadline=None, suppress_health_check=slow, derandomize=not long)
    hypothesis.settings.load_profile("tests")
    config.addinivalue_line("markers", "paced: new messages go out at the pace of the product, not at once")
    hear_signals()


def hear_signals() -> None:
    """What tests start and signal does not ignore it, though this program was started by `nohup` or in a script's `&`.

    A new program goes on ignoring what this one ignores, but not what it handles. Here they still do nothing.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(autouse=True)
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack's pace would make every test that asks for more than two things a slow one."""
    if request.node.get_closest_marker("paced") is None:
        monkeypatch.setattr(turns, "BURST", 1_000_000)


@pytest.fixture(autouse=True)
def patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product, the local Slack and whoever waits for it bear with a slow machine. A wait below 1 s is meant to be
    in vain, and Slack's own three seconds are what the tests of the local Slack are about."""
    within = Workspace.wait_for

    async def wait_for(self: Workspace, find: Callable[[], Any], timeout: float, missing: Callable[[], str]) -> Any:
        return await within(self, find, timeout if timeout < 1 else max(timeout, PATIENCE_S), missing)

    monkeypatch.setattr(Workspace, "wait_for", wait_for)
    for module, name in ((posts, "POST_S"), (apart, "LIMIT_S"), (programs, "START_S"), (link, "CALL_S")):
        monkeypatch.setattr(module, name, 60)
    if "local_slack" not in request.node.path.parts:
        monkeypatch.setattr(socket_mode, "ACK_SECONDS", 15.0)
        monkeypatch.setattr(grants, "TRIGGER_SECONDS", 15.0)
