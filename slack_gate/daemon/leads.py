"""Where what a call names leads: an approval is for that place, and a link on the way may be changed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Mapping

from slack_gate.core.event import APPROVAL, ToolEvent
from slack_gate.daemon.files_now import path_of


def leads_of(event: ToolEvent) -> Mapping[str, str]:
    """The working directory and the file that a tool changes, with every link followed."""
    named = {"directory": event.cwd, "file": path_of(event)}
    if event.tool == APPROVAL:
        return {}
    return {what: os.path.realpath(path.replace("\0", "")) for what, path in named.items() if path}
