"""The two ends of the hook: a daemon that does as it is told, and the agent that runs the client."""

from __future__ import annotations

import json
import os
import posix
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from slack_gate import hook_client, hook_wire

ROOT = Path(__file__).resolve().parents[2]
HOOK = ROOT / "slack_gate" / "hook.py"
LIMIT = 60  # seconds; no test waits this long unless the client hangs
ALLOW = b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}\n'
EVENT = b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}'

Reply = bytes | Callable[[socket.socket], None]


def answer(code: int, text: bytes) -> bytes:
    return b"%d %d\n%s" % (code, len(text), text)


@dataclass(frozen=True)
class Frame:
    """One event as it arrived."""

    agent: str
    nonce: str
    limit: int
    cwd: bytes | None
    search_path: bytes | None
    event: bytes


def read_frame(stream: IO[bytes]) -> Frame:
    line = stream.readline().decode("ascii")
    found = re.fullmatch(r"slack-gate/1 ([a-z0-9-]+) (\d+) ([0-9a-f]{32}) (\d+) ([0-9a-f]+|-) ([0-9a-f]+|-)\n", line)
    assert found, line
    agent, length, nonce, limit, cwd, search_path = found.groups()
    event = stream.read(int(length))
    assert len(event) == int(length)
    told = (None if field == "-" else bytes.fromhex(field) for field in (cwd, search_path))
    return Frame(agent, nonce, int(limit), *told, event)


class Daemon:
    """Answers the first connection with the first reply, the second with the second, and then hangs up.

    A reply that can be called gets the connection before anything is read from it. Of the others, `frames` holds the
    frames in the order of the connections and `rests` what came after each, up to the end.
    """

    def __init__(self, path: Path, *replies: Reply) -> None:
        self.frames: list[Frame] = []
        self.rests: list[bytes] = []
        self.failure: BaseException | None = None
        self.closing = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(LIMIT)
        self.listener.bind(str(path))
        self.listener.listen()
        self.path = path
        self.thread = threading.Thread(target=self.run, args=(replies,), daemon=True)
        self.thread.start()

    def run(self, replies: tuple[Reply, ...]) -> None:
        try:
            for reply in replies:
                connection, _ = self.listener.accept()
                connection.settimeout(LIMIT)
                with connection:
                    if self.closing:
                        return
                    self.serve(connection, reply)
        except Exception as error:  # noqa: BLE001 - end() raises it where pytest sees it
            self.failure = error
        finally:
            self.listener.close()
            self.path.unlink(missing_ok=True)

    def serve(self, connection: socket.socket, reply: Reply) -> None:
        if not isinstance(reply, bytes):
            reply(connection)
            return
        with connection.makefile("rb") as stream:
            self.frames.append(read_frame(stream))
            with suppress(ConnectionError):  # a client whose agent is gone may have hung up
                connection.sendall(reply)
                connection.shutdown(socket.SHUT_WR)
                self.rests.append(stream.read())

    def end(self) -> None:
        """Wait until every reply is given."""
        self.thread.join(LIMIT)
        assert not self.thread.is_alive(), "the hook did not connect as often as expected"
        if self.failure:
            raise self.failure

    def close(self) -> None:
        """Accept nothing more; what was accepted must have gone well."""
        if self.thread.is_alive():
            self.closing = True
            with suppress(OSError), socket.socket(socket.AF_UNIX) as knock:  # it may be gone in the meantime
                knock.connect(str(self.path))
        self.end()


def unasked(connection: socket.socket) -> None:
    """A reply for a client that must hang up without a byte of the event."""
    assert connection.recv(1) == b""


