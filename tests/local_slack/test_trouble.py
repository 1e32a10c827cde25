"""Trouble on order: what a test asks for is what the real clients meet."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncConnectionErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack
from tests.local_slack.apps import app_of, card, client_of, connected


async def test_an_error_comes_once_and_changes_nothing(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    slack.fail_next("chat.postMessage", error="messages_tab_disabled")
    with pytest.raises(SlackApiError, match="messages_tab_disabled"):
        await client.chat_postMessage(channel="U0ANA", text="x")
    await client.auth_test()
    assert ana.messages == []
    await client.chat_postMessage(channel="U0ANA", text="x")
    assert len(ana.messages) == 1
    assert [call.error for call in slack.calls("chat.postMessage")] == ["messages_tab_disabled", None]


async def test_http_errors(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.fail_next("auth.test", http_status=500, times=2)
    for _ in range(2):
        with pytest.raises(SlackApiError) as failed:
            await client.auth_test()
        assert failed.value.response.status_code == 500
    slack.fail_next("auth.test", http_status=429, retry_after=7)
    with pytest.raises(SlackApiError) as limited:
        await client.auth_test()
    assert limited.value.response.headers["Retry-After"] == "7"
    assert (await client.auth_test())["ok"]


async def test_a_reset_before_or_after_the_post(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    slack.fail_next("chat.postMessage", reset_before=True)
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.chat_postMessage(channel="U0ANA", text="x")
    assert ana.messages == []
    slack.fail_next("chat.postMessage", reset_after=True)
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.chat_postMessage(channel="U0ANA", text="x")
    assert len(ana.messages) == 1


async def test_the_sdks_default_retry_posts_twice(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    retry = [AsyncConnectionErrorRetryHandler()]
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=retry)
    slack.fail_next("chat.postMessage", reset_after=True)
    await client.chat_postMessage(channel="U0ANA", text="x")
    assert len(ana.messages) == 2


async def test_a_delay(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.fail_next("auth.test", delay=30)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await client.auth_test()


async def test_an_answer_by_response_url_can_fail_too(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    statuses: list[int] = []

    @app.action("approve")
    async def approve(ack: Any, respond: Any) -> None:
        await ack()
        statuses.append((await respond(text="late", replace_original=False)).status_code)

    slack.fail_next("response_url", http_status=503)
    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
        await ana.click(await ana.wait_for_message(), "Approve")
    assert statuses == [503] and ana.ephemerals == []


@pytest.mark.parametrize("reason", ["refresh_requested", "reset"])
async def test_bolt_comes_back_after_its_link_is_lost(slack: LocalSlack, client: AsyncWebClient, reason: str) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)

    @app.action("approve")
    async def approve(ack: Any) -> None:
        await ack()

    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
        shown = await ana.wait_for_message()
        (before,) = slack.links
        if reason == "reset":
            slack.drop_links()
        else:
            await slack.disconnect(reason)
        await slack.workspace.wait_for(
            lambda: True if slack.links and before not in slack.links else None, 10, lambda: "no new link"
        )
        assert (await ana.click(shown, "Approve")).acknowledged
    assert len(slack.calls("apps.connections.open")) == 2


async def test_a_warning_leaves_the_link_to_the_client(slack: LocalSlack) -> None:
    opened = await client_of(slack).apps_connections_open(app_token=slack.app_token)
    async with aiohttp.ClientSession() as session, session.ws_connect(opened["url"]) as link:
        assert (await link.receive_json())["type"] == "hello"
        await slack.disconnect("warning")
        frame = await link.receive_json()
        assert (frame["type"], frame["reason"]) == ("disconnect", "warning") and len(slack.links) == 1


async def test_the_eleventh_link_is_sent_away(slack: LocalSlack) -> None:
    client = client_of(slack)
    async with aiohttp.ClientSession() as session:
        links = []
        for number in range(11):
            opened = await client.apps_connections_open(app_token=slack.app_token)
            links.append(await session.ws_connect(opened["url"]))
            assert (await links[-1].receive_json())["num_connections"] == number + 1
        assert (await links[-1].receive_json())["reason"] == "too_many_websockets"
        assert len(slack.links) == 10


async def test_a_silent_link_swallows_clicks_and_pings() -> None:
    async with LocalSlack(ping_seconds=0.05) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        opened = await client.apps_connections_open(app_token=slack.app_token)
        async with aiohttp.ClientSession() as session, session.ws_connect(opened["url"], autoping=False) as link:
            assert (await link.receive_json())["type"] == "hello"
            for _ in range(2):
                ping = await link.receive()
                assert ping.type is aiohttp.WSMsgType.PING and ping.data == b"Ping from applink-local"
            await link.ping(b"mine")
            while (frame := await link.receive()).type is aiohttp.WSMsgType.PING:
                pass
            assert (frame.type, frame.data) == (aiohttp.WSMsgType.PONG, b"mine")
            slack.silence()
            await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
            click = await ana.click(await ana.wait_for_message(), "Approve")
            assert click.sent and not click.acknowledged and click.seconds >= 3
            await link.ping(b"again")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    while (frame := await link.receive()).type is aiohttp.WSMsgType.PING:
                        pass
            assert len(slack.links) == 1


async def test_a_wait_in_vain_says_what_there_is(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    await client.chat_postMessage(channel="U0ANA", text="hello there")
    with pytest.raises(TimeoutError, match="hello there"):
        await ana.wait_for_message(lambda m: m.has_button("Approve"), timeout=0.05)
    with pytest.raises(TimeoutError, match="0 of 1 links"):
        await slack.wait_for_link(timeout=0.05)
    with pytest.raises(TimeoutError, match="no such modal"):
        await ana.wait_for_modal(timeout=0.05)
    with pytest.raises(TimeoutError, match="never matched"):
        await (await ana.wait_for_message()).wait_for_update(lambda m: not m.text, timeout=0.05)
