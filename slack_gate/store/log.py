"""The log: one JSON object a line, each chained to the one before by SHA-256; append-only.

A line is made inside the transaction that it records (`chained`) and written to the file from the table, in order, and
synced (`Journal.append`) before the answer leaves. Whatever a crash left out is written from the table at the start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import secrets
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slack_gate.core.ports import Entry
from slack_gate.core.request import canonical
from slack_gate.core.secrets import mask
from slack_gate.errors import LogError

FIRST = "0" * 64  # what the first line names as the hash before it
MAX_TEXT = 32 * 1024  # characters of one field
_NAMES = tuple(field.name for field in dataclasses.fields(Entry))
_TAIL = 8 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """`seq` counts from 1; `text` is the JSON without its line end; `hash` is the one inside `text`."""

    seq: int
    text: str
    hash: str


def chained(entry: Entry, seq: int, previous: str, now: float) -> Line:
    """The line for `entry`: every text masked and bounded, the chain's hash over everything else in the line."""
    stamp = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields: dict[str, Any] = {"seq": seq, "ts": stamp, **{name: getattr(entry, name) for name in _NAMES}}
    fields |= {"commandId": fields.pop("command_id"), "exitCode": fields.pop("exit_code")}
    for name in fields:
        if isinstance(fields[name], str):
            fields[name] = _bounded(mask(fields[name]))  # in this order: a cut secret would not be known for one
    fields["prev"] = previous
    fields["hash"] = _hash(fields)
    return Line(seq, json.dumps(fields, ensure_ascii=True), fields["hash"])


def _bounded(text: str) -> str:
    """Long texts are cut with the number of characters left out; the digest stands for the whole."""
    left_out = len(text) - MAX_TEXT
    return text if left_out <= 0 else f"{text[:MAX_TEXT]}[{left_out} characters left out]"


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(canonical({name: fields[name] for name in fields if name != "hash"}).encode()).hexdigest()


def chain_name(home: Path) -> str:
    """The name of this home's log among those of a fleet: made once, kept beside the file. Raises LogError."""
    path = home / "gate-log.name"
    try:
        with contextlib.suppress(FileExistsError):
            name = f"{socket.gethostname()}-{secrets.token_hex(3)}"
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write(fd, name.encode())
            finally:
                os.close(fd)
        return path.read_text().strip()
    except OSError as error:
        raise _unwritable(path, error) from error


class Journal:
    """gate-log.jsonl. Writers in several processes take turns by a lock on the file itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left: tuple[int, int, int] | None = None  # inode, size and last seq after our last append

    def last(self) -> tuple[int, str]:
        """Number and hash of the last whole line, 0 and FIRST for an empty or missing file.

        Raises LogError when it cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                return _last_whole(file.fileno())[:2]
        except FileNotFoundError:
            return 0, FIRST
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def as_left(self) -> bool:
        """Whether nobody has touched the file since our last append."""
        if self._left is None:
            return False
        try:
            found = self.path.stat()
        except OSError:
            return False
        return self._left[:2] == (found.st_ino, found.st_size)

    def append(self, lines: Sequence[Line]) -> int:
        """Writes those of `lines` (in order of seq) that the file lacks, synced; returns the file's last seq.

        Raises LogError when the disk refuses, or when the file's end is not the beginning of the next line.
        """
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                return self._append(fd, lines)
            finally:
                os.close(fd)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _append(self, fd: int, lines: Sequence[Line]) -> int:
        found = os.fstat(fd)
        if self._left is not None and self._left[:2] == (found.st_ino, found.st_size):
            last, torn = self._left[2], b""
        else:
            last, _, torn = _last_whole(fd)
        self._left = None
        data = _missing(lines, last, torn)
        if data:
            _write(fd, data)
            last = lines[-1].seq
        if data or not torn:
            self._left = (found.st_ino, os.fstat(fd).st_size, last)
        return last


def _missing(lines: Sequence[Line], last: int, torn: bytes) -> bytes:
    """What the file lacks of `lines`, when it ends with line `last` and the bytes `torn` of the next one."""
    missing = [line for line in lines if line.seq > last]
    if not missing and (lines or not torn):
        return b""
    for number, line in enumerate(missing, last + 1):
        if line.seq == number:
            continue
        raise LogError(
            f"The log file ends at line {number - 1}, the database goes on at line {line.seq}.",
            "Run `slack-gate log verify`, and restore the file from a backup.",
        )
    data = "".join(line.text + "\n" for line in missing).encode()
    if not data.startswith(torn):
        raise LogError(
            "The last line of the log file is damaged.",
            "Keep a copy of the file, run `slack-gate log verify`, and remove the damaged last line.",
        )
    return data[len(torn) :]


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
    os.fdatasync(fd)


def _last_whole(fd: int) -> tuple[int, str, bytes]:
    """Seq and hash of the last whole line, and the bytes after it (a line torn by a crash, else empty)."""
    size = os.fstat(fd).st_size
    span = _TAIL
    while True:
        tail = os.pread(fd, span, max(0, size - span))
        head, newline, torn = tail.rpartition(b"\n")
        if not newline and size <= span:
            return 0, FIRST, torn
        start = head.rfind(b"\n")
        if newline and (start >= 0 or size <= span):
            return *_seq_and_hash(head[start + 1 :]), torn
        span *= 4


def _seq_and_hash(line: bytes) -> tuple[int, str]:
    try:
        fields = json.loads(line)
        return int(fields["seq"]), str(fields["hash"])
    except (ValueError, KeyError, TypeError) as error:
        raise LogError(
            "The last line of the log file is not one of ours.",
            "Keep a copy of the file and run `slack-gate log verify`.",
        ) from error


def _unwritable(path: Path, error: OSError) -> LogError:
    return LogError(
        f"The log {path} cannot be written: {error.strerror or error}.",
        "Nothing is allowed until it can; free the disk or mend the directory's rights.",
    )


def verify(lines: Iterable[bytes], head: tuple[int, str] | None) -> str | None:
    """None when the chain holds from the first line to `head` (seq and hash of the table's last), else the fault."""
    previous, seq = FIRST, 0
    for number, raw in enumerate(lines, 1):
        try:
            fields = json.loads(raw)
            good = raw.endswith(b"\n") and fields["prev"] == previous and fields["seq"] == seq + 1
            if not good or fields["hash"] != _hash(fields):
                return f"line {number} does not follow from the line before it"
            previous, seq = fields["hash"], fields["seq"]
        except (ValueError, KeyError, TypeError):
            return f"line {number} is not a line of this log"
    known, known_hash = head or (0, FIRST)
    if seq > known:
        return f"it goes on after line {known}, the last one that the database knows"
    if seq < known:
        return f"line {seq + 1} is missing: the database holds lines up to {known}"
    return None if previous == known_hash else f"line {seq} is not the one that the database holds"
