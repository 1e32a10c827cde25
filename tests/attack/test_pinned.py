"""What a rule lets run outside the cage: nothing of caged code's, however later words, files or directories are put."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cage import cage_policy
from slack_gate.core.answer import Answer
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import Choice, State
from slack_gate.core.rules import Key, keys_to_remember
from slack_gate.daemon.programs import Programs
from slack_gate.store.cards import Cards, Drawing
from tests.daemon.desk import SECOND, desk
from tests.daemon.test_pinning import outside, program

__all__ = ["outside"]


def is_started(outside: Path, path: str, name: str) -> bool:
    return Programs({}, outside, path).words_of(name) is not None


@pytest.mark.parametrize(
    ("shown", "later"),
    [
        ("find . -name x", "find -- . -exec /tmp/x {} +"),
        ("sort a", "sort --random-source -- --compress-program=/tmp/x -S 10k a"),
        ("wget https://example.com/x", "wget -O -- --use-askpass=/tmp/x https://example.com/x"),
        ("curl https://example.com/x", "curl -o -- --engine /tmp/x.so https://example.com/x"),
        ("kubectl get pods", "kubectl get pods -l -- --kubeconfig /tmp/x"),
        ("docker ps", "docker ps --filter -- --config /tmp/x"),
        ("nm a", "nm @/tmp/x a"),
        ("kubectl kustomize x", "kubectl kustomize --enable-helm --helm-command /tmp/x y"),
        ("podman info", "podman info --conmon=/tmp/x"),
        ("gcloud compute tpus tpu-vm list", "gcloud compute tpus tpu-vm ssh x -- -oProxyCommand=/tmp/x"),
        ("az network bastion list", "az network bastion ssh -n x -- -oProxyCommand=/tmp/x"),
        ("docker image ls", "docker image build ."),
        ("gh gist list", "gh gist clone 1 -- --config=core.fsmonitor=/tmp/x"),
        ("dnf list", "dnf list --setopt=pluginpath=x"),
        ("brew list", "brew bundle"),
        ("yq .a x", "yq --security-enable-system-operator x"),
    ],
)
async def test_a_rule_is_none_for_words_that_name_a_program(tmp_path: Path, shown: str, later: str) -> None:
    """`--` ends no options where it is an option's value, and to `find` it ends none at all."""
    async with desk(tmp_path) as d:
        await d.click(await d.asked(d.event(shown)), Choice.ALWAYS)
        await d.answer()
        assert cage_policy.keys(later) == []
        assert not isinstance(await d.gate.submit(d.event(later), SECOND), Answer)


def test_what_the_words_would_run(tmp_path: Path) -> None:
    """With the real programs; else the rows above would be guesses."""
    evil = program(tmp_path / "evil", text=f"echo ran >>{tmp_path}/ran; cat")
    (tmp_path / "--").write_text("x")
    for argv in (
        ["find", "--", ".", "-maxdepth", "0", "-exec", str(evil), ";"],
        ["sort", "--random-source", "--", f"--compress-program={evil}", "-S", "10k"],
    ):
        lines = "".join(f"{number}\n" for number in range(20_000))
        subprocess.run(argv, cwd=tmp_path, input=lines, text=True, stdout=subprocess.DEVNULL, check=True)
        assert (tmp_path / "ran").read_text().startswith("ran")
        (tmp_path / "ran").unlink()


@pytest.mark.parametrize(
    "command",
    [
        *("rustup show", "rustc --version", "rustfmt a.rs", "pytest-3", "mypy3", "go1.22.3 build", "go list -export"),
        *("docker builder prune", "conda env list", "nix fmt", "pipenv install", "scons", "podman-compose up"),
        *("terragrunt plan", "rubocop", "latexmk", "hg log", "sl status", "jj log", "git-lfs pull", "tig", "prettierd"),
    ],
)
def test_what_runs_the_project_is_remembered_for_the_cage(command: str) -> None:
    """A `rust-toolchain.toml` names the directory of the compiler, an `environment.yml` what is built, and so on."""
    argv = tuple(command.split())
    assert cage_policy.key_of(argv) is not None
    assert cage_policy.is_project_runner(argv, "/")


def test_a_rule_for_a_track_would_be_one_for_its_ssh() -> None:
    """`gcloud beta compute ssh` takes options for ssh, with a program among them."""
    assert cage_policy.keys("gcloud beta compute instances list") == []


@pytest.mark.parametrize("command", ["gh pr create --fill", "gh pr merge 1", "gh issue develop 1", "glab mr create"])
def test_git_that_another_program_runs_is_asked_each_time(command: str) -> None:
    """It pushes, and so runs the hooks of the repository that the agent stands in; in the cage it reaches nothing."""
    event = ToolEvent("claude-code", "s", "toolu_1", "Bash", {"command": command}, "/srv/app")
    assert keys_to_remember(event) == ()
    listed = replace(event, tool_input={"command": "gh pr list"})
    assert keys_to_remember(listed) == (Key("Bash", ("gh", "pr", "list")),)


