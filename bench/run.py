"""Time `/run` against the cage itself, and weigh requests that wait and the page that shows them.

    python bench/run.py [--runs N] [--parked N] [--reach RATIO]

Starts a daemon of its own in a new home. `POST /run` of an allowlisted command and `sbox true` take turns, so both
see the same machine; each call is a connection of its own, as an agent's tool makes it. Exit code 1 when the ratio of
the medians is above RATIO (1.5), a parked request holds more than 50 KiB, or the page travels with more than 100 KiB.
"""

from __future__ import annotations

import argparse
import base64
import gc
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slack_gate.daemon.programs import trusted_programs
from tests.ports import free_port

MAX_PARKED = 50 * 1024
MAX_PAGE = 100 * 1024


class Daemon:
    """A daemon with both doors; `password` is the page's."""

    def __init__(self, process: subprocess.Popen[str], agent: int, page: int, password: str) -> None:
        self.pid = process.pid
        self.agent = agent
        self.page = page
        self.password = password

    def ask(self, command: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.agent)
        connection.request("POST", "/run", json.dumps({"command": command}), {"Content-Type": "application/json"})
        return connection

    def run(self) -> None:
        connection = self.ask("pwd")
        answer = json.load(connection.getresponse())
        if answer["exitCode"] != 0:
            raise SystemExit(f"it did not run: {answer}")
        connection.close()

    def got(self, path: str) -> tuple[bytes, int]:
        """The body, and the bytes of the whole answer."""
        login = base64.b64encode(f"human:{self.password}".encode()).decode()
        with socket.create_connection(("127.0.0.1", self.page)) as connection:
            lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{self.page}", f"Authorization: Basic {login}"]
            connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(answer[:200].decode())
        return answer.partition(b"\r\n\r\n")[2], len(answer)

    def held(self) -> int:
        """Bytes of memory that no other process shares."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("RssAnon",)))


@contextmanager
def serving() -> Iterator[Daemon]:
    place = Path(tempfile.mkdtemp(prefix="slack-gate-bench-"))  # mode 700
    agent, page = free_port(), free_port()
    environment = {
        **os.environ,
        "SLACK_GATE_HOME": str(place / "home"),
        "SLACK_GATE_SOCKET": str(place / "run" / "gate.sock"),
        "SLACK_GATE_AGENT_PORT": str(agent),
        "SLACK_GATE_PAGE_PORT": str(page),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "slack_gate", "serve", "--approver", "web"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Agent endpoint"):
                break
        else:
            raise SystemExit("the daemon did not start")
        yield Daemon(process, agent, page, (place / "home" / "page-password").read_text().strip())
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(place)


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def ratio(daemon: Daemon, runs: int) -> float:
    sbox = trusted_programs(Path.home())["sbox"]
    ways: dict[str, Callable[[], object]] = {
        "sbox true": lambda: subprocess.run([sbox, "true"], check=True, capture_output=True),
        "POST /run": daemon.run,
    }
    for work in ways.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, work in ways.items():
            times[name].append(milliseconds(work))
    for name, taken in times.items():
        low, middle, high = statistics.quantiles(taken, n=4)
        print(
            f"{name:10} median {middle:6.2f} ms   middle half {low:.2f} to {high:.2f} ms   fastest {min(taken):.2f} ms"
        )
    cage, run = (statistics.median(taken) for taken in times.values())
    return run / cage


def parked(daemon: Daemon, count: int) -> float:
    """Bytes that each of `count` waiting requests holds."""
    withdrawn = [daemon.ask(f"echo warm {number}; true") for number in range(50)]  # what is built once
    until(daemon, 50)
    for connection in withdrawn:
        connection.close()
    until(daemon, 0)
    before = daemon.held()
    waiting = [daemon.ask(f"echo {number}; true") for number in range(count)]
    until(daemon, count)
    gc.collect()
    each = (daemon.held() - before) / count
    for connection in waiting:
        connection.close()
    until(daemon, 0)
    return each


def until(daemon: Daemon, count: int) -> None:
    """Returns when so many requests wait."""
    wanted = f'slack_gate_requests{{state="pending"}} {count}\n'.encode()
    while wanted not in daemon.got("/metrics")[0]:
        time.sleep(0.05)


def travels(daemon: Daemon) -> int:
    """Bytes of the page with what it loads: a full history and one request that waits."""
    waiting = daemon.ask("printf '%s' " + "x" * 500 + "; true")
    until(daemon, 1)
    total = sum(daemon.got(path)[1] for path in ("/", "/static/page.css", "/static/page.js"))
    waiting.close()
    return total


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=100)
    options.add_argument("--parked", type=int, default=200)
    options.add_argument("--reach", type=float, default=1.5)
    given = options.parse_args()
    with serving() as daemon:
        found = ratio(daemon, given.runs)
        print(f"ratio {found:.3f}, to reach {given.reach}")
        each = parked(daemon, given.parked)
        print(f"{given.parked} parked: {each / 1024:.1f} KiB each, to reach {MAX_PARKED / 1024:.0f}")
        page = travels(daemon)
        print(f"page: {page / 1024:.1f} KiB, to reach {MAX_PAGE / 1024:.0f}")
    sys.exit(found > given.reach or each > MAX_PARKED or page > MAX_PAGE)


if __name__ == "__main__":
    main()
