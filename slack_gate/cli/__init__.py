"""The command line. Each subcommand is one file, imported only when it is called."""

from __future__ import annotations

import importlib
import sys

import click

from slack_gate.core.display import sentence
from slack_gate.errors import GateError

# name → (module, one line for --help); the module holds a click command of that name
COMMANDS = {
    "ask-on": "Where gated calls are asked; asks for the approval page's password.",
    "decide": "Approve or deny a request; asks for the approval page's password.",
    "demo": "Try it here: the daemon against a built-in Slack, with a page to click on. Needs no tokens.",
    "doctor": "Check the whole installation, with the fix for each fault; exit 0 when healthy.",
    "explain": "What would become of a call, by which rule, and the way that needs no asking.",
    "hook": "One agent event from stdin to the daemon (an installed hook calls slack_gate/hook.py: faster).",
    "init": "Make the home and its config.toml, from what you type.",
    "install": "Write the hook into an agent's settings, and what it trusts out of the agent's reach.",
    "log": "Show the log, or verify that nothing in it was changed or removed.",
    "mcp": "The MCP server on stdin and stdout: run_command, request_approval, get_decision.",
    "policy": "Check policy.toml, your own rules.",
    "requests": "List what was asked and what became of it.",
    "rules": "List what Always remembers, or revoke a rule.",
    "run": "Ask, wait and run a command where slack-gate runs commands.",
    "serve": "The daemon: asks in Slack and answers the hooks.",
    "status": "Whether the daemon is up and hears Slack; exit 0 when healthy.",
    "uninstall": "Take the hook out of an agent's settings again.",
}
_IN = {"ask-on": "ask_on", "uninstall": "install"}


class _Lazy(click.Group):
    """Lists and loads subcommands without importing the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"slack_gate.cli.{_IN.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="slack-gate")
def group() -> None:
    """Ask a human in Slack before a coding agent's command runs."""


def main() -> None:
    """The console script. A GateError is one sentence on stderr and its exit code; nothing is shown of its inside."""
    try:
        group()
    except GateError as error:
        click.echo(f"slack-gate: {sentence(str(error))}", err=True)
        sys.exit(error.exit_code)
