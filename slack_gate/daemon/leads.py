"""Where what a call names leads: an approval is for that place, and a link on the way may be changed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Mapping

from slack_gate.core.display import one_line
from slack_gate.core.event import APPROVAL, ToolEvent
from slack_gate.daemon.files_now import path_of

MAX_PLACE = 100  # of a place that a card names


def leads_of(event: ToolEvent) -> Mapping[str, str]:
    """The working directory and the file that a tool changes, with every link followed; of a file agents strike out
    NAME/.. before."""
    named = _named(event).items()
    return {what: os.path.realpath(os.path.normpath(path) if what == "file" else path) for what, path in named}


def led_elsewhere(event: ToolEvent) -> str:
    """For the card: where these are, if that is not what the call itself says; else empty."""
    named = _named(event)
    led = [(what, real) for what, real in leads_of(event).items() if real != _plain(named[what])]
    return "; ".join(f"its {what} leads to {one_line(real, MAX_PLACE)}" for what, real in led)


def _named(event: ToolEvent) -> Mapping[str, str]:
    if event.tool == APPROVAL:
        return {}
    named = {"directory": event.cwd, "file": path_of(event)}
    return {what: path.replace("\0", "") for what, path in named.items() if path}


def _plain(path: str) -> str:
    """As it is read; `..` stays, for a reader would have to work out where it leads."""
    return path if ".." in path.split("/") else os.path.normpath(path)
