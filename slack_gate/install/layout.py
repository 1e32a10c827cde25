"""Where everything goes below one HOME, and the record of what the installer put there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from slack_gate.errors import InstallError
from slack_gate.install.files import fingerprint, replace_file

Scope = Literal["user", "project"]
PINNED = Path("/etc/claude-code/managed-settings.d/50-slack-gate.json")
"""Where root can put our hook so that no project's settings switch it off."""


@dataclass(frozen=True)
class Layout:
    """The paths below `home`."""

    home: Path

    @property
    def root(self) -> Path:
        return self.home / ".local" / "share" / "slack-gate"

    @property
    def versions(self) -> Path:
        return self.root / "versions"

    @property
    def current(self) -> Path:
        """A link to the version in use: a new copy is complete before anything runs from it."""
        return self.root / "current"

    @property
    def record(self) -> Path:
        return self.root / "installed.json"

    @property
    def managed(self) -> Path:
        """The settings that root may copy to `PINNED`."""
        return self.root / "managed-settings.json"

    @property
    def hook(self) -> Path:
        return self.current / "lib" / "slack_gate" / "hook.py"

    @property
    def command(self) -> Path:
        return self.home / ".local" / "bin" / "slack-gate"

    @property
    def sbox(self) -> Path:
        return self.home / ".local" / "bin" / "sbox"

    @property
    def sbox_proxy(self) -> Path:
        """What `sbox --net-allow` runs, always beside `sbox`."""
        return self.sbox.with_name("sbox_proxy.py")

    @property
    def whole_git(self) -> Path:
        """What the gate has git started by that moves files in the cage, always beside `sbox`."""
        return self.sbox.with_name("whole_git.py")

    @property
    def helper(self) -> Path:
        """The GitHub helper, where the classifier looks for it unless AGENT_TOOLS_DIR says otherwise."""
        return self.home / "work" / "gh-issue" / "gh_issue.py"

    @property
    def policy(self) -> Path:
        return self.home / ".claude" / "hooks" / "cage_policy.py"

    def settings(self, scope: Scope, project: Path) -> Path:
        return (self.home if scope == "user" else project) / ".claude" / "settings.json"


@dataclass
class Record:
    """What the installer wrote: settings files that hold our hook, and `{path: fingerprint}` of single files."""

    path: Path
    settings: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        try:
            saved = json.loads(path.read_bytes())
            return cls(path, list(saved["settings"]), dict(saved["files"]))
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InstallError(f"{path} is not the installer's record any more.", f"Remove {path}.") from error

    def is_ours(self, path: Path) -> bool:
        """Whether `path` is just as the installer left it."""
        return fingerprint(path) == self.files.get(str(path), "")

    def add(self, file: Path | None = None, settings: Path | None = None) -> None:
        """Note a file just written, or a settings file about to be."""
        if file is not None and (mark := fingerprint(file)):
            self.files[str(file)] = mark
        if settings is not None and str(settings) not in self.settings:
            self.settings.append(str(settings))
        text = json.dumps({"settings": self.settings, "files": self.files}, indent=2)
        replace_file(self.path, text.encode(), 0o644)
