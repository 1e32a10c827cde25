"""What people do beside pressing a message's buttons: Home tab, slash commands, messages, reactions, threads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack
from slack_gate.local_slack.server import own_manifest
from tests.local_slack.apps import app_of, card, client_of, connected

EVENTS = ["app_home_opened", "message.im", "reaction_added", "reaction_removed"]


def manifest(**changes: Any) -> dict[str, Any]:
    """Slack-gate's own with everything on, or with `home_tab`, `scopes` or `events` as given."""
    found = own_manifest()
    found["features"]["app_home"] |= {"home_tab_enabled": changes.get("home_tab", True)}
    found["features"]["app_home"] |= {"messages_tab_read_only_enabled": False}
    found["features"]["slash_commands"] = [{"command": "/gate", "description": "The gate", "usage_hint": "status"}]
    everything = ["chat:write", "im:history", "users:read", "commands", "reactions:read"]
    found["oauth_config"]["scopes"]["bot"] = changes.get("scopes", everything)
    found["settings"]["event_subscriptions"] = {"bot_events": changes.get("events", EVENTS)}
    return found


@pytest.fixture
async def slack() -> AsyncIterator[LocalSlack]:
    async with LocalSlack(manifest=manifest()) as server:
        yield server


@pytest.fixture
def client(slack: LocalSlack) -> AsyncWebClient:
    return client_of(slack)


def home(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "home", "blocks": list(blocks), **more}


