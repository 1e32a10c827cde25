"""Runs commands in `sbox`, or not at all.

A cage can be built before it is known for sure that the command may run: a small shell in it waits for a word from
here, and ends without one. So the daemon builds it while it writes down that it will run.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from slack_gate.core.inside import inside
from slack_gate.core.ports import Event
from slack_gate.core.run import STOPPED, Result, not_started, unknown
from slack_gate.executors.output import Bounded

CAGE_FAULT = "CAGE_UNAVAILABLE"
_PIECE = 64 * 1024
_DRAIN_S = 2.0  # for a cage that was told to end, and for what was written before
# What waits in the cage. Its mark comes from inside, just before the command starts: what ends without it is a fault of
# the cage. On stdout, because sbox has stderr passed on by a process that can be killed with the mark in its hands.
# `--`, since a text may begin with a dash.
_WAITS = 'read -r word && [ "$word" = go ] && printf %s "$0" && exec /bin/bash -c -- "$1" </dev/null'
_GO = b"go\n"
_NESTED = (
    "It runs in a cage anyway, and the `sbox` in this text cannot be left out without changing the rest: write the "
    "command without `sbox` and its options. Only `sbox --net-allow NAME -- CMD`, alone, is understood. It did not run."
)


class Cage:
    """`sbox` is the trusted file; None where no cage starts, then nothing runs."""

    name = "cage"

    def __init__(self, sbox: str | None) -> None:
        self._sbox = sbox

    async def run(
        self, command: str, cwd: str, timeout: float, stop: Event, output: Callable[[str, bytes], None]
    ) -> Result:
        return await self.built(command, cwd).run(timeout, stop, output)

    def built(self, command: str, cwd: str) -> Built:
        """A cage for this command, on its way; nothing of the command starts before `Built.run`."""
        return Built(asyncio.create_task(self._waiting(command, cwd)))

    async def _waiting(self, command: str, cwd: str) -> _Waiting | Result:
        """The cage, or why there is none."""
        if self._sbox is None:
            return not_started("No cage starts on this machine; `sbox --check` says why. It did not run.", CAGE_FAULT)
        if (found := inside(command)) is None:
            return not_started(_NESTED, "BAD_COMMAND")
        options, text = found
        mark = f"slack-gate {secrets.token_hex(16)}\n"
        try:
            with _held(cwd) as place:
                if place is None:
                    said = f"{cwd} leads elsewhere than when it was asked. It did not run."
                    return not_started(said, "BAD_DIRECTORY")
                process = await asyncio.create_subprocess_exec(
                    *(self._sbox, *options, "--", "/bin/sh", "-c", _WAITS, mark, text),
                    cwd=place,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:  # ValueError: a null byte
            return not_started(f"The cage could not be started: {error}. It did not run.", CAGE_FAULT)
        return _Waiting(process, mark.encode())


@contextmanager
def _held(cwd: str) -> Iterator[str | None]:
    """A name of this very directory, whatever is put in its place meanwhile. A directory is asked about with every
    link followed: None where a link was put there since. Raises OSError and ValueError.
    """
    fd = os.open(cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = f"/proc/self/fd/{fd}"
        yield name if os.readlink(name) == cwd else None
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class _Waiting:
    process: asyncio.subprocess.Process
    mark: bytes

    def end(self) -> None:
        """Asks sbox to: it passes on what was written, and takes away what it had put into the project."""
        if self.process.returncode is None:
            self.process.terminate()

    def kill(self) -> None:
        """The cage's group; what is inside dies with it, whatever session it made for itself."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


class Built:
    """A cage that is being built, for one command. Either `run` or `drop` it."""

    def __init__(self, cage: asyncio.Task[_Waiting | Result]) -> None:
        self._cage = cage

    async def run(self, timeout: float, stop: Event, output: Callable[[str, bytes], None]) -> Result:
        """Starts the command. As `Executor.run`."""
        try:
            found = await asyncio.shield(self._cage)
        except asyncio.CancelledError:
            self.drop()
            raise
        if isinstance(found, Result):
            return found
        if stop.is_set():
            self.drop()
            return not_started("Whoever asked is gone. It did not run.", STOPPED)
        return await _Run(found, output).ended(timeout, stop)

    def drop(self) -> None:
        """Nothing is to run in it."""
        ending = asyncio.create_task(_ended(self._cage))
        _ENDING.add(ending)
        ending.add_done_callback(_ENDING.discard)


