"""A daemon that is absent, foreign, busy, silent or restarted; an agent that gives up."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slack_gate import hook_client, hook_wire

from .doubles import (
    ALLOW,
    EVENT,
    LIMIT,
    ROOT,
    Agent,
    Daemon,
    Held,
    Result,
    answer,
    finish,
    own_signals,
    read_frame,
    read_to_the_end,
    send,
    unasked,
)

Serve = Callable[..., Daemon]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
NOBODY = 65534
FORBIDDEN_WORDS = (
    "refus",
    "denied",
    "deny",
    "reject",
    "declin",
    "again",
    "retry",
    "try",
    "rephras",
    "instead",
    "another",
)
SOON = {"hook_wire.FIRST_WAIT": 0.2, "hook_wire.RESEND_FOR": 0.4}


def stand_for_nothing(folder: Path) -> Path:
    """Leave the socket of a daemon that was killed."""
    path = folder / "gate.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    return path


@pytest.mark.parametrize("found", ["no directory", "no socket", "a dead socket"])
@pytest.mark.parametrize("option", [(), ("--unreachable", "deny")])
def test_no_daemon_is_a_deny_that_says_how_to_start_it(each: Agent, found: str, option: tuple[str, ...]) -> None:
    absent(each, found)
    reason = each.ask(*option, patch=SOON).denied()
    assert "no daemon listens" in reason
    assert f"{each.socket}" in reason
    assert "slack-gate serve" in reason


@pytest.mark.parametrize("found", ["no directory", "no socket", "a dead socket"])
def test_no_daemon_may_be_left_to_the_user(each: Agent, found: str) -> None:
    absent(each, found)
    result = each.ask("--unreachable", "ask", patch=SOON)
    assert (result.code, result.stderr) == (0, b"")
    verdict = json.loads(result.stdout)["hookSpecificOutput"]
    assert (verdict["hookEventName"], verdict["permissionDecision"]) == ("PreToolUse", "ask")
    assert "no daemon listens" in verdict["permissionDecisionReason"]
    assert "did not run" not in verdict["permissionDecisionReason"]


def absent(agent: Agent, found: str) -> None:
    if found == "no directory":
        agent.socket = agent.socket.parent / "none" / "gate.sock"
    elif found == "a dead socket":
        stand_for_nothing(agent.socket.parent)


def test_the_times_promised_elsewhere() -> None:
    assert hook_wire.FIRST_WAIT <= 1.5  # a missing socket is denied within 2 s
    assert hook_wire.RESEND_FOR == 30
    assert 0 < hook_client.GRACE <= 60


def test_a_daemon_that_is_just_starting_is_waited_for(serve: Serve, agent: Agent) -> None:
    with agent.start(patch={"hook_wire.FIRST_WAIT": LIMIT}) as process:
        send(process)
        wait_until_retrying(process)
        serve(answer(0, ALLOW))
        assert process.wait(LIMIT) == 0


def wait_until_retrying(process: subprocess.Popen[bytes]) -> None:
    """Return once the client has gone to sleep three times more, as only its search for a daemon makes it."""
    seen = sleeps(process)
    while sleeps(process) < seen + 3:
        assert process.poll() is None
        time.sleep(0.01)


def sleeps(process: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


# -- what may be trusted


def test_a_directory_that_others_may_enter_is_not_trusted(serve: Serve, each: Agent) -> None:
    serve(unasked)
    for mode in (0o755, 0o701, 0o720, 0o1777):
        each.socket.parent.chmod(mode)
        assert f"mode {mode:o}, not to you alone" in each.ask("--unreachable", "ask").denied()


@as_root
def test_a_directory_of_another_user_is_not_trusted(serve: Serve, each: Agent) -> None:
    serve(unasked)
    os.chown(each.socket.parent, NOBODY, 0)
    assert f"belongs to uid {NOBODY}" in each.ask("--unreachable", "ask").denied()


@as_root
def test_a_socket_of_another_user_is_not_trusted(serve: Serve, each: Agent) -> None:
    serve(unasked)
    os.chown(each.socket, NOBODY, 0)
    assert f"{each.socket} belongs to uid {NOBODY}" in each.ask("--unreachable", "ask").denied()


@as_root
def test_a_process_of_another_user_is_not_trusted(each: Agent) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(each.socket))
        os.seteuid(NOBODY)  # the peer is who calls listen()
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        assert f"a process of uid {NOBODY} answers at" in each.ask("--unreachable", "ask").denied()
        with listener.accept()[0] as connection:
            unasked(connection)


@as_root
def test_root_is_not_trusted_by_another_user(serve: Serve, agent: Agent, folder: Path) -> None:
    daemon = serve(unasked)
    shutil.copytree(ROOT / "slack_gate", folder / "slack_gate", ignore=shutil.ignore_patterns("[!h_]*"))
    for path in (folder, agent.socket):
        os.chown(path, NOBODY, NOBODY)
    command = [os.path.realpath(sys.executable), "-IS", str(folder / "slack_gate" / "hook.py"), *agent.arguments()]
    done = subprocess.run(command, input=EVENT, capture_output=True, user=NOBODY, timeout=LIMIT)
    assert "a process of uid 0 answers" in Result(done.returncode, done.stdout, done.stderr).denied()
    daemon.end()


def test_a_link_to_a_directory_is_not_trusted(serve: Serve, each: Agent, folder: Path) -> None:
    (folder / "real").mkdir(mode=0o700)
    (folder / "link").symlink_to("real")
    serve(unasked, path=folder / "real" / "gate.sock")
    each.socket = folder / "link" / "gate.sock"
    assert f"{folder}/link is not a directory" in each.ask("--unreachable", "ask").denied()


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
def test_only_a_socket_is_a_socket(serve: Serve, each: Agent, folder: Path, kind: str) -> None:
    serve(unasked, path=folder / "real.sock")
    if kind == "file":
        each.socket.touch()
    elif kind == "link":
        each.socket.symlink_to("real.sock")
    else:
        each.socket.mkdir()
    assert f"{each.socket} is not a socket" in each.ask("--unreachable", "ask", patch=SOON).denied()


@as_root
def test_a_dead_socket_of_another_user_is_named(each: Agent, folder: Path) -> None:
    os.chown(stand_for_nothing(folder), NOBODY, 0)
    assert f"belongs to uid {NOBODY}" in each.ask("--unreachable", "ask", patch=SOON).denied()


@pytest.mark.parametrize("path", ["gate.sock", "./run/gate.sock", "~/gate.sock"])
def test_a_relative_path_is_not_trusted(each: Agent, path: str) -> None:
    assert "is not absolute" in each.call(["claude-code", "--socket", path, "--unreachable", "ask"]).denied()


def test_a_path_that_no_socket_can_have_is_named(each: Agent, folder: Path) -> None:
    each.socket = folder / ("x" * 120)
    with socket.socket(socket.AF_UNIX) as long_name:
        directory = os.open(folder, os.O_RDONLY)
        long_name.bind(f"/proc/self/fd/{directory}/s2")
        os.close(directory)
    (folder / "s2").rename(each.socket)
    assert "cannot be used (AF_UNIX path too long)" in each.ask("--unreachable", "ask").denied()


# -- a daemon that goes away


def hang_up(connection: socket.socket) -> None:
    """End the connection in order, after the event was read."""
    with connection.makefile("rb") as stream:
        read_frame(stream)


def reset(connection: socket.socket) -> None:
    """End the connection with the event unread, as a killed process does."""
    select.select([connection], [], [], LIMIT)


@pytest.mark.parametrize("end", [hang_up, reset])
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_after_a_hang_up_the_same_event_is_sent_again(
    serve: Serve, each: Agent, end: Callable[[socket.socket], None], size: int
) -> None:
    daemon = serve(end, answer(0, ALLOW))
    assert each.ask(event=b"x" * size) == Result(0, ALLOW, b"")
    assert daemon.frames[0].event == b"x" * size


def test_a_restarted_daemon_gets_the_parked_event_with_the_same_nonce(serve: Serve, agent: Agent) -> None:
    nonces, limits = [], []

    def die(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            frame = read_frame(stream)
        nonces.append(frame.nonce)
        limits.append(frame.limit)

    first = serve(die)
    with agent.start("--limit", "15") as process:
        send(process)
        assert process.stdout
        first.end()
        assert not agent.socket.exists()
        wait_until_retrying(process)
        second = serve(answer(0, ALLOW))
        assert process.stdout.read() == ALLOW
        assert process.wait(LIMIT) == 0
    second.end()
    (frame,) = second.frames
    assert [frame.nonce] == nonces
    assert frame.event == EVENT
    assert frame.limit <= limits[0] <= 15


def test_a_killed_daemon_process_is_asked_again(serve: Serve, agent: Agent) -> None:
    ready_out, ready_in = os.pipe()
    victim = os.fork()
    if victim == 0:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(agent.socket))
            listener.listen()
            os.write(ready_in, b"l")
            connection, _ = listener.accept()
            with connection.makefile("rb") as stream:
                os.write(ready_in, read_frame(stream).nonce.encode())
            signal.pause()
    try:
        assert os.read(ready_out, 1) == b"l"
        with agent.start() as process:
            send(process)
            assert process.stdout
            nonce = os.read(ready_out, 32)
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
            agent.socket.unlink()
            daemon = serve(answer(0, ALLOW))
            assert process.stdout.read() == ALLOW
    finally:
        os.close(ready_out)
        os.close(ready_in)
    daemon.end()
    assert daemon.frames[0].nonce.encode() == nonce


def test_a_daemon_gone_for_good_is_a_deny(serve: Serve, each: Agent) -> None:
    serve(hang_up)
    reason = each.ask("--unreachable", "ask", patch=SOON).denied()
    assert "the daemon went away and did not come back" in reason
    assert "slack-gate status" in reason


def test_a_daemon_that_always_hangs_up_is_not_asked_for_ever(serve: Serve, each: Agent) -> None:
    asked = []

    def hang_up_at_once(connection: socket.socket) -> None:
        hang_up(connection)
        asked.append(1)

    serve(*[hang_up_at_once] * 100)
    assert "the daemon went away" in each.ask(patch=SOON).denied()
    assert len(asked) <= 1 + SOON["hook_wire.RESEND_FOR"] / hook_wire.RETRY


class Scripted(hook_wire.Patience):
    """A patience in whose waits one thing after another happens."""

    def __init__(self, *happenings: Callable[[], int]) -> None:
        self.happenings = list(happenings)

    def ready(self, fd: int, events: int, at_most: float = 0) -> int:
        return self.happenings.pop(0)()


def test_a_hang_up_between_two_looks_is_a_hang_up() -> None:
    ours, theirs = socket.socketpair()

    def close() -> int:
        theirs.close()
        return select.POLLOUT

    with ours:
        assert hook_wire.exchange(ours, b"x" * 10, Scripted(close, lambda: select.POLLIN)) is None


def test_no_withdrawal_goes_into_a_half_sent_event() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def drain_and_stop() -> int:
        theirs.recv(1 << 22)
        raise hook_wire.Deny("told to stop")

    with ours, theirs:
        with pytest.raises(hook_wire.Deny, match="told to stop"):
            hook_wire.exchange(ours, b"x" * (1 << 22), Scripted(lambda: select.POLLOUT, drain_and_stop))
        ours.close()
        assert b"withdraw" not in read_to_the_end(theirs)


def test_a_long_wait_starts_the_thirty_seconds_anew(serve: Serve, agent: Agent) -> None:
    def hold_a_while(connection: socket.socket) -> None:
        hang_up(connection)
        time.sleep(0.6)

    serve(*[hold_a_while] * 5, answer(0, ALLOW))
    assert agent.ask(patch={"hook_wire.HELD": 0.1, "hook_wire.RESEND_FOR": 2.0}) == Result(0, ALLOW, b"")


@pytest.mark.skipif(not os.environ.get("SLACK_GATE_LONG"), reason="takes 30 s; set SLACK_GATE_LONG=1")
def test_a_daemon_is_awaited_for_thirty_seconds(serve: Serve, agent: Agent) -> None:
    serve(hang_up)
    before = time.monotonic()
    assert "the daemon went away" in agent.ask(timeout=60).denied()
    assert 30 <= time.monotonic() - before < 60


def test_a_daemon_that_became_foreign_is_not_asked_again(serve: Serve, each: Agent) -> None:
    def loosen(connection: socket.socket) -> None:
        hang_up(connection)
        each.socket.parent.chmod(0o755)

    daemon = serve(loosen, answer(0, ALLOW))
    assert "mode 755" in each.ask().denied()
    assert not daemon.frames


# -- a daemon that does not answer in time


def test_at_the_deadline_the_request_is_withdrawn(serve: Serve, each: Agent) -> None:
    daemon = serve(hold := Held())
    reason = each.ask("--limit", "2", "--unreachable", "ask").denied()
    assert "no answer came in time, so this call did not run" in reason
    assert not [word for word in FORBIDDEN_WORDS if word in reason.lower()]
    daemon.end()
    assert hold.rests == [b"withdraw\n"]


def test_half_an_answer_is_no_answer(serve: Serve, each: Agent) -> None:
    daemon = serve(hold := Held(first=answer(0, ALLOW)[:-1]))
    assert "no answer came in time" in each.ask("--limit", "2").denied()
    daemon.end()
    assert hold.rests == [b"withdraw\n"]


def test_a_whole_answer_needs_its_end(serve: Serve, each: Agent) -> None:
    serve(Held(first=answer(0, ALLOW)))
    assert "no answer came in time" in each.ask("--limit", "2").denied()


def test_the_deadline_ends_the_search_for_a_daemon_too(serve: Serve, each: Agent) -> None:
    serve(hang_up)
    assert "no answer came in time" in each.ask("--limit", "2").denied()


def test_the_deadline_ends_a_stalled_stdin(agent: Agent) -> None:
    with agent.start("--limit", "2", patch={"hook_client.STDIN_IDLE": 100}) as process:
        assert process.stdout and process.stderr
        result = Result(process.wait(LIMIT), process.stdout.read(), process.stderr.read())
    assert "did not finish sending its event" in result.denied()


def test_a_daemon_that_does_not_read_is_left_at_the_deadline(serve: Serve, each: Agent) -> None:
    done = threading.Event()
    rests = []

    def read_late(connection: socket.socket) -> None:
        done.wait(LIMIT)
        rests.append(read_to_the_end(connection))

    daemon = serve(read_late)
    assert "no answer came in time" in each.ask("--limit", "2", event=b"x" * 5_000_000).denied()
    done.set()
    daemon.end()
    assert not rests[0].endswith(b"withdraw\n")  # it would be read as part of the event


def test_a_full_queue_is_waited_for(each: Agent) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(each.socket))
        listener.listen(0)
        first.connect(str(each.socket))
        reason = each.ask("--limit", "2", "--unreachable", "ask").denied()
        assert "no answer came in time" in reason

        def serve_both() -> None:
            listener.accept()[0].close()
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream:
                read_frame(stream)
                connection.sendall(answer(0, ALLOW))

        server = threading.Timer(0.3, serve_both)
        server.start()
        assert each.ask() == Result(0, ALLOW, b"")
        server.join(LIMIT)


def test_the_time_the_machine_sleeps_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = False

    class Clock:
        CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

        @staticmethod
        def clock_gettime(which: int) -> float:
            assert which == time.CLOCK_BOOTTIME
            return 1000.0 if slept else 0.0

    class Sleep:
        """A poll() in which nothing happens but 1000 seconds of the machine's sleep."""

        def register(self, fd: int, events: int) -> None: ...

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            nonlocal slept
            assert not slept, "waited again after the deadline"
            assert milliseconds <= 1000, "would sleep on, as this clock stands still meanwhile"
            slept = True
            return []

    with own_signals():
        monkeypatch.setattr(hook_wire, "time", Clock)
        patience = hook_wire.Patience(300)
        monkeypatch.setattr(select, "poll", Sleep)
        assert patience.ready(0, select.POLLIN) == 0
        assert patience.left() == 0


