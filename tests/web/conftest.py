"""A daemon with both HTTP doors, in a home of the test's own."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slack_gate.config import Settings
from slack_gate.core.request import Request, State
from slack_gate.daemon.serve import Running, running
from slack_gate.web.agent_api import agent_socket
from slack_gate.web.page import Page
from tests.ports import free_port


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@dataclass
class Doors:
    """A daemon on the page and the agent endpoint, and what speaks with them."""

    daemon: Running
    agent: aiohttp.ClientSession  # without a login, on the endpoint's port
    person: aiohttp.ClientSession  # with the page's login
    ours: aiohttp.ClientSession  # on the Unix socket
    projects: Path
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def page(self) -> Page:
        assert self.daemon.page is not None
        return self.daemon.page

    @property
    def run_url(self) -> str:
        return f"http://127.0.0.1:{self.daemon.settings.agent_port}/run"

    @property
    def page_url(self) -> str:
        return self.page.address

    async def run(self, **fields: Any) -> dict[str, Any]:
        """The whole answer to one POST."""
        async with self.agent.post(self.run_url, json=fields) as answer:
            assert answer.status == 200, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    def start(self, **fields: Any) -> asyncio.Task[dict[str, Any]]:
        task = asyncio.create_task(self.run(**fields))
        self.tasks.append(task)
        return task

    async def pending(self, count: int = 1) -> list[Request]:
        """The requests that wait, once there are `count`."""
        async with asyncio.timeout(100):
            async for _ in self.daemon.changes.each():
                found = await self.daemon.store.pending(self.daemon.gate._house.home)
                if len(found) >= count:
                    return sorted(found, key=lambda one: one.created_at)
        raise AssertionError

    async def asking(self, **fields: Any) -> tuple[asyncio.Task[dict[str, Any]], Request]:
        """A call that waits, and its request."""
        before = {one.id for one in await self.daemon.store.requests(500)}
        task = self.start(**fields)
        async with asyncio.timeout(100):
            async for _ in self.daemon.changes.each():
                for one in await self.daemon.store.requests(500):
                    if one.id not in before:
                        return task, one
                assert not task.done(), task.result()
        raise AssertionError

    async def ended(self, request: Request) -> Request:
        async with asyncio.timeout(100):
            async for _ in self.daemon.changes.each():
                row = await self.daemon.store.request(request.id)
                assert row is not None
                if row.state is not State.PENDING:
                    return row
        raise AssertionError

    def form(self, request: Request, ok: str = "1", **more: str) -> dict[str, str]:
        """What the page's form for this request sends."""
        token, until = self.page.login.token(request.id, request.digest), str(int(request.expires_at))
        return {"id": request.id, "token": token, "until": until, "ok": ok, **more}

    async def decide(self, request: Request, ok: str = "1", **more: str) -> int:
        form = self.form(request, ok, **more)
        async with self.person.post(self.page_url + "decide", data=form, allow_redirects=False) as answer:
            return answer.status


def settings_for(place: Path, **changes: Any) -> Settings:
    agent, page = free_port(), free_port()
    values: dict[str, Any] = {"home": place / "state", "socket": place / "run" / "gate.sock", "wait": 300}
    return Settings(**{**values, "agent_port": agent, "page_port": page, **changes})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with ~/projects. Its own: the endpoint runs things in there."""
    found = tmp_path / "home"
    (found / "projects").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(found))
    yield found


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory outside the green zone: what is written there is asked."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as found:
        yield Path(found)


@asynccontextmanager
async def opened(home: Path, **changes: Any) -> AsyncIterator[Doors]:
    settings = settings_for(home.parent, **changes)
    async with running(settings, ["web"]) as daemon:
        assert daemon.page is not None
        login = basic("human", daemon.page.login.password)
        unix = aiohttp.UnixConnector(str(agent_socket(settings.socket_path)))
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as agent,
            aiohttp.ClientSession(headers={"Authorization": login}) as person,
            aiohttp.ClientSession("http://slack-gate", connector=unix) as ours,
        ):
            doors = Doors(daemon, agent, person, ours, home / "projects")
            yield doors
            for task in doors.tasks:
                task.cancel()
            await asyncio.gather(*doors.tasks, return_exceptions=True)


@pytest.fixture
async def doors(home: Path) -> AsyncIterator[Doors]:
    async with opened(home) as found:
        yield found
