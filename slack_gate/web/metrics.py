"""What `/metrics` of the page says, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def metrics(
    states: Mapping[str, int], oldest: float, viewers: int, login_failures: int, health: Mapping[str, Any]
) -> str:
    """`states` counts the requests on file by state, `oldest` is the age in seconds of the one that waits longest,
    `health` what the daemon says of itself."""
    lines = [
        *_metric("requests", "gauge", "Requests on file, by state", {f'state="{k}"': v for k, v in states.items()}),
        *_metric("oldest_pending_seconds", "gauge", "Age of the oldest pending request", {"": round(oldest, 3)}),
        *_metric("page_viewers", "gauge", "Pages that are open", {"": viewers}),
        *_metric("page_login_failures_total", "counter", "Wrong passwords", {"": login_failures}),
        *_metric("healthy", "gauge", "1 when slack-gate status says healthy", {"": int(health.get("healthy") is True)}),
        *_of_the_link(health),
    ]
    return "\n".join(lines) + "\n"


def _of_the_link(health: Mapping[str, Any]) -> list[str]:
    """None where Slack is not used."""
    if health.get("lines") is None:
        return []
    silent, ends = health["lastInboundSeconds"], {f"why={_label(why)}": n for why, n in health["lineEnds"].items()}
    return [
        *_metric("slack_lines", "gauge", "Open connections to Slack", {"": health["lines"]}),
        *_metric("slack_silent_seconds", "gauge", "Time since anything came in from Slack", {"": silent}),
        *_metric("slack_line_ends_total", "counter", "Connections to Slack that ended or did not open, by why", ends),
        *_metric("slack_other_connections", "gauge", "Other connections of this app", {"": health["otherConnections"]}),
    ]


def _label(value: str) -> str:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


def _metric(name: str, kind: str, words: str, values: Mapping[str, Any]) -> list[str]:
    name = f"slack_gate_{name}"
    lines = [f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in values.items()]
    return [f"# HELP {name} {words}", f"# TYPE {name} {kind}", *lines]
