"""Texts for a shell: the call that runs one in the cage, what of one with `sbox` runs in there, how long one may be."""

from __future__ import annotations

import shlex

from cage import cage_policy
from slack_gate.core.event import ToolEvent
from slack_gate.core.respell import respelled


def wrapped(event: ToolEvent) -> str | None:
    """`sbox bash -c` with exactly the text of this call; None where the host takes no other text, or it is not sure."""
    command = event.command
    if command is None or not event.rewritable or command[:1] in "-+":  # bash takes a leading dash for options
        return None
    caged = f"sbox bash -c {shlex.quote(command)}"
    return caged if [one.argv for one in cage_policy.read(caged) or []] == [("sbox", "bash", "-c", command)] else None


def unstartable(command: str) -> str | None:
    """Why no shell can be started with this text, with its length; None where one can."""
    size = len(command.encode("utf-8", "surrogatepass"))
    if size <= cage_policy.MAX_COMMAND:
        return None
    return (
        f"The command has {len(command)} characters, {size} bytes; no shell can be started with more than "
        f"{cage_policy.MAX_COMMAND} bytes. Put it into a file, and run that."
    )


def inside(command: str) -> tuple[tuple[str, ...], str] | None:
    """The options for `sbox`, and the text to run in it; None when `command` asks for cages that cannot be one.

    `sbox make` is `make` there; `sbox --net-allow NAME -- make` is too, in a cage with that grant.
    """
    segments = cage_policy.read(command) or []
    if not any(segment.argv[0] == "sbox" for segment in segments):
        return (), command
    argv = segments[0].argv
    if len(segments) == 1 and not segments[0].redirected:
        if argv[1:2] == ("--net-allow",) and argv[3:4] == ("--",):
            return (argv[1:3], shlex.join(argv[4:])) if argv[4:] else None
        if argv[1:2] == ("--",) or not argv[1:]:
            return ((), shlex.join(argv[2:])) if argv[2:] else None
    if any(segment.argv[0] == "sbox" and segment.argv[1:2] and segment.argv[1][:1] == "-" for segment in segments):
        return None
    bare = respelled(command, {"sbox": ("command",)})  # `command` runs a program as `sbox` would: no alias, no function
    return None if bare is None else ((), bare)
