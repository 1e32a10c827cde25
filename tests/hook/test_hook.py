"""The event reaches the daemon untouched, its answer reaches the agent whole, and anything else is a deny."""

from __future__ import annotations

import asyncio
import json
import os
import posix
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from slack_gate import hook_client

from .doubles import ALLOW, EVENT, HOOK, LIMIT, ROOT, Agent, Daemon, Held, Result, answer, finish, read_frame, send

Serve = Callable[..., Daemon]

MALFORMED_EVENTS = {
    "empty": b"",
    "whitespace": b" \n",
    "truncated": b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"comm',
    "array": b"[]",
    "null": b"null",
    "bom": b'\xef\xbb\xbf{"tool_name":"Bash","tool_input":{"command":"ls"}}',
    "no input": b'{"hook_event_name":"PreToolUse","tool_name":"Bash"}',
    "list as command": b'{"tool_name":"Bash","tool_input":{"command":["rm","-rf","src"]}}',
    "lone surrogate": b'{"tool_name":"Bash","tool_input":{"command":"echo \\ud800"}}',
    "escaped NUL": b'{"tool_name":"Bash","tool_input":{"command":"ls\\u0000-la"}}',
    "two documents": b'{"tool_name":"Bash"}\n{"tool_name":"Bash"}',
    "duplicate key": b'{"tool_name":"Read","tool_name":"Bash","tool_input":{"command":"ls"}}',
    "raw NUL": b"\0ls\0",
    "not UTF-8": bytes(range(256)),
    "a header": b"slack-gate/1 claude-code 0 00 1 -\nwithdraw\n",
    "one megabyte": b'"' + b"x" * 1_000_000 + b'"',
    "the most": b"x" * (8 << 20),
}
MALFORMED_ANSWERS = {
    "other code": b"1 2\nok",
    "padded code": b"00 2\nok",
    "sign": b"+0 2\nok",
    "no code": b" 2\nok",
    "no length": b"0\nok",
    "two blanks": b"0  2\nok",
    "carriage return": b"0 2\r\nok",
    "length in words": b"0 two\nok",
    "negative length": b"0 -1\nok",
    "third field": b"0 2 3\nok",
    "other digits": "0 \u0662\nok".encode(),
    "no header": ALLOW,
    "half a header": b"0 2",
    "long header": b"0 " + b"2".rjust(31, b"0") + b"\nok",
    "endless header": b"0" * 5000,
    "broken off": b"0 5\nallo",
    "nothing follows": b"0 5\n",
    "too long": b"0 2\nok!",
    "too long for silence": b"0 0\n\n",
    "block without a reason": b"2 0\n",
    "larger than 4 MiB": b"0 4194305\n" + b" " * 4194305,
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The client's files alone, as an installer may place them."""
    target = tmp_path / "slack_gate"
    target.mkdir()
    for name in ("__init__.py", "hook.py", "hook_client.py", "hook_wire.py"):
        shutil.copy(ROOT / "slack_gate" / name, target)
    return target


def test_the_answer_goes_to_stdout_and_the_event_to_the_daemon(serve: Serve, each: Agent) -> None:
    daemon = serve(answer(0, ALLOW))
    assert each.ask("--limit", "9") == Result(0, ALLOW, b"")
    daemon.end()
    (frame,) = daemon.frames
    assert (frame.agent, frame.event, frame.cwd) == ("claude-code", EVENT, os.getcwdb())
    assert frame.search_path is None
    assert frame.limit in (8, 9)
    assert daemon.rests == [b""]


@pytest.mark.parametrize("search_path", ["/opt/my tools:/bin:", "/ä", "/long" * 2000])
def test_the_daemon_hears_of_the_agents_path(serve: Serve, each: Agent, search_path: str) -> None:
    daemon = serve(answer(0, ALLOW))
    each.env["PATH"] = search_path
    assert each.ask() == Result(0, ALLOW, b"")
    daemon.end()
    (frame,) = daemon.frames
    assert frame.search_path == search_path.encode()[:8192]


def test_two_calls_have_two_nonces(serve: Serve, agent: Agent) -> None:
    daemon = serve(answer(0, b""), answer(0, b""))
    assert agent.ask().code == agent.ask().code == 0
    daemon.end()
    assert len({frame.nonce for frame in daemon.frames}) == 2


def test_an_answer_without_text_is_silence(serve: Serve, each: Agent) -> None:
    serve(answer(0, b""))
    assert each.ask() == Result(0, b"", b"")


def test_code_2_goes_to_stderr(serve: Serve, each: Agent) -> None:
    serve(answer(2, "no: löschen \0".encode()))
    assert each.ask() == Result(2, b"", "no: löschen \0".encode())


@pytest.mark.parametrize("size", [1, 4096, 65537, 4 << 20])
def test_long_answers_arrive_whole(serve: Serve, each: Agent, size: int) -> None:
    serve(answer(0, b"x" * size))
    assert each.ask() == Result(0, b"x" * size, b"")


@pytest.mark.parametrize("event", MALFORMED_EVENTS.values(), ids=MALFORMED_EVENTS)
def test_no_event_is_too_odd_to_pass_on(serve: Serve, each: Agent, event: bytes) -> None:
    daemon = serve(answer(0, b"seen"))
    assert each.ask(event=event) == Result(0, b"seen", b"")
    daemon.end()
    assert daemon.frames[0].event == event


def test_an_event_above_8_mib_is_denied_without_asking(serve: Serve, each: Agent) -> None:
    daemon = serve(answer(0, ALLOW))
    assert "the event is larger than 8388608 bytes" in each.ask(event=b"x" * ((8 << 20) + 1)).denied()
    assert not daemon.frames


@pytest.mark.parametrize("reply", MALFORMED_ANSWERS.values(), ids=MALFORMED_ANSWERS)
def test_a_malformed_answer_is_a_deny(serve: Serve, each: Agent, reply: bytes) -> None:
    def respond(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            read_frame(stream)
        try:
            connection.sendall(reply)
        except (BrokenPipeError, ConnectionResetError):
            return  # the client has read enough

    serve(respond)
    assert "the daemon's answer is malformed" in each.ask("--unreachable", "ask").denied()


@pytest.mark.parametrize("start", [b"0 2\nok", b"0 "])
def test_an_endless_answer_is_cut_off(serve: Serve, each: Agent, start: bytes) -> None:
    def respond(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            read_frame(stream)
        connection.sendall(start)
        with suppress(BrokenPipeError, ConnectionResetError):
            while True:
                connection.sendall(b"2" * 1000)

    serve(respond)
    assert "the daemon's answer is malformed" in each.ask("--limit", "5").denied()


def test_an_answer_may_come_byte_by_byte(serve: Serve, each: Agent) -> None:
    def respond(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        with connection.makefile("rb") as stream:
            read_frame(stream)
        for byte in answer(0, ALLOW):
            connection.sendall(bytes([byte]))

    serve(respond)
    assert each.ask() == Result(0, ALLOW, b"")


def test_an_event_may_be_read_byte_by_byte(serve: Serve, agent: Agent) -> None:
    frames = []

    def respond(connection: socket.socket) -> None:
        with connection.makefile("rb", buffering=0) as stream:
            head = b""
            while not head.endswith(b"\n"):
                head += stream.read(1) or b""
            missing, event = int(head.split()[2]), b""
            while len(event) < missing:
                event += stream.read(4001) or b""
            frames.append(event)
        connection.sendall(answer(0, ALLOW))

    serve(respond)
    event = os.urandom(1_000_000)
    assert agent.ask(event=event) == Result(0, ALLOW, b"")
    assert frames == [event]


@pytest.mark.parametrize("code", [0, 2])
def test_only_a_deny_may_come_before_the_whole_event_was_read(serve: Serve, each: Agent, code: int) -> None:
    answered = threading.Event()

    def respond(connection: socket.socket) -> None:
        connection.recv(10)
        connection.sendall(answer(code, b"too large"))
        connection.shutdown(socket.SHUT_WR)
        assert answered.wait(LIMIT)

    serve(respond)
    result = each.ask("--limit", "9", event=b"x" * 1_000_000)
    answered.set()
    if code == 0:
        assert "before the whole event was read" in result.denied()
    else:
        assert result == Result(2, b"", b"too large")


async def test_asyncio_answers_and_hears_the_hang_up(agent: Agent) -> None:
    ends: asyncio.Queue[bytes] = asyncio.Queue()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readline()
        event = await reader.readexactly(int(head.split()[2]))
        writer.write(answer(0, event[::-1]))
        writer.write_eof()
        ends.put_nowait(await reader.read())
        writer.close()

    async with await asyncio.start_unix_server(respond, str(agent.socket)):
        result = await asyncio.to_thread(agent.ask, event=EVENT * 9000)
    assert result == Result(0, EVENT[::-1] * 9000, b"")
    assert ends.get_nowait() == b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "for an unknown agent or for none"),
        (["--socket", "/tmp/x"], "for an unknown agent or for none"),
        (["Claude-Code"], "for an unknown agent or for none"),
        (["claude-code ", "--limit", "3"], "for an unknown agent or for none"),
        (["codex"], "codex is not supported yet"),
        (["windsurf", "--unreachable", "ask"], "windsurf is not supported yet"),
        (["cline"], "for an unknown agent or for none"),
    ],
)
def test_other_agents_are_blocked_by_stderr_alone(each: Agent, arguments: list[str], said: str) -> None:
    result = each.call(arguments)
    assert (result.code, result.stdout) == (2, b"")
    assert said in result.stderr.decode()


@pytest.mark.parametrize("arguments", [["cline-vscode"], ["cline-cli", "--unreachable", "ask"], ["cline-cli", '"']])
def test_cline_obeys_json_alone_and_gets_it(each: Agent, arguments: list[str]) -> None:
    result = each.call(arguments)
    assert result.code == 0
    answer = json.loads(result.stdout)
    assert answer == {"cancel": True, "errorMessage": result.stderr.decode().strip()}
    assert f"{arguments[0]} is not supported yet, so this call did not run" in answer["errorMessage"]


def test_cline_that_takes_no_json_hears_no_by_the_exit_code(agent: Agent) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *agent.argv(["cline-cli"], {})]
    done = subprocess.run(command, input=EVENT, stderr=subprocess.PIPE, env=agent.env, timeout=LIMIT)
    assert done.returncode == 2 and b"stdout closed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--limit"], "unknown or incomplete option"),
        (["--verbose", "yes"], "unknown or incomplete option"),
        (["more"], "unknown or incomplete option"),
        (["--limit=5"], "unknown or incomplete option"),
        (["--limit", "0"], "--limit is not a whole number"),
        (["--limit", "-5"], "--limit is not a whole number"),
        (["--limit", "5.0"], "--limit is not a whole number"),
        (["--limit", ""], "--limit is not a whole number"),
        (["--limit", "99999999"], "--limit is not a whole number"),
        (["--limit", "٣"], "--limit is not a whole number"),
        (["--unreachable", "allow"], "--unreachable is neither deny nor ask"),
    ],
)
def test_odd_options_are_denied(serve: Serve, each: Agent, arguments: list[str], said: str) -> None:
    daemon = serve(answer(0, ALLOW))
    assert said in each.ask(*arguments).denied()
    assert not daemon.frames


