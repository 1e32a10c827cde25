"""The Web API through the real client: what it answers, and everything it refuses as Slack does."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack
from slack_gate.local_slack.server import own_manifest
from tests.local_slack.apps import app_of, card, client_of, connected


async def refusal(call: Any) -> dict[str, Any]:
    """The body of the error that the call is answered with."""
    with pytest.raises(SlackApiError) as refused:
        await call
    body: dict[str, Any] = refused.value.response.data  # type: ignore[assignment]
    assert body["ok"] is False
    return body


async def raw(slack: LocalSlack, method: str, token: str | None = None, **request: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.request(request.pop("verb", "POST"), slack.api_url + method, headers=headers, **request) as answer,
    ):
        body: dict[str, Any] = await answer.json()
        return body


class Hand:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def test_who_the_app_is_and_which_scopes_it_has(slack: LocalSlack, client: AsyncWebClient) -> None:
    answer = await client.auth_test()
    assert answer["team_id"] == slack.team_id and answer["user_id"].startswith("U") and answer["bot_id"][0] == "B"
    assert answer.headers["X-OAuth-Scopes"].split(",") == own_manifest()["oauth_config"]["scopes"]["bot"]


@pytest.mark.parametrize("verb", ["header", "form"])
async def test_tokens(slack: LocalSlack, verb: str) -> None:
    def call(method: str, token: str | None) -> Any:
        return raw(slack, method, token) if verb == "header" else raw(slack, method, data={"token": token or ""})

    assert (await call("auth.test", slack.bot_token))["ok"] is True
    assert (await call("auth.test", None))["error"] == "not_authed"
    assert (await call("auth.test", "xoxb-wrong"))["error"] == "invalid_auth"
    assert (await call("auth.test", slack.app_token))["error"] == "not_allowed_token_type"
    opened = await call("apps.connections.open", slack.app_token)
    # The app token counts in the header only.
    assert opened.get("ok") if verb == "header" else opened["error"] == "not_authed"


async def test_opening_a_connection_takes_the_app_token_by_post(slack: LocalSlack) -> None:
    assert (await raw(slack, "apps.connections.open", slack.bot_token))["error"] == "not_allowed_token_type"
    assert (await raw(slack, "apps.connections.open", slack.app_token, verb="GET"))["error"] == "insecure_request"
    opened = await raw(slack, "apps.connections.open", slack.app_token)
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(opened["url"]) as link:
            hello = await link.receive_json()
            assert hello["type"] == "hello" and hello["num_connections"] == 1
        with pytest.raises(aiohttp.WSServerHandshakeError):  # a ticket opens one link
            await session.ws_connect(opened["url"])


async def test_a_token_inside_json_does_not_count(slack: LocalSlack) -> None:
    assert (await raw(slack, "auth.test", json={"token": slack.bot_token}))["error"] == "not_authed"


async def test_revoked_tokens(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.revoke_tokens()
    assert (await refusal(client.auth_test()))["error"] == "account_inactive"
    opening = client.apps_connections_open(app_token=slack.app_token)
    assert (await refusal(opening))["error"] == "account_inactive"


async def test_scopes_come_from_the_manifest() -> None:
    manifest = own_manifest()
    manifest["oauth_config"]["scopes"]["bot"] = ["users:read"]
    async with LocalSlack(manifest=manifest) as slack:
        slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        body = await refusal(client.chat_postMessage(channel="U0ANA", text="x"))
        assert body == {"ok": False, "error": "missing_scope", "needed": "chat:write", "provided": "users:read"}
        assert (await client.users_info(user="U0ANA"))["user"]["real_name"] == "Ana"
        assert slack.calls("chat.postMessage")[0].error == "missing_scope"


async def test_the_manifest_can_switch_messages_and_buttons_off() -> None:
    manifest = own_manifest()
    manifest["features"]["app_home"]["messages_tab_enabled"] = False
    async with LocalSlack(manifest=manifest) as slack:
        slack.add_user("U0ANA", name="Ana")
        body = await refusal(client_of(slack).chat_postMessage(channel="U0ANA", text="x"))
        assert body["error"] == "messages_tab_disabled"
    manifest = own_manifest()
    manifest["settings"]["interactivity"]["is_enabled"] = False
    async with LocalSlack(manifest=manifest) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        async with connected(slack, app_of(slack)):
            await client_of(slack).chat_postMessage(channel="U0ANA", text="x", blocks=card())
            assert not (await ana.click(await ana.wait_for_message(), "Approve")).acknowledged


async def test_people(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.add_user("U0ANA", name="Ana", is_restricted=True)
    slack.add_user("U0OLD", name="Old", deleted=True)
    slack.add_user("U0FAR", name="Far", team_id="TOTHER")
    ana = (await client.users_info(user="U0ANA"))["user"]
    assert (ana["id"], ana["team_id"], ana["deleted"], ana["is_restricted"]) == ("U0ANA", slack.team_id, False, True)
    assert (await client.users_info(user="U0OLD"))["user"]["deleted"] is True
    far = (await client.users_info(user="U0FAR"))["user"]
    assert far["team_id"] == "TOTHER" and far["is_stranger"] is True
    assert (await refusal(client.users_info(user="U0NONE")))["error"] == "user_not_found"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel": "U0NONE", "text": "x"}, "channel_not_found"),
        ({"channel": "U0FAR", "text": "x"}, "channel_not_found"),
        ({"channel": "U0OLD", "text": "x"}, "user_disabled"),
        ({"channel": "U0BOT", "text": "x"}, "cannot_dm_bot"),
        ({"channel": "U0ANA"}, "no_text"),
        ({"channel": "U0ANA", "text": "", "blocks": []}, "no_text"),
        ({"channel": "U0ANA", "text": 7}, "invalid_arguments"),
        ({"channel": 7, "text": "x"}, "invalid_arguments"),
        ({"text": "x"}, "invalid_arguments"),
        ({"channel": "U0ANA", "text": "x", "blocks": "{"}, "invalid_blocks_format"),
        ({"channel": "U0ANA", "text": "x", "blocks": {}}, "invalid_blocks"),
        ({"channel": "U0ANA", "text": "x", "metadata": {"event_type": "t"}}, "invalid_metadata_format"),
        ({"channel": "U0ANA", "text": "x", "thread_ts": "1.1"}, "thread_not_found"),
    ],
)
async def test_posts_that_are_refused(slack: LocalSlack, arguments: dict[str, Any], error: str) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    slack.add_user("U0OLD", name="Old", deleted=True)
    slack.add_user("U0FAR", name="Far", team_id="TOTHER")
    slack.add_user("U0BOT", name="Bot", is_bot=True)
    answer = await raw(slack, "chat.postMessage", slack.bot_token, json=arguments)
    assert (answer["ok"], answer["error"]) == (False, error)
    assert ana.messages == []


async def test_bodies(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    form = {"channel": "U0ANA", "text": "form", "blocks": '[{"type": "divider"}]'}
    assert (await raw(slack, "chat.postMessage", slack.bot_token, data=form))["ok"]
    assert ana.messages[0].blocks[0]["type"] == "divider"
    json_type = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(headers=json_type) as session:
        for body, error in (("{", "invalid_json"), ("[]", "json_not_object")):
            async with session.post(slack.api_url + "auth.test", data=body) as answer:
                assert (await answer.json())["error"] == error
    assert (await raw(slack, "files.upload", slack.bot_token))["error"] == "unknown_method"
    assert "token" not in slack.calls("chat.postMessage")[0].args


@pytest.mark.filterwarnings("ignore:The top-level `text` argument is missing")
async def test_text_and_blocks_of_updates(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    posted = await client.chat_postMessage(channel="U0ANA", text="one", blocks=card())
    where = {"channel": posted["channel"], "ts": posted["ts"]}
    shown = await ana.wait_for_message()
    divider = [{"type": "divider"}]
    for change, text, kinds in (
        ({"blocks": divider}, "one", ["divider"]),  # blocks alone keep the text
        ({"text": "two", "blocks": divider}, "two", ["divider"]),
        ({"text": "three"}, "three", []),  # text alone takes the blocks away
        ({"text": "x" * 4000}, "x" * 4000, []),
    ):
        await client.chat_update(**where, **change)  # type: ignore[arg-type]
        assert (shown.text, [block["type"] for block in shown.blocks]) == (text, kinds)
    assert (await refusal(client.chat_update(**where, text="x" * 4001)))["error"] == "msg_too_long"
    assert (await refusal(client.chat_update(channel="U0ANA", ts=shown.ts, text="x")))["error"] == "channel_not_found"
    assert (await refusal(client.chat_update(channel=shown.channel, ts="1.1", text="x")))[
        "error"
    ] == "message_not_found"
    assert len(shown.versions) == 5
    await client.chat_delete(**where)
    assert ana.messages == [] and (await refusal(client.chat_delete(**where)))["error"] == "message_not_found"


async def test_threads_and_opened_conversations() -> None:
    manifest = own_manifest()
    manifest["oauth_config"]["scopes"]["bot"].append("im:write")
    async with LocalSlack(manifest=manifest) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        channel = (await client.conversations_open(users="U0ANA"))["channel"]["id"]
        assert channel == ana.channel
        assert (await refusal(client.conversations_open(users="U0NONE")))["error"] == "user_not_found"
        parent = await client.chat_postMessage(channel=channel, text="parent")
        reply = await client.chat_postMessage(channel=channel, text="reply", thread_ts=parent["ts"])
        assert reply["message"]["thread_ts"] == parent["ts"] and ana.messages[-1].thread_ts == parent["ts"]
        missing = client.api_call("views.open", json={"trigger_id": "1.2.3"})
        assert (await refusal(missing))["response_metadata"]["messages"] == ["[ERROR] missing required field: view"]


async def test_a_long_post_is_cut(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    await client.chat_postMessage(channel="U0ANA", text="x" * 40_001)
    assert len((await ana.wait_for_message()).text) == 40_000


async def test_ephemeral_messages(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    slack.add_user("U0BEN", name="Ben")
    sent = await client.chat_postEphemeral(channel=ana.channel, user="U0ANA", text="psst")
    note = await ana.wait_for_ephemeral()
    assert note.ts == sent["message_ts"] and ana.messages == []
    update = client.chat_update(channel=ana.channel, ts=note.ts, text="x")
    assert (await refusal(update))["error"] == "message_not_found"
    other = client.chat_postEphemeral(channel=ana.channel, user="U0BEN", text="psst")
    assert (await refusal(other))["error"] == "user_not_in_channel"


async def test_the_posting_limit() -> None:
    hand = Hand()
    async with LocalSlack(posting_limit=0.5, clock=hand) as slack:
        ana, ben = slack.add_user("U0ANA", name="Ana"), slack.add_user("U0BEN", name="Ben")
        client = client_of(slack)
        for _ in range(3):
            await client.chat_postMessage(channel="U0ANA", text="x")
        with pytest.raises(SlackApiError) as limited:
            await client.chat_postMessage(channel="U0ANA", text="x")
        answer = limited.value.response
        assert (answer.status_code, answer["error"], answer.headers["Retry-After"]) == (429, "ratelimited", "2")
        await client.chat_postMessage(channel="U0BEN", text="another channel")
        hand.seconds += 2
        await client.chat_postMessage(channel="U0ANA", text="x")
        assert len(ana.messages) == 4 and len(ben.messages) == 1
        assert [call.error for call in slack.calls("chat.postMessage")].count("ratelimited") == 1


async def test_a_posting_limit_faster_than_slacks_says_parts_of_a_second() -> None:
    async with LocalSlack(posting_limit=50, clock=Hand()) as slack:
        slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        for _ in range(3):
            await client.chat_postMessage(channel="U0ANA", text="x")
        with pytest.raises(SlackApiError) as limited:
            await client.chat_postMessage(channel="U0ANA", text="x")
        assert 0.02 <= float(limited.value.response.headers["Retry-After"]) <= 0.03


@pytest.mark.parametrize(("factor", "calls"), [(1.0, 50), (2.0, 100)])
async def test_the_limits_of_a_minute(factor: float, calls: int) -> None:
    hand = Hand()
    async with LocalSlack(tiers=factor, clock=hand) as slack:
        slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        where = await client.chat_postMessage(channel="U0ANA", text="x")
        update = {"channel": where["channel"], "ts": where["ts"], "text": "y"}
        for _ in range(calls):
            await client.chat_update(**update)
        with pytest.raises(SlackApiError) as limited:
            await client.chat_update(**update)
        wait = float(limited.value.response.headers["Retry-After"])
        assert 60 / calls <= wait <= 2
        await client.conversations_history(channel=where["channel"])  # counted by itself
        hand.seconds += wait
        await client.chat_update(**update)


async def test_history() -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        for number in range(5):
            about = {"event_type": "t", "event_payload": {"n": number}} if number % 2 else None
            await client.chat_postMessage(channel="U0ANA", text=str(number), metadata=about)
        await client.chat_postEphemeral(channel=ana.channel, user="U0ANA", text="psst")
        await client.chat_postMessage(channel=ana.channel, text="reply", thread_ts=ana.messages[0].ts)
        slack.workspace.delete(ana.messages[4])
        stamps = [message.ts for message in ana.messages]

        async def texts(**how: Any) -> tuple[list[str], Any]:
            page = await client.conversations_history(channel=ana.channel, **how)
            return [message["text"] for message in page["messages"]], page

        assert (await texts())[0] == ["3", "2", "1", "0"]
        assert (await texts(oldest=stamps[1]))[0] == ["3", "2"]
        assert (await texts(latest=stamps[1]))[0] == ["0"]
        first, page = await texts(limit=3)
        assert first == ["3", "2", "1"] and page["has_more"]
        rest, page = await texts(limit=3, cursor=page["response_metadata"]["next_cursor"])
        assert rest == ["0"] and not page["has_more"] and not page["response_metadata"]["next_cursor"]
        _, page = await texts(include_all_metadata=True)
        assert [m.get("metadata", {}).get("event_payload") for m in page["messages"]] == [
            {"n": 3},
            None,
            {"n": 1},
            None,
        ]
        _, page = await texts()
        assert not any("metadata" in message for message in page["messages"])
        for wrong, error in (
            ({"channel": "D0NONE"}, "channel_not_found"),
            ({"channel": ana.channel, "limit": 1000}, "invalid_limit"),
            ({"channel": ana.channel, "limit": "many"}, "invalid_arguments"),
        ):
            assert (await refusal(client.api_call("conversations.history", params=wrong)))["error"] == error
        slack.withdraw_scope("im:history")
        assert (await refusal(client.conversations_history(channel=ana.channel)))["error"] == "missing_scope"


VIEW: dict[str, Any] = {
    "type": "modal",
    "external_id": "e1",
    "title": {"type": "plain_text", "text": "T"},
    "blocks": [{"type": "divider"}],
}


async def test_triggers_and_modals() -> None:
    hand = Hand()
    async with LocalSlack(clock=hand) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        app = app_of(slack)
        triggers: list[str] = []

        @app.action("approve")
        async def approve(ack: Any, body: dict[str, Any]) -> None:
            triggers.append(body["trigger_id"])
            await ack()

        async with connected(slack, app):
            await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
            shown = await ana.wait_for_message()
            for _ in range(2):
                await ana.click(shown, "Approve")
        first, second = triggers
        broken = await refusal(client.views_open(trigger_id=first, view={**VIEW, "title": {"type": "plain_text"}}))
        assert broken["error"] == "invalid_arguments"
        assert broken["response_metadata"]["messages"] == [
            "[ERROR] missing required field: text [json-pointer:/view/title]"
        ]
        big = {**VIEW, "blocks": [{"type": "section", "text": {"type": "plain_text", "text": "é" * 3000}}] * 100}
        assert (await refusal(client.views_open(trigger_id=first, view=big)))["error"] == "view_too_large"
        assert (await refusal(client.views_open(trigger_id="1.2.3", view=VIEW)))["error"] == "invalid_trigger_id"
        view = (await client.views_open(trigger_id=first, view=VIEW))["view"]
        modal = await ana.wait_for_modal()
        assert (view["id"], view["hash"], view["state"]) == (modal.id, modal.hash, {"values": {}})
        assert (await refusal(client.views_open(trigger_id=first, view=VIEW)))["error"] == "exchanged_trigger_id"
        hand.seconds += 3
        assert (await refusal(client.views_open(trigger_id=second, view=VIEW)))["error"] == "expired_trigger_id"
        assert (await refusal(client.views_update(view_id="V0", view=VIEW)))["error"] == "not_found"
        stale = client.views_update(view_id=modal.id, hash="old", view=VIEW)
        assert (await refusal(stale))["error"] == "hash_conflict"
        newer = await client.views_update(
            external_id="e1", view={**VIEW, "title": {"type": "plain_text", "text": "New"}}
        )
        assert modal.title == "New" and newer["view"]["hash"] != view["hash"]


async def test_a_response_url_has_five_uses_and_half_an_hour() -> None:
    hand = Hand()
    async with LocalSlack(clock=hand) as slack, aiohttp.ClientSession() as session:
        ana = slack.add_user("U0ANA", name="Ana")
        client = client_of(slack)
        app = app_of(slack)
        urls: list[str] = []

        @app.action("approve")
        async def approve(ack: Any, body: dict[str, Any]) -> None:
            urls.append(body["response_url"])
            await ack()

        gone = slack.api_url.replace("/api/", f"/actions/{slack.team_id}/none")
        async with session.post(gone, json={"text": "x"}) as reply:
            assert reply.status == 404

        async def answer(url: str, **body: Any) -> tuple[int, str]:
            async with session.post(url, json=body) as reply:
                return reply.status, await reply.text()

        async with connected(slack, app):
            await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
            shown = await ana.wait_for_message()
            for _ in range(2):
                await ana.click(shown, "Approve")
        assert (await answer(urls[0], blocks=[{"type": "section"}]))[0] == 400
        for bad in ("{", "[]"):
            async with session.post(urls[0], data=bad) as reply:
                assert reply.status == 400
        assert await answer(urls[0], text="only you") == (200, "ok")
        assert await answer(urls[0], text="both", response_type="in_channel") == (200, "ok")
        assert [m.text for m in ana.ephemerals] == ["only you"] and ana.messages[-1].text == "both"
        assert await answer(urls[0], text="instead", replace_original=True) == (200, "ok")
        assert shown.text == "instead" and shown.buttons == []
        assert await answer(urls[0], delete_original=True) == (200, "ok")
        assert shown not in ana.messages
        assert await answer(urls[0], text="fifth") == (200, "ok")
        status, words = await answer(urls[0], text="sixth")
        assert status == 404 and "used_url" in words
        hand.seconds += 30 * 60
        status, words = await answer(urls[1], text="late")
        assert status == 404 and "expired_url" in words
