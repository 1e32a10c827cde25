"""One pure file an agent: bytes to ToolEvent, Answer to bytes and exit code, and where its settings live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from slack_gate.agents import claude_code
from slack_gate.core.answer import Answer
from slack_gate.core.event import NoDecision, ToolEvent


class Agent(Protocol):
    """What a module in this package offers."""

    NAME: str

    def parse(self, event: bytes) -> ToolEvent | NoDecision:
        """Raises MalformedEvent with the sentence for the agent."""
        ...

    def render(self, answer: Answer, event: ToolEvent | NoDecision | None) -> tuple[int, bytes]:
        """Exit code 0 or 2, and the bytes for stdout (0) or stderr (2); never (2, b"")."""
        ...


AGENTS: Mapping[str, Agent] = {claude_code.NAME: claude_code}
