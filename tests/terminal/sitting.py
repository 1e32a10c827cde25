"""`slack-gate serve` with a person at its terminal, or a pipe for its input."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from slack_gate.config import Settings
from slack_gate.terminal import SETTLE_S
from tests.client.asking import ROOT
from tests.daemon.serving import environment

ENDPOINT = b"Agent endpoint"
PROMPT = "Approve? [y/N] "


@dataclass
class Sitting:
    """What the daemon has written so far, and a way to type."""

    daemon: asyncio.subprocess.Process
    typing: int
    seen: bytes = b""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def type(self, text: str) -> None:
        os.write(self.typing, text.encode())

    def in_front(self) -> None:
        """As after `fg`: the program that had the terminal gives it to the daemon."""
        (front,) = Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children").read_text().split()
        os.kill(int(front), signal.SIGUSR1)

    async def reads(self, text: str, times: int = 1, timeout: float = 100) -> str:
        """Waits until `text` has been written so often; all that was written, line ends as `\\n`."""
        try:
            async with asyncio.timeout(timeout):
                while self.text.count(text) < times:
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} did not come {times} times in {self.text!r}") from None
        return self.text

    async def asked(self, command: str) -> None:
        """Waits for the prompt below the question about `command`; what is typed sooner is thrown away."""
        question = f"Agent wants to run:\n  {command}\n"
        await self.reads(question)
        async with asyncio.timeout(100):
            while PROMPT not in self.text.rpartition(question)[2]:
                self.news.clear()
                await self.news.wait()

    @property
    def text(self) -> str:
        return self.seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def hear(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # the daemon has gone and taken the other end along
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
        self.seen += data
        self.news.set()


START = "from slack_gate import cli, terminal; terminal.SETTLE_S = {}; cli.main()"
FRONT = """
import os, signal
signal.sigwait([signal.SIGUSR1])
os.tcsetpgrp(0, os.getpgid(os.getppid()))
"""


def _take_terminal(background: bool) -> None:
    """In the child: the terminal becomes its session's; with `background` another group of the session has it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if not background:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    if (front := os.fork()) == 0:
        os.setpgid(0, 0)
        os.execv(sys.executable, [sys.executable, "-c", FRONT])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    os.setpgid(front, front)
    os.tcsetpgrp(0, front)


@asynccontextmanager
async def sitting(
    settings: Settings,
    *surfaces: str,
    tty: bool = True,
    columns: int = 80,
    shell: bool = False,
    settle: float = SETTLE_S,
) -> AsyncIterator[Sitting]:
    """The daemon with `surfaces`, ready to be asked; with `tty` on a real terminal of its own, else on pipes.

    `shell`: in the background of that terminal, as after `slack-gate serve &`. `settle`: seconds in which what is typed
    after a question was answered elsewhere is thrown away.
    """
    if tty:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        ends, typing = (theirs, theirs), ours
    else:
        (read, typing), (ours, write) = os.pipe(), os.pipe()
        ends = (read, write)
    chosen = [word for surface in surfaces for word in ("--approver", surface)]
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", START.format(settle), "serve", *chosen),
        env={**environment(settings), "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        cwd=settings.home.parent,
        stdin=ends[0],
        stdout=ends[1],
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=(lambda: _take_terminal(shell)) if tty else None,
    )
    for end in set(ends):
        os.close(end)
    one = Sitting(daemon, typing)
    asyncio.get_running_loop().add_reader(ours, one.hear, ours)
    try:
        assert daemon.stderr is not None
        async with asyncio.timeout(100):
            said = b""
            while b"waiting for hooks" not in said:
                line = await daemon.stderr.readline()
                assert line, said
                said += line
        yield one
    finally:
        if daemon.returncode is None:
            daemon.terminate()
        async with asyncio.timeout(100):
            said += (await daemon.communicate())[1]
        asyncio.get_running_loop().remove_reader(ours)
        for end in {ours, typing}:
            with suppress(OSError):
                os.close(end)
        print(said.decode())  # pytest shows it when the test fails
    assert b"Traceback" not in said, said.decode()
    assert daemon.returncode == 0, said.decode()


def alone(place: Path, **changes: object) -> Settings:
    """Settings of a daemon without Slack."""
    values = {"home": place / "home", "socket": place / "run" / "gate.sock", "agent_port": 0, "page_port": 0}
    return Settings(**{**values, "wait": 300, **changes})  # type: ignore[arg-type]
