"""A real PostgreSQL server of the tests' own, on loopback, from the binaries of Debian's package."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.ports import free_port

PASSWORD = "s3cret pass%word"  # one that a URL has to quote


def binaries() -> Path | None:
    """Where `initdb` and `postgres` are, None where the package is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@dataclass
class Server:
    """`place` is its directory; the address never changes, also when it is stopped and started."""

    place: Path
    port: int
    host: str = "127.0.0.1"
    within: tuple[str, ...] = ()  # words before the server's command, to start it on another network
    process: subprocess.Popen[bytes] | None = None
    databases: list[str] = field(default_factory=list)

    def start(self) -> None:
        log = (self.place / "server.log").open("ab")
        settings = {
            "listen_addresses": "127.0.0.1" if self.host == "127.0.0.1" else "*",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "60",
            "shared_buffers": "16MB",
            "max_wal_size": "8GB",  # a checkpoint syncs the files of hundreds of databases, for ten seconds at a time
            "checkpoint_timeout": "1h",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [*_unprivileged(), str(_found() / "postgres"), "-D", str(self.place / "data"), *options]
        self.process = subprocess.Popen([*self.within, *command], stdout=log, stderr=log)
        deadline = time.monotonic() + 100
        while not self._answers():
            assert self.process.poll() is None, (self.place / "server.log").read_text()
            assert time.monotonic() < deadline, (self.place / "server.log").read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        ready = [*self.within, str(_found() / "pg_isready"), "-h", self.host, "-p", str(self.port), "-q"]
        return subprocess.run(ready, check=False).returncode == 0

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT: at once, in good order. SIGKILL would leave its children; SIGQUIT is its crash."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(100)
            self.process = None

    def url(self, database: str) -> str:
        quoted = PASSWORD.replace("%", "%25").replace(" ", "%20")
        return f"postgresql+psycopg://gate:{quoted}@{self.host}:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """A connection beside the store's, each statement for itself."""
        return psycopg.connect(
            host=self.host, port=self.port, user="gate", password=PASSWORD, dbname=database, autocommit=True
        )

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"gate_{secrets.token_hex(6)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def server(host: str = "127.0.0.1", within: tuple[str, ...] = ()) -> Iterator[Server]:
    """A new server with the role `gate`, until the end."""
    place = Path(tempfile.mkdtemp(prefix="gate-pg-"))
    try:
        (place / "password").write_text(PASSWORD)
        if _unprivileged():
            for path in (place, place / "password"):
                shutil.chown(path, _user(), -1)
        initdb = [
            str(_found() / "initdb"),
            "-D",
            str(place / "data"),
            "-U",
            "gate",
            "--pwfile",
            str(place / "password"),
        ]
        more = ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        made = subprocess.run([*_unprivileged(), *initdb, *more], capture_output=True, check=False, cwd="/")
        assert made.returncode == 0, made.stderr
        if host != "127.0.0.1":
            with (place / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all all scram-sha-256\n")
        found = Server(place, free_port(), host, within)
        found.start()
        try:
            yield found
        finally:
            found.stop(signal.SIGQUIT)  # its directory goes too: to write all of it first would only take time
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _found() -> Path:
    found = binaries()
    assert found is not None
    return found


def _user() -> str:
    """PostgreSQL refuses to run as root."""
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


def _unprivileged() -> list[str]:
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(_user())
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
