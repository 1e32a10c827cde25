"""The installation as a whole, with a real copy of the program that runs on its own."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from slack_gate.cli import doctor
from slack_gate.cli.install import install, uninstall
from slack_gate.config import load
from slack_gate.errors import InstallError
from slack_gate.install import hook_entry, untrusted_reason, write_hook
from slack_gate.install.files import fingerprint
from slack_gate.install.program import base_python

SOURCE = Path(__file__).parents[2]


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same HOME below a name with a blank, and the only one that the program sees."""
    inner = home / "an na"
    (inner / ".claude").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(inner))
    monkeypatch.setenv("SLACK_GATE_HOME", str(inner / "gate"))
    monkeypatch.setenv("SLACK_GATE_WAIT", "100")
    for name in ("SLACK_GATE_SOCKET", "XDG_RUNTIME_DIR", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return inner


def run(command: object, *words: str) -> str:
    result = CliRunner().invoke(command, ["claude-code", *words], catch_exceptions=False)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return result.output


def tree(home: Path) -> dict[str, str | None]:
    """Every file and link below `home`, with what is in it; the cage keeps its own state."""
    paths = (path for path in home.rglob("*") if path.is_symlink() or path.is_file())
    paths = (path for path in paths if not path.is_relative_to(home / ".local/state/sbox"))
    return {str(path.relative_to(home)): fingerprint(path) for path in paths}


def cage_starts() -> bool:
    done = subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], stderr=subprocess.DEVNULL)
    return done.returncode == 0


def builds_the_program() -> bool:
    return cage_starts() and any(Path(place, "cc").exists() for place in ("/usr/local/bin", "/usr/bin", "/bin"))


def hook_line(settings: Path) -> dict[str, object]:
    (group,) = json.loads(settings.read_text())["hooks"]["PreToolUse"]
    (hook,) = group["hooks"]
    assert isinstance(hook, dict)
    return hook