@pytest.mark.parametrize("name", ["Rscript", "octave", "php8.2", "lua5.4", "java", "groovy", "runghc", "elixir"])
def test_interpreters_that_look_around_are_remembered_for_no_script(name: str) -> None:
    """R runs `.Rprofile` of the working directory first, php looks there for what a script includes."""
    assert cage_policy.keys(f"{name} /usr/lib/x") == []


@pytest.mark.parametrize(
    "first",
    [
        "#!sh",
        "#!python3",
        "#!env python3",
        "#! bin/env sh",
        "#!{zone}/env sh",
        "#!{outside}/led/env sh",
        "#!/usr/bin/env Rscript",
        "#!{outside}/Rscript",
        "#!{outside}/shims/python3",
    ],
)
def test_the_first_line_of_a_script_leads_nowhere_else(tmp_path: Path, outside: Path, first: str) -> None:
    """The kernel takes `#!sh` from the working directory, whatever PATH says."""
    program(tmp_path / "env")
    (outside / "led").symlink_to(tmp_path)
    program(outside / "Rscript")
    program(outside / "shims/python3")
    tool = program(outside / "tool", first=first.format(zone=tmp_path, outside=outside))
    assert not is_started(outside, str(outside), str(tool))
    program(tool, first="#!/bin/sh")
    assert is_started(outside, str(outside), str(tool))


def test_the_kernel_takes_a_relative_interpreter_from_the_working_directory(tmp_path: Path, outside: Path) -> None:
    program(tmp_path / "sh", text=f"echo ran >{tmp_path}/ran")
    tool = program(outside / "tool", first="#!sh")
    subprocess.run(["/usr/bin/env", "PATH=/usr/bin", str(tool)], cwd=tmp_path, check=True)
    assert (tmp_path / "ran").exists()


def test_a_directory_with_an_equals_sign_starts_nothing_else(outside: Path) -> None:
    """To `env` its file would be a variable, and the first argument the program."""
    program(outside / "a=b/tool")
    assert not is_started(outside, str(outside / "a=b"), "tool")


@pytest.mark.parametrize("make", ["link", "hard link", "shims", "volta", "mise"])
def test_a_launcher_takes_what_it_starts_from_the_project(outside: Path, make: str) -> None:
    launcher = program(outside / {"volta": "volta-shim", "mise": "bin/mise"}.get(make, "rustup"))
    tool = outside / ("shims" if make == "shims" else "bin" if make == "hard link" else "") / "tool"
    tool.parent.mkdir(exist_ok=True)
    if make == "shims":
        program(tool)
    elif make == "hard link":
        os.link(launcher, tool.parent / "rustup")
        os.link(launcher, tool)
    else:
        tool.symlink_to(launcher)
    found = Programs({}, outside, f"{tool.parent}:/usr/bin")
    assert found.words_of("tool") is None and found.words_of(str(tool)) is None
    if make in ("shims", "volta"):
        assert str(tool.parent) not in (found.words_of("touch") or ("", "?"))[1]


async def test_a_card_that_was_being_drawn_anew_at_a_stop_is_drawn_at_the_start(tmp_path: Path) -> None:
    """It shows what does not hold any more, as a vote that counts no longer: not until another's lease would end."""
    async with desk(tmp_path) as d:
        asked = await d.asked(d.event())
        cards = Cards(d.store.database, "slack", asked.home)
        now = d.clock()
        [card] = await cards.due(now)
        await cards.posted(card.id, "D1", "1.1", revision=card.request.revision)
        assert await d.store.renewed(asked.id, now) is not None
        assert await cards.claim([await cards.due(now)], now, now + 60)
        assert await cards.due(now) == []
        await cards.resumed(now)  # as after a kill
        assert await cards.claim([await cards.due(now)], now, now + 60) == {card.id}
        await cards.drawn([Drawing(card.id, State.PENDING, asked.revision + 1)], now + 1)
        await cards.resumed(now)
        assert await cards.due(now) == []


async def test_a_host_that_runs_no_other_text_is_not_left_to_a_planted_program(tmp_path: Path) -> None:
    """There a remembered name means what the agent's PATH says at that time."""
    path = f"{tmp_path}/venv:/usr/bin:/bin"
    async with desk(tmp_path) as d:
        await d.click(await d.asked(d.event("touch a", search_path=path)), Choice.ALWAYS)
        await d.answer()
        assert isinstance(await d.gate.submit(d.event("touch a", search_path=path), SECOND), Answer)
        program(tmp_path / "venv/touch")
        asked = await d.asked(d.event("touch a", search_path=path))
        assert "caged code can change" in asked.why
        again = await d.gate.submit(d.event("touch a", search_path="/usr/bin:/bin"), SECOND)
        assert isinstance(again, Answer) and again.ruling == "allow"
