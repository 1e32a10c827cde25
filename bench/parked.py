"""Measure what hooks cost that wait for a person: the daemon's memory, and its CPU while nobody clicks.

    python bench/parked.py [--hooks N] [--seconds S] [--reach-mib M] [--reach-cpu PERCENT]

Starts a daemon with the page alone and parks that many hooks on its socket. Exit code 1 when it grew by more than M MiB
or took more than PERCENT of one CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import tempfile
from pathlib import Path

GROUP = 50  # hooks that come at once
ROOT = Path(__file__).resolve().parent.parent


def event(number: int) -> bytes:
    fields = {"session_id": "bench", "hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/srv"}
    fields |= {"tool_input": {"command": f"curl https://example.org/{number}"}, "tool_use_id": f"toolu_{number}"}
    return json.dumps(fields).encode()


async def park(path: Path, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(str(path))
    body = event(number)
    writer.write(b"slack-gate/1 claude-code %d %s 3600 -\n" % (len(body), secrets.token_hex(16).encode()) + body)
    await writer.drain()
    return reader, writer


def memory(pid: int) -> float:
    """MiB of it that are in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def cpu(pid: int) -> float:
    """Seconds it has computed so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def waiting(home: Path, count: int) -> None:
    """Until so many are on file."""
    log = home / "gate-log.jsonl"
    async with asyncio.timeout(300):
        while not log.exists() or log.read_bytes().count(b'"pending"') < count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)


async def measure(hooks: int, seconds: float) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="bench-parked-") as name:
        home, path = Path(name) / "home", Path(name) / "run" / "gate.sock"
        settings = {"SLACK_GATE_HOME": str(home), "SLACK_GATE_SOCKET": str(path), "SLACK_GATE_WAIT": "3600"}
        settings |= {
            "SLACK_GATE_AGENT_PORT": "0",
            "SLACK_GATE_PAGE_PORT": "8799",
            "HOME": name,
            "PATH": "/usr/bin:/bin",
        }
        daemon = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slack_gate", "serve", "--approver", "web"),
            env=settings,
            cwd=ROOT,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=(Path(name) / "err").open("wb"),
        )
        try:
            async with asyncio.timeout(60):
                while not path.exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            parked = [await park(path, number) for number in range(10)]  # what only the first ones need
            await waiting(home, 10)
            before = memory(daemon.pid)
            for start in range(10, hooks + 10, GROUP):
                parked += [await park(path, number) for number in range(start, min(start + GROUP, hooks + 10))]
                await waiting(home, len(parked))
            await asyncio.sleep(2)
            grown, used = memory(daemon.pid) - before, cpu(daemon.pid)
            await asyncio.sleep(seconds)
            share = (cpu(daemon.pid) - used) / seconds * 100
            for _, writer in parked:
                writer.close()
            return grown, share
        finally:
            daemon.terminate()
            await daemon.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hooks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--reach-mib", type=float, default=20.0)
    parser.add_argument("--reach-cpu", type=float, default=1.0)
    options = parser.parse_args()
    grown, share = asyncio.run(measure(options.hooks, options.seconds))
    print(f"{options.hooks} hooks parked: {grown:.1f} MiB more, {grown * 1024 / options.hooks:.1f} KiB each")
    print(f"idle with them: {share:.2f} % of a CPU")
    sys.exit(grown > options.reach_mib or share > options.reach_cpu)


if __name__ == "__main__":
    main()
