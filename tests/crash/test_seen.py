"""Each trouble of the link is seen: in the daemon's messages, in its metrics and, while it lasts, in its status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from slack_gate.cli.status import _ask, _read
from slack_gate.daemon import outbox
from slack_gate.daemon.serve import Running, running
from slack_gate.local_slack.server import LocalSlack
from slack_gate.slack import line, link
from slack_gate.web.login import USER
from tests.daemon.house import settings_for
from tests.ports import free_port
from tests.web.conftest import basic

ENDS = 'slack_gate_slack_line_ends_total{why="%s"}'


@dataclass
class Watch:
    """A daemon on Slack and page, seen from outside."""

    slack: LocalSlack
    daemon: Running
    browser: aiohttp.ClientSession

    async def status(self) -> dict[str, Any]:
        return _read(await asyncio.to_thread(_ask, self.daemon.settings.socket_path))

    async def metrics(self) -> dict[str, float]:
        assert self.daemon.page is not None
        async with self.browser.get(f"{self.daemon.page.address}metrics") as answer:
            lines = (await answer.text()).splitlines()
        return {name: float(value) for name, value in (one.rsplit(" ", 1) for one in lines if not one.startswith("#"))}

    async def ended(self, why: str) -> None:
        async with asyncio.timeout(100):
            while ENDS % why not in await self.metrics():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def well(self) -> bool:
        status, metrics = await self.status(), await self.metrics()
        calm = (status["healthy"], status["lines"], status["notes"]) == (True, 2, [])
        return calm and metrics["slack_gate_slack_lines"] == 2 and metrics["slack_gate_healthy"] == 1


@pytest.fixture
async def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watch]:
    for module, name, seconds in (
        (line, "PING_S", 0.2),
        (line, "SILENT_S", 3.0),
        (link, "DOWN_S", 6.0),
        (link, "SENT_AWAY_S", 1.0),
        (outbox, "WATCH_S", 0.1),
    ):
        monkeypatch.setattr(module, name, seconds)
    async with watched(tmp_path) as found:
        yield found


@asynccontextmanager
async def watched(place: Path) -> AsyncIterator[Watch]:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, place, page_port=free_port())
        async with running(settings, ("slack", "web")) as daemon:
            assert daemon.page is not None
            login = {"Authorization": basic(USER, daemon.page.login.password)}
            async with aiohttp.ClientSession(headers=login) as browser:
                await slack.wait_for_link(2)
                yield Watch(slack, daemon, browser)


def messages(logged: list[Any], code: str) -> list[Any]:
    return [one for one in logged if code in (one.get("error"), one.get("why"))]


PASSING = [
    ("links away refresh_requested", "refresh_requested"),
    ("links away warning", "warning"),
    ("links drop", "the connection was cut"),
    ("links silence", "nothing came in"),
    ("links away link_disabled", "link_disabled"),
    ("links away too_many_websockets", "too_many_websockets"),
]


@pytest.mark.parametrize(("words", "code"), PASSING)
async def test_what_passes(watch: Watch, words: str, code: str) -> None:
    with capture_logs() as logged:
        await watch.slack.cause(words)
        await watch.ended(code)
        async with asyncio.timeout(100):
            while not await watch.well():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert messages(logged, code)
    assert [one for one in logged if one["event"] == "a line to Slack is open"]


LASTING = [
    (["links refuse link_disabled", "links away link_disabled"], "link_disabled", "Turn on Socket Mode"),
    (["links refuse too_many_websockets", "links drop"], "too_many_websockets", "ten connections"),
    (["token revoked token_revoked", "links drop"], "token_revoked", "Install the app again"),
    (["token revoked account_inactive app"], "account_inactive", "Install the app again"),
    (["apps.connections.open error missing_scope x99", "links drop"], "missing_scope", "manifests/slack-app.yaml"),
    (["apps.connections.open http 503 x99", "links drop"], "HTTP 503", ""),
    (["apps.connections.open limited 1 x99", "links drop"], "ratelimited", ""),
    (["apps.connections.open reset x99", "links drop"], "unreachable", ""),
]


@pytest.mark.parametrize(("trouble", "code", "fix"), LASTING)
async def test_what_lasts(watch: Watch, trouble: list[str], code: str, fix: str) -> None:
    with capture_logs() as logged:
        for words in trouble:
            await watch.slack.cause(words)
        await watch.ended(code)
        async with asyncio.timeout(100):
            while (status := await watch.status())["healthy"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert fix in status["fault"]
        assert (await watch.metrics())["slack_gate_healthy"] == 0
        assert (await watch.metrics())["slack_gate_slack_lines"] == 0
        opened = len(watch.slack.calls("apps.connections.open"))
        await asyncio.sleep(2)
        assert len(watch.slack.calls("apps.connections.open")) - opened <= 10  # no flood
        watch.slack.mend()
        async with asyncio.timeout(100):
            while not await watch.well():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    [first, *_] = messages(logged, code)
    assert fix in first.get("fix", "")


async def test_no_code_of_slacks_can_pose_as_a_metric(watch: Watch) -> None:
    odd = 'x"} 1\nslack_gate_healthy 1\\'
    watch.slack.fail_next("apps.connections.open", error=odd, times=2)
    watch.slack.drop_links()
    escaped = json.dumps(odd.replace("\n", "\u23ce"), ensure_ascii=False)[1:-1]
    await watch.ended(escaped)
    assert list(await watch.metrics()).count("slack_gate_healthy") == 1
