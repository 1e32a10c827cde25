"""What decides before a person, as the settings and this machine have it: for the daemon and `slack-gate explain`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cage import cage_policy
from slack_gate.config import Settings, secret_files
from slack_gate.daemon.judge import Judge
from slack_gate.daemon.own_files import OwnFiles, guarded_places
from slack_gate.daemon.policy_file import PolicyFile
from slack_gate.daemon.programs import Programs, cage_starts, trusted_programs
from slack_gate.daemon.released import Released
from slack_gate.store.engines import SQLITE, parsed


@dataclass(frozen=True, slots=True)
class Rulebook:
    """`sbox` builds cages; None where none starts here."""

    judge: Judge
    released: Released
    sbox: str | None


async def rulebook(settings: Settings, executors: Sequence[str] = (), launcher: Sequence[str] = ()) -> Rulebook:
    """`executors` are the names of those that run commands here, `launcher` the words that start this program.

    Raises ConfigError when policy.toml cannot be used.
    """
    home = Path.home()
    programs = trusted_programs(home)
    sbox = programs.get("sbox")
    cages = await cage_starts(sbox)
    words_of = Programs(programs, home, os.environ.get("PATH", "")).words_of
    released = Released(programs, words_of, settings.hook_executor, launcher, cages)
    own = OwnFiles(_places(settings), guarded_places(home))
    policy = PolicyFile(settings.home / "policy.toml")
    judge = Judge(cage_policy, own, policy, released, executors, cages, cages_first=settings.cage_first)
    return Rulebook(judge, released, sbox if cages else None)


def _places(settings: Settings) -> list[Path]:
    """What no tool of an agent gets into."""
    token = Path.home() / ".config" / "spikybot"  # of the GitHub helper
    return [settings.home, settings.socket_path.parent, token, *secret_files().values(), *database_files(settings)]


def database_files(settings: Settings) -> list[Path]:
    """Where the database is when it is a file: what lies beside it lies beside the one that a link leads to."""
    url = parsed(settings.database)
    name = url.database if url.get_backend_name() == SQLITE else None
    return [Path(os.path.realpath(name) + tail) for tail in ("", "-wal", "-shm", ".lock")] if name else []
