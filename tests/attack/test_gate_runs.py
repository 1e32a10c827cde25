"""What an agent on the same machine, with the same uid, does to runs and to whoever approves them."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from slack_gate.config import Settings
from slack_gate.core.request import BY_PAGE, Choice, Decision, Scope, State
from slack_gate.daemon.serve import running
from slack_gate.errors import SocketError
from tests.client.asking import ended, program
from tests.daemon.serving import environment, spawn
from tests.web.conftest import Doors, doors, home, opened, settings_for

__all__ = ["doors", "home"]


def listener6(host: str, port: int) -> socket.socket:
    """As an agent would open it to be taken for the page. Raises OSError."""
    one = socket.socket(socket.AF_INET6)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind((host, port))
        one.listen()
    except OSError:
        one.close()
        raise
    return one


def has_ipv6() -> bool:
    try:
        listener6("::1", 0).close()
    except OSError:
        return False
    return True


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="needs IPv6 on the loopback")


# The page's password


@ipv6
@pytest.mark.parametrize("host", ["::1", "::"])
async def test_nobody_takes_the_password_at_localhost(doors: Doors, host: str) -> None:
    """Browsers try ::1 first when a person types `localhost`, a name that the page answers to."""
    with pytest.raises(OSError, match="in use"):
        listener6(host, doors.page.port)
    # Nobody answers there, so that `localhost` still leads to the page.
    async with doors.person.get(f"http://localhost:{doors.page.port}/") as answer:
        assert answer.status == 200


@ipv6
@pytest.mark.parametrize("host", ["::1", "::"])
async def test_a_page_whose_name_is_taken_does_not_open(home: Path, host: str) -> None:
    settings = settings_for(home.parent)
    with (
        listener6(host, settings.page_port),
        pytest.raises(SocketError, match=f"Port {settings.page_port} of .* is taken"),
    ):
        async with running(settings, ["web"]):
            pass
    async with opened(home, page_port=settings.page_port):  # and nothing of it is left behind
        pass


# Where it runs


async def test_a_directory_that_leads_elsewhere_when_it_was_approved(doors: Doors) -> None:
    """What a person approved for one directory does not run in another that was put in its place."""
    app, precious = doors.projects / "app", doors.projects / "precious"
    for one in (app, precious):
        (one / "build").mkdir(parents=True)
    task, request = await doors.asking(command="rm -r build", cwd=str(app))
    app.rename(doors.projects / "moved")
    app.symlink_to(precious)
    assert await doors.decide(request) == 303
    answer = await task
    assert answer["decision"] == "denied" and "where its directory or file leads" in answer["message"], answer
    assert (precious / "build").is_dir()


async def test_what_is_refused_is_told_in_one_sentence(doors: Doors, tmp_path: Path) -> None:
    """`slack-gate run` outside the zone, and in a directory that is gone."""
    settings = doors.daemon.settings
    outside = await ended(await program(settings, "run", "--", "pwd", cwd=Path("/etc")))
    assert outside.code == 77
    assert outside.stderr == (
        b"slack-gate: The working directory cwd must lie in ~/projects, /tmp or ~/.cache; /etc does not. Nothing ran.\n"
    )
    code = "import os; os.rmdir(os.getcwd()); from slack_gate.cli import main; main()"
    gone = tmp_path / "gone"
    gone.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "run", "--", "pwd"), cwd=gone, env=environment(settings), stderr=-1, stdout=-1
    )
    _, said = await process.communicate()
    assert process.returncode == 77
    assert said.decode().count("\n") == 1 and "The working directory was removed" in said.decode()


# The lines of the daemon's output


@asynccontextmanager
async def on_the_page(settings: Settings) -> AsyncIterator[asyncio.subprocess.Process]:
    """`serve --approver web` once agents can ask there."""
    daemon = await spawn(settings, "serve", "--approver", "web", stderr=asyncio.subprocess.DEVNULL)
    try:
        assert daemon.stdout is not None
        async with asyncio.timeout(100):
            while not (await daemon.stdout.readline()).startswith(b"Agent endpoint "):
                assert daemon.returncode is None
        yield daemon
    finally:
        if daemon.returncode is None:
            daemon.terminate()
        async with asyncio.timeout(100):
            await daemon.communicate()


async def test_what_waits_on_the_page_is_a_line_of_the_output(home: Path) -> None:
    """As with the terminal; an agent's text neither steers whoever reads it nor passes for another line."""
    settings = settings_for(home.parent)
    async with on_the_page(settings) as daemon:
        assert daemon.stdout is not None
        async with aiohttp.ClientSession() as agent:
            url = f"http://127.0.0.1:{settings.agent_port}/run"
            calls = [
                asyncio.create_task(agent.post(url, json={"command": command}))
                for command in ("make deploy", "printf '\x1b[2J'\npending SG-000000000000: ls", "x" * 100_000)
            ]
            lines: list[str] = []
            async with asyncio.timeout(100):
                while sum(line.startswith("pending ") for line in lines) < len(calls):
                    lines.append((await daemon.stdout.readline()).decode())
            waits = sorted(re.sub(r"SG-\w{12}: ", "ID: ", line) for line in lines if line.startswith("pending "))
            assert waits[0] == "pending ID: make deploy\n"
            assert waits[1] == "pending ID: printf '\\u{1b}[2J'⏎pending ID: ls\n"
            assert waits[2].startswith("pending ID: xxx") and len(waits[2]) < 500
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


async def test_an_output_that_nobody_reads_holds_up_nobody(home: Path) -> None:
    settings = settings_for(home.parent)
    async with on_the_page(settings), aiohttp.ClientSession() as agent:
        url = f"http://127.0.0.1:{settings.agent_port}/run"
        calls = [asyncio.create_task(agent.post(url, json={"command": "true " + "x" * 390})) for _ in range(300)]
        try:
            async with asyncio.timeout(100), agent.post(url, json={"command": "pwd"}) as answer:
                assert (await answer.json())["decision"] == "ran"
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


# How long a session is


async def test_what_is_allowed_for_the_session_ends_with_the_daemon(home: Path) -> None:
    """Callers of the endpoint name no session; one that never ends would make "this session" mean for ever."""
    async with opened(home) as doors:
        task, request = await doors.asking(command="make all")
        scope = Scope(session=True)
        by = Decision(request.id, request.digest, Choice.ALWAYS, BY_PAGE, "human", "human", scope=scope)
        await doors.daemon.gate.decide(by)
        assert (await task)["by"] == "human-web"
        assert (await doors.run(command="make all"))["by"] == "always"
    async with opened(home) as doors:
        task, request = await doors.asking(command="make all")
        assert request.state is State.PENDING
