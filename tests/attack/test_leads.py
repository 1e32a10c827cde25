"""Places swapped between the question and the run: links put on the way of the directory, the file, the script."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.answer import Ruling
from slack_gate.core.event import ToolEvent
from slack_gate.core.run import Result
from slack_gate.daemon.programs import PACKAGED
from slack_gate.daemon.scripts import scripts_of
from slack_gate.executors.cage import CAGE_FAULT, Cage
from slack_gate.slack.cards import card
from tests.daemon.desk import desk
from tests.slack.test_cards import plain
from tests.web.conftest import home

__all__ = ["home"]


@pytest.mark.parametrize("kept", [True, False], ids=["as it was", "swapped"])
async def test_a_directory_swapped_for_a_link(tmp_path: Path, kept: bool) -> None:
    """`rm -rf build` was approved in the one, and would run in the other."""
    here, there = tmp_path / "app", tmp_path / "precious"
    here.mkdir()
    there.mkdir()
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("rm -rf build", cwd=str(here)))
        if not kept:
            here.rmdir()
            here.symlink_to(there)
        await d.click(request)
        answer = await d.answer()
    assert answer.ruling is (Ruling.ALLOW if kept else Ruling.DENY)
    assert kept or "where its directory or file leads" in answer.reason


async def test_where_a_link_leads_is_said(tmp_path: Path) -> None:
    """Who reads `In /srv/app/build` would take `rm -rf *` for harmless there, and a note for a note."""
    (precious := tmp_path / "precious").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "build").symlink_to(precious)
    (tmp_path / "app" / "notes").symlink_to(precious / ".bashrc")
    async with desk(tmp_path) as d:
        for cwd in (f"{tmp_path}/app/build", f"{tmp_path}/app/../precious"):
            request = await d.asked(d.event("rm -rf x", cwd=cwd))
            said = plain(card(request).blocks)
            assert f"In {cwd}" in said and f"its directory leads to {precious};" in said
        call = {"file_path": f"{tmp_path}/app/notes", "content": "x"}
        request = await d.asked(d.event(tool="Write", tool_input=call, cwd=f"{tmp_path}/app"))
        assert f"its file leads to {precious}/.bashrc;" in plain(card(request).blocks)
        (tmp_path / "app" / "caf\u00e9").symlink_to(precious / ".bashrc")
        for spelled in ("notes ", "notes\u00a0\t", "cafe\u0301", "build/../notes"):  # as agents open them
            call = {"file_path": f"{tmp_path}/app/{spelled}", "content": "x"}
            request = await d.asked(d.event(tool="Write", tool_input=call, cwd=f"{tmp_path}/app"))
            assert f"its file leads to {precious}/.bashrc;" in plain(card(request).blocks), spelled
        for path in (f"{tmp_path}/app", f"{tmp_path}/./app//", "/", f"{tmp_path}/none"):
            assert "leads to" not in (await d.asked(d.event("rm -rf x", cwd=path))).why


@pytest.mark.parametrize(
    "command", ["cd {other} && git push origin HEAD:main", "git -C ../other push", "git --git-dir={other}/.git push"]
)
async def test_the_repository_that_git_works_on_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Not only the one that the agent works in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    app, other = (tmp_path / "projects" / name for name in ("app", "other"))
    for place in (app, other):
        subprocess.run(["git", "init", "-q", place], check=True)
        subprocess.run(["git", "-C", place, "remote", "add", "origin", "https://git.example/x.git"], check=True)
    command = command.format(other=other)
    async with desk(tmp_path, cages=True) as d:
        request = await d.asked(d.event(command, cwd=str(app), rewritable=True))
        said = plain(card(request).blocks)
        assert f"In {app} on" in said and str(other) in said
        [line] = d.log()
        assert (line["cwd"], line["command"]) == (str(app), command)


@pytest.mark.parametrize("swap", ["file", "directory"])
async def test_a_new_file_becomes_a_link_elsewhere(tmp_path: Path, swap: str) -> None:
    """Missing when it was asked and missing when it was approved: a link to a file that is not there yet."""
    notes, secret = tmp_path / "app" / "notes", tmp_path / ".ssh"
    notes.mkdir(parents=True)
    secret.mkdir()
    async with desk(tmp_path) as d:
        call = {"file_path": str(notes / ".envrc"), "content": "x"}
        request = await d.asked(d.event(tool="Write", tool_input=call))
        if swap == "file":
            (notes / ".envrc").symlink_to(secret / ".envrc")
        else:
            notes.rmdir()
            notes.symlink_to(secret)
        await d.click(request)
        assert (await d.answer()).ruling is Ruling.DENY


def call(cwd: Path) -> ToolEvent:
    return ToolEvent("claude-code", "s1", "t", "Bash", {"command": "./run.sh"}, str(cwd))


def test_a_script_that_a_lease_keeps_from_being_read(tmp_path: Path) -> None:
    """Who holds a lease is told of each reader, and lets go for the shell alone: with the same error twice, the hash
    of what could not be read was the same whatever stood in it."""
    script = tmp_path / "run.sh"
    script.write_text("#!/bin/sh\necho approved\n")
    script.chmod(0o755)

    def seen_under_a_lease() -> object:
        fd = os.open(script, os.O_RDWR)
        before = signal.signal(signal.SIGIO, lambda *_: None)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            return scripts_of(call(tmp_path))
        finally:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            signal.signal(signal.SIGIO, before)
            os.close(fd)

    first = seen_under_a_lease()
    assert "unreadable" in str(first)
    assert seen_under_a_lease() == first
    script.write_text("#!/bin/sh\necho planted!\n")
    assert seen_under_a_lease() != first


async def test_a_name_that_leads_into_the_gates_files_by_the_time_it_is_approved(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "page-password").write_text("secret")
    here = tmp_path / "app"
    (here / "notes").mkdir(parents=True)
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("cat notes/page-password", cwd=str(here)))
        (here / "notes").rmdir()
        (here / "notes").symlink_to(tmp_path / "own")
        await d.click(request)
        answer = await d.answer()
    assert answer.ruling is Ruling.DENY and "slack-gate's own files" in answer.reason


async def test_a_denial_that_came_into_the_policy_while_it_waited(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("git push origin main"))
        (tmp_path / "policy.toml").write_text('[gate]\n[[gate.rule]]\ncommand = "git push ..."\ndo = "deny"\n')
        await d.click(request)
        answer = await d.answer()
    assert answer.ruling is Ruling.DENY and "git push ..." in answer.reason


async def run_in(cwd: Path) -> Result:
    return await Cage(str(PACKAGED)).run("ls", str(cwd), 30, asyncio.Event(), lambda stream, data: None)


async def test_a_link_put_there_just_before_the_cage_is_built(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Between the look at a directory and the start in it there is time for a `rename`."""
    app, precious = home / "projects" / "app", home / "projects" / "precious"
    for one in (app, precious):
        one.mkdir(parents=True)
        (one / f"of {one.name}").touch()
    real = asyncio.create_subprocess_exec

    async def late(*words: str, **how: Any) -> Any:
        app.rename(app.with_name("moved"))
        app.symlink_to(precious)
        return await real(*words, **how)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", late)
    assert b"of precious" not in (await run_in(app)).stdout
    monkeypatch.undo()
    assert (await run_in(app)).code == "BAD_DIRECTORY"  # a link is there now
    gone = await run_in(tmp_path / "none")
    assert (gone.code, gone.exit_code) == (CAGE_FAULT, None)
