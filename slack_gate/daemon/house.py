"""What is the same for every request of a daemon, and who asks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that waits: its nonce, how many seconds it says it can wait, and the bytes of its event."""

    nonce: str
    limit: float
    size: int = 0


@dataclass(frozen=True, slots=True)
class House:
    """What is the same for every request of this daemon; times in seconds."""

    home: str
    host: str
    approvers: Sequence[str]  # in Slack
    team: str
    surface: str
    wait: float
    hook_executor: str = "agent"  # what runs a hook's allowed command; `agent`: the agent itself
    escalate: float = 0.0  # seconds from one approver to the next; 0 asks all at once
    page: str = ""  # address of the page, empty without one
    terminal: bool = False  # a person can answer in the daemon's own terminal
