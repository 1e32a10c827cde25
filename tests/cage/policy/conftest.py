"""A throw-away home outside /tmp (which is itself in the green zone) and real repositories in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cage import cage_policy

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
CAGE = shutil.which("bwrap") is not None and not subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"]).returncode


def entries(table: str) -> list[str]:
    """The entries of a table: separated by "; " or a line break."""
    return [entry.strip() for row in table.splitlines() for entry in row.split("; ") if entry.strip()]


def argvs(text: str) -> list[tuple[str, ...]] | None:
    """The words of each simple command as they are read."""
    segments = cage_policy.read(text)
    return None if segments is None else [segment.argv for segment in segments]


class House:
    """A home with the three writable directories, a helper directory and one clean repository."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.projects = home / "projects"
        self.cache = home / ".cache"
        self.work = home / "work"
        self.repo = self.projects / "app"
        self.outside = home / "outside"
        self.gate = home / ".config" / "slack-gate"

    def bash(self, command: str, cwd: Path | None = None, **fields: object) -> str:
        return cage_policy.classify("Bash", {"command": command, **fields}, str(cwd or self.repo))

    def told(self, command: str) -> tuple[str, str, str, str]:
        """The whole verdict: what it is, the segment, the rule, the hint."""
        why = self.why(command)
        return why.verdict, why.segment, why.rule, why.hint

    def why(self, command: str, cwd: Path | None = None) -> cage_policy.Verdict:
        return cage_policy.explain("Bash", {"command": command}, str(cwd or self.repo))

    def write(self, path: object, tool: str = "Write") -> str:
        field = "notebook_path" if tool == "NotebookEdit" else "file_path"
        return cage_policy.classify(tool, {field: str(path)}, str(self.repo))


def build(home: Path) -> None:
    house = House(home)
    for directory in (house.projects, house.cache, house.work / "gh-issue", house.outside, house.gate):
        directory.mkdir(parents=True)
    (house.work / "gh-issue" / "gh_issue.py").write_text("")
    make_repository(house.repo)


def git(cwd: Path, *words: str) -> str:
    """Real git, with an identity and without the machine's settings."""
    env = {
        "HOME": str(cwd.parent),
        "PATH": SYSTEM_PATH,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        **{f"GIT_{who}_{what}": "dev@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=100)
    return done.stdout


def make_repository(where: Path) -> Path:
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main")
    shutil.rmtree(where / ".git" / "hooks", ignore_errors=True)
    (where / "a.txt").write_text("a\n")
    (where / "d").mkdir()
    (where / "d" / "b.txt").write_text("b\n")
    git(where, "add", ".")
    git(where, "commit", "-q", "-m", "first")
    git(where, "config", "remote.origin.url", "https://127.0.0.1:9/acme/app.git")
    git(where, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    git(where, "config", "branch.main.remote", "origin")
    git(where, "config", "branch.main.merge", "refs/heads/main")
    return where


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """One house, built once; each test works on a copy."""
    root = Path(tempfile.mkdtemp(prefix="policy-", dir="/var/tmp"))
    try:
        build(root / "home")
        yield root / "home"
    finally:
        shutil.rmtree(root)


@pytest.fixture
def house(template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    root = Path(tempfile.mkdtemp(prefix="policy-", dir="/var/tmp"))
    try:
        home = root / "home"
        shutil.copytree(template, home, symlinks=True)
        for name in list(os.environ):
            if name.startswith(
                ("GIT_", "LD_", "PYTHON", "SLACK_GATE_HOME", "AGENT_TOOLS", "GH_ISSUE", "XDG_", "BASH_ENV")
            ):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", SYSTEM_PATH)
        monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield House(home)
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="session")
def long_run() -> bool:
    """Are the larger sizes of the generated tests wanted?"""
    return bool(os.environ.get("SLACK_GATE_LONG"))


def evil_fsmonitor(repo: Path) -> None:
    git(repo, "config", "core.fsmonitor", "/nowhere/evil")
