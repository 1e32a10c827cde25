"""Time a decision in a fleet: from one daemon's `decide` to the answer that another one's hook gets, against one bare
transaction with a NOTIFY on the same server.

    python bench/fleet.py [--runs N] [--reach RATIO]

Starts a PostgreSQL server of its own and two daemons, each in a process of its own; all take turns. Exit code 1 when
the ratio of the medians is above RATIO.

A bare NOTIFY is not written to disk; a decision is, twice: by the server, and in the home's log file. So what the
server needs for a transaction of one row with a NOTIFY, and the disk for one line, is measured and told beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from slack_gate.config import Settings, load
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import BY_PAGE, Choice, Decision, Request
from slack_gate.daemon.house import Caller
from slack_gate.daemon.serve import Running, running
from tests.ports import free_port
from tests.store.server import server


def settings_of(home: Path, url: str) -> Settings:
    return load(home=home, socket=home / "run" / "gate.sock", database_url=url, agent_port=0, page_port=free_port())


def decider(home: Path, url: str, pipe: Connection) -> None:
    """A daemon that decides what it is told to: id and digest in, the moment of the click out."""

    async def serve() -> None:
        async with running(settings_of(home, url), ("web",)) as daemon:
            pipe.send(None)
            while (asked := await asyncio.to_thread(pipe.recv)) is not None:
                request, digest = asked
                made = Decision(request, digest, Choice.APPROVE, BY_PAGE, "human", "human")
                await asyncio.sleep(0.02)  # a person is slower than the hook
                started = time.perf_counter()  # of the machine, not of the process
                click = await daemon.gate.decide(made)
                pipe.send((started, str(click.verdict)))

    asyncio.run(serve())


async def across(home: Running, pipe: Connection, number: int) -> float:
    """Seconds from a decision on one daemon to the answer on the other."""
    event = ToolEvent("claude-code", "bench", f"toolu_{number}", "Bash", {"command": f"touch /srv/{number}"}, "/srv")
    asked = await home.gate.submit(event, Caller(f"{number:032x}", 330.0))
    assert isinstance(asked, Request), asked
    answer = asyncio.create_task(home.gate.wait(asked.id, event))
    await asyncio.sleep(0)
    pipe.send((asked.id, asked.digest))
    told = await answer
    ended = time.perf_counter()
    started: float
    started, verdict = await asyncio.to_thread(pipe.recv)
    assert told.ruling == "allow", (verdict, told)
    return ended - started


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


async def measure(runs: int) -> dict[str, list[float]]:
    """Seconds, by what was done."""
    took: dict[str, list[float]] = {name: [] for name in ("across", "bare", "row", "line")}
    with server() as own, tempfile.TemporaryDirectory() as name:
        url, place = own.new_database(), Path(name)
        pipe, its = multiprocessing.Pipe()
        other = multiprocessing.get_context("spawn").Process(target=decider, args=(place / "b", url, its))
        other.start()
        pipe.recv()
        file = os.open(place / "lines", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        connection = own.connect(url.rpartition("/")[2])
        connection.execute("CREATE TABLE bench (line text)")

        def bare() -> None:
            with connection.transaction():
                connection.execute("SELECT pg_notify('bench', 'SG-0')")

        def row() -> None:
            with connection.transaction():
                connection.execute("INSERT INTO bench VALUES (%s)", ("x" * 500,))
                connection.execute("SELECT pg_notify('bench', 'SG-0')")

        def line() -> None:
            os.write(file, b"x" * 500)
            os.fdatasync(file)

        with contextlib.closing(connection):
            async with running(settings_of(place / "a", url), ("web",)) as home:
                for number in range(runs):
                    took["across"].append(await across(home, pipe, number))
                    for work in (bare, row, line):
                        await asyncio.sleep(0.02)  # as rested as what it is compared with
                        took[work.__name__].append(timed(work))
            pipe.send(None)
            await asyncio.to_thread(other.join)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--reach", type=float, default=3.0)
    options = parser.parse_args()
    took = {name: statistics.median(found) for name, found in asyncio.run(measure(options.runs)).items()}
    ratio = took["across"] / took["bare"]
    told = {
        "across": "a decision answered by the other daemon",
        "bare": "a bare transaction with NOTIFY",
        "row": "one that also writes a row, on disk",
        "line": "one line of a log file, on disk",
    }
    for name, words in told.items():
        print(f"{words:40} median {took[name] * 1000:.2f} ms")
    disk = took["across"] / (took["row"] + took["line"])
    print(f"ratio {ratio:.2f}, to reach {options.reach}; to what is on disk {disk:.2f}")
    sys.exit(ratio > options.reach)


if __name__ == "__main__":
    main()
