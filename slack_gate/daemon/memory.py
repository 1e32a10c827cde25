"""What people decided before, as far as it bears on a call that is asked now, or on a rule that is saved."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cage import cage_policy
from slack_gate.core import rules
from slack_gate.core.event import ToolEvent
from slack_gate.core.ports import LookBack, Store
from slack_gate.core.request import Request, State
from slack_gate.core.secrets import readable

ALIKE_S = 3600.0  # how long a denial is compared with other wordings
IN_A_ROW = 3
MAX_COMPARED = 4000  # characters of a command; of a longer one, its first words
LOOK_BACK_S = 30 * 24 * 3600.0
MAX_MATCHED = 2000  # requests that are looked at to say how often a rule would have answered


async def remarks(store: Store, event: ToolEvent, now: float) -> str:
    """For the card: that this looks like something denied, that several were denied in a row; else empty."""
    decided = await store.session(event.agent, event.session, now - ALIKE_S)
    denied = [request for request in decided if request.state is State.DENIED]
    found = []
    if (alike := next((one for one in denied if _is_alike(one, event)), None)) is not None:
        who = alike.decided_name or alike.decided_by
        found.append(f"it is like {alike.id}, which {who} denied")
    row = next((n for n, one in enumerate(decided) if one.state is not State.DENIED), len(decided))
    if row >= IN_A_ROW:
        found.append(f"the last {row} of this session were denied (Pause on the Home tab stops the agent's asking)")
    return "; ".join(found)


def _is_alike(denied: Request, event: ToolEvent) -> bool:
    """The same program and a common target, however it is worded."""
    if denied.tool != event.tool:
        return False
    if event.command is None or denied.command is None:
        targets = _texts(event.tool_input.values()) & _texts(denied.tool_input.values())
        return any("/" in text or ":" in text for text in targets)
    mine, theirs = _words(event.command), _words(denied.command)
    return any(program in theirs and (not targets or targets & theirs[program]) for program, targets in mine.items())


def _words(command: str) -> dict[str, set[str]]:
    """Program to the words that are no options, over the simple commands of a text."""
    segments = cage_policy.read(command) if len(command) <= MAX_COMPARED else None
    argvs = [command[:MAX_COMPARED].split()] if segments is None else [list(segment.argv) for segment in segments]
    found: dict[str, set[str]] = {}
    for argv in filter(None, argvs):
        found.setdefault(argv[0], set()).update(word for word in argv[1:] if word[:1] != "-")
    return found


def _texts(values: object) -> set[str]:
    return {value for value in values if isinstance(value, str)}  # type: ignore[attr-defined]


async def look_back(store: Store, keys: Sequence[rules.Key], scope: rules.Rule, now: float) -> LookBack:
    """`scope` holds the session and directory that the keys would count in, beside the rules on file."""
    wanted, saved = set(keys), await store.rules()

    def covers(request: Request) -> bool:
        event = request.event
        own = set(rules.keys_to_remember(replace(event, tool_input=_readable(event.tool_input))))
        if not own & wanted or not scope.counts(event, now):
            return False
        return own <= wanted | {rule.key for rule in saved if rule.counts(event, now)}

    async def covered(most: float, only_denied: bool) -> AsyncIterator[Request]:
        skip = 0
        while skip < most and (page := await store.since(keys[0].tool, now - LOOK_BACK_S, skip, only_denied)):
            skip += len(page)
            for request in await asyncio.to_thread(lambda: [one for one in page if covers(one)]):
                yield request

    matched = len([one async for one in covered(MAX_MATCHED, False)])
    # All of them: what was asked since, by the same agent perhaps, pushes no denial out of view.
    denied = [one async for one in covered(math.inf, True) if one.lifted_at is None]
    return LookBack(matched, tuple(denied))


def _readable(tool_input: Mapping[str, Any]) -> Mapping[str, Any]:
    command = tool_input.get("command")
    return {**tool_input, "command": readable(command)} if isinstance(command, str) else tool_input
