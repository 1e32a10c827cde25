"""A command's output, bounded: short ones whole, of long ones head and tail with what was left out between them."""

from __future__ import annotations

from collections import deque

MAX_PASSED = 1 << 20  # bytes of one stream that are passed on
HEAD = MAX_PASSED // 2
TAIL = MAX_PASSED - HEAD


class Bounded:
    """Takes bytes without end and holds at most `MAX_PASSED` and one piece of them."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0  # bytes in the tail
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = MAX_PASSED - len(self._head) if not self._tail else 0
        self._head += data[:room]
        if rest := data[room:]:
            self._tail.append(rest)
            self._held += len(rest)
            while self._held - len(self._tail[0]) >= TAIL:
                self._held -= len(self._tail.popleft())

    def value(self) -> bytes:
        """All of it up to `MAX_PASSED`, else its two ends and how many bytes are left out between them."""
        if self._total <= MAX_PASSED:
            return bytes(self._head)
        tail = (bytes(self._head[HEAD:]) + b"".join(self._tail))[-TAIL:]
        left_out = self._total - HEAD - len(tail)
        return b"%b\n[%d bytes left out]\n%b" % (bytes(self._head[:HEAD]), left_out, tail)
