"""The text that a monitoring system reads."""

from __future__ import annotations

from typing import Any

from slack_gate.web.metrics import metrics

LINK: dict[str, Any] = {"lines": 2, "lastInboundSeconds": 1.5, "lineEnds": {}, "otherConnections": 0}


def test_no_reason_can_pose_as_a_metric() -> None:
    odd = 'x"} 1\nslack_gate_healthy 1\\'
    text = metrics({}, 0.0, 0, 0, {**LINK, "healthy": False, "lineEnds": {odd: 3}})
    assert [line for line in text.split("\n") if line.startswith("slack_gate_healthy")] == ["slack_gate_healthy 0"]
    assert r'slack_gate_slack_line_ends_total{why="x\"} 1\nslack_gate_healthy 1\\"} 3' in text.split("\n")


def test_without_slack_there_is_no_word_of_it() -> None:
    text = metrics({"pending": 2}, 3.25, 1, 4, {"lines": None, "healthy": True})
    assert "slack_gate_slack" not in text
    for line in ('slack_gate_requests{state="pending"} 2', "slack_gate_oldest_pending_seconds 3.25"):
        assert line in text.split("\n")
