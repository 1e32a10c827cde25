"""What is released into the cage: the text that runs there instead of the agent's, on hosts that take another input."""

from __future__ import annotations

from cage import cage_policy
from slack_gate.core.event import ToolEvent
from slack_gate.core.respell import respelled


def caged_git(event: ToolEvent, git: str) -> str | None:
    """A line of local git with `sbox` before each `git` (the absolute path of it), or None where it is not to be caged.

    In the cage nothing that the repository holds gets out, so what it holds is no reason to ask.
    """
    if event.command is None or not event.rewritable:
        return None
    line = [segment.argv for segment in cage_policy.read(event.command) or []]
    if not line or any(argv[0] != "git" for argv in line) or not cage_policy.works_caged(line, event.cwd):
        return None
    return _green(event, respelled(event.command, {"git": ("sbox", git)}))


def _green(event: ToolEvent, command: str | None) -> str | None:
    """`command` where the same call with this text is green by itself."""
    if command is None:
        return None
    changed = {**event.tool_input, "command": command}
    return command if cage_policy.classify(event.tool, changed, event.cwd) == "green" else None
