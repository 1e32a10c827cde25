"""The cord on the approval page: how it stands, a button, and the form that `slack-gate ask-on` sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slack_gate.core.cord import PLACES, Cord, Hand, Place, Pull, state
from slack_gate.core.request import BY_PAGE

HAND = Hand(BY_PAGE, "human", "a person on the page")


class Controls(Protocol):
    """What the page needs of `daemon/controls.py`."""

    @property
    def approvers(self) -> Sequence[str]:
        """Who is asked in Slack; nobody where it is not used."""
        ...

    async def cord(self) -> Cord: ...

    async def pull(self, pull: Pull, hand: Hand, team: str = ...) -> str: ...


@dataclass(frozen=True, slots=True)
class Shown:
    """For the template: a sentence, and what the one button does."""

    state: str
    pull: str
    label: str
    places: Sequence[tuple[str, str, bool]]  # word, in words, whether it is there already


HERE = "on the approval page"  # in the words for Slack where Slack is not used


async def said(controls: Controls) -> str:
    """How it stands, in a sentence."""
    return _said(await controls.cord(), controls)


def _said(cord: Cord, controls: Controls) -> str:
    here = not controls.approvers and cord.place is Place.SLACK and not cord.paused
    return f"Gated calls are asked {HERE}." if here else state(cord)


async def shown(controls: Controls) -> Shown:
    cord = await controls.cord()
    pull = Pull.RESUME if cord.paused else Pull.PAUSE
    words = PLACES if controls.approvers else {**PLACES, Place.SLACK: HERE}
    # Without Slack there are no cards to do without: that place is offered only to those who are there.
    offered = [place for place in words if controls.approvers or place is not Place.WEB or cord.place is Place.WEB]
    places = [(place.value, words[place], place is cord.place) for place in offered]
    return Shown(_said(cord, controls), pull.value, pull.value.capitalize(), places)


async def pulled(controls: Controls, pull: Pull) -> str | None:
    """None when the cord stands as wanted now, else why not, in a sentence."""
    told = await controls.pull(pull, HAND)
    cord = await controls.cord()
    return None if cord.pulled(pull, HAND, 0.0) == cord else told