# -- an agent that gives up


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_withdraws_the_request(serve: Serve, agent: Agent, number: signal.Signals) -> None:
    daemon = serve(hold := Held())
    with agent.start("--unreachable", "ask") as process:
        send(process)
        assert hold.heard.wait(LIMIT)
        process.send_signal(number)
        assert f"told to stop (signal {number:d})" in finish(process).denied()
    daemon.end()
    assert hold.rests == [b"withdraw\n"]


def test_an_agent_that_was_killed_withdraws_the_request(serve: Serve, agent: Agent) -> None:
    daemon = serve(hold := Held())
    with agent.start() as process:
        send(process)
        assert hold.heard.wait(LIMIT)
        assert process.stdout
        process.stdout.close()  # as the kernel does for a killed reader
        process.stdout = None
        assert process.stderr
        assert b"the agent is gone" in process.stderr.read()
        assert process.wait(LIMIT) == 2
    daemon.end()
    assert hold.rests == [b"withdraw\n"]


def test_a_signal_after_half_the_answer_withdraws(serve: Serve, agent: Agent) -> None:
    daemon = serve(hold := Held(first=answer(0, ALLOW)[:-1]))
    with agent.start() as process:
        send(process)
        assert hold.heard.wait(LIMIT)
        process.terminate()
        assert "told to stop" in finish(process).denied()
    daemon.end()
    assert hold.rests == [b"withdraw\n"]