@pytest.mark.parametrize(
    ("env", "limit"),
    [
        ({}, 330),
        ({"SLACK_GATE_WAIT": "7"}, 37),
        ({"GATE_WAIT": "8"}, 38),
        ({"SLACK_GATE_WAIT": "7", "GATE_WAIT": "8"}, 37),
        ({"SLACK_GATE_WAIT": "soon", "GATE_WAIT": "-8"}, 330),
    ],
)
def test_the_default_limit_leaves_the_daemon_time_to_expire(
    serve: Serve, each: Agent, env: dict[str, str], limit: int
) -> None:
    daemon = serve(answer(0, b""))
    each.env = env
    assert each.ask().code == 0
    daemon.end()
    assert daemon.frames[0].limit in range(limit - 3, limit + 1)


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({"SLACK_GATE_SOCKET": "{}/one/own.sock", "XDG_RUNTIME_DIR": "{}/two"}, "one/own.sock"),
        ({"XDG_RUNTIME_DIR": "{}/run", "SLACK_GATE_HOME": "{}/home", "HOME": "{}"}, "run/slack-gate/gate.sock"),
        ({"XDG_RUNTIME_DIR": "", "SLACK_GATE_HOME": "{}/home", "HOME": "{}"}, "home/run/gate.sock"),
        ({"HOME": "{}"}, ".config/slack-gate/run/gate.sock"),
        ({"HOME": "{}/h\udcff"}, "h\udcff/.config/slack-gate/run/gate.sock"),
    ],
)
def test_the_socket_is_found_where_the_daemon_puts_it(
    serve: Serve, each: Agent, folder: Path, env: dict[str, str], place: str
) -> None:
    (folder / place).parent.mkdir(parents=True)
    (folder / place).parent.chmod(0o700)
    serve(answer(0, ALLOW), path=folder / place)
    each.env = {name: value.format(folder) for name, value in env.items()}
    assert each.call(["claude-code"]) == Result(0, ALLOW, b"")


