"""Programs that the agent's PATH finds where caged code can write, as in a project's environment.

Such a name means what caged code put there: a card says so, and an approval is for what it held.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from cage import cage_policy
from slack_gate.core.display import one_line
from slack_gate.core.event import ToolEvent
from slack_gate.core.respell import BUILTINS
from slack_gate.daemon import words
from slack_gate.daemon.programs import is_reached

MAX_NAMED = 3  # on a card
MAX_FILE = 100  # characters of a file that a card names
_MAX_NAME = 255  # bytes, of any file system's


def planted_words(event: ToolEvent) -> str:
    """For the card: which programs of the command these are; else empty."""
    if event.command is None or not event.search_path or len(event.command) > cage_policy.MAX_COMMAND:
        return ""
    argvs = words.certain(event.command)
    names = [argv[0] for argv in argvs] if argvs else [word for line in words.readings(event.command) for word in line]
    files = planted(event.search_path, [event.cwd], (name for name in names if name not in BUILTINS))
    said = [f"{one_line(os.path.basename(file), MAX_FILE)} is {one_line(file, MAX_FILE)}" for file in files]
    more = f" and {len(said) - MAX_NAMED} more" if len(said) > MAX_NAMED else ""
    return f"{', '.join(said[:MAX_NAMED])}{more}, which caged code can change" if said else ""


def planted(search_path: str, places: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """The files that these names mean there, in each of the directories the command may be in."""
    entries = search_path.split(":") if search_path else []
    names = [
        name for name in dict.fromkeys(names) if "/" not in name and 0 < len(name) <= _MAX_NAME and "\0" not in name
    ]
    for place in places if entries else ():
        for name in names:
            files = (os.path.join(place, entry, name) for entry in entries)
            file = next((file for file in files if os.path.isfile(file) and os.access(file, os.X_OK)), None)
            if file is not None and is_reached(file):
                yield file
