"""What one Always opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cage import cage_policy
from slack_gate.core.answer import Answer
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import Choice, Request
from slack_gate.core.rules import keys_to_remember
from slack_gate.daemon.house import Caller
from tests.daemon.desk import SECOND, Desk, desk


async def remember(d: Desk, command: str) -> None:
    await d.click(await d.asked(d.event(command)), Choice.ALWAYS)
    await d.answer()


@pytest.mark.parametrize(
    ("shown", "later"),
    [
        ("cp a b", "cp /tmp/none.json ~/.claude/settings.json"),
        ("tee a", "tee ~/.claude/settings.json </dev/null"),
        ("cp a b", "cp /tmp/hook.py ~/.local/share/slack-gate/current/lib/slack_gate/hook.py"),
        ("ln a b", "ln -sf /tmp/sbox ~/.local/bin/sbox"),
        ("mv a b", "mv ~/.claude/hooks/cage_policy.py /tmp/x"),
    ],
)
async def test_a_rule_does_not_reach_what_the_gate_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str, later: str
) -> None:
    """The hook's settings, the installed program and `sbox` are as good as the rules: a person looks each time."""
    monkeypatch.setenv("HOME", str(tmp_path))
    async with desk(tmp_path) as d:
        await remember(d, shown)
        assert not isinstance(await d.gate.submit(d.event(later), SECOND), Answer)


@pytest.mark.parametrize("command", ["slack-gate rules", "claude --version", "codex --version"])
def test_the_gate_and_agents_are_no_keys(command: str) -> None:
    """`slack-gate uninstall claude-code`, `claude -p … --dangerously-skip-permissions`: any arguments."""
    assert cage_policy.keys(command) == []


@pytest.mark.parametrize(
    "program",
    [
        "chronic",
        "ifne",
        "pee",
        "numactl",
        "faketime",
        "proxychains4",
        "torsocks",
        "xvfb-run",
        "dbus-run-session",
        "systemd-inhibit",
        "cgexec",
        "eatmydata",
        "ccache",
        "ipython",
        "gnuplot",
        "fzf",
        "vimdiff",
        "rvim",
        "gvim",
        "run-parts",
        "run0",
        "rbash",
        "yash",
        "jshell",
        "catchsegv",
        "logsave",
        "flatpak-spawn",
        "tcpdump",
        "ansible",
        "ansible-playbook",
        "duckdb",
        "qemu-x86_64",
        "heaptrack",
        "bpftrace",
    ],
)
def test_more_carriers(program: str) -> None:
    assert cage_policy.keys(f"{program} ls") == []


@pytest.mark.parametrize("number", [0, 1])
async def test_a_client_with_no_time_left_is_not_a_broken_database(tmp_path: Path, number: int) -> None:
    async with desk(tmp_path) as d:
        found = await d.gate.submit(d.event(), Caller("c" * 32, float(number)))
        assert isinstance(found, Answer | Request)


@pytest.mark.parametrize("spelled", ["note ", "cafe\u0301"])
def test_a_file_that_agents_open_by_another_name(spelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they open is a link of caged code's: where it leads by then is not what a person said Always to."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (project := tmp_path / "projects" / "app").mkdir(parents=True)
    event = ToolEvent("claude-code", "s", "t", "Write", {"file_path": f"{project}/{spelled}", "content": ""}, "/srv")
    assert keys_to_remember(replace(event, tool_input={"file_path": f"{project}/plain", "content": ""}))
    for name in ("note", "caf\u00e9"):
        (project / name).symlink_to(tmp_path / "elsewhere")
    assert keys_to_remember(event) == ()
