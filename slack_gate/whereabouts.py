"""Where the daemon listens, found without loading the settings, and the words that start this program for it.

Those who only ask must start quickly.
"""

from __future__ import annotations

import os
import sys
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


def program() -> list[str]:
    """The words that start this very program; the installed copy needs no site-packages."""
    isolated = "-IS" if sys.flags.no_site else "-I"
    return [sys.executable, isolated, str(Path(__file__).resolve().with_name("__main__.py"))]


def launcher(socket: Path) -> list[str]:
    """What an agent's shell runs to start it for the daemon on `socket`, whatever that shell's environment is."""
    return ["/usr/bin/env", f"SLACK_GATE_SOCKET={socket}", *program()]
