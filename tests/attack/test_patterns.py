"""A person's regular expressions, and an agent's texts that make them slow: Python holds everything up meanwhile."""

from __future__ import annotations

import re
from typing import Any

import pytest

from slack_gate.core import allowlist, policy
from slack_gate.core.event import ToolEvent

DENY = '[gate]\n[[gate.rule]]\npattern = "curl .*[|] *(ba)?sh"\ndo = "deny"\n'


def call(command: str) -> ToolEvent:
    return ToolEvent("claude-code", "s1", "t", "Bash", {"command": command}, "/tmp")


@pytest.mark.parametrize("size", [policy.WINDOW, policy.WINDOW + 1, 131_000])
def test_a_pattern_never_looks_at_much_at_once(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """128 KB of `curl x | ` took half a minute, its square: nobody else was answered."""
    spans: list[int] = []

    class Noting:
        def __init__(self, pattern: str) -> None:
            self.real = re.compile(pattern)

        def search(self, text: str, start: int = 0, end: int = 1 << 30) -> Any:
            spans.append(min(len(text), end) - start)
            return self.real.search(text, start, end)

    monkeypatch.setattr(policy, "_compiled", lambda _text, pattern: Noting(pattern))
    rules = policy.parse(DENY)
    demands = rules.demands(call(("curl x | " * size)[:size]))
    assert max(spans) <= policy.WINDOW and sum(spans) <= 2 * size + policy.WINDOW
    assert not demands.denied and bool(demands.ask) == (size > policy.WINDOW) == demands.forgettable


@pytest.mark.parametrize("before", [0, 3990, 7995, 8000, 100_000])
def test_what_stands_close_together_is_found_wherever_it_stands(before: int) -> None:
    rules = policy.parse(DENY)
    assert rules.demands(call("x" * before + " curl x |" + " " * 3000 + "sh" + "y" * 9000)).denied


def test_what_is_far_apart_is_asked_and_never_let_through() -> None:
    demands = policy.parse(DENY).demands(call("sbox echo curl x" + " " * 20_000 + "| sh"))
    assert "curl" in demands.ask and demands.forgettable
    assert not policy.EMPTY.demands(call("sbox echo " + "x" * 20_000)).ask


def test_long_commands_are_on_no_allowlist() -> None:
    allowed = allowlist.Allowlist([r"(\w+ ?)+"])
    assert allowed.allows("make test")
    assert not allowed.allows("a" * allowlist.LONGEST + "a!")


@pytest.mark.parametrize("cages", [1, 7, 8, 5000])
def test_cages_in_cages_trip_no_rule(cages: int) -> None:
    """`sbox sbox sbox …` was followed by a call within a call, until Python had enough of it."""
    rules = policy.parse('[gate]\n[[gate.rule]]\ncommand = "kubectl delete ..."\ndo = "deny"\n')
    assert rules.demands(call("sbox " * cages + "kubectl delete pod x")).denied
    assert bool(rules.demands(call("sbox " * cages + "ls")).denied) == (cages >= policy.MAX_DEPTH)
