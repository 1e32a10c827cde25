"""slack-gate explain"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import click

from cage import cage_policy
from slack_gate.agents.event_json import strict_object
from slack_gate.config import Settings, load, secret_files
from slack_gate.core.cage_first import caged_first
from slack_gate.core.caged import caged_git
from slack_gate.core.display import visible
from slack_gate.core.event import MalformedEvent, ToolEvent
from slack_gate.core.respell import pinned
from slack_gate.core.rules import keys_to_remember
from slack_gate.daemon.own_files import OwnFiles
from slack_gate.daemon.programs import cage_starts, trusted_programs


@click.command()
@click.argument("command", metavar="[CMD]", required=False)
@click.option("--cwd", metavar="DIR", help="The agent's working directory; default: the current one.")
@click.option("--tool", default="Bash", show_default=True, metavar="NAME", help="The tool's name.")
@click.option("--input", "tool_input", metavar="JSON", help="The tool's whole input, instead of CMD.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def explain(command: str | None, cwd: str | None, tool: str, tool_input: str | None, as_json: bool) -> None:
    """What would become of a call, by which rule, and the way that needs no asking. Nothing is run or asked.

    What Always has remembered does not count here; `slack-gate rules` lists it. The settings and PATH are those of
    this terminal, for a host that takes another input from its hook.
    """
    event = ToolEvent("", "", None, tool, _input(command, tool_input), os.path.abspath(cwd or "."), rewritable=True)
    found = explained(event, load())
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        if value:
            text = ", ".join(value) if isinstance(value, list) else str(value)
            click.echo(f"{_LABELS[name]:<12}{visible(text)}")


_LABELS = {
    "outcome": "outcome",
    "verdict": "verdict",
    "segment": "decided by",
    "rule": "rule",
    "hint": "unasked",
    "always": "Always",
    "runs": "runs",
}


def _input(command: str | None, tool_input: str | None) -> dict[str, Any]:
    if (command is None) == (tool_input is None):
        raise click.UsageError("Give either CMD or --input.")
    text = json.dumps({"command": command}) if tool_input is None else tool_input
    try:
        return strict_object(text.encode(errors="surrogatepass"))
    except MalformedEvent as error:
        raise click.UsageError(f"A hook could not pass this on. {error}") from None


def explained(event: ToolEvent, settings: Settings) -> dict[str, Any]:
    """`outcome` as the log would name it, the classifier's words, what Always would save, the text that would run."""
    judged = cage_policy.explain(event.tool, dict(event.tool_input), event.cwd)
    own = OwnFiles([settings.home, settings.socket_path.parent, *secret_files().values()])
    outcome, runs = _outcome(event, judged.verdict, settings, own)
    keys = () if own.reached_by(event) else keys_to_remember(event)
    return {
        "outcome": outcome,
        "verdict": judged.verdict,
        "segment": judged.segment,
        "rule": own.refusal(event) or judged.rule,
        "hint": judged.hint,
        "always": [str(key) for key in keys] if outcome in ("asked", "caged") else [],
        "runs": runs,
    }


def _outcome(event: ToolEvent, verdict: str, settings: Settings, own: OwnFiles) -> tuple[str, str]:
    """The order is the gate's (`Gate.submit`)."""
    programs = trusted_programs(Path.home())
    cages = asyncio.run(cage_starts(programs.get("sbox")))
    if own.refusal(event) is not None:
        return "refused", ""
    git = caged_git(event, programs["git"]) if cages and "git" in programs else None
    if git is not None and (runs := pinned(git, programs)) is not None:
        return "green", runs
    if verdict == "green":
        runs = "" if event.command is None else pinned(event.command, programs)
        return ("asked", "") if runs is None else ("green", runs)
    if own.reached_by(event):
        return "asked", ""
    if verdict == "ungated":
        return "ungated", ""
    first = caged_first(event) if cages and settings.cage_first else None
    if first is not None and (runs := pinned(first, programs)) is not None:
        return "caged", runs
    return "asked", ""
