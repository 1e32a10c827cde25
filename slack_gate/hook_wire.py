r"""The daemon's side of the hook: find the socket, trust it, ask, and ask again when the daemon went away.

To the daemon: `slack-gate/1 AGENT LENGTH NONCE LIMIT CWD_HEX PATH_HEX\n` and LENGTH bytes of the event, untouched.
    NONCE is the same when an event is sent again; LIMIT is the seconds we still wait; CWD_HEX is our directory, or -;
    PATH_HEX is our PATH, or -.
    Later perhaps `withdraw\n`: nobody waits for the answer any more.
Back: `CODE LENGTH\n`, LENGTH bytes, the end. Code 0 is for stdout; code 2, never empty, for stderr.
"""

import _signal  # type: ignore[import-not-found]  # `signal` itself would load enum
import _socket
import _stat
import posix
import select
import sys
import time

FIRST_WAIT = 1  # seconds for a daemon that is just starting
RESEND_FOR = 30  # seconds for a daemon that went away to come back
HELD = 1  # seconds after which a hang-up is a new loss; a daemon that always hangs up is not asked for ever
RETRY = 0.1  # seconds between two looks for the socket: nothing announces that one appears
SLICE = 1  # seconds in one poll(), whose clock stands still while the machine sleeps; ours does not
SIGNALS = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
START = "Tell the user to start the daemon: slack-gate serve."
ANSWER_MAX = 4 << 20  # bytes
HEADER_MAX = 32  # bytes
PATH_MAX = 8192  # bytes of the PATH that are told
STDOUT = 1


class Deny(Exception):
    """The call must not go on: what is wrong, as a clause, and the next step, as a sentence."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice


class Unreachable(Deny):
    """No daemon was there at all, the one case that may be left to the user at the agent."""


class Patience:
    """How long we wait, and what ends it early: a signal, or an agent that is not there any more.

    A signal is noticed only while we wait here, so it never falls between an effect and the line that records it,
    and never into an answer that is being written.
    """

    def __init__(self, seconds: float) -> None:
        self.until = now() + seconds
        self.signals, signalled = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        _signal.set_wakeup_fd(signalled)
        for number in SIGNALS:
            _signal.signal(number, lambda *_: None)  # the number goes through the pipe

    def left(self) -> float:
        return max(0, self.until - now())

    def ready(self, fd: int, events: int, at_most: float = 1e9) -> int:
        """Wait for one of the events on fd and return those that came, or 0 once the time is over."""
        poll = select.poll()
        poll.register(fd, events)
        poll.register(self.signals, select.POLLIN)
        poll.register(STDOUT, 0)  # a killed agent leaves us alive: its end of the pipe tells
        end = min(self.until, now() + at_most)
        while (left := end - now()) > 0:
            for found, came in poll.poll(1000 * min(left, SLICE)):
                if found == self.signals:
                    number = posix.read(self.signals, 1)[0]
                    raise Deny(f"the hook was told to stop (signal {number}) before an answer came")
                if found == STDOUT:
                    raise Deny("the agent is gone")
                return came
        return 0

    def pause(self, seconds: float) -> None:
        self.ready(self.signals, select.POLLIN, seconds)


def ask(agent: str, path: bytes, event: bytes, patience: Patience) -> tuple[int, bytes]:
    """Return the daemon's code and answer; send the same event again whenever the daemon goes away."""
    nonce, cwd = posix.getrandom(16).hex(), working_directory()
    search_path = posix.environ.get(b"PATH", b"")[:PATH_MAX].hex() or "-"
    reached, give_up = False, now() + FIRST_WAIT
    while True:
        connection = connect(path, patience)
        if connection:
            since = now()
            header = f"slack-gate/1 {agent} {len(event)} {nonce} {int(patience.left())} {cwd} {search_path}\n"
            answer = exchange(connection, header.encode() + event, patience)
            if answer:
                return answer
            connection.close()
            if not reached or now() - since > HELD:
                give_up = now() + RESEND_FOR
            reached = True
        if not patience.left():
            raise no_answer()
        if now() >= give_up:
            raise lost() if reached else absent(path)
        patience.pause(RETRY)


