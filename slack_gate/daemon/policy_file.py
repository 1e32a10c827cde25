"""policy.toml as it stands now; read again when it changes. One that cannot be used has everything asked."""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from slack_gate.core.policy import EMPTY, Policy, PolicyError, parse
from slack_gate.errors import ConfigError

log = structlog.get_logger()

Stamp = tuple[int, int, int]


def read_policy(path: Path) -> Policy:
    """Raises PolicyError."""
    try:
        return parse(path.read_text("utf-8"))
    except FileNotFoundError:
        return EMPTY
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"It cannot be read: {error}") from None


class PolicyFile:
    """Raises ConfigError at the start when the file cannot be used; later `problem` says so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: Stamp | None = None
        self._policy = EMPTY
        self.problem = ""
        self._look()
        if self.problem:
            raise ConfigError(self.problem, "`slack-gate policy check` checks it without starting.")

    def current(self) -> Policy:
        self._look()
        return self._policy

    def _look(self) -> None:
        try:
            found = os.stat(self._path)
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            stamp = (0, 0, 0)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._policy, self.problem = read_policy(self._path), ""
        except PolicyError as error:
            self.problem = f"{self._path} cannot be used: {error}."
            log.error("the policy cannot be used, so everything is asked", error=str(error))
