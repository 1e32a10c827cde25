"""Who may use the page: whoever has the password of this start. Failures are few; tokens belong to one form."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

USER = "human"
FAILURES = 10  # at once, for each user of this machine; afterwards one every `REFILL_S`
REFILL_S = 3.0
_MAX_COUNTED = 64  # users whose failures are counted


class Entry(Enum):
    OPEN = "open"
    UNKNOWN = "unknown"  # no login, or a wrong one
    THROTTLED = "throttled"  # a wrong one after too many


class Login:
    """`clock` counts seconds; only differences matter."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.password = secrets.token_urlsafe(15)
        self.failures = 0
        self._clock = clock
        self._expected = _digest(f"{USER}:{self.password}".encode())
        self._secret = secrets.token_bytes(32)
        self._spent: OrderedDict[int | None, tuple[float, float]] = OrderedDict()  # by uid: failures, and when

    def entry(self, authorization: str | None, uid: int | None) -> Entry:
        """What this header opens for a client of this uid; None where that is not known.

        The right one always does: whoever guesses has the person's own uid, and would lock the person out.
        """
        if authorization is None:
            return Entry.UNKNOWN
        # Digests have one length, so that the comparison takes as long for every guess.
        if hmac.compare_digest(_digest(_credentials(authorization)), self._expected):
            return Entry.OPEN
        if self._count(uid) > FAILURES - 1:
            return Entry.THROTTLED
        self.failures += 1
        self._spent[uid] = self._count(uid) + 1, self._clock()
        self._spent.move_to_end(uid)
        if len(self._spent) > _MAX_COUNTED:
            self._spent.popitem(last=False)
        return Entry.UNKNOWN

    def token(self, request: str, digest: str) -> str:
        """What a form for this request, shown as this digest says, carries."""
        return hmac.new(self._secret, f"{request} {digest}".encode(), hashlib.sha256).hexdigest()

    def is_token(self, token: str, request: str, digest: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token(request, digest).encode())

    @contextmanager
    def written(self, path: Path) -> Iterator[None]:
        """The password in a file that nobody else can read, as long as it is worth anything. Raises OSError."""
        with suppress(FileNotFoundError):
            path.unlink()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(self.password + "\n")
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()

    def _count(self, uid: int | None) -> float:
        count, at = self._spent.get(uid, (0.0, 0.0))
        return max(0.0, count - (self._clock() - at) / REFILL_S)


def _credentials(authorization: str) -> bytes:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