def connect(path: bytes, patience: Patience) -> _socket.socket | None:
    """Return a connection to our own daemon, or None when nobody listens; what is not ours is denied."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        check_folder(path)
        while True:
            try:
                connection.connect(path)
                break
            except BlockingIOError:  # its queue is full: it lives, and nothing tells when there is room
                if not patience.left():
                    raise no_answer() from None
                patience.pause(RETRY)
        check_socket(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise untrusted(f"the daemon's socket {shown(path)} cannot be used ({error})") from None
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
    uid = int.from_bytes(peer[4:8], sys.byteorder)
    if uid != posix.geteuid():
        raise untrusted(f"a process of uid {uid} answers at {shown(path)}, not one of yours")
    return connection


def check_folder(path: bytes) -> None:
    """Deny unless only we can put something at path."""
    if not path.startswith(b"/"):
        raise untrusted(f"the socket's path {shown(path)} is not absolute")
    folder = path.rpartition(b"/")[0] or b"/"
    found = posix.lstat(folder)
    if not _stat.S_ISDIR(found.st_mode):
        raise untrusted(f"{shown(folder)} is not a directory")
    if found.st_uid != posix.geteuid() or found.st_mode & 0o077:
        whose = f"uid {found.st_uid} with mode {found.st_mode & 0o7777:o}"
        raise untrusted(f"{shown(folder)} belongs to {whose}, not to you alone (mode 700)")


def check_socket(path: bytes) -> None:
    """Deny unless a socket of ours is at path."""
    found = posix.lstat(path)
    if not _stat.S_ISSOCK(found.st_mode):
        raise untrusted(f"{shown(path)} is not a socket")
    if found.st_uid != posix.geteuid():
        raise untrusted(f"{shown(path)} belongs to uid {found.st_uid}, not to you")


def exchange(connection: _socket.socket, frame: bytes, patience: Patience) -> tuple[int, bytes] | None:
    """Send the frame and return code and answer, or None when the daemon hung up before it answered."""
    left = memoryview(frame)
    try:
        while left:
            events = patience.ready(connection.fileno(), select.POLLIN | select.POLLOUT)
            if not events:
                raise no_answer()
            if events & ~select.POLLOUT:  # it answers or hangs up before it has read everything
                break
            try:
                left = left[connection.send(left) :]
            except (BrokenPipeError, ConnectionResetError):
                break
        answer = receive(connection, patience)
        if left and answer and answer[0] == 0:
            raise malformed("it came before the whole event was read")
        return answer
    except BaseException:
        if not left:  # inside a half-sent event the word would be taken for a part of it
            withdraw(connection)
        raise


def withdraw(connection: _socket.socket) -> None:
    """Tell the daemon that nobody waits any more; from the hang-up it knows it too, but later."""
    try:
        connection.send(b"withdraw\n")
    except OSError:
        return


def receive(connection: _socket.socket, patience: Patience) -> tuple[int, bytes] | None:
    """Return code and answer once all of it and the end are there, or None when there was only the end."""
    answer = bytearray()
    code, start, end = 0, 0, -1
    while True:
        if not patience.ready(connection.fileno(), select.POLLIN):
            raise no_answer()
        try:
            chunk = connection.recv(1 << 16)
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            break
        answer += chunk
        if end < 0 and (b"\n" in chunk or len(answer) >= HEADER_MAX):
            code, start, end = read_header(bytes(answer[:HEADER_MAX]))
        if 0 <= end < len(answer):
            raise malformed("it is longer than announced")
    if not answer:
        return None
    if len(answer) != end:
        raise malformed("it broke off")
    return code, bytes(answer[start:])


def read_header(head: bytes) -> tuple[int, int, int]:
    """Return the code, and where the answer's text starts and ends."""
    line, newline, _ = head.partition(b"\n")
    code, _, length = line.partition(b" ")
    if not newline or code not in (b"0", b"2") or not length.isdigit():
        raise malformed("its first line is wrong")
    if int(length) > ANSWER_MAX or (code == b"2" and int(length) == 0):
        raise malformed("its length is wrong")
    start = len(line) + 1
    return int(code), start, start + int(length)


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def working_directory() -> str:
    """Return our directory in hex, or - when it is gone."""
    try:
        return posix.getcwdb().hex()
    except OSError:
        return "-"


def shown(path: bytes) -> str:
    return path.decode("ascii", "replace")


def no_answer() -> Deny:
    """Neither a refusal nor an invitation to try again or otherwise."""
    advice = "Nobody has decided about it: leave it, and tell the user that it still needs a person's decision."
    return Deny("no answer came in time", advice)


def lost() -> Deny:
    return Deny("the daemon went away and did not come back", "Tell the user to look at it: slack-gate status.")


def absent(path: bytes) -> Deny:
    """No daemon, or something else in its place."""
    try:
        check_socket(path)
    except Deny as wrong:
        return wrong
    except FileNotFoundError:
        return Unreachable(f"no daemon listens: {shown(path)} does not exist", START)
    return Unreachable(f"no daemon listens at {shown(path)}", START)


def untrusted(what: str) -> Deny:
    return Deny(what, "Tell the user to check that path.")


def malformed(what: str) -> Deny:
    return Deny(f"the daemon's answer is malformed ({what})", "Tell the user to restart the daemon.")
