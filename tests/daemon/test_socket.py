"""The hook socket: private from its first moment, one daemon, and nothing a client sends decides or breaks anything."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import sqlite3
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from slack_gate.agents.event_json import MAX_EVENT
from slack_gate.config import Settings
from slack_gate.core.request import Choice, State
from slack_gate.daemon import apart
from slack_gate.daemon import socket as socket_module
from slack_gate.daemon.socket import alone_with, hook_socket, only_daemon
from slack_gate.errors import SocketError
from slack_gate.local_slack.server import LocalSlack
from tests.daemon.desk import Desk, desk
from tests.daemon.house import House, house, settings_for
from tests.daemon.serving import Wire, nonce, serving, spawn

GREEN = {
    "session_id": "s1",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "sbox true"},
    "tool_use_id": "toolu_green",
    "cwd": "/srv/app",
}


def gated(call: str) -> dict[str, object]:
    return {**GREEN, "tool_input": {"command": f"git push origin {call}"}, "tool_use_id": f"toolu_{call}"}


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path, as a socket's must be, that another user could enter."""
    path = Path(tempfile.mkdtemp(prefix="gate-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


async def _healthy() -> bytes:
    return b'{"healthy": true}'


@asynccontextmanager
async def door(place: Path, path: Path | None = None) -> AsyncIterator[tuple[Desk, Path]]:
    path = path or place / "run" / "gate.sock"
    with only_daemon(path):
        async with desk(place) as d, hook_socket(path, d.gate, _healthy):
            yield d, path


async def green_is_answered(path: Path) -> None:
    wire = await Wire.open(path)
    await wire.ask(GREEN)
    assert await wire.decision() == "allow"


# Private, and one daemon


async def test_private_from_the_first_moment_under_any_umask(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    bind = socket.socket.bind

    def bound(self: socket.socket, address: str) -> None:
        bind(self, address)
        if isinstance(address, str) and address.endswith("gate.sock"):
            modes.append(stat.S_IMODE(os.stat(address).st_mode))

    monkeypatch.setattr(socket.socket, "bind", bound)
    before = os.umask(0)
    try:
        async with door(place, place / "made" / "run" / "gate.sock") as (_, path):
            assert modes == [0o600]
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(path.with_name("gate.sock.lock").stat().st_mode) == 0o600
            assert os.umask(0) == 0
            await green_is_answered(path)
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701, 0o1777])
async def test_a_directory_open_to_others(place: Path, mode: int) -> None:
    (place / "run").mkdir()
    (place / "run").chmod(mode)
    with pytest.raises(SocketError, match=r"open to others.*chmod 700"):
        async with door(place):
            pass
    assert list((place / "run").iterdir()) == []


async def test_a_directory_of_another_user(place: Path) -> None:
    (place / "run").mkdir(mode=0o700)
    os.chown(place / "run", 65534, 65534)
    with pytest.raises(SocketError, match="open to others"):
        async with door(place):
            pass


async def test_a_directory_that_is_a_link(place: Path) -> None:
    (place / "real").mkdir(mode=0o700)
    (place / "run").symlink_to(place / "real")
    with pytest.raises(SocketError, match="open to others"):
        async with door(place):
            pass


async def test_a_directory_that_is_a_file(place: Path) -> None:
    (place / "run").write_text("")
    with pytest.raises(SocketError, match="cannot be made"):
        async with door(place):
            pass


async def test_a_plain_file_in_its_place_is_kept(place: Path) -> None:
    (place / "run").mkdir(mode=0o700)
    (place / "run" / "gate.sock").write_text("precious")
    with pytest.raises(SocketError, match="is no socket"):
        async with door(place):
            pass
    assert (place / "run" / "gate.sock").read_text() == "precious"


async def test_a_link_in_its_place_is_kept(place: Path) -> None:
    (place / "run").mkdir(mode=0o700)
    (place / "run" / "gate.sock").symlink_to(place / "elsewhere")
    with pytest.raises(SocketError, match="is no socket"):
        async with door(place):
            pass
    assert (place / "run" / "gate.sock").is_symlink()


async def test_a_lock_that_leads_elsewhere(place: Path) -> None:
    (place / "run").mkdir(mode=0o700)
    (place / "run" / "gate.sock.lock").symlink_to(place / "elsewhere")
    with pytest.raises(SocketError, match="lock"):
        async with door(place):
            pass
    assert not (place / "elsewhere").exists()


async def test_a_stale_socket_is_replaced(place: Path) -> None:
    (place / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(place / "run" / "gate.sock"))
    async with door(place) as (_, path):
        await green_is_answered(path)


@pytest.mark.parametrize("name", ["x" * 90 + ".sock", "x" * 252])
async def test_a_path_too_long(place: Path, name: str) -> None:
    with pytest.raises(SocketError):
        async with door(place, place / ("d" * 40) / name):
            pass


async def test_a_directory_that_lets_nothing_be_made(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_self: socket.socket, _address: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(socket.socket, "bind", refused)
    with pytest.raises(SocketError, match="cannot be made: Read-only"):
        async with door(place):
            pass


async def test_a_second_daemon_of_this_process(place: Path) -> None:
    async with door(place) as (_, path):
        with pytest.raises(SocketError, match="Another slack-gate daemon"), only_daemon(path):
            pass
        await green_is_answered(path)
    async with door(place) as (_, path):
        await green_is_answered(path)


async def test_a_file_system_without_locks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_fd: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(SocketError, match="cannot be taken: No locks available"), alone_with(place / "gate.db"):
        pass


# Peers


_CONNECT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(100)
s.connect(sys.argv[1])
try:
    s.sendall(sys.argv[2].encode())
    print(repr(s.recv(100)))
except (ConnectionResetError, BrokenPipeError):
    print("b''")
"""


async def test_another_users_process_is_refused(place: Path) -> None:
    async with door(place) as (d, path):
        path.parent.chmod(0o755)
        path.chmod(0o666)
        body = json.dumps(GREEN)
        frame = f"slack-gate/1 claude-code {len(body)} {nonce().decode()} 60 -\n{body}"
        answers = []
        for user in (65534, os.geteuid()):
            foreign = await asyncio.create_subprocess_exec(
                *("/usr/bin/python3", "-I", "-c", _CONNECT, str(path), frame),
                user=user,
                group=user,
                extra_groups=[],
                stdout=asyncio.subprocess.PIPE,
            )
            answers.append((await foreign.communicate())[0].decode().strip())
        assert answers[0] == "b''"
        assert "allow" in answers[1]
        assert d.decisions() == ["green"]  # nothing of the foreign one was read


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0" * 40_000,
        b"slack-gate/2 claude-code 2 " + b"0" * 32 + b" 60 -\n{}",
        b"slack-gate/1 claude-code -1 " + b"0" * 32 + b" 60 -\n{}",
        b"slack-gate/1 claude-code 2 " + b"0" * 31 + b" 60 -\n{}",
        b"slack-gate/1 claude-code 2 " + b"0" * 32 + b" 60 -\r\n{}",
        b"slack-gate/1 CLAUDE 2 " + b"0" * 32 + b" 60 -\n{}",
        b"slack-gate/1 claude-code 9437184 " + b"0" * 32 + b" 60 -\n{}",
        b"slack-gate/1 claude-code %d " % (MAX_EVENT + 1) + b"0" * 32 + b" 60 -\n",
        b"slack-gate/1 claude-code 99999999999 " + b"0" * 32 + b" 60 -\n",
        b"slack-gate/1 claude-code 2 " + b"0" * 32 + b" 60 " + b"a" * 40_000 + b"\n{}",
        b"approve SG-000000000000\n",
    ],
)
async def test_what_is_no_frame_is_hung_up_on(place: Path, data: bytes) -> None:
    async with door(place) as (d, path):
        wire = await Wire.open(path)
        await wire.send(data)
        assert await wire.hung_up()
        await green_is_answered(path)
        assert d.decisions() == ["green"]


@pytest.mark.parametrize(
    "data", [b"", b"slack-gate/1 claude", b"slack-gate/1 claude-code 9 " + b"0" * 32 + b" 60 -\n{"]
)
async def test_half_a_frame_holds_up_nobody_and_is_given_up(
    place: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_module, "EVENT_S", 3.0)
    async with door(place) as (d, path):
        slow, closed = await Wire.open(path), await Wire.open(path)
        for wire in (slow, closed):
            await wire.send(data)
        closed.close()
        await green_is_answered(path)
        assert await slow.hung_up()
        assert d.decisions() == ["green"]


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", b"[]", b"\xff", b'{"a": 1, "a": 2}', b'{"a": NaN}'),
        *(b'{"a": "\\ud800"}', b'{"a": "\\u0000"}', b"[" * 100_000, b"x" * 1_000_000),
    ],
)
async def test_an_event_that_cannot_be_read_is_denied(place: Path, body: bytes) -> None:
    async with door(place) as (d, path):
        wire = await Wire.open(path)
        await wire.ask(body)
        assert await wire.decision() == "deny"
        await green_is_answered(path)
        assert d.decisions() == ["malformed", "green"]


async def test_a_megabyte_of_command_is_denied_in_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "LIMIT_S", 10.0)
    async with door(place) as (_, path):
        wire = await Wire.open(path)
        await wire.ask({**GREEN, "tool_input": {"command": "echo " + " ".join(map(str, range(150_000)))}})
        assert await wire.decision() == "deny"
        await green_is_answered(path)


async def test_a_client_that_does_not_take_its_answer(place: Path) -> None:
    async with door(place) as (_, path):
        wire = await Wire.open(path)
        await wire.ask(GREEN)
        wire.close()
        await green_is_answered(path)


async def test_an_unknown_agent(place: Path) -> None:
    async with door(place) as (d, path):
        wire = await Wire.open(path)
        await wire.ask(GREEN, agent="skynet")
        code, text = await wire.answer()
        assert (code, b"does not know the agent skynet" in text) == (2, True)
        assert d.decisions() == ["malformed"]


async def test_the_status_of_the_daemon_is_no_decision(place: Path) -> None:
    async with door(place) as (d, path):
        wire = await Wire.open(path)
        await wire.ask(GREEN, agent="status")
        assert await wire.answer() == (0, b'{"healthy": true}')
        assert d.log() == []


async def test_an_announcement_is_answered_with_silence(place: Path) -> None:
    async with door(place) as (d, path):
        wire = await Wire.open(path)
        await wire.ask({**GREEN, "hook_event_name": "Notification"})
        assert await wire.answer() == (0, b"")
        assert d.decisions() == ["Notification"]


async def test_a_fault_inside_is_a_deny(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with door(place) as (d, path):
        monkeypatch.setattr(d.gate, "submit", lambda *_: 1 / 0)
        wire = await Wire.open(path)
        await wire.ask(GREEN)
        code, body = await wire.answer()
        output = json.loads(body)["hookSpecificOutput"]
        assert (code, output["permissionDecision"]) == (0, "deny")
        assert "ZeroDivisionError" in output["permissionDecisionReason"]


@pytest.mark.parametrize("event", [GREEN, b"{}"])
async def test_a_log_that_cannot_be_written_is_a_deny(place: Path, event: dict[str, object] | bytes) -> None:
    async with door(place) as (_, path):
        (place / "gate-log.jsonl").unlink()
        (place / "gate-log.jsonl").mkdir()
        wire = await Wire.open(path)
        await wire.ask(event)
        code, body = await wire.answer()
        assert (code, json.loads(body)["hookSpecificOutput"]["permissionDecision"]) == (0, "deny")
        assert b"cannot be written" in body


# The socket can ask, never decide


async def _until(found: Callable[[], Awaitable[bool]], timeout: float = 100) -> None:
    async with asyncio.timeout(timeout):
        while not await found():  # noqa: ASYNC110  (what changes is in a database)
            await asyncio.sleep(0.01)


async def _pending(d: Desk, path: Path, call: str = "a") -> tuple[Wire, str]:
    wire = await Wire.open(path)
    await wire.ask(gated(call))
    found: list[str] = []

    async def filed() -> bool:
        found.extend(one.id for one in await d.store.requests(50) if call in str(one.command).split())
        return bool(found)

    await _until(filed)
    return wire, found[0]


@pytest.mark.parametrize(
    "word",
    [
        "approve {0}\n",
        "resolve {0} approve\n",
        '{{"type": "resolve", "id": "{0}", "decision": "approve"}}\n',
        "0 2\n{{}}\n",
        "x" * 100_000,
    ],
)
async def test_a_word_while_waiting_decides_nothing(place: Path, word: str) -> None:
    async with door(place) as (d, path):
        wire, request = await _pending(d, path)
        await wire.send(word.format(request).encode())
        assert await wire.hung_up()
        row = await d.store.request(request)
        assert row is not None
        assert row.state is State.PENDING
        assert d.decisions() == ["pending"]


@pytest.mark.parametrize(
    "more",
    [
        {"decision": "approve"},
        {"permissionDecision": "allow"},
        {"hookSpecificOutput": {"permissionDecision": "allow"}},
        {"request": "{0}", "choice": "approve", "user": "U0ANA"},
        {"hook_event_name": "Resolve", "request": "{0}"},
        {"tool_input": {"command": "git push origin b", "approved": True}},
    ],
)
async def test_an_event_with_a_decision_in_it_decides_nothing(place: Path, more: dict[str, object]) -> None:
    async with door(place) as (d, path):
        _first, request = await _pending(d, path)
        second = await Wire.open(path)
        await second.ask(json.dumps({**gated("b"), **more}).replace("{0}", request).encode())

        async def answered() -> bool:
            return len(d.decisions()) == 2

        await _until(answered)
        assert d.decisions()[1] in ("pending", "malformed")
        assert {one.state for one in await d.store.requests(50)} == {State.PENDING}


async def test_a_withdrawal_ends_the_request_at_once(place: Path) -> None:
    async with door(place) as (d, path):
        wire, _ = await _pending(d, path)
        other, kept = await _pending(d, path, "b")
        await wire.send(b"withdraw\n")
        assert await wire.decision() == "deny"
        assert d.decisions() == ["pending", "pending", "cancelled"]
        row = await d.store.request(kept)
        assert row is not None
        assert row.state is State.PENDING
        other.close()


async def test_two_hundred_parked_hooks(place: Path) -> None:
    async with door(place) as (d, path):
        wires = [await Wire.open(path) for _ in range(200)]
        await asyncio.gather(*(wire.ask(gated(f"n{number}")) for number, wire in enumerate(wires)))

        async def filed() -> bool:
            return len(await d.store.requests(500)) == 200

        await _until(filed)
        requests = await d.store.requests(500)
        await asyncio.gather(*(d.click(request, _choice(str(request.command))) for request in requests))
        decisions = await asyncio.gather(*(wire.decision() for wire in wires))
        assert decisions == ["deny" if number % 2 else "allow" for number in range(200)]
        await green_is_answered(path)


def _choice(command: str) -> Choice:
    return Choice.DENY if int(command.rpartition("n")[2]) % 2 else Choice.APPROVE


# Whole daemons


async def _card_on_file(settings: Settings) -> None:
    """Returns when the daemon has stored which message its card is."""

    async def stored() -> bool:
        with closing(sqlite3.connect(f"file:{settings.home}/gate.db?mode=ro", uri=True)) as database:
            return bool(database.execute("SELECT count(*) FROM cards WHERE message <> ''").fetchone()[0])

    await _until(stored)


async def _status(settings: Settings) -> tuple[int | None, bool]:
    status = await spawn(settings, "status", "--json")
    output, _ = await status.communicate()
    return status.returncode, json.loads(output)["healthy"]


async def test_a_second_daemon_is_refused_while_the_first_is_too_busy_to_answer(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        async with serving(settings) as first:
            h = House(slack, ana, settings, None)  # type: ignore[arg-type]
            hook, card = await h.asked("git push origin main")
            assert await _status(settings) == (0, True)
            inode = settings.socket_path.stat().st_ino
            first.send_signal(signal.SIGSTOP)
            second = await spawn(settings, "serve")
            _, error = await asyncio.wait_for(second.communicate(), 100)
            assert second.returncode == 73
            assert b"Another slack-gate daemon" in error
            assert b"Traceback" not in error
            assert settings.socket_path.stat().st_ino == inode
            assert await _status(settings) == (1, False)
            first.send_signal(signal.SIGCONT)
            await ana.click(card, "Approve")
            assert (await h.ended(hook)).decision == "allow"


@pytest.mark.parametrize("same", ["home", "database"])
async def test_a_second_daemon_on_another_socket_is_refused(tmp_path: Path, same: str) -> None:
    """In a file nobody is told what the other one decides: its agents would wait for what was answered long ago."""
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        first = settings_for(slack, tmp_path / "first", database_url=f"sqlite:///{tmp_path / 'gate.db'}")
        kept = {"home": first.home} if same == "home" else {}
        second = settings_for(slack, tmp_path / "second", database_url=first.database_url, **kept)
        async with serving(first):
            refused = await spawn(second, "serve")
            try:
                _, error = await asyncio.wait_for(refused.communicate(), 100)
            finally:
                if refused.returncode is None:
                    refused.kill()
            assert (refused.returncode, b"Another slack-gate daemon" in error) == (73, True), error
        async with serving(second):
            assert await _status(second) == (0, True)


async def test_a_killed_daemon_comes_back_and_the_old_card_answers(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        h = House(slack, ana, settings, None)  # type: ignore[arg-type]
        async with serving(settings) as daemon:
            hook, card = await h.asked("git push origin main")
            await _card_on_file(settings)
            daemon.kill()
            await daemon.wait()
        assert settings.socket_path.is_socket()  # stale
        async with serving(settings):
            click = await ana.click(card, "Approve")
            assert click.acknowledged
            ended = await h.ended(hook)
            assert ended.decision == "allow"
            assert "Approved by Ana" in ended.reason
            await card.wait_for_update(lambda m: not m.buttons)
            assert len(slack.calls("chat.postMessage")) == 1
            verify = await spawn(settings, "log", "verify")
            output, _ = await verify.communicate()
            assert (verify.returncode, b"2 lines" in output) == (0, True)
        assert [line["decision"] for line in h.log()] == ["pending", "approved"]


async def test_killed_before_it_knew_its_own_card(tmp_path: Path) -> None:
    """Slack took the post, the daemon died before it stored which message it was: the card is shown once more."""
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        h = House(slack, ana, settings, None)  # type: ignore[arg-type]
        async with serving(settings) as daemon:
            hook, old = await h.asked("git push origin main")
            await _card_on_file(settings)
            daemon.kill()
            await daemon.wait()
        with closing(sqlite3.connect(settings.home / "gate.db")) as database, database:
            database.execute("UPDATE cards SET message = '', channel = '', drawn = ''")
        async with serving(settings):
            new = await ana.wait_for_message(lambda m: m.has_button("Approve") and m.ts != old.ts)
            await _card_on_file(settings)
            await ana.click(old, "Approve")
            assert "use the newest card" in (await ana.wait_for_ephemeral()).plain()
            await ana.click(new, "Deny")
            assert (await h.ended(hook)).decision == "deny"
            assert len(slack.calls("chat.postMessage")) == 2


async def test_a_click_while_no_daemon_lives_is_not_lost_on_the_next_one(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        h = House(slack, ana, settings, None)  # type: ignore[arg-type]
        async with serving(settings) as daemon:
            hook, card = await h.asked("git push origin main")
            await _card_on_file(settings)
            daemon.kill()
            await daemon.wait()
        dead = await ana.click(card, "Approve")
        assert not dead.acknowledged  # Slack shows a warning and the person presses again
        async with serving(settings):
            await ana.click(card, "Deny")
            assert (await h.ended(hook)).decision == "deny"


async def test_a_client_that_is_gone_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack_gate.daemon.attendance.GRACE_S", 0.5)
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        hook.kill()
        after = await card.wait_for_update(lambda m: not m.buttons)
        assert "Withdrawn" in after.plain()
        assert [(line["decision"], line["by"]) for line in h.log()] == [("pending", "gate"), ("cancelled", "caller")]
        late = await h.press(card, "Approve")
        assert late.acknowledged
        assert "stopped waiting" in (await h.ana.wait_for_ephemeral()).plain()