def test_without_a_home_there_is_no_daemon_to_find(each: Agent) -> None:
    assert "HOME is not set" in each.call(["claude-code", "--unreachable", "ask"]).denied()


def test_a_deleted_directory_is_a_dash(serve: Serve, agent: Agent, tmp_path: Path) -> None:
    daemon = serve(answer(0, ALLOW))
    gone = tmp_path / "gone"
    gone.mkdir()
    command = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "-", *agent.argv(agent.arguments(), {})]
    done = subprocess.run(command, input=EVENT, capture_output=True, cwd=gone, timeout=LIMIT, env={"PATH": "/bin"})
    assert (done.returncode, done.stdout, done.stderr) == (0, ALLOW, b"")
    daemon.end()
    assert daemon.frames[0].cwd is None


def test_a_directory_may_have_any_name(serve: Serve, agent: Agent, tmp_path: Path) -> None:
    daemon = serve(answer(0, ALLOW))
    odd = os.fsencode(tmp_path) + b"/\xff\n slack-gate/1"
    os.makedirs(odd)
    assert agent.ask(cwd=odd) == Result(0, ALLOW, b"")
    daemon.end()
    assert daemon.frames[0].cwd == odd


@pytest.mark.parametrize(
    "name",
    [
        *("BASH_ENV", "LD_PRELOAD", "LD_AUDIT", "SHELLOPTS", "GIT_SSH_COMMAND", "BASH_FUNC_eval%%"),
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"),
    ],
)
def test_an_environment_that_runs_code_of_its_own_is_denied(each: Agent, name: str) -> None:
    each.env[name] = ":"  # the dynamic linker takes it for an empty list
    assert f"{name} is set" in each.ask().denied()


