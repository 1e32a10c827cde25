"""The agent's side of the hook: options, the event on stdin, the answer on stdout, and every way to say no."""

import posix
import select
import sys

from slack_gate.hook_wire import Deny, Patience, Unreachable, ask, now

AGENTS_TO_COME = (
    *("codex", "gemini", "cursor", "copilot", "opencode"),
    *("cline-vscode", "cline-cli", "windsurf", "openclaw", "hermes"),
)
CLINE = ("cline-vscode", "cline-cli")  # they obey JSON alone: whatever else a hook ends with lets the call go on
USAGE = "Usage: hook.py AGENT [--socket PATH] [--limit SECONDS] [--unreachable deny|ask]"

# What a project can set for its agent that runs code of the project in every shell, or in every git, or has git work on
# another repository than the one that is shown.
UNSAFE = (
    *(b"BASH_ENV", b"SHELLOPTS", b"BASHOPTS", b"PS4", b"LD_PRELOAD", b"LD_AUDIT"),
    *(b"GIT_SSH", b"GIT_SSH_COMMAND", b"GIT_PROXY_COMMAND", b"GIT_EXTERNAL_DIFF", b"GIT_EXEC_PATH"),
    *(b"GIT_TEMPLATE_DIR", b"GIT_CONFIG_COUNT", b"GIT_CONFIG_PARAMETERS", b"GIT_CONFIG_GLOBAL", b"GIT_CONFIG_SYSTEM"),
    *(b"GIT_DIR", b"GIT_WORK_TREE", b"GIT_COMMON_DIR", b"GIT_INDEX_FILE", b"GIT_OBJECT_DIRECTORY", b"GIT_CONFIG"),
    *(b"GIT_ALTERNATE_OBJECT_DIRECTORIES", b"GIT_NAMESPACE"),
)
UNSAFE_FUNCTIONS = b"BASH_FUNC_"

WAIT = 300  # seconds a person has, unless SLACK_GATE_WAIT or GATE_WAIT says otherwise
GRACE = 30  # seconds more than that, so that the daemon's own expiry is heard
STDIN_IDLE = 10  # seconds without a byte of the event
OUTPUT_WAIT = 5  # seconds for the agent to take the answer
EVENT_MAX = 8 << 20  # bytes
PIPE_BUF = 4096  # bytes that a pipe ready for writing takes without blocking


class Undelivered(Deny):
    """The agent did not take the whole answer, so nothing more may go to stdout."""


def run(argv: list[str]) -> int:
    """Pass the event on and the answer back; return the exit code, 0 or 2."""
    try:
        check_descriptors()
        check_environment()
        agent, path, limit, ask_user = parse(argv)
        patience = Patience(limit)
        try:
            code, answer = ask(agent, path, read_event(patience), patience)
        except Unreachable as why:
            if not ask_user:
                raise
            code, answer = 0, verdict("ask", f"slack-gate: {printable(why)}, so you decide here.")
        if code == 0 and not write(1, answer):
            raise Undelivered("the agent did not take the answer")
        if code == 2:
            write(2, answer)
        return code
    except BaseException as error:  # noqa: BLE001 - whatever happened, the agent must hear no
        return refuse(error, "".join(argv[:1]))


def refuse(error: BaseException, agent: str) -> int:
    """Say no in every form at once and return the exit code that goes with it, 2 but for Cline: whichever form gets
    through blocks the call."""
    why = error if isinstance(error, Deny) else Deny(f"the hook failed ({type(error).__name__}: {error})")
    reason = f"slack-gate: {printable(why)}, so this call did not run. {why.advice}".rstrip()
    if agent == "claude-code" and not isinstance(error, Undelivered):
        write(1, verdict("deny", reason))
    heard = agent in CLINE and write(1, f'{{"cancel":true,"errorMessage":"{quoted(reason)}"}}\n'.encode())
    write(2, reason.encode() + b"\n")
    return 0 if heard else 2


def printable(error: Deny) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in str(error))


def verdict(decision: str, reason: str) -> bytes:
    """Return Claude Code's JSON for a decision; the reason is printable ASCII."""
    return (
        '{"hookSpecificOutput":{"hookEventName":"PreToolUse",'
        f'"permissionDecision":"{decision}","permissionDecisionReason":"{quoted(reason)}"}}}}\n'
    ).encode()