def test_install_again_and_uninstall(home: Path) -> None:
    settings, sbox = home / ".claude/settings.json", home / ".local/bin/sbox"
    proxy, helper = home / ".local/bin/sbox_proxy.py", home / "work/gh-issue/gh_issue.py"
    settings.write_text('{\n  "model": "opus"\n}\n')
    for path in (sbox, helper):
        path.parent.mkdir(parents=True)
        path.write_text("an older one\n")
    before = tree(home)

    said = run(install)
    assert f"{sbox} was there before" in said and f"{helper} was there before" in said
    assert "Only root can pin it" in said
    hook = hook_line(settings)
    script = home / ".local/share/slack-gate/current/lib/slack_gate/hook.py"
    assert shlex.split(str(hook["command"]))[:8] == [
        str(base_python()), "-IS", str(script), "claude-code",
        "--socket", str(home / "gate/run/gate.sock"), "--limit", "130",
    ]  # fmt: skip
    assert hook["timeout"] == 190
    assert sbox.read_bytes().startswith(b"\x7fELF" if builds_the_program() else b"#!/bin/bash -p")
    assert stat.S_IMODE(sbox.stat().st_mode) == stat.S_IMODE(helper.stat().st_mode) == 0o755
    assert proxy.read_bytes() == (SOURCE / "cage/sbox_proxy.py").read_bytes()
    assert (proxy.parent / "whole_git.py").read_bytes() == (SOURCE / "cage/whole_git.py").read_bytes()
    assert helper.read_bytes() == (SOURCE / "cage/gh_issue.py").read_bytes()
    assert (home / ".claude/hooks/cage_policy.py").read_bytes() == (SOURCE / "cage/cage_policy.py").read_bytes()
    for path in (script, sbox, proxy, helper, home / ".local/bin/slack-gate", settings):
        assert untrusted_reason(path, home) is None

    alone = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    caged = subprocess.run(
        [sbox, "sh", "-c", "echo x >~/.bashrc || exit 9"], env=alone, stderr=subprocess.DEVNULL, cwd="/"
    )
    assert caged.returncode == (9 if cage_starts() else 125)
    version = subprocess.run([home / ".local/bin/slack-gate", "--version"], env=alone, capture_output=True, text=True)
    assert version.stdout == "slack-gate, version 0.1.0\n", version
    greeting = {
        **{"jsonrpc": "2.0", "id": 1, "method": "initialize"},
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    server = subprocess.run(
        [home / ".local/bin/slack-gate", "mcp"],
        **{"env": alone, "input": json.dumps(greeting) + "\n", "capture_output": True, "text": True},
    )
    assert json.loads(server.stdout)["result"]["serverInfo"]["name"] == "slack-gate", server
    assert (script.parent.parent / "psycopg").is_dir()  # for a fleet
    blocked = subprocess.run(
        str(hook["command"]), shell=True, env=alone, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert blocked.returncode == 2
    assert "no daemon listens" in blocked.stderr

    sbox.write_text("changed by hand\n")
    (home / ".local/bin/sbox.before-slack-gate").rename(home / "kept")
    first = settings.read_bytes(), os.readlink(home / ".local/share/slack-gate/current")
    run(install)
    assert settings.read_bytes() == first[0]
    assert os.readlink(home / ".local/share/slack-gate/current") != first[1]
    assert len(list((home / ".local/share/slack-gate/versions").iterdir())) == 2

    (home / "kept").rename(home / ".local/bin/sbox.before-slack-gate")
    run(uninstall)
    assert tree(home) == before


def test_the_program_goes_with_the_last_hook(home: Path) -> None:
    project = home / "work"
    project.mkdir()
    run(install)
    run(install, "--scope", "project", "--dir", str(project))
    assert hook_line(project / ".claude/settings.json") == hook_line(home / ".claude/settings.json")
    assert "The program stays" in run(uninstall)
    assert (home / ".local/bin/slack-gate").exists()
    run(uninstall, "--scope", "project", "--dir", str(project))
    assert set(tree(home)) == {".claude/settings.json", "work/.claude/settings.json"}
    assert json.loads((home / ".claude/settings.json").read_text()) == {}


def test_a_file_changed_since_is_not_removed(home: Path) -> None:
    run(install)
    policy = home / ".claude/hooks/cage_policy.py"
    policy.write_text("mine now\n")
    assert f"{policy} stays" in run(uninstall)
    assert policy.read_text() == "mine now\n"


@pytest.mark.parametrize("command", [install, uninstall], ids=["install", "uninstall"])
def test_a_dry_run_says_it_and_changes_nothing(home: Path, command: object) -> None:
    write_hook(home / ".claude/settings.json", hook_entry("/usr/bin/python3", "/x/slack_gate/hook.py"))
    before = tree(home)
    said = run(command, "--dry-run")
    assert str(home / ".claude/settings.json") in said
    assert said.endswith("Nothing was changed.\n")
    assert tree(home) == before


def invalid_json(home: Path) -> None:
    (home / ".claude/settings.json").write_text("{")


def settings_in_the_zone(home: Path) -> None:
    (home / "projects").mkdir()
    (home / "projects/settings.json").write_text("{}")
    (home / ".claude/settings.json").symlink_to("../projects/settings.json")


def share_in_the_zone(home: Path) -> None:
    (home / "projects/share").mkdir(parents=True)
    (home / ".local").mkdir()
    (home / ".local/share").symlink_to("../projects/share")


def bin_open_to_others(home: Path) -> None:
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin").chmod(0o777)


def helper_in_the_zone(home: Path) -> None:
    (home / "projects/work").mkdir(parents=True)
    (home / "work").symlink_to("projects/work")


def place_taken_twice(home: Path) -> None:
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/sbox").write_text("theirs")
    (home / ".local/bin/sbox.before-slack-gate").write_text("theirs too")


@pytest.mark.parametrize(
    "spoil",
    [invalid_json, settings_in_the_zone, share_in_the_zone, bin_open_to_others, helper_in_the_zone, place_taken_twice],
    ids=lambda spoil: str(spoil.__name__),
)
def test_a_refusal_gives_the_reason_and_changes_nothing(home: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(home)
    before = tree(home)
    with pytest.raises(InstallError) as caught:
        run(install)
    assert str(home) in caught.value.sentence
    assert caught.value.next_step
    assert tree(home) == before


def test_a_home_in_the_zone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setenv("HOME", directory)
        monkeypatch.setenv("SLACK_GATE_HOME", f"{directory}/gate")
        with pytest.raises(InstallError, match="lies in /tmp, where the agent and the cage can write"):
            run(install)
        assert tree(Path(directory)) == {}


def test_an_interpreter_in_the_zone_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = home / "projects/python3"
    python.parent.mkdir()
    python.write_text("")
    monkeypatch.setattr("sys._base_executable", str(python))
    with pytest.raises(InstallError, match="/projects, where the agent and the cage can write"):
        run(install)


def test_a_compiler_of_the_agent_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark, planted = home / "mark", home / "projects/bin"
    planted.mkdir(parents=True)
    for name in ("cc", "mktemp", "cp"):
        (planted / name).write_text(f"#!/bin/sh\ntouch '{mark}'\nexit 1\n")
        (planted / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted}:{os.environ['PATH']}")
    monkeypatch.setenv("BASH_ENV", str(planted / "cc"))
    run(install)
    assert not mark.exists() and (home / ".local/bin/sbox").exists()


def test_a_copy_that_does_not_start_is_thrown_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(install)
    before = tree(home)
    monkeypatch.setattr("slack_gate.install.program.OURS", ("slack_gate",))
    with pytest.raises(InstallError, match="The copied program does not start: ModuleNotFoundError"):
        run(install)
    assert tree(home) == before


def test_a_project_in_the_zone_is_installed_with_a_warning(home: Path) -> None:
    project = home / "projects/shop"
    project.mkdir(parents=True)
    assert "it can take the hook out" in run(install, "--scope", "project", "--dir", str(project), "--dry-run")


@pytest.mark.parametrize(
    ("version", "found"), [("2.1.294 (Claude Code)", ["fault"]), ("2.1.295 (Claude Code)", []), ("2.0.999", ["fault"])]
)
def test_an_agent_too_old_to_block_is_a_fault(
    home: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: list[str]
) -> None:
    """One that runs the call when its hook is killed."""
    (client := home / "claude").write_text(f"#!/bin/sh\necho '{version}'\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(home))
    findings = list(doctor._client())
    assert [finding.level for finding in findings] == found
    assert all(version.split()[0] in finding.words and "2.1.295" in finding.words for finding in findings)


def test_a_hook_that_is_gone_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_GATE_APPROVERS", "U0ANA")
    settings = home / ".claude/settings.json"
    gone = home / "gone/slack_gate/hook.py"
    write_hook(settings, hook_entry("/usr/bin/python3", gone))
    faults = [one.words for one in doctor._hooks(load(), home) if one.level == "fault"]
    assert f"{settings} names {gone}, which does not exist" in faults