def test_nothing_the_project_holds_is_loaded(serve: Serve, agent: Agent, tmp_path: Path) -> None:
    for name in ("sitecustomize", "usercustomize", "select", "time", "_socket", "_stat", "json", "slack_gate"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'loaded')!r}, 'w')")
    serve(answer(0, ALLOW))
    agent.env = {name: str(tmp_path) for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "HOME")}
    agent.env["PYTHONSTARTUP"] = str(tmp_path / "json.py")
    assert agent.ask(cwd=tmp_path) == Result(0, ALLOW, b"")
    assert not (tmp_path / "loaded").exists()


def test_only_modules_of_the_interpreter_itself_are_loaded() -> None:
    lines = [
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)",
        "import slack_gate.hook, slack_gate.hook_client",
        "new = {name: sys.modules[name] for name in set(sys.modules) - before if not name.startswith('slack_gate')}",
        "print(*(name for name, module in new.items() if getattr(module, '__file__', '').endswith('.py')))",
    ]
    done = subprocess.run([sys.executable, "-IS", "-c", "\n".join(lines)], capture_output=True, check=True)
    assert done.stdout.split() == []


def test_the_files_work_alone_and_when_imported(serve: Serve, agent: Agent, copy: Path) -> None:
    serve(answer(0, ALLOW), answer(0, ALLOW))
    for start in ([str(copy / "hook.py")], ["-c", "import sys; from slack_gate import hook; hook.main(sys.argv[1:])"]):
        done = subprocess.run(
            [sys.executable, *start, *agent.arguments()], input=EVENT, capture_output=True, cwd=ROOT, timeout=LIMIT
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, ALLOW, b"")


