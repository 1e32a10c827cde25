"""Answers as they are typed at a terminal or come down a pipe, read without holding up the event loop."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable

BACKGROUND_S = 1.0  # between two looks whether the daemon is in the foreground again
MAX_LINE = 64 * 1024  # bytes of an answer
PIECE = 256  # bytes; as much as a terminal that says it can take something takes at once


class Input:
    """Lines of answers. On a terminal what is typed before the question is thrown away; from a pipe each line is the
    answer to one question, whenever it was written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held = bytearray()
        self._lost = False  # the line is too long to be an answer
        self.typed = os.isatty(descriptor)
        self.ended = descriptor == 0 and sys.stdin is None  # closed, so that another file may have its number

    def forget(self) -> None:
        """What was typed until now answers nothing."""
        if self.typed:
            self._held.clear()
            if self._in_front():
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """The next line without its end, which the last one may lack; None when there is none any more."""
        while b"\n" not in self._held and not self.ended:
            while not self._in_front():  # noqa: ASYNC110 - nothing tells when that changes, and reading would stop us
                await asyncio.sleep(BACKGROUND_S)
            await readable(self._descriptor)
            if self._in_front():
                self._read()
        if not self._held:
            return None
        line, _, rest = bytes(self._held).partition(b"\n")
        self._held = bytearray(rest)
        lost, self._lost = self._lost, False
        return "" if lost else line.decode("utf-8", "replace")

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        if not data and self.typed and self._there():  # Ctrl-D: no more than an empty answer
            data = b"\n"
        self.ended = not data
        self._held += data
        if len(self._held) > MAX_LINE and b"\n" not in self._held:
            self._held.clear()
            self._lost = True

    def _there(self) -> bool:
        """Whether the terminal was not hung up."""
        try:
            termios.tcgetattr(self._descriptor)
        except termios.error:
            return False
        return True

    def _in_front(self) -> bool:
        try:
            return not self.typed or os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:  # not our controlling terminal: nobody stops us
            return True


async def write(descriptor: int, text: str, first: Callable[[], None] | None = None) -> None:
    """Writes when it is taken: a terminal that was stopped with Ctrl-S holds up nobody but its reader.

    `first` is called when nothing stands between it and the text any more. Raises OSError when nobody reads.
    """
    rest = memoryview(text.encode("utf-8", "backslashreplace"))
    while rest:
        await writable(descriptor)
        if first is not None:
            first()
            first = None
        rest = rest[os.write(descriptor, rest[:PIECE]) :]


async def readable(descriptor: int) -> None:
    """Returns when there is something to read, or the end."""
    loop = asyncio.get_running_loop()
    await _ready(lambda done: loop.add_reader(descriptor, done), lambda: loop.remove_reader(descriptor))


async def writable(descriptor: int) -> None:
    """Returns when a little can be written without waiting; a terminal stopped with Ctrl-S takes nothing."""
    loop = asyncio.get_running_loop()
    await _ready(lambda done: loop.add_writer(descriptor, done), lambda: loop.remove_writer(descriptor))


async def _ready(add: Callable[[Callable[[], None]], None], remove: Callable[[], object]) -> None:
    ready = asyncio.Event()
    try:
        add(ready.set)
    except PermissionError:  # a file, /dev/null: always ready
        return
    try:
        await ready.wait()
    finally:
        remove()
