"""slack-gate explain"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import click

from slack_gate.agents.event_json import strict_object
from slack_gate.config import Settings, load
from slack_gate.core.answer import Ruling
from slack_gate.core.display import visible
from slack_gate.core.event import MalformedEvent, ToolEvent
from slack_gate.daemon.judge import Allow, Ask, Outcome, Refuse
from slack_gate.daemon.rulebook import rulebook


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
    "segment": "because of",
    "rule": "rule",
    "hint": "unasked",
    "network": "network",
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
    judge = asyncio.run(rulebook(settings)).judge
    judged, found = judge.explained(event), judge.outcome(event, (), time.time())
    asked = found.may_be_remembered
    name = found.decision if isinstance(found, Allow) else "refused" if isinstance(found, Refuse) else "asked"
    return {
        "outcome": name,
        "verdict": judged.verdict,
        "segment": judged.segment,
        "rule": _rule(found, judged.rule),
        "hint": judged.hint,
        "network": _network(judged.hint),
        "always": [str(key) for key in judge.rememberable(event)] if asked else [],
        "runs": _runs(found, event),
    }


def _rule(found: Outcome, classified: str) -> str:
    if isinstance(found, Refuse):
        return found.sentence
    return found.why if isinstance(found, Ask) and not found.why.startswith(classified) else classified


def _network(hint: str) -> str:
    """What the command may need and the way that is unasked does not give it; empty where that is not the cage."""
    start, _, line = hint.partition(" ")
    if start != "sbox" or line.startswith("--net-allow"):
        return ""
    return f"the cage has none but hosts in net-allow.txt: sbox --net-allow NAME -- {line}"


def _runs(found: Outcome, event: ToolEvent) -> str:
    """The text that the agent would run; empty where it is not a shell's, or is asked first."""
    if not isinstance(found, Allow) or event.command is None or found.answer.ruling is not Ruling.ALLOW:
        return ""
    return found.answer.command or event.command