def test_a_burst_of_signals_is_one_deny(serve: Serve, agent: Agent) -> None:
    serve(hold := Held())
    with agent.start() as process:
        send(process)
        assert hold.heard.wait(LIMIT)
        for _ in range(50):
            process.terminate()
        assert "told to stop" in finish(process).denied()


def test_a_signal_ends_the_search_for_a_daemon(serve: Serve, agent: Agent) -> None:
    first = serve(hang_up)
    with agent.start("--unreachable", "ask") as process:
        send(process)
        first.end()
        wait_until_retrying(process)
        process.terminate()
        assert "told to stop" in finish(process).denied()


def test_a_signal_inside_the_event_is_no_withdrawal(serve: Serve, agent: Agent) -> None:
    started, go_on, rests = threading.Event(), threading.Event(), []

    def read_late(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            assert stream.readline().startswith(b"slack-gate/1 ")
            started.set()
            go_on.wait(LIMIT)
            rests.append(stream.read())

    daemon = serve(read_late)
    with agent.start() as process:
        send(process, b"x" * 5_000_000)
        assert started.wait(LIMIT)
        process.terminate()
        assert "told to stop" in finish(process).denied()
    go_on.set()
    daemon.end()
    assert len(rests[0]) < 5_000_000
    assert set(rests[0]) == {ord("x")}


def test_a_signal_before_the_event_asks_nobody(serve: Serve, agent: Agent) -> None:
    daemon = serve(answer(0, ALLOW))
    with agent.start() as process:
        assert process.stdin
        process.stdin.write(EVENT)
        process.stdin.flush()
        wait_until_handled(process, signal.SIGTERM)
        process.terminate()
        assert process.wait(LIMIT) == 2
        assert process.stdout and process.stderr
        assert "told to stop" in Result(2, process.stdout.read(), process.stderr.read()).denied()
    assert not daemon.frames


def wait_until_handled(process: subprocess.Popen[bytes], number: int) -> None:
    """Return once the client catches the signal."""
    for _ in range(LIMIT * 100):
        caught = Path(f"/proc/{process.pid}/status").read_text().partition("SigCgt:")[2].split()[0]
        if int(caught, 16) >> (number - 1) & 1:
            return
        time.sleep(0.01)
    raise AssertionError("the client never caught the signal")


def test_a_killed_client_just_hangs_up(serve: Serve, agent: Agent) -> None:
    daemon = serve(hold := Held())
    with agent.start() as process:
        send(process)
        assert hold.heard.wait(LIMIT)
        process.kill()
    daemon.end()
    assert hold.rests == [b""]


def test_no_signal_cuts_off_an_answer(serve: Serve, agent: Agent) -> None:
    text = b"x" * 300_000
    daemon = serve(answer(0, text))
    with agent.start() as process:
        send(process)
        assert process.stdout
        assert process.stdout.read(1) == b"x"  # it is writing; the pipe holds a fifth of it
        process.terminate()
        assert process.stdout.read() == text[1:]
        assert process.wait(LIMIT) == 0
    daemon.end()
