"""A Slack on this machine: a real HTTP and WebSocket server with Slack's limits, and a page that shows the DM."""

from __future__ import annotations

from slack_gate.local_slack.person import Person
from slack_gate.local_slack.server import LocalSlack

__all__ = ["LocalSlack", "Person"]