class Held:
    """A reply: the frame is read, `first` sent, and then nothing more until the client hangs up."""

    def __init__(self, first: bytes = b"") -> None:
        self.first = first
        self.heard = threading.Event()
        self.rests: list[bytes] = []

    def __call__(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            read_frame(stream)
            connection.sendall(self.first)
            self.heard.set()
            self.rests.append(read_to_the_end(connection))


def read_to_the_end(connection: socket.socket) -> bytes:
    """Return what comes until the client hangs up, in order or with something unread."""
    received = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(1 << 16):
            received += more
    return received


@dataclass(frozen=True)
class Result:
    code: int
    stdout: bytes
    stderr: bytes

    def denied(self) -> str:
        """Return the reason of a denial in every form at once, which no client overhears."""
        assert self.code == 2
        verdict = json.loads(self.stdout)["hookSpecificOutput"]
        reason = verdict["permissionDecisionReason"]
        assert verdict == {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
        assert self.stderr.decode("ascii") == reason + "\n"
        assert reason.startswith("slack-gate: ")
        return str(reason)


@dataclass
class Agent:
    """Runs the client: `process` as an agent does, `here` inside the tests, where coverage sees it."""

    socket: Path
    how: str = "process"
    env: dict[str, str] = field(default_factory=dict)

    def arguments(self, *more: str) -> list[str]:
        return ["claude-code", "--socket", str(self.socket), *more]

    def argv(self, arguments: list[str], patch: dict[str, Any]) -> list[str]:
        if not patch:
            return [sys.executable, "-IS", str(HOOK), *arguments]
        lines = [
            f"import sys; sys.path.insert(0, {str(ROOT)!r})",
            "from slack_gate import hook, hook_client, hook_wire",
        ]
        lines += [f"{name} = {value!r}" for name, value in patch.items()]
        return [sys.executable, "-IS", "-c", "\n".join([*lines, "hook.main(sys.argv[1:])"]), *arguments]

    def start(self, *more: str, patch: dict[str, Any] | None = None, **popen: Any) -> subprocess.Popen[bytes]:
        """Start the client as a process with pipes; the caller ends it."""
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        return subprocess.Popen(self.argv(self.arguments(*more), patch or {}), **{**pipes, "env": self.env, **popen})

    def ask(self, *more: str, event: bytes = EVENT, patch: dict[str, Any] | None = None, **popen: Any) -> Result:
        return self.call(self.arguments(*more), event, patch, **popen)

    def call(
        self, arguments: list[str], event: bytes = EVENT, patch: dict[str, Any] | None = None, **popen: Any
    ) -> Result:
        if self.how == "here":
            return run_here(arguments, event, self.env, patch or {})
        done = subprocess.run(
            self.argv(arguments, patch or {}),
            **{"input": event, "capture_output": True, "env": self.env, "timeout": LIMIT, **popen},
        )
        return Result(done.returncode, done.stdout, done.stderr)


def send(process: subprocess.Popen[bytes], event: bytes = EVENT) -> None:
    """Give the client its whole event."""
    assert process.stdin
    with process.stdin:
        process.stdin.write(event)
    process.stdin = None  # so that communicate() does not close it again


def finish(process: subprocess.Popen[bytes], event: bytes | None = None) -> Result:
    stdout, stderr = process.communicate(event, timeout=LIMIT)
    return Result(process.returncode, stdout, stderr)


def run_here(arguments: list[str], event: bytes, env: dict[str, str], patch: dict[str, Any]) -> Result:
    names = {"hook_client": hook_client, "hook_wire": hook_wire}
    with pytest.MonkeyPatch.context() as patches, own_signals(), own_descriptors(event) as read_output:
        patches.setattr(posix, "environ", {os.fsencode(k): os.fsencode(v) for k, v in env.items()})
        for name, value in patch.items():
            module, _, attribute = name.partition(".")
            patches.setattr(names[module], attribute, value)
        code = hook_client.run(arguments)
        return Result(code, *read_output())


@contextmanager
def own_signals() -> Iterator[None]:
    """Put back what the client does to signals, which a process of its own would take along at its end."""
    before = {number: signal.getsignal(number) for number in hook_wire.SIGNALS}
    pipes: list[int] = []

    def pipe(flags: int) -> tuple[int, int]:
        pipes.extend(os.pipe2(flags))
        return pipes[-2], pipes[-1]

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(posix, "pipe2", pipe)
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            for fd in pipes:
                os.close(fd)


@contextmanager
def own_descriptors(event: bytes) -> Iterator[Callable[[], list[bytes]]]:
    """Put files in the place of descriptors 0, 1 and 2; yield a function that reads 1 and 2 back."""
    kept = [os.dup(fd) for fd in range(3)]
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        os.write(files[0], event)
        os.lseek(files[0], 0, os.SEEK_SET)
        for fd in range(3):
            os.dup2(files[fd], fd)
        yield lambda: [os.pread(files[fd], os.fstat(files[fd]).st_size, 0) for fd in (1, 2)]
    finally:
        for fd in range(3):
            os.dup2(kept[fd], fd)
        for fd in (*kept, *files):
            os.close(fd)
