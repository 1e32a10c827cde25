"""Whether a cage starts on this machine, in the words and with the fix that `sbox` itself has for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

START_S = 60.0


def no_cage(sbox: str | Path) -> str:
    """Why `sbox` starts no cage here, and the fix; empty where it does."""
    try:
        done = subprocess.run([sbox, "true"], capture_output=True, timeout=START_S, stdin=subprocess.DEVNULL, cwd="/")
    except OSError as error:
        return f"no cage starts here: {error}"
    except subprocess.TimeoutExpired:
        return f"no cage starts here: {sbox} has not begun after {START_S:g} s"
    if not done.returncode:
        return ""
    lines = (done.stdout + done.stderr).decode("utf-8", "backslashreplace").splitlines()
    said = " ".join(line.removeprefix("sbox: ") for line in lines) or f"{sbox} ends with exit code {done.returncode}"
    return f"no cage starts here: {said}"
