"""A throw-away home full of secrets, and what stands around it, for one user and one build of sbox."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LOOT = "LOOT-7f3a9c"  # what a secret reads as; no command line of a test holds it
SECRETS = (
    ".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".docker/config.json", ".kube/config",
    ".gnupg/private-keys-v1.d/key", ".git-credentials", ".pypirc", ".npmrc", ".mozilla/firefox/logins.json",
    ".config/google-chrome/Default/Cookies", ".local/share/keyrings/login.keyring", ".claude/.credentials.json",
    ".codex/auth.json", ".bash_history", ".python_history", ".config/slack-gate/config.toml", ".config/spikybot/pat",
    ".cargo/credentials.toml", ".config/git/credentials", ".m2/settings.xml", ".local/state/app/token", ".vault-token",
    ".config/rclone/rclone.conf", ".terraform.d/credentials.tfrc.json", ".password-store/mail.gpg", ".env",
    ".local/share/uv/credentials/credentials.toml", ".bun/install/.npmrc", ".sdkman/etc/config",
    ".npm-global/etc/npmrc", ".nvm/versions/node/v22.0.0/etc/npmrc", ".julia/servers/pkg.example.org/auth.toml",
    ".julia/logs/repl_history.jl", ".conda/condarc", ".conda/.condarc", ".pyenv/versions/3.11.2/pip.conf",
    ".volta/tools/image/node/22.0.0/etc/npmrc", ".asdf/installs/nodejs/22.0.0/etc/npmrc",
    ".local/share/mise/installs/node/22.0.0/etc/npmrc",
    ".local/share/fnm/node-versions/v22.0.0/installation/etc/npmrc",
)  # fmt: skip
ENVIRONMENT = {
    "SLACK_BOT_TOKEN": LOOT, "SBX_GATE_KEY": LOOT, "MYAPP_SETTING": LOOT, "dotted.name": LOOT, "NODE_AUTH_TOKEN": LOOT,
    "PYTHON_KEYRING_PASSWORD": LOOT, "BASH_FUNC_ls%%": "() { echo " + LOOT + "; }", "SSH_AUTH_SOCK": LOOT,
    "GIT_ASKPASS": LOOT, "DBUS_SESSION_BUS_ADDRESS": LOOT,
}  # fmt: skip


@dataclass(frozen=True)
class World:
    sbox: Path
    uid: int
    top: Path  # under /tmp: home/ and common/
    outside: Path  # under /var/tmp: writable for this user, not for the cage

    @property
    def home(self) -> Path:
        return self.top / "home"

    @property
    def projects(self) -> Path:
        return self.home / "projects"

    @classmethod
    @contextlib.contextmanager
    def make(cls, sbox: Path, uid: int) -> Iterator[World]:
        top, outside = (Path(tempfile.mkdtemp(prefix="sbox-test-", dir=place)) for place in ("/tmp", "/var/tmp"))
        world = cls(sbox, uid, top, outside)
        for name in ("projects", ".cache/tool", "plain", ".local/bin", ".run", "../common"):
            (world.home / name).mkdir(parents=True)
        for name in SECRETS:
            path = world.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LOOT + "\n")
        (world.home / ".gitconfig").write_text("[user]\n\tname = T\n\temail = t@example.org\n[safe]\n\tdirectory = *\n")
        (world.home / "plain/notes").write_text("plain\n")
        (world.home / "keys").symlink_to(".ssh")
        (world.home / "abs-keys").symlink_to(world.home / ".ssh")
        (world.home / ".cache/tool/data").write_text("downloaded\n")
        script = world.home / ".local/bin/hello"
        script.write_text("#!/bin/sh\necho hello\n")
        script.chmod(0o755)
        for directory in (top, outside):
            world.give(directory)
            directory.chmod(0o755)
        try:
            yield world
        finally:
            shutil.rmtree(top)
            shutil.rmtree(outside)

    def give(self, path: Path) -> None:
        """Make the user own everything at and below `path`."""
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{self.uid}:{self.uid}", path], check=True)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        plain = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}
        return plain | ENVIRONMENT | dict(extra or {})

    def start(self, argv: list[str], **options: object) -> subprocess.Popen[str]:
        """Start `argv` as the user, without a cage, in `projects` unless told otherwise."""
        settings: dict[str, object] = {
            "cwd": self.projects, "env": self.environment(), "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE, "text": True, "errors": "replace", "start_new_session": True,
        }  # fmt: skip
        if self.uid != os.geteuid():
            settings |= {"user": self.uid, "group": self.uid, "extra_groups": []}
        return subprocess.Popen(argv, **(settings | options))  # type: ignore[call-overload,no-any-return]

    def bare(
        self, *argv: str, timeout: float = 100, input: str | None = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        """Run `argv` as the user without a cage."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        with self.start(list(argv), **options) as process:
            try:
                out, err = process.communicate(input, timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                raise AssertionError(f"still running after {timeout} s: {argv}\n{out}\n{err}") from None
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def caged(self, *argv: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Run `argv` as the user in the cage."""
        return self.bare(str(self.sbox), *argv, **options)  # type: ignore[arg-type]

    def repository(self, name: str) -> Path:
        """A fresh repository with one commit under `projects`; rights as for an ordinary clone."""
        path = self.projects / name
        make = 'git init -q -b main "$0"; cd "$0"; echo one >file; git add file; git commit -qm one'
        done = self.bare("bash", "-ec", make, str(path))
        assert done.returncode == 0, done.stderr
        return path


@contextlib.contextmanager
def listening(world: World, path: Path | str, kind: socket.SocketKind = socket.SOCK_STREAM) -> Iterator[None]:
    """A Unix socket outside the cage that everybody may reach; a name that starts with NUL is an abstract one."""
    with socket.socket(socket.AF_UNIX, kind) as server:
        server.bind(str(path))
        if isinstance(path, Path):
            path.chmod(0o777)
        if kind != socket.SOCK_DGRAM:
            server.listen(8)
        yield
    if isinstance(path, Path):
        path.unlink()
