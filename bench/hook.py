"""Time the whole hook process against an interpreter that does nothing.

    python bench/hook.py [--runs N] [--python PATH] [--socket PATH --event FILE] [--reach RATIO]

The two take turns, so both see the same machine. Without --socket the hook is answered by a minimal server, which
leaves the cost of the client alone; with it, by the live daemon there, to which every run sends the event in FILE.
Exit code 1 when the ratio of the medians is above RATIO (1.12 for the client alone, 1.3 with a live daemon).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOOK = Path(__file__).resolve().parent.parent / "slack_gate" / "hook.py"
EVENT = (
    b'{"session_id":"bench","cwd":"/tmp","permission_mode":"default","hook_event_name":"PreToolUse",'
    b'"tool_name":"Bash","tool_input":{"command":"ls"},"tool_use_id":"toolu_bench"}'
)
ANSWER = (
    b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",'
    b'"permissionDecisionReason":"green"}}'
)


def serve(listener: socket.socket) -> None:
    """Answer every frame with the same allow, as fast as this language can."""
    reply = b"0 %d\n%s" % (len(ANSWER), ANSWER)
    while True:
        connection, _ = listener.accept()
        received = connection.recv(1 << 16)
        head, _, event = received.partition(b"\n")
        missing = int(head.split(b" ")[2]) - len(event)
        while missing > 0 and (more := connection.recv(1 << 16)):
            missing -= len(more)
        connection.sendall(reply)
        connection.close()


def seconds(argv: list[str], event: bytes) -> float:
    """Run argv with the event waiting on its stdin; return the time from its start to its end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    if os.write(writing, event) != len(event):
        raise SystemExit("the event does not fit into a pipe: give one below 64 KiB")
    os.close(writing)
    started = time.perf_counter()
    done = subprocess.run(argv, stdin=reading, capture_output=True, check=False)
    taken = time.perf_counter() - started
    os.close(reading)
    if done.returncode:
        raise SystemExit(f"{argv} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
    return taken


def measure(python: str, path: str, event: bytes, runs: int) -> float:
    """Print both medians with their middle half; return the ratio."""
    programs = {
        "python3 -I -S -c pass": [python, "-I", "-S", "-c", "pass"],
        "hook.py claude-code": [python, "-IS", str(HOOK), "claude-code", "--socket", path],
    }
    for argv in programs.values():  # the first run of each fills the page cache
        seconds(argv, event)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(runs):
        for name, argv in programs.items():
            times[name].append(1000 * seconds(argv, event))
    for name, taken in times.items():
        low, middle, high = statistics.quantiles(taken, n=4)
        print(
            f"{name:22} median {middle:6.2f} ms   middle half {low:.2f} to {high:.2f} ms   fastest {min(taken):.2f} ms"
        )
    bare, hook = (statistics.median(taken) for taken in times.values())
    return hook / bare


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--python", default=os.path.realpath(sys.executable), help="the interpreter to time")
    options.add_argument("--socket", help="time against the daemon that listens here")
    options.add_argument("--event", type=Path, help="the event to send, for example one that is green")
    options.add_argument("--reach", type=float)
    given = options.parse_args()
    event = given.event.read_bytes() if given.event else EVENT
    reach = given.reach or (1.3 if given.socket else 1.12)
    if given.socket:
        ratio = measure(given.python, given.socket, event, given.runs)
    else:
        folder = tempfile.mkdtemp(prefix="slack-gate-bench-")  # mode 700
        path = f"{folder}/gate.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            server = os.fork()
            if not server:
                serve(listener)
            try:
                ratio = measure(given.python, path, event, given.runs)
            finally:
                os.kill(server, signal.SIGKILL)
                os.waitpid(server, 0)
                shutil.rmtree(folder)
    print(f"ratio {ratio:.3f}, to reach {reach}")
    sys.exit(ratio > reach)


if __name__ == "__main__":
    main()
