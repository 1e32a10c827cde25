"""Scripts that change between the question and the run without being noticed, and calls that stall the hashing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slack_gate.core.event import ToolEvent
from slack_gate.daemon.scripts import scripts_of
from tests.attack.work import calls_of


def call(command: str, cwd: Path) -> ToolEvent:
    return ToolEvent("claude-code", "s1", "t", "Bash", {"command": command}, str(cwd))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("bash 'run me.sh'", "run me.sh"),
        ("bash run\\ me.sh", "run me.sh"),
        ("bash r\\un.sh", "run.sh"),
        ("bash r'un'.sh", "run.sh"),
        ("bash $PWD/run.sh", "run.sh"),
        ("bash --rcfile=run.sh -i", "run.sh"),
        ("node --require=./run.js -e 1", "run.js"),
        ("cd -- sub && bash run.sh", "sub/run.sh"),
        ("cd a && cd b && bash run.sh", "a/b/run.sh"),
        ("chmod +x run.sh && ./run.sh", "run.sh"),
        ("awk -f run.awk data", "run.awk"),
        ("psql -f run.sql", "run.sql"),
        ("kubectl apply -f run.yaml", "run.yaml"),
        ("bash <<< 'x'; python3 -m run", "run.py"),
        ("make", "Makefile"),
    ],
)
def test_a_change_of_the_script_is_noticed(tmp_path: Path, command: str, script: str) -> None:
    path = tmp_path / script
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("approved")
    before = scripts_of(call(command, tmp_path))
    path.write_text("planted!")
    assert scripts_of(call(command, tmp_path)) != before


def test_a_change_of_a_large_script_is_noticed(tmp_path: Path) -> None:
    """Size, inode and mtime: all three can be kept by who writes the file. The time of change (ctime) cannot."""
    path = tmp_path / "run.sh"
    path.write_bytes(b"#" * (5 << 20))
    before, times = scripts_of(call("sh run.sh", tmp_path)), path.stat()
    with path.open("r+b") as file:
        file.write(b"rm x\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert scripts_of(call("sh run.sh", tmp_path)) != before


def test_hashing_does_not_stall(tmp_path: Path) -> None:
    """A 700-byte command; with 6,000 characters it takes a minute. 17 places times every word, 4 MiB each."""
    with (tmp_path / "big").open("wb") as file:
        file.truncate(4 << 20)
    names = [f"{n:x}" for n in range(64)]
    for name in names:
        (tmp_path / name).symlink_to("big")
    moves = " ".join("cd " + "./" * n + "." for n in range(16))
    event = call(f"sh {' '.join(names)} {moves}", tmp_path)
    assert calls_of(lambda: scripts_of(event)) < 200_000
