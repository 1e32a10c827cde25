"""The cord: where gated calls are asked, and whether any are. People pull it, agents never do; it outlives restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from slack_gate.core.display import one_line


class Place(StrEnum):
    SLACK = "slack"  # cards, and whatever else the daemon was started with
    WEB = "web"  # no cards: only the approval page and the daemon's terminal
    CONSOLE = "console"  # the agent's own permission prompt


class Pull(StrEnum):
    """What a person can do to it, by the word that is typed; each place is one too."""

    PAUSE = "pause"
    RESUME = "resume"
    SLACK = Place.SLACK.value
    WEB = Place.WEB.value
    CONSOLE = Place.CONSOLE.value

    @property
    def place(self) -> Place | None:
        return None if self in (Pull.PAUSE, Pull.RESUME) else Place(self.value)


@dataclass(frozen=True, slots=True)
class Hand:
    """Who pulls: `by` is how the log names the way (`human-slack`), `user` the Slack id there, `name` for reading.

    `press` is Slack's own id of the press or the command, which it may bring twice, also to another daemon or after a
    restart; empty where nothing does.
    """

    by: str
    user: str
    name: str
    press: str = ""


@dataclass(frozen=True, slots=True)
class Cord:
    """As it stands. `paused_at` in seconds since the epoch, None while gated calls are asked."""

    place: Place = Place.SLACK
    paused_at: float | None = None
    paused_by: str = ""

    @property
    def paused(self) -> bool:
        return self.paused_at is not None

    def pulled(self, pull: Pull, hand: Hand, now: float) -> Cord:
        """Equal to this one when that changes nothing: who paused first stays named."""
        if (place := pull.place) is not None:
            return replace(self, place=place)
        if pull is Pull.RESUME:
            return replace(self, paused_at=None, paused_by="")
        return self if self.paused else replace(self, paused_at=now, paused_by=hand.name)


PLACES = {
    Place.SLACK: "in Slack",
    Place.WEB: "on the approval page and the terminal only, without cards",
    Place.CONSOLE: "at the agent's own permission prompt",
}


def state(cord: Cord) -> str:
    """One sentence on how it stands."""
    if cord.paused:
        return (
            f"Paused by {one_line(cord.paused_by, 80)} since {moment(cord.paused_at)}: gated calls are denied at once."
        )
    return f"Gated calls are asked {PLACES[cord.place]}."


def denial(cord: Cord) -> str:
    """What an agent is told while it is paused."""
    return (
        f"slack-gate was paused by {one_line(cord.paused_by, 80)} at {moment(cord.paused_at)}, so nothing that needs "
        "asking runs. This is not a refusal of this call: go on with what needs no asking, and say that it waits. An "
        "approver ends the pause with `/gate resume` in Slack."
    )


NO_PROMPT = (
    "Gated calls are left to the agent's own permission prompt now (`/gate console`), and here no such prompt is known "
    "to hold this call, so it did not run. An approver can type `/gate slack` to be asked in Slack again."
)
NOWHERE = (
    "Gated calls are asked on the approval page and the terminal only now (`/gate web`), and this daemon has neither, "
    "so it did not run. An approver can type `/gate slack` to be asked in Slack again."
)
LEFT = "slack-gate leaves this to you"  # what the agent's own prompt shows before why it was gated


def moment(time: float | None) -> str:
    return datetime.fromtimestamp(time or 0.0, UTC).strftime("%Y-%m-%d %H:%M UTC")
