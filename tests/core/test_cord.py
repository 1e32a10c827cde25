"""Pulling the cord, as a table, and the words about it."""

from __future__ import annotations

import pytest

from slack_gate.core.cord import Cord, Hand, Place, Pull, denial, state

ANA = Hand("human-slack", "U0ANA", "Ana")
BEN = Hand("human-slack", "U0BEN", "Ben")
PAUSED = Cord(Place.SLACK, 100.0, "Ana")


@pytest.mark.parametrize(
    ("before", "pull", "after"),
    [
        (Cord(), Pull.PAUSE, Cord(Place.SLACK, 200.0, "Ben")),
        (PAUSED, Pull.PAUSE, PAUSED),
        (PAUSED, Pull.RESUME, Cord()),
        (Cord(), Pull.RESUME, Cord()),
        (Cord(), Pull.CONSOLE, Cord(Place.CONSOLE)),
        (PAUSED, Pull.WEB, Cord(Place.WEB, 100.0, "Ana")),  # another place ends no pause
        (Cord(Place.CONSOLE, 100.0, "Ana"), Pull.RESUME, Cord(Place.CONSOLE)),  # and a resume moves it nowhere
        (Cord(Place.WEB), Pull.SLACK, Cord()),
    ],
)
def test_a_pull(before: Cord, pull: Pull, after: Cord) -> None:
    assert before.pulled(pull, BEN, 200.0) == after


def test_the_agent_is_told_who_paused_since_when_and_how_it_ends() -> None:
    words = denial(Cord(Place.SLACK, 0.0, "Ana\n\u202eevil"))
    assert "paused by Ana⏎\\u{202e}evil at 1970-01-01 00:00 UTC" in words
    assert "/gate resume" in words and "not a refusal" in words
    assert state(PAUSED).startswith("Paused by Ana since 1970-01-01 00:01 UTC")
    assert state(Cord(Place.WEB)) == "Gated calls are asked on the approval page and the terminal only, without cards."
