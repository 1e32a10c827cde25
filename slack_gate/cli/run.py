"""slack-gate run"""

from __future__ import annotations

import asyncio
import base64
import os
import shlex
import shutil
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import click

from slack_gate.core.display import one_line, visible

REFUSED, TIMED_OUT, FAULT = 77, 124, 70
TICK_S = 1.0


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="CMD [ARG]...")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the person who is asked.")
@click.option(
    "--timeout", type=click.IntRange(1), metavar="SECONDS", help="For the command itself; default: 30, at most 600."
)
@click.option("--approved", metavar="ID", help="Run, once, the command that was approved as request ID.")
def run(command: tuple[str, ...], reason: str, timeout: int | None, approved: str | None) -> None:
    """Ask, wait, and run CMD where slack-gate runs commands (the cage, or the Sandboxer), in this directory.

    The words of CMD are one command, quoted as they are given here. Its output and exit code are passed on; 77: it was
    refused and did not run, 124: it timed out, 70: it could not be run, or its outcome is unknown.
    """
    if bool(command) == bool(approved):
        raise click.UsageError("Give either CMD or --approved ID.")
    if approved and (reason or timeout):
        raise click.UsageError("What was approved runs as it was asked: --approved takes no other option.")
    body: dict[str, Any] = {"approved": approved} if approved else _asked(command, reason, timeout)
    sys.exit(_exit_code(_followed(body)))


def _asked(command: tuple[str, ...], reason: str, timeout: int | None) -> dict[str, Any]:
    from slack_gate.client import working_directory  # here: --help need not wait for it

    asked = {"command": shlex.join(command), "reason": reason, "timeoutSeconds": timeout or 30}
    return {**asked, "cwd": working_directory(), "agent": "slack-gate run"}


def _followed(body: dict[str, Any]) -> dict[str, Any]:
    """The end of the run. A signal ends this process at once; the connection goes with it, and so does the run."""
    from slack_gate.client import follow

    line = _Line()

    def leave(number: int, frame: FrameType | None) -> None:
        line.erase()
        _end_by(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)

    async def following() -> dict[str, Any]:
        drawing = asyncio.create_task(line.kept())
        try:
            return await follow(body, line.tell)
        finally:
            drawing.cancel()
            line.erase()

    return asyncio.run(following())


def _exit_code(end: dict[str, Any]) -> int:
    if end["decision"] != "ran":
        click.echo(f"slack-gate: {visible(str(end['message']))}", err=True)
        return REFUSED
    if end.get("message"):
        click.echo(f"slack-gate: {visible(str(end['message']))}", err=True)
    code = end["exitCode"]
    if end["timedOut"]:
        click.echo("slack-gate: It ran longer than it may and was ended.", err=True)
        return TIMED_OUT
    if not isinstance(code, int):
        from slack_gate.client import fault

        click.echo(f"slack-gate: {visible(fault(end))} ({end['code']})", err=True)
        return FAULT
    return code & 0xFF if code >= 0 else 128 - code


class _Line:
    """On a terminal, one line below everything: who is asked, where, and how long it may take. Erased when done."""

    def __init__(self) -> None:
        self._here = sys.stderr.isatty()
        self._asked: dict[str, Any] | None = None
        self._drawn = False

    def tell(self, event: dict[str, Any]) -> None:
        """An event of the run: output is written through as it comes, byte for byte."""
        match event.get("event"):
            case "asked":
                self._asked = event
                self._draw()
            case "started":
                self._asked = None
                self.erase()
            case "output":
                _write(2 if event["stream"] == "stderr" else 1, base64.b64decode(event["data"]))

    async def kept(self) -> None:
        """Redraws the time left until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            self._draw()

    def erase(self) -> None:
        if self._drawn:
            self._drawn = False
            with suppress(OSError):
                os.write(2, b"\r\x1b[K")

    def _draw(self) -> None:
        if self._asked is None or not self._here:
            return
        left = max(0, int(self._asked["expiresAt"] - time.time()))
        where = ", ".join(map(str, self._asked["where"])) or "nobody yet"
        request = str(self._asked["request"])
        text = one_line(
            f"{left // 60}:{left % 60:02d} left, asked {where} ({request})",
            max(20, shutil.get_terminal_size().columns - 1),
        )
        self._drawn = True
        with suppress(OSError):
            os.write(2, f"\r\x1b[K{text}".encode())


def _write(descriptor: int, data: bytes) -> None:
    """A reader that has read enough ends the command, as in any pipe."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BrokenPipeError:
        _end_by(signal.SIGPIPE)


def _end_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