def quoted(text: str) -> str:
    """Return what stands for a printable ASCII text between the quotes of a JSON string."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def check_environment() -> None:
    """Deny where what the caller set would run code of its own around every command, ours and green ones too."""
    functions = [name for name in posix.environ if name.startswith(UNSAFE_FUNCTIONS)]
    for name in (*UNSAFE, *functions):
        if posix.environ.get(name):
            what = f"{name.decode(errors='replace')} is set, so commands could run code of its own or work elsewhere"
            raise Deny(what, "Tell the user: a project's settings may have set it; without it the call is judged.")


def check_descriptors() -> None:
    """Deny without stdin or stdout, and keep the socket from becoming stderr."""
    for fd, name in ((1, "stdout"), (0, "stdin")):
        if not is_open(fd):
            raise Deny(f"the hook was started with {name} closed")
    if not is_open(2):
        posix.open("/dev/null", posix.O_WRONLY)  # takes the lowest free number, which is 2


def is_open(fd: int) -> bool:
    try:
        posix.fstat(fd)
    except OSError:
        return False
    return True


def parse(argv: list[str]) -> tuple[str, bytes, int, bool]:
    """Return the agent, the socket's path, the seconds to wait, and whether the user decides without a daemon."""
    agent, names, values = "".join(argv[:1]), argv[1::2], argv[2::2]
    if agent in AGENTS_TO_COME:
        raise Deny(f"{agent} is not supported yet", "Only claude-code is.")
    if agent != "claude-code":
        raise Deny("the hook was started for an unknown agent or for none", USAGE)
    if len(names) != len(values) or not {"--socket", "--limit", "--unreachable"}.issuperset(names):
        raise Deny("the hook was started with an unknown or incomplete option", USAGE)
    given = {
        name: value.encode(sys.getfilesystemencoding(), "surrogateescape")
        for name, value in zip(names, values, strict=True)
    }
    unreachable = given.get("--unreachable", b"deny")
    if unreachable not in (b"deny", b"ask"):
        raise Deny("--unreachable is neither deny nor ask", USAGE)
    limit = whole(given["--limit"]) if "--limit" in given else default_limit()
    if not limit:
        raise Deny("--limit is not a whole number of seconds from 1 up", USAGE)
    return agent, given.get("--socket") or default_socket(), limit, unreachable == b"ask"


def whole(text: bytes) -> int:
    """Return a whole number of 1 to 9,999,999, or 0 when the text is not one."""
    return int(text) if text.isdigit() and len(text) < 8 else 0


def default_limit() -> int:
    env = posix.environ
    return (whole(env.get(b"SLACK_GATE_WAIT", b"")) or whole(env.get(b"GATE_WAIT", b"")) or WAIT) + GRACE


def default_socket() -> bytes:
    for variable, rest in (
        (b"SLACK_GATE_SOCKET", b""),
        (b"XDG_RUNTIME_DIR", b"/slack-gate/gate.sock"),
        (b"SLACK_GATE_HOME", b"/run/gate.sock"),
        (b"HOME", b"/.config/slack-gate/run/gate.sock"),
    ):
        if root := posix.environ.get(variable):
            return root + rest
    raise Deny("HOME is not set and the daemon cannot be found", "Tell the user to add --socket PATH to the hook.")


def read_event(patience: Patience) -> bytes:
    """Return all of stdin."""
    event = bytearray()
    while True:
        if not patience.ready(0, select.POLLIN, STDIN_IDLE):
            raise Deny("the agent did not finish sending its event")
        chunk = posix.read(0, 1 << 16)
        if not chunk:
            return bytes(event)
        event += chunk
        if len(event) > EVENT_MAX:
            raise Deny(f"the event is larger than {EVENT_MAX} bytes", "Split the call into smaller ones.")


def write(fd: int, data: bytes) -> bool:
    """Write everything to fd; False when it is closed or nobody reads."""
    left, until = memoryview(data), now() + OUTPUT_WAIT
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    while left:
        if not poll.poll(1000 * max(0, until - now())) or now() >= until:
            return False
        try:
            left = left[posix.write(fd, left[:PIPE_BUF]) :]
        except BlockingIOError:  # someone else wrote to the same pipe first
            continue
        except OSError:
            return False
    return True
