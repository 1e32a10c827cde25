"""`--long`: tests that have a longer size run it. `paced`: new messages as slow as Slack wants them."""

from __future__ import annotations

import os

import pytest

from slack_gate.daemon import turns


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the longer sizes of tests that have one")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        os.environ["SLACK_GATE_LONG"] = "1"
    config.addinivalue_line("markers", "paced: new messages go out at the pace of the product, not at once")


@pytest.fixture(autouse=True)
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack's pace would make every test that asks for more than two things a slow one."""
    if request.node.get_closest_marker("paced") is None:
        monkeypatch.setattr(turns, "BURST", 1_000_000)
