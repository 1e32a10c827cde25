"""Put the program where neither the agent nor the cage can write, and its hook into Claude Code's settings.

`trust` judges a path, `program` copies the program, `layout` says where it goes, `settings` edits
the agent's file, `installer` joins them.
"""

from __future__ import annotations

from slack_gate.install.installer import Step, install_steps, perform, uninstall_steps
from slack_gate.install.layout import Scope
from slack_gate.install.settings import hook_entry, remove_hook, write_hook
from slack_gate.install.trust import untrusted_reason, warn_if_writable

__all__ = [
    "Scope",
    "Step",
    "hook_entry",
    "install_steps",
    "perform",
    "remove_hook",
    "uninstall_steps",
    "untrusted_reason",
    "warn_if_writable",
    "write_hook",
]
