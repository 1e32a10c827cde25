"""The program an agent runs before each tool call: its event to the daemon, the daemon's answer back.

    <python> -IS …/slack_gate/hook.py AGENT [--socket PATH] [--limit SECONDS] [--unreachable deny|ask]

Agents take a silent, slow or crashed hook for "no objection". So every way out that is not the daemon's whole
answer is a deny, and the exit code is 0 or 2, never another.

Python compiles the file it is started with every time, so this one is short; what it imports is compiled once.
`hook_client` is the agent's side, `hook_wire` the daemon's. All three import only modules compiled into the
interpreter: `json`, `os` or `socket` would each cost more than the whole round trip.
"""

import posix
import sys


def main(argv: list[str]) -> None:
    """Answer one event from stdin and end the process: exit code 0 (as the daemon says) or 2 (blocked)."""
    code = 2
    try:
        from slack_gate.hook_client import run  # in here: a missing file must not exit 1, which agents ignore

        code = run(argv)
    except BaseException as error:  # noqa: BLE001 - nothing may get past this line
        posix.write(2, f"slack-gate: the hook failed, so this call did not run: {error!a}\n".encode())
    finally:
        posix._exit(code)  # an ordinary exit takes a sixth of the running time to tidy up


if __name__ == "__main__":
    sys.path.insert(0, __file__.rsplit("/", 2)[0] or "/")  # -I leaves it out
    main(sys.argv[1:])