_ENDING: set[asyncio.Task[None]] = set()  # the loop itself does not hold them


async def _ended(cage: asyncio.Task[_Waiting | Result]) -> None:
    if isinstance(found := await cage, Result):
        return
    assert found.process.stdin is not None
    found.process.stdin.close()  # that alone ends one that waits
    found.end()
    gone = asyncio.ensure_future(found.process.communicate())
    await asyncio.wait({gone}, timeout=_DRAIN_S)
    found.kill()
    await gone


class _Run:
    def __init__(self, cage: _Waiting, output: Callable[[str, bytes], None]) -> None:
        self._cage = cage
        self._process = cage.process
        self._output = output
        self._begun = b""  # of stdout, until the mark is complete
        self._inside = False
        self._streams = {"stdout": Bounded(), "stderr": Bounded()}

    async def ended(self, timeout: float, stop: Event) -> Result:
        """The result, once every process of the command is gone: by itself, at the time-out or by `stop`."""
        self._go()
        reading = asyncio.ensure_future(self._read_all())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({reading, stopped}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            finished = reading.done()
            self._cage.end()
            await asyncio.wait({reading}, timeout=_DRAIN_S)
            self._cage.kill()
            await asyncio.wait({reading}, timeout=_DRAIN_S)
            code = await self._process.wait()
            whole = reading.done()
        finally:
            self._cage.kill()
            for task in (reading, stopped):
                task.cancel()
            await asyncio.gather(reading, stopped, return_exceptions=True)
        return self._result(code, finished, whole, stop.is_set())

    def _go(self) -> None:
        """A cage that is gone already takes no word: what it said tells why."""
        assert self._process.stdin is not None
        self._process.stdin.write(_GO)
        self._process.stdin.close()

    async def _read_all(self) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None
        await asyncio.gather(self._read("stdout", self._process.stdout), self._read("stderr", self._process.stderr))
        await self._process.wait()

    async def _read(self, name: str, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(_PIECE):
            if name == "stdout" and not self._inside:
                data = self._after_mark(data)
            if data:
                self._streams[name].add(data)
                self._output(name, data)

    def _after_mark(self, data: bytes) -> bytes:
        self._begun += data
        _, found, rest = self._begun.partition(self._cage.mark)
        self._inside = bool(found)
        return rest if found else b""

    def _result(self, code: int, finished: bool, whole: bool, stopped: bool) -> Result:
        """`finished`: by itself; `whole`: everything that was written has been read."""
        stdout, stderr = (self._streams[name].value() for name in ("stdout", "stderr"))
        if not self._inside and whole:
            return self._not_started(code, finished, stopped)
        if not finished and stopped:
            return Result(None, stdout, stderr, code=STOPPED, error="It was ended: whoever asked for it is gone.")
        if not finished:
            return Result(None, stdout, stderr, timed_out=True)
        if code == -signal.SIGKILL:
            return replace(unknown("The cage was killed from outside;"), stdout=stdout, stderr=stderr)
        return Result(code, stdout, stderr)

    def _not_started(self, code: int, finished: bool, stopped: bool) -> Result:
        if not finished:
            why = "Whoever asked is gone." if stopped else "The cage was not there before the time was over."
            return not_started(f"{why} It did not run.", STOPPED if stopped else CAGE_FAULT)
        said = self._streams["stderr"].value().decode("utf-8", "backslashreplace").strip()[:1000]
        said = said.removesuffix("Nothing was run.").rstrip(". ") or f"exit code {code}"
        return not_started(f"The cage did not start: {said}. It did not run.", CAGE_FAULT)
