"""One tool call of an agent, as its hook reported it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What the gate itself carries out, by executor; such a name is bound into the digest and into what Always remembers.
RUNS = {"cage": "run in the cage", "sandboxer": "run in the Sandboxer"}
APPROVAL = "a yes or no"  # a sentence that a person agrees to or not; nothing runs
OWN_TOOLS = frozenset({*RUNS.values(), APPROVAL})  # no agent's tool may pass for one of these
SHELL_TOOLS = frozenset({"Bash", *RUNS.values()})


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """`tool_input` is the agent's JSON object untouched; `call` the host's id of this call, None where it has none.

    `rewritable`: the host runs another input where the answer holds one. `prompts`: told to ask, the host is measured
    to hold this call until a person at its own prompt has decided. `search_path`: the PATH of the agent's processes,
    empty where it is not known.
    """

    agent: str
    session: str
    call: str | None
    tool: str
    tool_input: Mapping[str, Any]
    cwd: str
    moment: str = "PreToolUse"
    mode: str = ""
    subagent: str = ""
    rewritable: bool = False
    prompts: bool = False
    search_path: str = ""

    @property
    def command(self) -> str | None:
        """The shell text, or None for a tool that is not a shell."""
        if self.tool not in SHELL_TOOLS:
            return None
        command = self.tool_input.get("command")
        return command if isinstance(command, str) else None

    @property
    def executor(self) -> str | None:
        """Which executor of the gate is to run it; None for a call that the agent carries out itself."""
        return next((name for name, tool in RUNS.items() if tool == self.tool), None)

    @property
    def unusual_flags(self) -> tuple[str, ...]:
        """Fields the agent sets to run outside the ordinary way; each makes remembered rules inapplicable."""
        names = ("dangerouslyDisableSandbox", "run_in_background")
        return tuple(name for name in names if self.tool_input.get(name))


@dataclass(frozen=True, slots=True)
class NoDecision:
    """An event the host only announces (a notification): nothing to allow, nothing to ask."""

    agent: str
    session: str
    moment: str


class MalformedEvent(Exception):
    """The event cannot be read exactly; the message is the sentence the agent gets."""
