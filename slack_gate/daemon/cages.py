"""Cages that run now. What one of them made it still can change, also between our look at it and git's outside."""

from __future__ import annotations

import fcntl
import os

from cage import cage_policy
from slack_gate.core.event import ToolEvent

DOUBT = "a cage that still runs may have made this repository, and could change it before git reads it"


def began() -> float | None:
    """When the first of those that run now began, or a time before that; None where none runs."""
    path = cage_policy.current_place().home + "/.local/state/sbox/running"
    try:
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None
    return None


def may_have_made(event: ToolEvent) -> bool:
    """Whether a cage that runs now may have made a repository that git of this line works in; yes also where that
    cannot be known."""
    line = [segment.argv for segment in cage_policy.read(event.command or "") or [] if segment.argv[0] == "git"]
    try:
        since = began() if line else None
        return since is not None and any(_made(argv, event.cwd) >= since for argv in line)
    except (cage_policy.Gated, OSError, ValueError):
        return True


def _made(argv: tuple[str, ...], cwd: str) -> float:
    """When its repository was made, or later; 0 where no cage writes. By the times of change of files that git writes
    once: nobody sets these back."""
    place, call = cage_policy.current_place(), cage_policy.parse_git(argv)
    directory = os.path.realpath(os.path.join(cage_policy.directory_of(cwd), *call.directories))
    if call.sub == "version" or not place.reached(directory):
        return 0.0
    repository = cage_policy.find_repository(directory, place)
    files = [repository.common + "/description"]
    if repository.gitdir != repository.common:
        files.append(repository.gitdir + "/commondir")
    return max(os.lstat(file).st_ctime for file in files)
