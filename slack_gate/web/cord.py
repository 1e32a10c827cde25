"""The cord on the approval page: how it stands, a button, and the form that `slack-gate ask-on` sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from slack_gate.core.cord import Cord, Hand, Pull, state
from slack_gate.core.request import BY_PAGE

HAND = Hand(BY_PAGE, "human", "a person on the page")


class Controls(Protocol):
    """What the page needs of `daemon/controls.py`."""

    async def cord(self) -> Cord: ...

    async def pull(self, pull: Pull, hand: Hand, team: str = ...) -> str: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """For the template: a sentence, and what the one button does."""

    state: str
    pull: str
    label: str
    place: str


async def shown(controls: Controls) -> Shown:
    cord = await controls.cord()
    pull = Pull.RESUME if cord.paused else Pull.PAUSE
    return Shown(state(cord), pull.value, pull.value.capitalize(), cord.place.value)


async def pulled(controls: Controls, pull: Pull) -> str | None:
    """None when the cord stands as wanted now, else why not, in a sentence."""
    told = await controls.pull(pull, HAND)
    cord = await controls.cord()
    return None if cord.pulled(pull, HAND, 0.0) == cord else told
