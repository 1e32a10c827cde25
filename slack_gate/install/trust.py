"""Who could change a file: every directory on the way to it counts, through every symlink."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from slack_gate.errors import InstallError

MAX_LINKS = 40  # as many as the kernel follows


def zone(home: Path) -> tuple[Path, ...]:
    """The directories that caged commands and green edits may write, as written and as resolved."""
    named = (home / "projects", home / ".cache", Path("/tmp"))  # noqa: S108 - named to be refused
    return tuple(dict.fromkeys((*named, *(path.resolve() for path in named))))


def untrusted_reason(path: Path, home: Path) -> str | None:
    """Why somebody besides root and the owner of `home` could change what `path` names; None where nobody can.

    What does not exist yet is judged by the directories that do. Raises InstallError on a loop of links.
    """
    owners = {0, os.getuid()} | ({home.stat().st_uid} if home.exists() else set())
    writable = zone(home)
    for place in on_the_way(path):
        for directory in writable:
            if place.is_relative_to(directory):
                return f"{path} lies in {directory}, where the agent and the cage can write"
        if reason := _others_reason(place, owners):
            return reason
    return None


def warn_if_writable(path: Path | str) -> list[str]:
    """One sentence for each way in which the agent could change `path`; for `serve`, `demo` and tests, which go on."""
    reason = untrusted_reason(Path(path), Path.home())
    return [] if reason is None else [f"{reason}. Run `slack-gate install claude-code` for a copy out of its reach."]


def on_the_way(path: Path) -> Iterator[Path]:
    """Every directory and link that opening `path` passes, and the file itself, each below a resolved directory."""
    here, links = Path("/"), 0
    pending = list(reversed(Path(os.path.abspath(path)).parts))
    while pending:
        part = pending.pop()
        if part == "..":
            here = here.parent
            continue
        here = here / part
        yield here
        if here.is_symlink():
            links += 1
            if links > MAX_LINKS:
                raise InstallError(f"{path} is a loop of symbolic links.")
            pending.extend(reversed(Path(os.readlink(here)).parts))
            here = here.parent


def _others_reason(place: Path, owners: set[int]) -> str | None:
    try:
        status = place.lstat()
    except FileNotFoundError:
        return None
    if status.st_uid not in owners:
        return f"{place} belongs to the user {_user_name(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):
        return None
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX  # others cannot replace what is in it
    others = status.st_mode & stat.S_IWOTH
    group = status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid, status.st_uid)
    if (others or group) and not sticky:
        return f"other users can write {place} (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _is_private_group(group_id: int, owner: int) -> bool:
    """A group that holds its owner alone, as Debian and Ubuntu give every user; its directories may be 0775."""
    try:
        group, user = grp.getgrgid(group_id), pwd.getpwuid(owner)
    except KeyError:
        return False
    return group_id == 0 or (group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name})


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
