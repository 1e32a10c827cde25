"""The agent endpoint, over real HTTP into the real cage."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slack_gate.core.request import State
from slack_gate.daemon.serve import running
from slack_gate.errors import SocketError
from slack_gate.web.agent_api import agent_socket
from slack_gate.web.peer import asked_uid, listed_uid, tcp_peer_uid
from slack_gate.web.server import IDLE_S
from tests.ports import free_port
from tests.web.conftest import Doors, opened, settings_for

TOOL = Path(__file__).with_name("seed_tool.py")
FIELDS = ["exitCode", "stdout", "stderr", "timedOut", "commandId", "code", "error"]


async def raw(port: int, text: bytes, timeout: float = 100) -> bytes:
    """What comes back for these bytes, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        async with asyncio.timeout(timeout):
            return await reader.read()
    finally:
        writer.close()


def request_text(port: int, body: bytes, *headers: str, host: str = "") -> bytes:
    lines = ["POST /run HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", *headers]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode() + body


# What is answered


async def test_the_allowlist_runs_unasked(doors: Doors) -> None:
    answer = await doors.run(command="pwd")
    assert {name: answer[name] for name in ("decision", "by", *FIELDS)} == {
        "decision": "ran",
        "by": "allowlist",
        "exitCode": 0,
        "stdout": f"{doors.projects}\n",
        "stderr": "",
        "timedOut": False,
        "commandId": None,
        "code": None,
        "error": None,
    }


async def test_a_person_approves_what_is_asked(doors: Doors) -> None:
    task, request = await doors.asking(command="echo one; echo two >&2; exit 3", reason="to see")
    assert request.tool_input == {"command": "echo one; echo two >&2; exit 3", "reason": "to see", "timeoutSeconds": 30}
    assert await doors.decide(request) == 303
    answer = await task
    assert (answer["decision"], answer["by"], answer["exitCode"]) == ("ran", "human-web", 3)
    assert (answer["stdout"], answer["stderr"]) == ("one\n", "two\n")


async def test_a_refusal_and_a_time_out_have_different_words(home: Path) -> None:
    async with opened(home) as doors:
        task, request = await doors.asking(command="make all")
        assert await doors.decide(request, "0", reason="not  on\na Friday") == 303
        refused = await task
        assert (refused["decision"], refused["by"]) == ("denied", "human-web")
        assert "not on a Friday" in refused["message"]
    async with opened(home, wait=2) as doors:
        late = await doors.run(command="make all")
        assert (late["decision"], late["by"]) == ("denied", "timeout")
        assert "Nobody answered" in late["message"] and late["message"] != refused["message"]


async def test_the_commands_own_time_out(doors: Doors) -> None:
    task, request = await doors.asking(command="echo begun; sleep 300", timeoutSeconds=5)
    await doors.decide(request)
    answer = await task
    assert (answer["timedOut"], answer["exitCode"], answer["stdout"]) == (True, None, "begun\n")


async def test_the_seeds_guards(doors: Doors) -> None:
    """Shell operators, ways out of the working directory, and an option that writes a file are asked."""
    for command in ("ls; true", "cat ../x", "cat /etc/passwd", "ls ~", "git log --output=notes.txt", "cat a\ncat b"):
        task, request = await doors.asking(command=command)
        assert request.state is State.PENDING, command
        task.cancel()


async def test_a_tool_of_the_standard_library(doors: Doors) -> None:
    tool = await asyncio.create_subprocess_exec(sys.executable, str(TOOL), doors.run_url, "pwd", stdout=subprocess.PIPE)
    output, _ = await tool.communicate()
    answer = json.loads(output)
    assert (answer["decision"], answer["by"], answer["exitCode"]) == ("ran", "allowlist", 0)
    assert set(FIELDS) < set(answer)


async def test_output_that_is_no_utf8_and_long_output(doors: Doors) -> None:
    (doors.projects / "bytes").write_bytes(b"a\xffb")
    assert (await doors.run(command="cat bytes"))["stdout"] == "a\\xffb"
    (doors.projects / "long").write_bytes(b"x" * 3_000_000)
    shown = (await doors.run(command="cat long"))["stdout"]
    assert len(shown) < 1_100_000 and "1951424 bytes left out" in shown


