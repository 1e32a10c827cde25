"""`slack-gate decide` against the real approval page, its password typed or piped."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import sys
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web

from slack_gate.core.request import Request, State
from slack_gate.daemon.serve import Running, running
from tests.cli.conftest import Home
from tests.client.asking import ROOT, Ran, ended, program
from tests.daemon.serving import environment
from tests.ports import free_port
from tests.terminal.sitting import alone


@dataclass
class Asked:
    daemon: Running
    work: Path
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    asking: list[asyncio.Task[Ran]] = field(default_factory=list)

    @property
    def password(self) -> str:
        assert self.daemon.page is not None
        return self.daemon.page.login.password

    async def asks(self, *command: str) -> tuple[asyncio.Task[Ran], Request]:
        before = {one.id for one in await self.daemon.store.requests(100)}
        process = await program(self.daemon.settings, "run", "--", *command, cwd=self.work)
        self.processes.append(process)
        asking = asyncio.create_task(ended(process, 60))
        self.asking.append(asking)
        async with asyncio.timeout(100):
            async for _ in self.daemon.changes.each():
                for one in await self.daemon.store.requests(100):
                    if one.id not in before:
                        return asking, one
        raise AssertionError

    async def decides(self, *arguments: str, stdin: str) -> Ran:
        process = await program(self.daemon.settings, "decide", *arguments, stdin=asyncio.subprocess.PIPE)
        async with asyncio.timeout(100):
            out, said = await process.communicate(stdin.encode())
        assert b"Traceback" not in said, said.decode()
        return Ran(process.returncode or 0, out, said)

    async def state(self, request: Request) -> State:
        row = await self.daemon.store.request(request.id)
        assert row is not None
        return row.state


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    (tmp_path / "work").mkdir()
    async with running(alone(tmp_path, page_port=free_port()), ("web",)) as daemon:
        one = Asked(daemon, tmp_path / "work")
        yield one
        for process in one.processes:
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*one.asking, return_exceptions=True)


async def test_approved(asked: Asked) -> None:
    asking, request = await asked.asks("sh", "-c", "echo done\x1b[2J")
    decided = await asked.decides(request.id, "approve", stdin=f"{asked.password}\n")
    assert (decided.code, decided.stdout) == (0, f"Approved {request.id}.\n".encode()), decided
    assert b"Agent wants to run:\n  sh -c 'echo done\\u{1b}[2J'" in decided.stderr
    assert (await asking).code == 0


async def test_denied_with_a_reason(asked: Asked) -> None:
    asking, request = await asked.asks("make", "deploy")
    decided = await asked.decides(request.id, "deny", "--reason", "archive first", stdin=asked.password)
    assert (decided.code, decided.stdout) == (0, f"Denied {request.id}.\n".encode()), decided
    ran = await asking
    assert (ran.code, b": archive first" in ran.stderr) == (77, True)


@pytest.mark.parametrize("typed", ["", "\n", "wrong\n", " {password}\n", "{password} \n"])
async def test_without_the_password_nothing_is_decided(asked: Asked, typed: str) -> None:
    _, request = await asked.asks("make", "deploy")
    decided = await asked.decides(request.id, "approve", stdin=typed.replace("{password}", asked.password))
    said = b"The password is wrong" if typed.strip() else b"No password was given"
    assert (decided.code, said in decided.stderr) == (1, True), decided
    assert await asked.state(request) is State.PENDING


async def test_neither_an_argument_nor_the_environment_is_a_password(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, request = await asked.asks("make", "deploy")
    assert (await asked.decides(request.id, "approve", asked.password, stdin="")).code == 2
    assert (await asked.decides(request.id, "approve", "--password", asked.password, stdin="")).code == 2
    assert await asked.state(request) is State.PENDING


async def test_typed_at_a_terminal_and_not_shown(asked: Asked) -> None:
    asking, request = await asked.asks("sh", "-c", "echo done")
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slack_gate", "decide", request.id, "approve"),
        env={**environment(asked.daemon.settings), "PYTHONPATH": str(ROOT)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    seen = b""
    async with asyncio.timeout(100):
        while b"Password of the approval page: " not in seen:
            seen += await asyncio.to_thread(os.read, ours, 4096)
        os.write(ours, f"{asked.password}\n".encode())
        assert await process.wait() == 0
        assert (await asking).code == 0
    seen += os.read(ours, 4096)
    os.close(ours)
    assert asked.password.encode() not in seen
    assert f"Approved {request.id}.".encode() in seen


async def test_what_is_over_or_unknown(asked: Asked) -> None:
    asking, request = await asked.asks("make", "deploy")
    await asked.decides(request.id, "deny", stdin=asked.password)
    await asking
    late = await asked.decides(request.id, "approve", stdin=asked.password)
    assert (late.code, b"Nothing was decided. Denied by" in late.stderr) == (1, True), late
    unknown = await asked.decides("SG-0", "approve", stdin=asked.password)
    assert (unknown.code, b"There is no request SG-0" in unknown.stderr) == (1, True)
    assert (await asked.decides(request.id, "perhaps", stdin="")).code == 2


async def test_without_a_page(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    settings = alone(tmp_path, page_port=free_port())
    async with running(settings, ("web",)) as daemon:
        one = Asked(daemon, tmp_path / "work")
        asking, request = await one.asks("make", "deploy")
        other = Asked(replace(daemon, settings=alone(tmp_path, page_port=free_port())), tmp_path / "work")
        decided = await other.decides(request.id, "approve", stdin="x")
        assert (decided.code, b"No approval page answers" in decided.stderr) == (1, True), decided
        one.processes[0].terminate()
        await asyncio.gather(asking, return_exceptions=True)


async def test_the_password_is_not_told_to_another_users_program(asked: Asked) -> None:
    heard: list[str | None] = []

    async def page(request: web.Request) -> web.StreamResponse:
        heard.append(request.headers.get("Authorization"))
        return web.Response(status=401)

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    _, request = await asked.asks("make", "deploy")
    before = os.geteuid()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    settings = asked.daemon.settings.model_copy(update={"page_port": port})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import os; os.geteuid = lambda: 4711; from slack_gate.cli import main; main()"),
        *("decide", request.id, "approve"),
        env={**environment(settings), "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate(b"secret\n")
    await runner.cleanup()
    assert (process.returncode, b"No process of yours answers" in said) == (1, True), said
    assert heard == [None]
    assert os.geteuid() == before


async def test_one_approval_of_several_is_not_called_approved(asked: Asked) -> None:
    (asked.daemon.settings.home / "policy.toml").write_text('[[gate.rule]]\ncommand = "sh ..."\napprovals = 2\n')
    _, request = await asked.asks("sh", "-c", "echo done")
    decided = await asked.decides(request.id, "approve", stdin=asked.password)
    assert decided.code == 0 and await asked.state(request) is State.PENDING
    assert b"Approved" not in decided.stdout and b"others are needed too" in decided.stdout


def test_what_an_error_quotes_is_drawn_once(home: Home) -> None:
    home.ask(1)
    assert "no request SG-O\\u{2019}x." in home.run("decide", "SG-O\u2019x", "approve").err
