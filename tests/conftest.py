"""`--long`: tests that have a longer size run it."""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the longer sizes of tests that have one")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        os.environ["SLACK_GATE_LONG"] = "1"
