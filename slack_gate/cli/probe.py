"""Fires an installed hook line as an agent does, once at a daemon that denies and once at none."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slack_gate.agents import claude_code
from slack_gate.core.answer import deny

PROBE_S = 60.0
SOCKET = r"--socket ('[^']*'|[^\s;|&]+)"
REASON = "slack-gate doctor asks whether a deny is passed on."
EVENT = json.dumps(
    {
        "session_id": "slack-gate-doctor",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "true"},
        "tool_use_id": "slack-gate-doctor",
        "cwd": "/",
    }
).encode()


def probed(line: str, place: Path) -> str | None:
    """What is wrong with the hook line, None when it blocks both times. `place` is a directory that is ours alone."""
    if not re.search(SOCKET, line):
        return "the hook names no socket, so a project's settings can lead it to another daemon"
    path = place / "gate.sock"
    with _denying(path) as asked:
        code, decision, said = _fired(line, path)
    if not asked:
        return f"the hook does not ask on its socket: {said}"
    if (code, decision) != (0, "deny") or REASON not in said:
        return f"the hook does not pass a deny on: exit code {code}, {said}"
    code, decision, said = _fired(line, place / "absent.sock")
    if decision != "deny" and code != 2:
        return f"the hook lets calls run when no daemon is there: exit code {code}, {said}"
    return None


def _fired(line: str, path: Path) -> tuple[int, str, str]:
    """Exit code, decision and all that it said, asked on `path` instead of its own socket."""
    text = re.sub(SOCKET, lambda _: f"--socket {shlex.quote(str(path))}", line)
    try:
        done = subprocess.run(["/bin/sh", "-c", text], input=EVENT, capture_output=True, timeout=PROBE_S)
    except subprocess.TimeoutExpired:
        return 1, "", "it does not answer"
    said = (done.stdout + done.stderr).decode("utf-8", "backslashreplace").strip()
    try:
        decision = str(json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"])
    except (ValueError, KeyError, TypeError):
        decision = ""
    return done.returncode, decision, said[:300]


@contextmanager
def _denying(path: Path) -> Iterator[list[bytes]]:
    """A daemon that denies whatever it is asked; the headers it heard."""
    code, output = claude_code.render(deny(REASON), claude_code.parse(EVENT))
    heard: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):  # closed by the end of the block
            while True:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as stream:
                    heard.append(stream.readline(10_000))
                    stream.read(len(EVENT))
                    connection.sendall(b"%d %d\n%s" % (code, len(output), output))

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield heard
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
