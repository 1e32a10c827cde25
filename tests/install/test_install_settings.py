"""Claude Code's settings file: ours goes in and out, the rest stays as it was, byte for byte."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from slack_gate.errors import InstallError
from slack_gate.install import hook_entry, remove_hook, write_hook
from slack_gate.install.settings import other_hooks

ENTRY = hook_entry("/usr/bin/python3", "/opt/x y/slack_gate/hook.py", "/run/user/7/gate.sock", 100)
OTHER = {"matcher": "Bash", "hooks": [{"type": "command", "command": "~/bin/audit.sh"}]}
SETTINGS = {
    "zebra": 1,
    "model": "opus",
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
    "hooks": {"PreToolUse": [OTHER], "Stop": [{"hooks": [{"type": "command", "command": "notify-send — fertig"}]}]},
    "env": {},
}
TEXTS = {
    "as Claude Code writes it": json.dumps(SETTINGS, indent=2, ensure_ascii=False) + "\n",
    "no line end": json.dumps(SETTINGS, indent=2, ensure_ascii=False),
    "four blanks": json.dumps(SETTINGS, indent=4, ensure_ascii=False) + "\n",
    "tabs": json.dumps(SETTINGS, indent="\t", ensure_ascii=False) + "\n",
    "no hooks": '{\n  "model": "opus"\n}\n',
    "empty object": "{}\n",
}


@pytest.fixture
def path(home: Path) -> Path:
    (home / ".claude").mkdir()
    return home / ".claude/settings.json"


def pre_tool_use(path: Path) -> list[dict[str, object]]:
    groups: list[dict[str, object]] = json.loads(path.read_text())["hooks"]["PreToolUse"]
    return groups


def test_the_entry_gates_every_tool_outlives_the_hook_and_blocks_on_failure() -> None:
    (command,) = ENTRY["hooks"]
    assert ENTRY["matcher"] == "*"
    assert command["type"] == "command"
    assert command["onFailure"] == "block"
    assert command["timeout"] == 160
    assert shlex.split(command["command"]) == [
        "/usr/bin/python3", "-IS", "/opt/x y/slack_gate/hook.py", "claude-code",
        "--socket", "/run/user/7/gate.sock", "--limit", "100", "||", "exit", "2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "code"),
    [("exit 0", 0), ("exit 2", 2), ("exit 1", 2), ("kill -9 $$", 2), ("kill -SEGV $$", 2), (None, 2)],
    ids=["allowed", "blocked", "odd exit", "killed", "crashed", "interpreter missing"],
)
def test_whatever_ends_the_interpreter_the_shell_says_0_or_2(home: Path, program: str | None, code: int) -> None:
    python = home / "a python"
    if program:
        python.write_text(f"#!/bin/sh\n{program}\n")
        python.chmod(0o755)
    line = hook_entry(python, "/x/slack_gate/hook.py")["hooks"][0]["command"]
    assert subprocess.run(["/bin/sh", "-c", line], capture_output=True).returncode == code


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_in_and_out_again_leaves_the_same_bytes(path: Path, text: str) -> None:
    path.write_text(text)
    write_hook(path, ENTRY)
    assert pre_tool_use(path)[-1] == ENTRY
    after = json.loads(path.read_text())
    assert list(after) == list(json.loads(text)) + ([] if "hooks" in text else ["hooks"])
    assert remove_hook(path) is True
    assert path.read_text() == text


@pytest.mark.parametrize("text", [None, "", " \n"], ids=["absent", "empty", "blank"])
def test_a_file_without_settings_gets_ours_alone(path: Path, text: str | None) -> None:
    if text is not None:
        path.write_text(text)
    write_hook(path, ENTRY)
    assert json.loads(path.read_text()) == {"hooks": {"PreToolUse": [ENTRY]}}
    assert path.read_text().startswith('{\n  "hooks": {\n')


def test_again_is_the_same_and_a_new_one_takes_the_place_of_the_old(path: Path) -> None:
    write_hook(path, ENTRY)
    settings = json.loads(path.read_text())
    settings["hooks"]["PreToolUse"].append(OTHER)
    path.write_text(json.dumps(settings, indent=2) + "\n")
    before = path.read_bytes()
    write_hook(path, ENTRY)
    assert path.read_bytes() == before
    newer = hook_entry("/usr/bin/python4", "/elsewhere/slack_gate/hook.py", None, 7)
    write_hook(path, newer)
    assert pre_tool_use(path) == [newer, OTHER]
    assert other_hooks(path) == 1


def test_ours_in_a_group_with_others_leaves_the_others(path: Path) -> None:
    theirs = {"type": "command", "command": "slack_gate/hook.py.txt 'unclosed"}
    exec_form = {"type": "command", "command": "python3", "args": ["/x/slack_gate/hook.py", "claude-code"]}
    mixed = {"matcher": "Write", "hooks": [theirs, *ENTRY["hooks"], exec_form]}
    path.write_text(json.dumps({"hooks": {"PreToolUse": [mixed]}}))
    assert remove_hook(path)
    assert pre_tool_use(path) == [{"matcher": "Write", "hooks": [theirs]}]


def test_removing_from_a_file_without_ours_changes_nothing(path: Path) -> None:
    assert remove_hook(path) is False
    assert not path.exists()
    path.write_text(TEXTS["no line end"])
    status = path.stat()
    assert remove_hook(path) is False
    assert path.stat().st_ino == status.st_ino


def test_a_symlink_stays_and_its_target_keeps_its_mode(home: Path, path: Path) -> None:
    (home / "dotfiles").mkdir()
    target = home / "dotfiles/claude.json"
    target.write_text("{}")
    target.chmod(0o600)
    path.symlink_to("../dotfiles/claude.json")
    write_hook(path, ENTRY)
    assert os.readlink(path) == "../dotfiles/claude.json"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert json.loads(target.read_text())["hooks"]["PreToolUse"] == [ENTRY]


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '"x"', "// comment\n{}", '{"a": 1} x', '{"a": NaN}', '{"a": 1, "a": 2}', '{"hooks": []}',
        '{"hooks": null}', '{"hooks": {"PreToolUse": {}}}', '{"hooks": {"PreToolUse": [1]}}',
        '{"hooks": {"PreToolUse": [{}]}}',
        '{"hooks": {"PreToolUse": [{"hooks": ["x"]}]}}', '{"disableAllHooks": true}', '{"a": "\\ud800"}',
    ],
)  # fmt: skip
def test_what_cannot_be_edited_is_refused_and_left_alone(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(InstallError) as caught:
        write_hook(path, ENTRY)
    assert str(path) in caught.value.sentence
    assert caught.value.next_step
    assert path.read_text() == text
    assert [file.name for file in path.parent.iterdir()] == ["settings.json"]


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InstallError):
        write_hook(path, ENTRY)
    assert path.read_bytes() == b'{"a": "\xff"}'
