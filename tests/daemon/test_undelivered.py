"""Slack takes no card: with the page or a terminal beside it a request waits there if somebody can see it, else the
agent is told at once, and where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from slack_gate.core.ports import Verdict
from slack_gate.core.request import BY_PAGE, Choice, Decision, State
from slack_gate.daemon import ends
from slack_gate.daemon.serve import running
from slack_gate.local_slack import LocalSlack
from tests.daemon.desk import desk
from tests.daemon.house import House, settings_for
from tests.ports import free_port
from tests.web.conftest import basic


@asynccontextmanager
async def beside_the_page(place: Path) -> AsyncIterator[House]:
    """A daemon on Slack and the page; Slack refuses every message."""
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, place, page_port=free_port())
        slack.fail_next("chat.postMessage", "restricted_action", times=1000)
        async with running(settings, ("slack", "web")) as daemon:
            yield House(slack, ana, settings, daemon)


def decisions(h: House) -> list[str]:
    return [line["decision"] for line in h.log()] if h.settings.log_path.exists() else []


async def undelivered(h: House) -> None:
    """Returns once it is logged that Slack did not take the card."""
    async with asyncio.timeout(100):
        while "undelivered" not in decisions(h):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # a line tells nobody


async def test_nobody_looks_at_the_page(tmp_path: Path) -> None:
    async with beside_the_page(tmp_path) as h:
        ended = await h.bash("git push origin main")
        assert ended.decision == "deny"
        assert "Nobody could be asked" in ended.reason and "restricted_action" in ended.reason
        assert f"It can be approved on http://127.0.0.1:{h.settings.page_port}/: have that page opened" in ended.reason
        assert decisions(h) == ["pending", "undeliverable"]


async def test_somebody_looks_at_the_page(tmp_path: Path) -> None:
    async with beside_the_page(tmp_path) as h:
        with h.running.gate.viewed():
            hook = await h.start(h.event(command="git push origin main"))
            await undelivered(h)
            [request] = await h.running.store.requests(1)
            assert request.state is State.PENDING
            click = await h.running.gate.decide(
                Decision(request.id, request.digest, Choice.APPROVE, by=BY_PAGE, user="human", name="somebody")
            )
            assert click.verdict is Verdict.DECIDED
        assert (await h.ended(hook)).decision == "allow"
        assert decisions(h) == ["pending", "undelivered", "approved"]


async def test_whoever_looked_at_the_page_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "LEFT_S", 0.1)
    async with beside_the_page(tmp_path) as h:
        with h.running.gate.viewed():
            hook = await h.start(h.event(command="git push origin main"))
            await undelivered(h)
        ended = await h.ended(hook)
        assert ended.decision == "deny" and "restricted_action" in ended.reason
        assert decisions(h) == ["pending", "undelivered", "undeliverable"]


async def test_it_is_logged_once_however_often_it_is_found(tmp_path: Path) -> None:
    async with desk(tmp_path, page="http://127.0.0.1:1/") as d:
        request = await d.asked()
        with d.gate.viewed():
            for _ in range(3):
                await d.gate.undeliverable(request.id, "the link is down.")
        await d.gate.undeliverable(request.id, "the link is down.")  # the page may be on its way again
        assert d.decisions() == ["pending", "undelivered"]
        d.clock.now += 10.0
        await d.gate.undeliverable(request.id, "the link is down.")  # nobody looks any more
        assert "http://127.0.0.1:1/" in (await d.answer()).reason
        assert d.decisions() == ["pending", "undelivered", "undeliverable"]


async def test_a_page_without_scripts_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "LEFT_S", 100.0)
    async with beside_the_page(tmp_path) as h:
        page = h.running.page
        assert page is not None
        headers = {"Authorization": basic("human", page.login.password)}
        async with aiohttp.ClientSession(headers=headers) as person, person.get(page.address) as shown:
            assert shown.status == 200
        hook = await h.start(h.event(command="git push origin main"))
        await undelivered(h)
        assert hook.returncode is None
