"""Measure the log: lines recorded a second, each answer leaving only after its own line is on disk, against what the
disk allows when every line is synced alone.

    python bench/log.py [--lines N] [--at-once N] [--reach RATIO] [--place DIRECTORY]

The two take turns. Exit code 1 when the ratio of the medians is below RATIO.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from slack_gate.core.ports import Entry
from slack_gate.store.log import verify
from slack_gate.store.store import Store

ENTRY = Entry("green", "policy", agent="claude-code", session="s" * 36, tool="Bash", command="git status", cwd="/w/app")
TURNS = 5


def synced_alone(path: Path, lines: int) -> float:
    """Lines a second, one `fdatasync` each."""
    line = b"x" * 500 + b"\n"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    started = time.perf_counter()
    for _ in range(lines):
        os.write(fd, line)
        os.fdatasync(fd)
    os.close(fd)
    return lines / (time.perf_counter() - started)


async def recorded(store: Store, lines: int, at_once: int) -> float:
    """Answers a second, `at_once` callers that each wait for theirs."""

    async def caller() -> None:
        for _ in range(lines // at_once):
            await store.answered(ENTRY)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    return lines // at_once * at_once / (time.perf_counter() - started)


async def measure(place: Path, lines: int, at_once: int) -> tuple[list[float], list[float]]:
    ours, alone = [], []
    async with Store(f"sqlite:///{place / 'gate.db'}", place / "gate-log.jsonl", time.time) as store:
        for _ in range(TURNS):
            alone.append(synced_alone(place / "alone", lines // 4))
            ours.append(await recorded(store, lines, at_once))
        head = await store.log_head()
    with (place / "gate-log.jsonl").open("rb") as file:
        assert verify(file, head) is None
    return ours, alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=4000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--reach", type=float, default=0.5)
    parser.add_argument("--place", type=Path, default=Path.home(), help="on the disk to measure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.place, prefix="bench-log-") as name:
        ours, alone = asyncio.run(measure(Path(name), options.lines, options.at_once))
    ratio = statistics.median(ours) / statistics.median(alone)
    print(f"recorded, {options.at_once} at once  median {statistics.median(ours):,.0f} lines a second")
    print(f"synced one by one        median {statistics.median(alone):,.0f} lines a second")
    print(f"ratio {ratio:.2f}, to reach {options.reach}")
    sys.exit(ratio < options.reach)


if __name__ == "__main__":
    main()
