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


@pytest.mark.parametrize(("arrives", "status", "texts"), [(False, 503, []), (True, 500, ["late"])])
async def test_an_answer_by_response_url_can_fail_too(
    slack: LocalSlack, client: AsyncWebClient, arrives: bool, status: int, texts: list[str]
) -> None:
    """Also one that has arrived."""
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    statuses: list[int] = []

    @app.action("approve")
    async def approve(ack: Any, respond: Any) -> None:
        await ack()
        statuses.append((await respond(text="late", replace_original=False)).status_code)

    if arrives:
        await slack.cause("response_url broken")
    else:
        slack.fail_next("response_url", http_status=503)
    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
        await ana.click(await ana.wait_for_message(), "Approve")
    assert statuses == [status] and [message.text for message in ana.ephemerals] == texts


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


async def test_a_call_that_was_performed_and_answered_with_a_fault(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    slack.fail_next("chat.postMessage", http_status=500, performed=True)
    with pytest.raises(SlackApiError) as failed:
        await client.chat_postMessage(channel="U0ANA", text="x")
    assert failed.value.response.status_code == 500 and len(ana.messages) == 1
    assert slack.calls("chat.postMessage")[0].error == "http_500, performed"


async def test_a_click_nobody_acknowledged_is_sent_again_and_says_so() -> None:
    async with LocalSlack(redeliveries=2) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        opened = await client.apps_connections_open(app_token=slack.app_token)
        async with aiohttp.ClientSession() as session, session.ws_connect(opened["url"]) as link:
            await link.receive_json()
            await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
            slack.lose_acks(1)
            pressed = asyncio.create_task(ana.click(await ana.wait_for_message(), "Approve"))
            while (first := await link.receive_json())["type"] != "interactive":
                pass
            await link.send_json({"envelope_id": first["envelope_id"]})  # lost
            again = await link.receive_json()
            assert "retry_attempt" not in first
            assert (again["retry_attempt"], again["retry_reason"]) == (1, "timeout")
            assert (again["envelope_id"], again["payload"]) == (first["envelope_id"], first["payload"])
            await link.send_json({"envelope_id": again["envelope_id"]})
            assert (await pressed).acknowledged


async def test_a_click_that_was_acknowledged_comes_again(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    heard: list[str] = []

    @app.action("approve")
    async def approve(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        heard.append(body["actions"][0]["action_ts"])

    await slack.cause("clicks twice 1")
    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
        for _ in range(2):
            assert (await ana.click(await ana.wait_for_message(), "Approve")).acknowledged
        await slack.workspace.wait_for(lambda: len(heard) >= 3 or None, 10, lambda: str(heard))
    assert heard[0] == heard[1] != heard[2] and len(heard) == 3


async def test_slacks_own_limits_from_now_on(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.add_user("U0ANA", name="Ana")

    async def posted() -> int:
        """How many in a row, of ten."""
        for number in range(10):
            try:
                await client.chat_postMessage(channel="U0ANA", text="x")
            except SlackApiError as refused:
                assert refused.response.status_code == 429 and int(refused.response.headers["Retry-After"]) >= 1
                return number
        return 10

    assert await posted() == 10
    await slack.cause("limits 1")
    assert 3 <= await posted() < 10
    with pytest.raises(SlackApiError, match="ratelimited"):
        for _ in range(51):
            await client.apps_connections_open(app_token=slack.app_token)
    await slack.cause("mend")
    assert await posted() == 10


async def test_trouble_that_comes_later(slack: LocalSlack, client: AsyncWebClient) -> None:
    async with connected(slack, app_of(slack)):
        before = slack.links
        await slack.cause("after 2 links away refresh_requested")
        await slack.cause("after 60 token revoked invalid_auth")
        assert slack.links == before
        await slack.workspace.wait_for(lambda: slack.links != before or None, 10, lambda: "the same links")
        await slack.cause("after 0.1 auth.test error internal_error")
        await slack.cause("mend")  # plans too
        async with asyncio.timeout(50):  # not the sixty seconds
            while slack._planned:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await client.auth_test()


async def test_the_same_seed_takes_the_same_links() -> None:
    async def routes(seed: int) -> list[int]:
        async with LocalSlack(seed=seed) as slack:
            slack.add_user("U0ANA", name="Ana")
            app = app_of(slack)
            async with connected(slack, app, 3):
                order = list(slack.links)
                return [order.index(slack._links._choose.choice(slack._links.open)) for _ in range(20)]

    one, same, other = await routes(1), await routes(1), await routes(2)
    assert one == same != other and set(one) == {0, 1, 2}


async def test_some_links_only(slack: LocalSlack) -> None:
    client = client_of(slack)
    async with aiohttp.ClientSession() as session:
        ours = []
        for _ in range(3):
            opened = await client.apps_connections_open(app_token=slack.app_token)
            ours.append(await session.ws_connect(opened["url"]))
        await slack.wait_for_link(3)
        slack.drop_links(1)
        await slack.workspace.wait_for(lambda: len(slack.links) == 2 or None, 5, lambda: "none dropped")
        slack.silence(1)
        assert [link.silent for link in slack.links].count(True) == 1
        await slack.disconnect("link_disabled", 1)
        assert len(slack.links) == 1


async def test_every_new_link_is_sent_away(slack: LocalSlack) -> None:
    client = client_of(slack)
    slack.refuse_links("link_disabled")
    async with aiohttp.ClientSession() as session:
        opened = await client.apps_connections_open(app_token=slack.app_token)
        link = await session.ws_connect(opened["url"])
        assert (await link.receive_json())["type"] == "hello"
        frame = await link.receive_json()
        assert (frame["type"], frame["reason"], slack.links) == ("disconnect", "link_disabled", [])


async def test_accounts_scopes_and_tokens_that_go_and_come_back(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.add_user("U0ANA", name="Ana")
    post = client.chat_postMessage

    async def error() -> str | None:
        try:
            await post(channel="U0ANA", text="x")
        except SlackApiError as refused:
            return str(refused.response["error"])
        return None

    for words, said in (
        ("token revoked token_revoked bot", "token_revoked"),
        ("scope missing chat:write", "missing_scope"),
        ("user gone U0ANA", "user_disabled"),
        ("messages off", "messages_tab_disabled"),
    ):
        await slack.cause(words)
        assert await error() == said
        await slack.cause("mend")
        assert await error() is None
    await slack.cause("token revoked invalid_auth app")
    with pytest.raises(SlackApiError, match="invalid_auth"):
        await client.apps_connections_open(app_token=slack.app_token)
    assert await error() is None


@pytest.mark.parametrize(
    ("words", "status", "performed"),
    [
        ("chat.postMessage error internal_error", 200, False),
        ("chat.postMessage http 503", 503, False),
        ("chat.postMessage html", 200, False),
        ("chat.postMessage limited 3", 429, False),
        ("chat.postMessage reset x2", None, False),
        ("chat.postMessage lost", None, True),
        ("chat.postMessage broken", 500, True),
    ],
)
async def test_trouble_in_words(
    slack: LocalSlack, client: AsyncWebClient, words: str, status: int | None, performed: bool
) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    await slack.cause(words)
    for _ in range(2 if words.endswith("x2") else 1):
        with pytest.raises((SlackApiError, aiohttp.ClientConnectionError)) as failed:
            await client.chat_postMessage(channel="U0ANA", text="x")
        response = getattr(failed.value, "response", None)
        assert (response and response.status_code) == status
    assert len(ana.messages) == performed
    await client.chat_postMessage(channel="U0ANA", text="x")


async def test_a_call_performed_late(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    await slack.cause("chat.postMessage late 6")
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[], timeout=2)  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        await client.chat_postMessage(channel="U0ANA", text="x")
    assert ana.messages == []
    assert (await ana.wait_for_message()).text == "x"


@pytest.mark.parametrize(
    "words",
    ["", "links", "links drop one", "links drop 1 2", "chat.update", "chat.update http", "chat.update http x3",
     "chat.update reset 3", "chat.update http soon", "chat.updatte reset", "token revoked", "token revoked x everybody",
     "user gone U0NOBODY", "limits 0", "after 3", "after soon mend", "after 3 make coffee", "make coffee"],
)  # fmt: skip
async def test_words_for_no_trouble_are_refused_with_the_list(slack: LocalSlack, words: str) -> None:
    with pytest.raises(ValueError, match="links drop"):
        await slack.cause(words)


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
