"""Time a decision in a fleet: from one daemon's `decide` to the answer that another one's hook gets, against one bare
transaction with a NOTIFY on the same server.

    python bench/fleet.py [--runs N] [--reach RATIO]

Starts a PostgreSQL server of its own and two daemons; all take turns. Exit code 1 when the ratio of the medians is
above RATIO.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from slack_gate.config import load
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import BY_PAGE, Choice, Decision, Request
from slack_gate.daemon.gate import Caller
from slack_gate.daemon.serve import Running, running
from tests.store.server import Server, free_port, server


async def bare(own: Server, database: str) -> float:
    """Seconds of a transaction that tells others something and does nothing else."""
    connection = bare_connections.setdefault(database, own.connect(database))
    started = time.perf_counter()
    with connection.transaction():
        connection.execute("SELECT pg_notify('bench', 'SG-0')")
    return time.perf_counter() - started


bare_connections: dict[str, object] = {}


async def across(home: Running, decider: Running, number: int) -> float:
    """Seconds from a decision on one daemon to the answer on the other."""
    event = ToolEvent("claude-code", "bench", f"toolu_{number}", "Bash", {"command": f"touch /srv/{number}"}, "/srv")
    asked = await home.gate.submit(event, Caller(f"{number:032x}", 330.0))
    assert isinstance(asked, Request), asked
    answer = asyncio.create_task(home.gate.wait(asked.id, event))
    await asyncio.sleep(0.02)  # a person is slower than the hook
    started = time.perf_counter()
    click = await decider.gate.decide(Decision(asked.id, asked.digest, Choice.APPROVE, BY_PAGE, "human", "human"))
    told = await answer
    assert told.ruling == "allow", (click, told)
    return time.perf_counter() - started


async def measure(runs: int) -> tuple[list[float], list[float]]:
    with server() as own, tempfile.TemporaryDirectory() as name:
        url = own.new_database()
        async with AsyncExitStack() as opened:
            daemons = []
            for place in ("a", "b"):
                home = Path(name) / place
                settings = load(
                    home=home, socket=home / "run" / "gate.sock", database_url=url, agent_port=0, page_port=free_port()
                )
                daemons.append(await opened.enter_async_context(running(settings, ("web",))))
            there, alone = [], []
            for number in range(runs):
                there.append(await across(daemons[0], daemons[1], number))
                alone.append(await bare(own, url.rpartition("/")[2]))
            return there, alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--reach", type=float, default=3.0)
    options = parser.parse_args()
    there, alone = asyncio.run(measure(options.runs))
    ratio = statistics.median(there) / statistics.median(alone)
    print(f"a decision answered by the other daemon  median {statistics.median(there) * 1000:.2f} ms")
    print(f"a bare transaction with NOTIFY           median {statistics.median(alone) * 1000:.2f} ms")
    print(f"ratio {ratio:.2f}, to reach {options.reach}")
    sys.exit(ratio > options.reach)


if __name__ == "__main__":
    main()
