"""The shipped Claude Code client: fetched once with npm, run as an ordinary user with a throw-away HOME.

The client refuses to bypass permissions as root, so a root test run drops to `USER_ID`, which owns nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = os.environ.get("SLACK_GATE_TEST_CLAUDE", "2.1.332")
CPU = {"x86_64": "x64", "aarch64": "arm64"}
USER_ID = 12345 if os.getuid() == 0 else None
"""Whom to become, as user and as group; None is nobody else."""
UNREACHED = (
    "ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH",
    "ERR_SOCKET_TIMEOUT", "FETCH_ERROR", "E502", "E503", "E504",
)  # fmt: skip
"""How npm names a registry it could not talk to; every other failure of npm is a failure of the test."""


class NpmUnreachable(Exception):
    """The client cannot be fetched here; the message says why."""


@dataclass(frozen=True)
class ClientRun:
    """How one `claude -p` ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        """The JSON that `--output-format json` prints."""
        result: dict[str, Any] = json.loads(self.stdout)
        return result


def fetch_client(version: str = VERSION) -> Path:
    """The executable of `version`, from the cache or from npm (190 MB, once)."""
    cpu = CPU.get(platform.machine())
    if cpu is None:
        raise NpmUnreachable(f"npm has no Claude Code client for {platform.machine()}")
    cache = _cache()
    binary = cache / f"claude-{version}-{cpu}"
    if binary.exists():
        return binary
    if shutil.which("npm") is None:
        raise NpmUnreachable("npm is not installed, so the real Claude Code client cannot be fetched")
    with tempfile.TemporaryDirectory(dir=cache) as work:
        package = f"@anthropic-ai/claude-code-linux-{cpu}@{version}"
        tarball = _npm_pack(package, Path(work))
        executable = Path(work, "claude")
        with tarfile.open(tarball) as tar, executable.open("wb") as target:
            packed = tar.extractfile("package/claude")
            assert packed is not None, tarball
            shutil.copyfileobj(packed, target)
        executable.chmod(0o755)
        executable.rename(binary)
    return binary


def _cache() -> Path:
    """A directory that `USER_ID` can pass through: root's own cache would be closed to it."""
    given = os.environ.get("SLACK_GATE_TEST_CACHE")
    cache = Path(given) if given else Path(f"/var/tmp/slack-gate-tests-{os.getuid()}")
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        raise RuntimeError(f"{cache} belongs to somebody else")
    return cache


def _npm_pack(package: str, directory: Path) -> Path:
    command = ["npm", "pack", package, "--pack-destination", str(directory), "--json", "--fetch-retries=1"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600)
    if done.returncode == 0:
        return next(directory.glob("*.tgz"))
    said = done.stdout + done.stderr
    if any(code in said for code in UNREACHED):
        raise NpmUnreachable(f"npm cannot reach its registry: {said.strip()[-300:]}")
    raise RuntimeError(f"npm pack {package} failed: {said.strip()[-1000:]}")


@contextmanager
def throw_away_home(parent: str = "/var/tmp", prefix: str = "slack-gate-home-") -> Iterator[Path]:
    """A HOME of `USER_ID` with an empty `.claude`, `tmp` and `job`, removed at the end."""
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    try:
        for directory in (home, home / ".claude", home / "tmp", home / "job"):
            directory.mkdir(exist_ok=True)
        give_away(home)
        yield home
    finally:
        shutil.rmtree(home)


def give_away(tree: Path) -> None:
    """Make `tree` and all below it the client's own."""
    if USER_ID is None:
        return
    for directory, names, files in os.walk(tree):
        for path in (directory, *(os.path.join(directory, name) for name in names + files)):
            os.chown(path, USER_ID, USER_ID, follow_symlinks=False)


async def run_client(binary: Path, api_url: str, home: Path, *flags: str, timeout: float = 60, **env: str) -> ClientRun:
    """`claude -p go FLAGS` in `home/job`, with `env` too; kills its process group when `timeout` seconds are over."""
    process = await asyncio.create_subprocess_exec(
        binary, "-p", "go", "--output-format", "json", *flags,
        cwd=home / "job", env=_environment(api_url, home) | env, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True,
        user=USER_ID, group=USER_ID, extra_groups=None if USER_ID is None else [],
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout):
            stdout, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    assert process.returncode is not None
    return ClientRun(process.returncode, stdout.decode(), stderr.decode())


def _environment(api_url: str, home: Path) -> dict[str, str]:
    """Nothing of the caller's, and a proxy that does not exist for every host but loopback."""
    nowhere = "http://127.0.0.1:9"
    return {
        "HOME": str(home), "TMPDIR": str(home / "tmp"), "CLAUDE_CODE_TMPDIR": str(home / "tmp"),
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
        "ANTHROPIC_BASE_URL": api_url, "ANTHROPIC_API_KEY": "sk-ant-x",
        "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HTTPS_PROXY": nowhere, "HTTP_PROXY": nowhere, "NO_PROXY": "127.0.0.1,localhost",
    }  # fmt: skip