def heard(slack: LocalSlack, app: AsyncApp, *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds that the app takes from now on."""
    bodies: list[dict[str, Any]] = []

    async def take(body: dict[str, Any]) -> None:
        bodies.append(body)
        slack.workspace.changed()

    for kind in kinds:
        app.event(kind)(take)
    return bodies


async def test_a_home_is_opened_drawn_and_pressed(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    pressed: list[dict[str, Any]] = []

    @app.event("app_home_opened")
    async def opened(event: dict[str, Any], client: AsyncWebClient) -> None:
        view = home(*card(confirm=True), private_metadata="mine")
        await client.views_publish(user_id=event["user"], view=view, hash=event.get("view", {}).get("hash"))

    @app.action("always")
    async def always(ack: Any, body: dict[str, Any]) -> None:
        pressed.append(body)
        await ack()

    async with connected(slack, app):
        assert ana.home is None
        told = await ana.open_home()
        assert told is not None and told.acknowledged
        drawn = await ana.wait_for_home()
        assert drawn.buttons == ["Approve", "Deny", "Always"]
        declined = await ana.click_home(drawn, "Always", confirm=False)
        assert not declined.sent and "Every git push" in (declined.confirm or "")
        assert (await ana.click_home(drawn, "Always")).acknowledged
        await ana.open_home()
        again = await ana.wait_for_home(lambda home: home is not drawn)
    [body] = pressed
    assert body["container"] == {"type": "view", "view_id": drawn.id}
    assert body["view"]["type"] == "home" and body["view"]["private_metadata"] == "mine"
    assert body["view"]["hash"] == drawn.hash != again.hash
    assert not {"channel", "message", "response_url"} & set(body)
    assert again.id == drawn.id  # the tab is the same, its drawing is new


@pytest.mark.parametrize(
    ("view", "error"),
    [
        (home(*[{"type": "divider"}] * 101), "no more than 100 items allowed"),
        (home(title={"type": "plain_text", "text": "x"}), "invalid additional property: title"),
        ({"type": "modal", "title": {"type": "plain_text", "text": "x"}, "blocks": []}, "unsupported type: modal"),
        (home({"type": "image", "image_url": "https://example.com", "alt_text": "x"}), "unsupported type: image"),
    ],
)
async def test_a_home_that_slack_would_refuse(
    slack: LocalSlack, client: AsyncWebClient, view: dict[str, Any], error: str
) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    with pytest.raises(SlackApiError) as refused:
        await client.views_publish(user_id="U0ANA", view=view)
    assert refused.value.response["error"] == "invalid_arguments"
    assert error in refused.value.response["response_metadata"]["messages"][0]
    assert ana.home is None


async def test_an_old_hash_a_stranger_and_a_tab_that_is_off(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.add_user("U0ANA", name="Ana")
    first = await client.views_publish(user_id="U0ANA", view=home())
    await client.views_publish(user_id="U0ANA", view=home(), hash=first["view"]["hash"])
    for error, arguments in (
        ("hash_conflict", {"user_id": "U0ANA", "hash": first["view"]["hash"]}),
        ("invalid_arguments", {"user_id": "U0NOBODY"}),
    ):
        with pytest.raises(SlackApiError) as refused:
            await client.views_publish(view=home(), **arguments)
        assert refused.value.response["error"] == error
    async with LocalSlack(manifest=manifest(home_tab=False)) as other:
        other.add_user("U0ANA", name="Ana")
        with pytest.raises(SlackApiError) as refused:
            await client_of(other).views_publish(user_id="U0ANA", view=home())
        assert refused.value.response["error"] == "not_enabled"


async def test_a_modal_method_takes_no_home(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.add_user("U0ANA", name="Ana")
    with pytest.raises(SlackApiError, match="unsupported type: home"):
        await client.views_open(trigger_id="x", view=home())


async def test_a_slash_command_is_answered_with_the_acknowledgement_or_later(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    bodies: list[dict[str, Any]] = []

    @app.command("/gate")
    async def gate(ack: Any, body: dict[str, Any], respond: Any) -> None:
        bodies.append(body)
        if body["text"] == "late":
            await ack()
            await respond(text="later")
        else:
            await ack(text="at once")

    async with connected(slack, app):
        first = await ana.command("/gate status  ")
        second = await ana.command("/gate late")
        await slack.wait_for_message_version(second.responses[0], lambda version: True)
        assert (await ana.command("/else")).error == (
            "/else is not a valid command. In Slack, all text that begins with a / is a command."
        )
    assert first.acknowledged and first.error is None
    assert [message.text for message in [*first.responses, *second.responses]] == ["at once", "later"]
    assert all(message.only_for == "U0ANA" for message in [*first.responses, *second.responses])
    assert ana.messages == []
    assert bodies[0]["text"] == "status" and bodies[0]["command"] == "/gate"
    assert (bodies[0]["user_id"], bodies[0]["team_id"]) == ("U0ANA", slack.team_id)
    assert bodies[0]["is_enterprise_install"] == "false"
    assert (await ana.command("/gate status")).error == "/gate failed with the error “dispatch_failed”"


async def test_a_command_that_nobody_takes_within_three_seconds(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    async with connected(slack, app_of(slack)):
        typed = await ana.command("/gate status")
    assert typed.error == "/gate failed with the error “operation_timeout”"
    assert typed.delivery is not None and typed.delivery.seconds >= 3
    assert typed.responses == []


async def test_messages_of_people_reach_the_app_and_its_own_come_back_marked(
    slack: LocalSlack, client: AsyncWebClient
) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = AsyncApp(client=client_of(slack), process_before_response=True, ignoring_self_events_enabled=False)
    bodies = heard(slack, app, "message")
    async with connected(slack, app):
        root = await client.chat_postMessage(channel="U0ANA", text="a card")
        await client.chat_update(channel=root["channel"], ts=root["ts"], text="changed")
        shown = ana.messages[0]
        await ana.say("status & <b>")
        await ana.say("pending", thread=shown)
        await slack.workspace.wait_for(lambda: len(bodies) >= 4 or None, 5, lambda: f"{len(bodies)} of 4 came")
    events = [body["event"] for body in bodies]
    said = [event for event in events if event.get("user") == "U0ANA"]
    assert [(event["text"], event.get("thread_ts")) for event in said] == [
        ("status &amp; &lt;b&gt;", None),
        ("pending", shown.ts),
    ]
    assert all(event["channel"] == ana.channel and event["channel_type"] == "im" for event in events)
    assert all("bot_id" not in event for event in said)
    own = [event for event in events if event not in said]
    assert {event.get("subtype") for event in own} == {None, "message_changed"}
    assert all((event.get("message") or event)["bot_id"] for event in own)
    assert len({body["event_id"] for body in bodies}) == 4
    with pytest.raises(SlackApiError, match="cant_update_message"):
        await client.chat_update(channel=ana.channel, ts=said[0]["ts"], text="not yours")


async def test_reactions_are_told_once_and_taken_back(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    bodies = heard(slack, app, "reaction_added", "reaction_removed")
    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="?")
        message = await ana.wait_for_message()
        told = await ana.react(message, "+1")
        assert told is not None and told.acknowledged
        assert await ana.react(message, "+1") is None
        assert message.reactions == {"+1": ["U0ANA"]}
        await ana.unreact(message, "+1")
    assert message.reactions == {}
    assert [body["event"]["type"] for body in bodies] == ["reaction_added", "reaction_removed"]
    assert bodies[0]["event"]["item"] == {"type": "message", "channel": ana.channel, "ts": message.ts}
    assert bodies[0]["event"]["item_user"] == slack.workspace.bot.id


async def test_an_event_without_subscription_or_scope_is_not_sent(slack: LocalSlack) -> None:
    for changes in ({"events": []}, {"scopes": ["chat:write"]}):
        async with LocalSlack(manifest=manifest(**changes)) as other:
            ana = other.add_user("U0ANA", name="Ana")
            await client_of(other).chat_postMessage(channel="U0ANA", text="?")
            assert await ana.react(ana.messages[0], "+1") is None
            error = (await ana.command("/gate status")).error or ""
            assert ("not a valid command" in error) == ("scopes" in changes)


async def test_an_event_that_nobody_takes_is_sent_again_and_marked(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    retries: list[str] = []

    @app.event("app_home_opened")
    async def opened(body: dict[str, Any], request: Any) -> None:
        retries.append(request.headers.get("x-slack-retry-num", ["0"])[0])
        if len(retries) == 1:
            raise RuntimeError("not now")

    async with connected(slack, app):
        told = await ana.open_home()
    assert told is not None and told.acknowledged
    assert retries == ["0", "1"]
