"""Where the daemon listens, found without loading the settings: those who only ask must start quickly."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from slack_gate.errors import ConfigError
from slack_gate.hook_client import default_socket
from slack_gate.hook_wire import Deny


def hook_socket() -> Path:
    """As the environment and config.toml name it. Raises ConfigError."""
    home = Path(os.environ.get("SLACK_GATE_HOME") or Path.home() / ".config" / "slack-gate")
    file = home / "config.toml"
    try:
        if not os.environ.get("SLACK_GATE_SOCKET") and file.exists():
            settings = tomllib.loads(file.read_text("utf-8"))
            if named := settings.get("socket", settings.get("slack_gate_socket")):
                return Path(named)
        return Path(os.fsdecode(default_socket()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from None
    except Deny as error:
        raise ConfigError(f"The slack-gate daemon cannot be found: {error}.", "Set SLACK_GATE_SOCKET.") from None


def agent_socket() -> Path:
    """Beside the hook's: HTTP for programs of this user, without a port. Raises ConfigError."""
    return hook_socket().with_name("agent.sock")
