"""The cord on the approval page: shown, pulled by its own form alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slack_gate.daemon.serve import running
from slack_gate.local_slack import LocalSlack
from tests.daemon.house import settings_for as slack_settings
from tests.ports import free_port
from tests.web.conftest import Doors, basic


async def listed(doors: Doors) -> tuple[str, str]:
    """The cord's own page, and the token of the form on it."""
    async with doors.person.get(f"{doors.page_url}cord") as answer:
        assert answer.status == 200
        text = await answer.text()
    token = re.search(r'name="token" value="([0-9a-f]{64})"', text)
    assert token is not None
    return text, token[1]


async def pull(doors: Doors, **fields: Any) -> tuple[int, str]:
    async with doors.person.post(f"{doors.page_url}cord", data=fields, allow_redirects=False) as answer:
        return answer.status, await answer.text()


async def test_a_person_pauses_and_resumes(doors: Doors) -> None:
    form, token = await listed(doors)
    assert "Gated calls are asked on the approval page." in form and ">Pause</button>" in form
    assert (await pull(doors, pull="pause", token=token))[0] == 303
    form, _ = await listed(doors)
    assert "Paused by a person on the page since" in form and ">Resume</button>" in form
    denied = await doors.run(command="make deploy")
    assert denied["decision"] == "denied" and "paused by a person on the page" in denied["message"]
    assert (await pull(doors, pull="pause", token=token))[0] == 303  # it stands as wanted
    assert (await pull(doors, pull="resume", token=token))[0] == 303
    assert not (await doors.daemon.store.cord()).paused


async def test_without_slack_nothing_is_said_of_slack(doors: Doors) -> None:
    """The word for Slack stands for wherever the daemon was started to ask."""
    form, token = await listed(doors)
    assert re.findall(r'value="(\w+)"( disabled)?>([^<]+)</button>', form)[1:] == [
        ("slack", " disabled", "on the approval page"),
        ("console", "", "at the agent&#39;s own permission prompt"),
    ]
    assert (await pull(doors, pull="web", token=token))[0] == 303
    form, _ = await listed(doors)
    assert "Gated calls are asked on the approval page and the terminal only, without cards." in form
    assert re.findall(r'name="pull" value="(\w+)"( disabled)?>', form)[1:] == [
        ("slack", ""),
        ("web", " disabled"),
        ("console", ""),
    ]
    async with doors.person.get(doors.page_url) as answer:
        assert "without cards." in await answer.text()
    assert (await pull(doors, pull="slack", token=token))[0] == 303
    async with doors.person.get(doors.page_url) as answer:
        assert "Gated calls are asked on the approval page." in await answer.text()


async def test_with_slack_all_places_are_there(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        settings = slack_settings(slack, tmp_path, page_port=free_port())
        async with running(settings, ["slack", "web"]) as daemon:
            assert daemon.page is not None
            login = {"Authorization": basic("human", daemon.page.login.password)}
            client = aiohttp.ClientSession(headers=login)
            async with client as person, person.get(f"{daemon.page.address}cord") as answer:
                form = await answer.text()
    assert "Gated calls are asked in Slack." in form
    assert re.findall(r'name="pull" value="(\w+)"( disabled)?>', form)[1:] == [
        ("slack", " disabled"),
        ("web", ""),
        ("console", ""),
    ]


async def test_the_list_says_how_it_stands_and_leads_there(doors: Doors) -> None:
    _, token = await listed(doors)
    await pull(doors, pull="pause", token=token)
    async with doors.person.get(doors.page_url) as answer:
        text = await answer.text()
    assert "Paused by a person on the page since" in text and '<a href="/cord">' in text
    assert "<form" not in text


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"pull": "pause"}, 400),
        ({"pull": "pause", "token": ""}, 403),
        ({"pull": "pause", "token": "0" * 64}, 403),
        ({"pull": "nowhere", "token": "{token}"}, 400),
        ({"token": "{token}"}, 400),
        ({"pull": "PAUSE", "token": "{token}"}, 400),
    ],
)
async def test_forms_that_are_none_of_the_page_change_nothing(
    doors: Doors, fields: dict[str, str], status: int
) -> None:
    _, token = await listed(doors)
    found, _ = await pull(doors, **{name: value.replace("{token}", token) for name, value in fields.items()})
    assert found == status
    assert not (await doors.daemon.store.cord()).paused


async def test_the_token_of_a_request_pulls_nothing_and_the_cords_decides_nothing(doors: Doors) -> None:
    waiting = doors.start(command="make deploy")
    [request] = await doors.pending()
    _, token = await listed(doors)
    own = doors.page.login.token(request.id, request.digest)
    assert (await pull(doors, pull="pause", token=own))[0] == 403
    data = {"id": request.id, "ok": "1", "token": token}
    async with doors.person.post(f"{doors.page_url}decide", data=data, allow_redirects=False) as answer:
        assert answer.status == 403
    data = {"id": "cord", "ok": "1", "token": token}
    async with doors.person.post(f"{doors.page_url}decide", data=data, allow_redirects=False) as answer:
        assert answer.status == 404
    waiting.cancel()


async def test_without_the_login_or_from_another_site(doors: Doors) -> None:
    _, token = await listed(doors)
    data = {"pull": "pause", "token": token}
    async with doors.agent.post(f"{doors.page_url}cord", data=data, allow_redirects=False) as answer:
        assert answer.status == 401
    foreign = {"Origin": "http://evil.example"}
    async with doors.person.post(f"{doors.page_url}cord", data=data, headers=foreign, allow_redirects=False) as answer:
        assert answer.status == 403
    assert not (await doors.daemon.store.cord()).paused


async def test_a_place_that_this_daemon_has_not_is_refused_with_the_reason(doors: Doors) -> None:
    _, token = await listed(doors)
    object.__setattr__(doors.daemon.controls._house, "hook_executor", "cage")
    status, text = await pull(doors, pull="console", token=token)
    assert status == 409 and "run by the cage executor here" in text
