"""`slack-gate serve` that dies at one step, as if the machine had: `python -m tests.crash.launcher POINT MOMENT NTH …`.

Only tests start it; the program itself knows nothing of this. POINT is one of POINTS, MOMENT `before` or `after` it (or
`torn`, for the log: half of the bytes are on disk), NTH the call that kills. `none none 0` lets it live.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from slack_gate.cli import main
from slack_gate.daemon import attendance, fleet, socket, turns
from slack_gate.executors import cage
from slack_gate.slack import line, messenger
from slack_gate.store import log, store

GRACE_S = 4.0  # the callers of a killed daemon that cannot come back are given up sooner than in earnest

POINTS: dict[str, tuple[Any, str]] = {
    "submit": (store.Store, "submitted"),
    "post": (messenger.Messenger, "post"),
    "decide": (store.Store, "decided"),
    "acknowledge": (line.Line, "_answer"),
    "claim": (store.Store, "claimed"),
    "spawn": (cage.Cage, "run"),
    "spawned": (cage._Run, "ended"),
    "finish": (store.Store, "finished"),
    "record": (store.Store, "settled"),
    "answer": (socket._Door, "_answer"),
    "answered": (socket._Door, "_serve"),
    "redraw": (messenger.Messenger, "redraw"),
    "log": (log.Journal, "append"),
}
MOMENTS = [(point, moment) for point in POINTS for moment in ("before", "after")] + [("log", "torn")]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, moment: str, nth: int) -> None:
    """The `nth` call of the point kills this process."""
    left = [nth]

    def over() -> bool:
        left[0] -= 1
        return left[0] == 0

    if moment == "torn":
        log._write = _torn(log._write, over)  # type: ignore[assignment]
        return
    owner, name = POINTS[point]
    setattr(owner, name, _mortal(getattr(owner, name), moment, over, asynchronous=point != "log"))


def _torn(write: Callable[[int, bytes], None], over: Callable[[], bool]) -> Callable[[int, bytes], None]:
    def half(fd: int, data: bytes) -> None:
        if over():
            os.write(fd, data[: len(data) // 2])
            die()
        write(fd, data)

    return half


def _mortal(method: Any, moment: str, over: Callable[[], bool], asynchronous: bool) -> Any:
    @functools.wraps(method)
    async def later(*arguments: Any, **named: Any) -> Any:
        ends = over()
        if ends and moment == "before":
            die()
        result = await method(*arguments, **named)
        if ends:
            die()
        return result

    @functools.wraps(method)
    def now(*arguments: Any, **named: Any) -> Any:
        ends = over()
        if ends and moment == "before":
            die()
        result = method(*arguments, **named)
        if ends:
            die()
        return result

    return later if asynchronous else now


if __name__ == "__main__":
    point, moment, nth, *words = sys.argv[1:]
    attendance.GRACE_S = GRACE_S
    fleet.DEAD_S = float(os.environ.get("TESTS_DEAD_S") or fleet.DEAD_S)
    turns.EVERY_S /= float(os.environ.get("TESTS_PACE") or 1)
    if point != "none":
        arm(point, moment, int(nth))
    sys.argv = ["slack-gate", *words]
    main()
