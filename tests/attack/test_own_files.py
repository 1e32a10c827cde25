"""Ways into the gate's own files, and calls that stall or trip the search for them."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from cage import cage_policy
from slack_gate.core.event import ToolEvent
from slack_gate.daemon.own_files import OwnFiles
from tests.attack.work import calls_of
from tests.daemon.house import house


def call(tool: str, cwd: str, **tool_input: Any) -> ToolEvent:
    return ToolEvent("claude-code", "s1", "t", tool, tool_input, cwd)


async def test_read_through_proc_self_cwd(tmp_path: Path) -> None:
    """`/proc/self/cwd` is the daemon's directory when the daemon resolves it and the agent's when the agent reads."""
    async with house(tmp_path) as h:
        home = h.settings.home
        (home / "config.toml").write_text("slack_bot_token = 'xoxb-…'")
        cwd = tmp_path / "app"
        cwd.mkdir()
        (cwd / "link").symlink_to("/proc/self/cwd/../home")  # caged code may make it
        read = h.event("Read", cwd=str(cwd), file_path=str(cwd / "link" / "config.toml"))
        assert (await h.ask(read)).decision == "deny"


async def test_read_through_proc_self_cwd_named_plainly(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        (h.settings.home / "config.toml").write_text("slack_bot_token = 'xoxb-…'")
        read = h.event("Read", cwd=str(tmp_path), file_path="/proc/self/cwd/home/config.toml")
        assert (await h.ask(read)).decision == "deny"


def test_write_through_proc_self_cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Green while the daemon was started in the zone (the demo in a clone); the agent writes in its own directory."""
    project = tmp_path / "projects" / "app"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(project)
    fields = {"file_path": "/proc/self/cwd/bin/git", "content": "#!/bin/sh"}
    assert cage_policy.classify("Write", fields, "/srv/elsewhere") == "gated"


def test_cd_twice(tmp_path: Path) -> None:
    """With Always for `cd ..` and `cat`, nobody is asked."""
    home, cwd = tmp_path / "gate-home", tmp_path / "a" / "b"
    home.mkdir()
    cwd.mkdir(parents=True)
    own = OwnFiles([home])
    event = call("Bash", str(cwd), command="cd .. && cd .. && cat gate-home/config.toml")
    assert own.refusal(event) or own.reached_by(event)


@pytest.mark.parametrize("command", ["echo file://[x", "curl file:///%00"])
async def test_a_url_that_cannot_be_read_is_answered_and_logged(tmp_path: Path, command: str) -> None:
    """A ValueError counts as a broken connection: no answer, no line, and the client asks again for 30 s."""
    async with house(tmp_path) as h:
        started = time.monotonic()
        hook = await h.start(h.event(command=command), "--limit", "20")
        while time.monotonic() - started < 30 and not h.log():
            if hook.returncode is not None:
                break
            await asyncio.sleep(0.1)
        assert h.log()


async def test_a_chain_of_links_is_logged(tmp_path: Path) -> None:
    (tmp_path / "l0").touch()
    for number in range(1, 1100):
        (tmp_path / f"l{number}").symlink_to(f"l{number - 1}")
    async with house(tmp_path) as h:
        ended = await h.ask(h.event("Read", file_path=str(tmp_path / "l1099")))
        assert ended.decision == "deny"
        assert "RecursionError" not in ended.reason
        assert h.log()


def deep(place: Path, depth: int) -> None:
    here = os.open(place, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=here)
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_deep_paths_do_not_stall(tmp_path: Path) -> None:
    """0.1 MB takes 3 s here, 8 MB minutes."""
    deep(tmp_path, 900)
    own = OwnFiles([tmp_path / "home"])
    event = call("mcp__x", str(tmp_path), a=["./" * (n % 40) + "a/" * 900 + str(n) for n in range(60)])
    assert calls_of(lambda: own.refusal(event)) < 500_000


def test_nested_texts_do_not_stall() -> None:
    """1 MB; 8 MB take most of a minute: each text passes through 400 generators, before they are counted."""
    value: Any = ["a"] * 200_000
    for _ in range(400):
        value = [value]
    own = OwnFiles([Path("/nonexistent/home")])
    assert calls_of(lambda: own.refusal(call("mcp__x", "/tmp", a=value))) < 2_000_000


def test_a_path_as_agents_open_it(tmp_path: Path) -> None:
    """They cut off blanks at both ends and compose accents; the kernel would take it for another name."""
    home = tmp_path / "caf\u00e9" / "gate-home"
    home.mkdir(parents=True)
    own = OwnFiles([home])
    for path in (f" {home}/config.toml", f"{home} ", f"\ufeff\u00a0{home}/x\t", str(home).replace("\u00e9", "e\u0301")):
        assert own.refusal(call("Read", str(tmp_path), file_path=path)), path
    for above in (f" {home.parent}", f"{home.parent}\n"):
        assert own.reached_by(call("Grep", "/srv", pattern="x", path=above)), above
    assert not own.refusal(call("Read", str(tmp_path), file_path=f"{tmp_path}/other "))


def test_composing_takes_linear_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A name longer than any file's is left as it is: marks without end are put in order one by one."""
    looked: list[int] = []
    monkeypatch.setattr("unicodedata.normalize", lambda form, name: looked.append(len(name)) or name)
    text = "/".join(["e" + "\u0301\u0327" * 5000, "e\u0301"])
    OwnFiles([tmp_path]).refusal(call("WebFetch", str(tmp_path), url=text))
    assert looked == [2]
