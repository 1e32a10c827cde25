"""Files replaced in one step: the old bytes or the new ones, never half, also after a power cut."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Write `data` beside `path` and rename it; an existing file keeps its owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if path.exists():
                before = path.stat()
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    sync_directory(path.parent)


def replace_link(path: Path, target: Path) -> None:
    """Make `path` a symlink to `target`, whatever it was, without a moment in which it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as beside:
        link = Path(beside, "link")
        link.symlink_to(target)
        os.replace(link, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fingerprint(path: Path) -> str | None:
    """The target of a link, the SHA-256 of a file, None for nothing there."""
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