@pytest.mark.parametrize("damage", ["missing", "broken", "empty"])
def test_a_damaged_installation_blocks(serve: Serve, agent: Agent, copy: Path, damage: str) -> None:
    daemon = serve(answer(0, ALLOW))
    part = copy / "hook_wire.py"
    part.unlink()
    if damage != "missing":
        part.write_text("def" if damage == "broken" else "")
    done = subprocess.run([sys.executable, "-IS", str(copy / "hook.py"), *agent.arguments()], capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"slack-gate: the hook failed, so this call did not run" in done.stderr
    assert not daemon.frames


@pytest.mark.parametrize("error", ["MemoryError()", "KeyboardInterrupt()", "RecursionError('\"\\\\\\n\u202e')"])
def test_a_crash_is_a_deny(serve: Serve, agent: Agent, error: str) -> None:
    agent.env = {"PYTHONIOENCODING": "ascii"}
    daemon = serve(answer(0, ALLOW))
    crash = f"def crash(deadline): raise {error}\nhook_client.read_event = crash\n"
    argv = agent.argv(agent.arguments(), {"hook_client.WAIT": 1})
    argv[3] = argv[3].replace("hook.main", f"{crash}hook.main")
    done = subprocess.run(argv, input=EVENT, capture_output=True, timeout=LIMIT)
    assert f"the hook failed ({error.partition('(')[0]}: " in Result(done.returncode, done.stdout, done.stderr).denied()
    assert not daemon.frames


def closed(agent: Agent, redirections: str) -> Result:
    command = ["sh", "-c", f'exec "$@" {redirections}', "-", *agent.argv(agent.arguments(), {})]
    done = subprocess.run(command, input=EVENT, capture_output=True, timeout=LIMIT)
    return Result(done.returncode, done.stdout, done.stderr)


def test_a_closed_stdin_is_a_deny(agent: Agent) -> None:
    assert "started with stdin closed" in closed(agent, "<&-").denied()


@pytest.mark.parametrize("redirections", [">&-", "<&- >&-"])
def test_with_a_closed_stdout_nobody_is_asked(serve: Serve, agent: Agent, redirections: str) -> None:
    daemon = serve(answer(0, ALLOW))
    result = closed(agent, redirections)
    assert (result.code, result.stdout) == (2, b"")
    assert b"started with stdout closed" in result.stderr
    assert not daemon.frames


@pytest.mark.parametrize("redirections", [">&- 2>&-", "<&- >&- 2>&-", "<&- 2>&-"])
def test_everything_closed_still_blocks(agent: Agent, redirections: str) -> None:
    assert closed(agent, redirections).code == 2


@pytest.mark.parametrize("code", [0, 2])
def test_the_socket_never_stands_in_for_a_closed_stderr(serve: Serve, agent: Agent, code: int) -> None:
    daemon = serve(answer(code, ALLOW))
    assert closed(agent, "2>&-") == Result(code, b"" if code else ALLOW, b"")
    daemon.end()
    assert daemon.frames[0].event == EVENT
    assert daemon.rests == [b""]


def test_a_closed_stderr_is_filled(serve: Serve, agent: Agent) -> None:
    daemon = serve(hold := Held())
    command = ["sh", "-c", 'exec "$@" 2>&-', "-", *agent.argv(agent.arguments(), {})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        send(process)
        assert hold.heard.wait(LIMIT)
        assert os.readlink(f"/proc/{process.pid}/fd/2") == "/dev/null"
        process.terminate()
        assert process.wait(LIMIT) == 2
    daemon.end()
    assert hold.rests == [b"withdraw\n"]


@pytest.mark.parametrize("redirection", [">/dev/full", "1</dev/null"])
def test_a_stdout_that_takes_nothing_is_a_deny(serve: Serve, agent: Agent, redirection: str) -> None:
    serve(answer(0, ALLOW))
    result = closed(agent, redirection)
    assert (result.code, result.stdout) == (2, b"")
    assert b"the agent did not take the answer" in result.stderr


def test_an_agent_that_stopped_reading_gets_no_second_answer(serve: Serve, agent: Agent) -> None:
    serve(answer(0, b"x" * 200_000))
    with agent.start(patch={"hook_client.OUTPUT_WAIT": 0.5}) as process:
        send(process)
        assert process.stdout and process.stderr
        assert b"the agent did not take the answer" in process.stderr.read()
        assert process.wait(LIMIT) == 2
        assert set(process.stdout.read()) == {ord("x")}


def test_nothing_follows_half_an_answer(serve: Serve, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.how = "here"
    serve(answer(0, ALLOW))
    written = []

    def half(fd: int, data: bytes) -> bool:
        written.append(fd)
        return fd != 1

    monkeypatch.setattr(hook_client, "write", half)
    assert agent.ask().code == 2
    assert written == [1, 2]


def test_an_agent_that_closed_its_end_is_blocked(serve: Serve, agent: Agent) -> None:
    serve(answer(0, ALLOW))
    with agent.start() as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        send(process)
        said = process.stderr.read()  # whichever is seen first: its closed end, or the answer it does not take
        assert b"the agent is gone" in said or b"the agent did not take the answer" in said
        assert process.wait(LIMIT) == 2


def test_a_pipe_filled_by_another_is_tried_again(serve: Serve, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.how = "here"
    serve(answer(0, ALLOW))
    fates = iter([BlockingIOError, None])
    write = posix.write

    def busy(fd: int, data: bytes) -> int:
        if fate := next(fates, None):
            raise fate
        return write(fd, data)

    monkeypatch.setattr(posix, "write", busy)
    assert agent.ask() == Result(0, ALLOW, b"")


def test_pipes_that_do_not_block_are_waited_for(serve: Serve, agent: Agent) -> None:
    text = os.urandom(500_000)
    daemon = serve(answer(0, text))
    reading, writing = os.pipe()
    event_out, event_in = os.pipe()
    for fd in (writing, event_out):
        os.set_blocking(fd, False)
    with agent.start(stdin=event_out, stdout=writing) as process:
        os.close(writing)
        os.write(event_in, EVENT[:5])
        os.write(event_in, EVENT[5:])
        os.close(event_in)
        with os.fdopen(reading, "rb") as stdout:
            assert stdout.read() == text
        assert process.wait(LIMIT) == 0
    os.close(event_out)
    daemon.end()
    assert daemon.frames[0].event == EVENT


def test_a_stalled_stdin_is_a_deny(serve: Serve, agent: Agent) -> None:
    daemon = serve(answer(0, ALLOW))
    with agent.start(patch={"hook_client.STDIN_IDLE": 0.2}) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(EVENT[:9])
        process.stdin.flush()
        result = Result(process.wait(LIMIT), process.stdout.read(), process.stderr.read())
    assert "did not finish sending its event" in result.denied()
    assert not daemon.frames


def test_a_stdin_that_cannot_be_read_is_a_deny(agent: Agent) -> None:
    with open(agent.socket.parent / "out", "wb") as write_only, agent.start(stdin=write_only) as process:
        assert "the hook failed (OSError" in finish(process).denied()


def test_the_answer_of_the_reason_is_plain_json(agent: Agent) -> None:
    agent.socket = agent.socket.parent / 'a"\\\n\x1b\u202e\udcff' / "gate.sock"
    reason = agent.ask(patch={"hook_wire.FIRST_WAIT": 0}).denied()
    assert 'a"\\???' in reason
    assert reason.isascii() and reason.isprintable()


def test_the_entry_file_is_small() -> None:
    """Python compiles it at every start."""
    assert len(HOOK.read_text().splitlines()) < 50


def test_many_hooks_at_once_keep_their_answers(agent: Agent) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(agent.socket))
    listener.listen(1)

    def echo() -> None:
        for _ in range(8):
            connection, _address = listener.accept()
            with connection, connection.makefile("rb") as stream:
                connection.sendall(answer(0, read_frame(stream).event))

    server = threading.Thread(target=echo, daemon=True)
    events = [json.dumps({"call": number}).encode() for number in range(8)]
    processes = [agent.start() for _ in events]
    server.start()
    results = [finish(process, event) for process, event in zip(processes, events, strict=True)]
    assert results == [Result(0, event, b"") for event in events]
    server.join(LIMIT)
    listener.close()