@pytest.mark.parametrize(("size", "letter"), [(131_071, "x"), (131_072, "x"), (200_000, "x"), (140_000, "é")])
async def test_a_long_command_runs_whole_or_is_refused_before_anybody_is_asked(
    doors: Doors, size: int, letter: str
) -> None:
    """The kernel hands a program no longer text in one piece; sizes are bytes."""
    frame = "cat > big <<'E'\n{}\nE"
    content = letter * ((size - len(frame) + 2) // len(letter.encode()))
    command = frame.format(content)
    if size <= 131_071:
        assert len(command.encode()) == size
        task, request = await doors.asking(command=command)
        assert await doors.decide(request) == 303
        assert (await task)["exitCode"] == 0
        assert (doors.projects / "big").read_text() == content + "\n"
        return
    answer = await doors.run(command=command)
    assert (answer["decision"], answer["by"]) == ("denied", "gate"), answer
    assert f"{len(command)} characters, {len(command.encode())} bytes" in answer["message"]
    assert "131071" in answer["message"]
    assert await doors.daemon.store.requests(5) == [] and not (doors.projects / "big").exists()


async def test_the_directory(doors: Doors, tmp_path: Path) -> None:
    below = doors.projects / "app"
    below.mkdir()
    assert (await doors.run(command="pwd", cwd="~/projects/app"))["stdout"] == f"{below}\n"
    (doors.projects / "link").symlink_to("app")
    assert (await doors.run(command="pwd", cwd=str(doors.projects / "link")))["stdout"] == f"{below}\n"
    (doors.projects / "out").symlink_to("/etc")
    for cwd in ("/etc", "~/projects/../.ssh", "~/projects/out", "projects", "", "~", "~root/projects", "/tmp/../etc"):
        async with doors.agent.post(doors.run_url, json={"command": "pwd", "cwd": cwd}) as answer:
            assert answer.status == 400, cwd
            assert "cwd" in (await answer.json())["message"]
    async with doors.agent.post(doors.run_url, json={"command": "pwd", "cwd": "~/projects/none"}) as answer:
        assert answer.status == 400


async def test_without_projects_the_default_directory_is_made(home: Path) -> None:
    (home / "projects").rmdir()
    async with opened(home) as doors:
        assert (await doors.run(command="pwd"))["stdout"] == f"{home}/projects\n"


# What is refused


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"nonsense",
        b'{"command": "pwd"',
        b'{"command": "pwd", "command": "rm -rf /"}',
        b'{"command": "pwd", "more": 1}',
        b'{"command": "pwd", "agent": "claude"}',
        b'{"approved": "SG-1"}',
        b'{"command": ["pwd"]}',
        b'{"command": ""}',
        b'{"command": "  "}',
        b'{"reason": "x"}',
        b'{"command": "pwd", "reason": null}',
        b'{"command": "a\\u0000b"}',
        b'{"command": "\\ud800"}',
        b'{"command": "\xff"}',
        b'{"command": "pwd", "timeoutSeconds": 0}',
        b'{"command": "pwd", "timeoutSeconds": -1}',
        b'{"command": "pwd", "timeoutSeconds": 1.5}',
        b'{"command": "pwd", "timeoutSeconds": 30.0}',
        b'{"command": "pwd", "timeoutSeconds": "30"}',
        b'{"command": "pwd", "timeoutSeconds": true}',
        b'{"command": "pwd", "timeoutSeconds": NaN}',
        b'{"command": "pwd", "cwd": 1}',
        b"[" * 100_000,
    ],
)
async def test_a_body_that_is_not_right(doors: Doors, body: bytes) -> None:
    async with doors.agent.post(doors.run_url, data=body, headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 400
        told = await answer.json()
    assert told["decision"] == "denied" and told["message"]
    assert await doors.daemon.store.requests(5) == []
    log = [json.loads(line) for line in doors.daemon.settings.log_path.read_text().splitlines()]
    assert log[-1]["decision"] == "malformed"


async def test_a_long_time_out_is_clamped(doors: Doors) -> None:
    task, request = await doors.asking(command="make", timeoutSeconds=10**9)
    assert request.tool_input["timeoutSeconds"] == 600
    task.cancel()


async def test_methods_types_and_sizes(doors: Doors) -> None:
    async with doors.agent.get(doors.run_url) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    async with doors.agent.post(doors.run_url.replace("/run", "/ask"), json={"text": "x"}) as answer:
        assert answer.status == 404
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"):
        async with doors.agent.post(doors.run_url, data=b"{}", headers={"Content-Type": kind}) as answer:
            assert answer.status == 415, kind
    head = b'{"command": "pwd", "reason": "'
    just = head + b"x" * ((1 << 20) - len(head) - 2) + b'"}'
    for body, status in ((just, 200), (just + b" ", 413)):
        async with doors.agent.post(doors.run_url, data=body, headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == status
    async with doors.agent.post(
        doors.run_url, data=_chunks(2000), headers={"Content-Type": "application/json"}
    ) as answer:
        assert answer.status == 413


async def _chunks(count: int) -> Any:
    for _ in range(count):
        yield b" " * 1024


async def test_foreign_names_and_origins(doors: Doors) -> None:
    port = doors.daemon.settings.agent_port
    body, kind = b'{"command": "pwd"}', "Content-Type: application/json"
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1", "127.0.0.1", f"127.0.0.1.nip.io:{port}"):
        assert (await raw(port, request_text(port, body, kind, host=host))).startswith(b"HTTP/1.1 403"), host
    doubled = request_text(port, body, kind, "Host: evil.example")
    assert not (await raw(port, doubled)).startswith(b"HTTP/1.1 200")
    for origin in ("http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1", "file://"):
        answer = await raw(port, request_text(port, body, kind, f"Origin: {origin}"))
        assert answer.startswith(b"HTTP/1.1 403"), origin
    assert (await raw(port, request_text(port, body, kind))).startswith(b"HTTP/1.1 200")
    named = request_text(port, body, kind, host=f"localhost:{port}")
    assert (await raw(port, named)).startswith(b"HTTP/1.1 200")


async def test_what_is_packed_is_not_unpacked(doors: Doors) -> None:
    """A body of few bytes cannot become a large one."""
    import gzip

    packed = gzip.compress(b'{"command": "pwd"}')
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with doors.agent.post(doors.run_url, data=packed, headers=headers) as answer:
        assert answer.status == 400


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to be somebody else")
async def test_another_user(doors: Doors) -> None:
    code = (
        "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]));"
        "c.request('POST', '/run', '{\"command\": \"pwd\"}', {'Content-Type': 'application/json'});"
        "a = c.getresponse(); print(a.status, a.read().decode())"
    )
    other = await asyncio.create_subprocess_exec(
        *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", "-c", code),
        str(doors.daemon.settings.agent_port),
        stdout=subprocess.PIPE,
        cwd="/",
    )
    output, _ = await other.communicate()
    assert output.startswith(b"403 ") and b"Only programs of the user" in output
    path = agent_socket(doors.daemon.settings.socket_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


WAYS = {"asked": asked_uid, "listed": listed_uid}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_whose_connection_it_is(way: str, family: socket.AddressFamily) -> None:
    if family == socket.AF_INET6 and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(family) as client:
        port = server.getsockname()[1]
        client.connect(("127.0.0.1" if family == socket.AF_INET else "::ffff:127.0.0.1", port))
        connection, _ = server.accept()
        with connection:
            ends = connection.getpeername(), connection.getsockname()
            assert WAYS[way](*ends) == os.geteuid()
            assert WAYS[way](ends[0], (ends[1][0], 1)) is None
            client.close()  # it is known for a while, with uid 0 and without an inode
            assert WAYS[way](*ends) is None
            assert tcp_peer_uid(connection) is None


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to be somebody else")
@pytest.mark.parametrize("way", WAYS)
def test_whose_connection_it_is_when_it_is_anothers(way: str) -> None:
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with subprocess.Popen(
            ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", code, port], cwd="/"
        ):
            connection, _ = server.accept()
            with connection:
                assert WAYS[way](connection.getpeername(), connection.getsockname()) == 65534


# What goes away, and what stands still


async def test_a_caller_that_goes_withdraws_what_waits(doors: Doors) -> None:
    task, request = await doors.asking(command="make all")
    task.cancel()
    assert (await doors.ended(request)).state is State.CANCELLED
    assert await doors.decide(request) == 409


async def test_a_caller_that_goes_ends_what_runs(doors: Doors) -> None:
    beat = doors.projects / "beat"
    task, request = await doors.asking(command="while :; do echo >> beat; sleep 0.1; done", timeoutSeconds=300)
    await doors.decide(request)
    async with asyncio.timeout(100):
        while not beat.exists():  # noqa: ASYNC110  (a file has no event)
            await asyncio.sleep(0.05)
    task.cancel()
    async with asyncio.timeout(100):
        async for _ in doors.daemon.changes.each():
            row = await doors.daemon.store.request(request.id)
            if row is not None and row.state is State.FINISHED:
                break
    size = beat.stat().st_size
    await asyncio.sleep(0.5)
    assert beat.stat().st_size == size


async def test_a_client_that_sends_slowly_is_closed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack_gate.web.server.IDLE_S", 1.0)
    monkeypatch.setattr("slack_gate.web.agent_api.BODY_S", 1.0)
    assert IDLE_S <= 30
    async with opened(home) as doors:
        port = doors.daemon.settings.agent_port
        started = time.monotonic()
        assert await raw(port, b"") == b""
        assert await raw(port, b"POST /run HTTP/1.1\r\nHost: 127") == b""
        slow = request_text(port, b"", "Content-Type: application/json").replace(b"Length: 0", b"Length: 20")
        assert (await raw(port, slow + b"{")).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - started < 60
        assert (await doors.run(command="pwd"))["exitCode"] == 0


async def test_a_hundred_that_wait(doors: Doors) -> None:
    tasks = [doors.start(command=f"echo {number}; true") for number in range(100)]
    waiting = await doors.pending(100)
    assert (await doors.run(command="pwd"))["by"] == "allowlist"  # none of them holds up another
    for request in waiting:
        assert await doors.decide(request, "0") == 303
    answers = await asyncio.gather(*tasks)
    assert {answer["decision"] for answer in answers} == {"denied"}
    assert len({answer["request"] for answer in answers}) == 100


async def test_a_port_that_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        for setting in ("agent_port", "page_port"):
            settings = settings_for(home.parent, **{setting: other.getsockname()[1]})
            with pytest.raises(SocketError, match="is taken: another program would be asked instead"):
                async with running(settings, ["web"]):
                    pass


async def test_port_0_turns_it_off(home: Path) -> None:
    port = free_port()
    settings = settings_for(home.parent, agent_port=0, page_port=port)
    async with (
        running(settings, ["web"]),
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(agent_socket(settings.socket_path)))) as ours,
        ours.post("http://slack-gate/run", json={"command": "pwd"}) as answer,
    ):
        assert (await answer.json())["exitCode"] == 0


async def test_a_daemon_that_stops_withdraws_what_waits(home: Path) -> None:
    async with aiohttp.ClientSession() as caller:  # it stays
        async with opened(home) as doors:
            settings = doors.daemon.settings
            call = asyncio.create_task(caller.post(doors.run_url, json={"command": "make all"}))
            (request,) = await doors.pending()
            started = time.monotonic()
        assert time.monotonic() - started < 60
        with pytest.raises(aiohttp.ClientError):
            await call
    async with opened(home, agent_port=settings.agent_port, page_port=settings.page_port) as doors:
        row = await doors.daemon.store.request(request.id)
        assert row is not None and row.state is State.CANCELLED
