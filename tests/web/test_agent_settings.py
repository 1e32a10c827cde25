"""The agent endpoint while the settings cannot be used: nothing runs, and the caller reads why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.conftest import Doors


async def test_a_zone_that_is_not_known_runs_nothing(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await doors.run(command="pwd"))["decision"] == "ran"
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "policy.toml").write_text("zone = [")
    monkeypatch.setenv("SLACK_GATE_HOME", str(settings))
    async with doors.agent.post(doors.run_url, json={"command": "touch made"}) as answer:
        told = await answer.json()
    assert (answer.status, told["decision"], told["code"]) == (400, "denied", "BAD_REQUEST")
    assert told["message"].startswith("The working directory cwd cannot be judged: ")
    assert "policy.toml" in told["message"] and told["message"].endswith("Nothing ran.")
    assert not (doors.projects / "made").exists()
