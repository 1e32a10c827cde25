"""The judge as the settings have it: one for the daemon and for `slack-gate explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cage import cage_policy
from slack_gate.config import Settings, secret_files
from slack_gate.daemon.judge import Judge
from slack_gate.daemon.own_files import OwnFiles, guarded_places
from slack_gate.daemon.policy_file import PolicyFile
from slack_gate.daemon.released import Released
from slack_gate.store.engines import SQLITE, parsed


def judge_of(
    settings: Settings, released: Released, programs: Mapping[str, str], executors: Sequence[str], cages: bool
) -> Judge:
    """Raises ConfigError when policy.toml cannot be used."""
    own = OwnFiles(_places(settings), guarded_places(Path.home()))
    policy = PolicyFile(settings.home / "policy.toml")
    git = programs.get("git")
    return Judge(cage_policy, own, policy, released, git, executors, cages, settings.cage_first)


def _places(settings: Settings) -> list[Path]:
    """What no tool of an agent gets into."""
    token = Path.home() / ".config" / "spikybot"  # of the GitHub helper
    return [settings.home, settings.socket_path.parent, token, *secret_files().values(), *database_files(settings)]


def database_files(settings: Settings) -> list[Path]:
    """Where the database is when it is a file."""
    url = parsed(settings.database)
    name = url.database if url.get_backend_name() == SQLITE else None
    return [Path(name + tail) for tail in ("", "-wal", "-shm")] if name else []
