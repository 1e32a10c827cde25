"""A throw-away home outside /tmp, the helper installed in it as people do, and a GitHub on loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cage.gh_issue.github import TOKEN, GitHub

SOURCE = Path(__file__).parents[3] / "cage" / "gh_issue.py"
SHEBANG = Path("/usr/bin/python3")


class Desk:
    """Where an agent works: calls the helper as a program and sees what comes back."""

    def __init__(self, home: Path, github: GitHub) -> None:
        self.home, self.github = home, github
        self.projects = home / "projects"
        self.helper = home / "work" / "gh-issue" / "gh_issue.py"
        self.token = home / ".config" / "spikybot" / "pat"
        self.root_file = self.token.with_name("api-root")
        self.env = {
            "HOME": str(home),
            "PATH": "/usr/bin:/bin",
            "GH_ISSUE_REPO": "acme/app",
            "GITHUB_API_URL": github.url,
        }
        for directory in (self.projects, self.helper.parent, self.token.parent):
            directory.mkdir(parents=True)
        shutil.copy(SOURCE, self.helper)
        self.helper.chmod(0o755)
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)

    def body(self, text: str | bytes = "Some text", name: str = "body.md") -> str:
        path = self.projects / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def command(self, *words: str | bytes) -> list[str | bytes]:
        return [*([] if SHEBANG.exists() else [sys.executable]), str(self.helper), *words]

    def call(
        self, *words: str | bytes, before: tuple[str, ...] = (), env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [*before, str(self.helper), *words] if before else self.command(*words)
        done = subprocess.run(
            command, env={**self.env, **(env or {})}, cwd=self.projects, capture_output=True, stdin=subprocess.DEVNULL,
            timeout=100, check=False, encoding="utf-8",
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert TOKEN not in done.stdout + done.stderr
        return done

    def does(self, *words: str | bytes, **more: object) -> str:
        """What a call prints that must succeed."""
        done = self.call(*words, **more)  # type: ignore[arg-type]
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def fails(self, *words: str | bytes, code: int = 1, **more: object) -> str:
        """The sentence of a call that must fail."""
        done = self.call(*words, **more)  # type: ignore[arg-type]
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert done.stderr.startswith("gh_issue.py: " if code == 1 else "usage: ")
        assert code == 2 or done.stderr.count("\n") == 1
        return done.stderr


@pytest.fixture
def github() -> Iterator[GitHub]:
    made = GitHub()
    yield made
    made.close()


@pytest.fixture
def desk(github: GitHub) -> Iterator[Desk]:
    with tempfile.TemporaryDirectory(prefix="gh-issue-", dir="/var/tmp") as home:
        os.chmod(home, 0o700)
        yield Desk(Path(home), github)
