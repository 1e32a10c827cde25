"""`slack-gate explain`: the same decision as the gate's, in words."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from slack_gate.daemon.programs import trusted_programs
from tests.cage.policy.conftest import make_repository
from tests.cli.conftest import HOSTILE, Home


@pytest.fixture(autouse=True)
def a_cage_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def starts(sbox: str | None) -> bool:
        return sbox is not None

    monkeypatch.setattr("slack_gate.daemon.rulebook.cage_starts", starts)
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_CONFIG_HOME")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def found(home: Home, *arguments: str) -> dict[str, Any]:
    ended = home.run("explain", "--json", *arguments)
    assert ended.code == 0, ended.err
    value: dict[str, Any] = json.loads(ended.out)
    return value


def test_a_gated_call_in_words(home: Home) -> None:
    ended = home.run("explain", "npm publish --tag x", "--cwd", "/srv")
    assert ended.out.splitlines() == [
        "outcome     asked",
        "verdict     gated",
        "because of  npm publish --tag x",
        "rule        it runs outside the cage",
        "unasked     sbox npm publish --tag x",
        "network     the cage has none but hosts in net-allow.txt: sbox --net-allow NAME -- npm publish --tag x",
        "Always      npm publish",
    ]


def test_the_cage_has_no_network_and_that_is_said(home: Home) -> None:
    net = "sbox --net-allow NAME -- bash -c 'curl -fsS https://pypi.org | head'"
    assert found(home, "curl -fsS https://pypi.org | head")["network"].endswith(f"net-allow.txt: {net}")
    assert [found(home, text)["network"] for text in (net, "sbox ls", "git push", "cd /srv")] == [""] * 4


def test_what_would_run(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = {name: shlex.quote(path) for name, path in trusted_programs(Path.home()).items()}
    work = make_repository(tmp_path / "work")
    at = ("--cwd", str(work))
    assert found(home, "sbox ls", *at)["runs"] == f"{programs['sbox']} ls"
    local = found(home, "git status", *at)
    assert (local["outcome"], local["runs"]) == ("green", f"{programs['sbox']} {programs['git']} status")
    assert found(home, "make x", *at)["outcome"] == "asked"
    monkeypatch.setenv("SLACK_GATE_CAGE_FIRST", "true")
    first = found(home, "make x", *at)
    assert (first["outcome"], first["always"]) == ("caged", ["make x"])
    assert first["runs"] == f"{programs['sbox']} bash -c 'make x'"
    assert found(home, ": uncaged; make x", *at)["outcome"] == "asked"
    monkeypatch.setattr("slack_gate.daemon.rulebook.trusted_programs", lambda _: {})
    assert [found(home, text, *at)["outcome"] for text in ("sbox ls", "git status", "make x")] == ["asked"] * 3


def test_another_tool(home: Home) -> None:
    assert found(home, "--tool", "Read", "--input", '{"file_path": "/x"}')["outcome"] == "ungated"
    write = found(home, "--tool", "Write", "--input", '{"file_path": "/tmp/x.txt", "content": ""}')
    assert (write["outcome"], write["runs"]) == ("green", "")
    assert found(home, "--tool", "WebFetch", "--input", '{"url": "x"}')["always"]


def test_the_gates_own_files(home: Home) -> None:
    refused = found(home, f"cat {home.path}/gate.db")
    assert (refused["outcome"], refused["always"]) == ("refused", [])
    assert "own files" in refused["rule"]
    above = found(home, f"grep -r x {home.path.parent}")
    assert (above["outcome"], above["always"]) == ("asked", [])


@pytest.mark.parametrize(
    "arguments",
    [[], ["ls", "--input", "{}"], ["--input", "{"], ["--input", "[]"], ["--input", '{"a": "\\u0000"}'], ["\udcff"]],
)
def test_what_no_hook_could_pass_on(home: Home, arguments: list[str]) -> None:
    ended = home.run("explain", *arguments)
    assert ended.code == 2
    assert "Usage" in ended.err


def test_nothing_steers_the_terminal(home: Home) -> None:
    out = home.run("explain", f"ls '{HOSTILE}'").out
    assert not set(out) & (set(HOSTILE) - set("[2KJA]0;tend"))
