"""Runs commands in `sbox`, or not at all."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable
from contextlib import suppress

from slack_gate.core.inside import inside
from slack_gate.core.ports import Event
from slack_gate.core.run import STOPPED, Result, not_started, unknown
from slack_gate.executors.output import Bounded

CAGE_FAULT = "CAGE_UNAVAILABLE"
_PIECE = 64 * 1024
_DRAIN_S = 2.0  # for what a killed command had written before
# The mark on stderr comes from inside the cage: whatever ends without it is a fault of the cage, not of the command.
_INSIDE = 'printf %s "$0" >&2; exec /bin/bash -c "$1"'


class Cage:
    """`sbox` is the trusted file; None where no cage starts, then nothing runs."""

    name = "cage"

    def __init__(self, sbox: str | None) -> None:
        self._sbox = sbox

    async def run(
        self, command: str, cwd: str, timeout: float, stop: Event, output: Callable[[str, bytes], None]
    ) -> Result:
        if self._sbox is None:
            return not_started("No cage starts on this machine; `sbox --check` says why. It did not run.", CAGE_FAULT)
        if (found := inside(command)) is None:
            return not_started("This text asks for several cages of different kinds. It did not run.", "BAD_COMMAND")
        options, text = found
        if _leads_elsewhere(cwd):
            return not_started(f"{cwd} leads elsewhere than when it was asked. It did not run.", "BAD_DIRECTORY")
        mark = f"slack-gate {secrets.token_hex(16)}\n"
        try:
            process = await asyncio.create_subprocess_exec(
                *(self._sbox, *options, "--", "/bin/bash", "-c", _INSIDE, mark, text),
                cwd=cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a null byte
            return not_started(f"The cage could not be started: {error}. It did not run.", CAGE_FAULT)
        return await _Run(process, mark.encode(), output).ended(timeout, stop)


def _leads_elsewhere(cwd: str) -> bool:
    """A directory is asked about with every link followed; a link in it was put there since."""
    return os.path.realpath(cwd) != cwd


class _Run:
    def __init__(self, process: asyncio.subprocess.Process, mark: bytes, output: Callable[[str, bytes], None]) -> None:
        self._process = process
        self._mark = mark
        self._output = output
        self._begun = b""  # of stderr, until the mark is complete
        self._inside = False
        self._streams = {"stdout": Bounded(), "stderr": Bounded()}

    async def ended(self, timeout: float, stop: Event) -> Result:
        """The result, once every process of the command is gone: by itself, at the time-out or by `stop`."""
        reading = asyncio.ensure_future(self._read_all())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({reading, stopped}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            finished = reading.done()
            self._kill()
            await asyncio.wait({reading}, timeout=_DRAIN_S)
            code = await self._process.wait()
        finally:
            self._kill()
            for task in (reading, stopped):
                task.cancel()
            await asyncio.gather(reading, stopped, return_exceptions=True)
        return self._result(code, finished, stop.is_set())

    async def _read_all(self) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None
        await asyncio.gather(self._read("stdout", self._process.stdout), self._read("stderr", self._process.stderr))
        await self._process.wait()

    async def _read(self, name: str, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_PIECE):
            if name == "stderr" and not self._inside:
                data = self._after_mark(data)
            if data:
                self._streams[name].add(data)
                self._output(name, data)

    def _after_mark(self, data: bytes) -> bytes:
        self._begun += data
        _, found, rest = self._begun.partition(self._mark)
        self._inside = bool(found)
        return rest if found else b""

    def _kill(self) -> None:
        """The cage's group; what is inside dies with it, whatever session it made for itself."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _result(self, code: int, finished: bool, stopped: bool) -> Result:
        stdout, stderr = (self._streams[name].value() for name in ("stdout", "stderr"))
        if not self._inside:
            said = self._begun.decode("utf-8", "backslashreplace").strip()[:1000]
            return not_started(f"The cage did not start: {said or f'exit code {code}'}. It did not run.", CAGE_FAULT)
        if not finished and stopped:
            return Result(None, stdout, stderr, code=STOPPED, error="It was ended: whoever asked for it is gone.")
        if not finished:
            return Result(None, stdout, stderr, timed_out=True)
        if code == -signal.SIGKILL:
            return unknown("The cage was killed from outside;")
        return Result(code, stdout, stderr)
