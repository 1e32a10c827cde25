"""A real Bolt app in Socket Mode over the local server: what a click does, there and back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack
from tests.local_slack.apps import app_of, card, connected

DECIDED: list[dict[str, object]] = [{"type": "section", "text": {"type": "plain_text", "text": "Approved by Ana"}}]


async def test_a_click_reaches_bolt_and_the_card_is_redrawn(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    bodies: list[dict[str, Any]] = []

    @app.action("approve")
    async def approve(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        bodies.append(body)
        await client.chat_update(channel=body["channel"]["id"], ts=body["message"]["ts"], text="done", blocks=DECIDED)

    async with connected(slack, app):
        posted = await client.chat_postMessage(channel="U0ANA", text="git push?", blocks=card())
        shown = await ana.wait_for_message(lambda m: m.has_button("Approve"))
        assert (shown.channel, shown.ts) == (posted["channel"], posted["ts"])
        assert shown.buttons == ["Approve", "Deny", "Always"]
        assert "Claude Code* wants to run & waits" in shown.plain()
        click = await ana.click(shown, "Approve")
        assert click.acknowledged and 0 < click.seconds < 3 and click.confirm is None
        after = await shown.wait_for_update(lambda m: not m.buttons)
    assert after.plain() == "Approved by Ana"
    assert [version.buttons for version in shown.versions] == [["Approve", "Deny", "Always"], []]
    body = bodies[0]
    assert body["user"] == {"id": "U0ANA", "username": "ana", "name": "ana", "team_id": slack.team_id}
    assert body["team"]["id"] == slack.team_id and body["channel"]["id"] == "D0ANA"
    assert body["container"]["message_ts"] == posted["ts"] and body["container"]["is_ephemeral"] is False
    assert body["message"]["blocks"] == shown.versions[0].blocks
    assert body["actions"][0] | {"action_ts": ""} == {
        "type": "button",
        "action_id": "approve",
        "block_id": "gate.r1",
        "text": {"type": "plain_text", "text": "Approve"},
        "value": "r1",
        "style": "primary",
        "action_ts": "",
    }


async def test_a_declined_confirm_sends_nothing(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    pressed: list[str] = []

    @app.action("always")
    async def always(ack: Any, body: dict[str, Any]) -> None:
        pressed.append(body["actions"][0]["value"])
        await ack()

    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="?", blocks=card(command="make", confirm=True))
        shown = await ana.wait_for_message()
        declined = await ana.click(shown, "Always", confirm=False)
        assert declined.confirm == "Always allow? Every make from now on"
        assert not declined.sent and not declined.acknowledged and pressed == []
        accepted = await ana.click(shown, "Always")
        assert accepted.acknowledged and accepted.confirm == declined.confirm and pressed == ["r1"]


async def test_an_overflow_option_opens_a_modal_whose_answer_comes_back(
    slack: LocalSlack, client: AsyncWebClient
) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    views: list[dict[str, Any]] = []

    @app.action("more")
    async def more(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        assert body["actions"][0]["selected_option"]["value"] == "deny_reason:r1"
        opened = await client.views_open(trigger_id=body["trigger_id"], view=reason_view())
        await client.views_update(
            view_id=opened["view"]["id"], hash=opened["view"]["hash"], view=reason_view("Deny it")
        )

    @app.view("reason")
    async def reason(ack: Any, view: dict[str, Any]) -> None:
        views.append(view)
        if view["state"]["values"]["why"]["reason"]["value"] == "no":
            await ack(response_action="errors", errors={"why": "Say more"})
        else:
            await ack()

    @app.view_closed("reason")
    async def closed(ack: Any, body: dict[str, Any]) -> None:
        views.append(body["view"])
        await ack()

    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
        shown = await ana.wait_for_message()
        assert (await ana.choose(shown, "Deny with a reason")).acknowledged
        modal = await ana.wait_for_modal(lambda m: m.title == "Deny it")
        assert modal.labels == ["Why?"]
        empty = await ana.submit(modal)
        assert empty.errors == {"why": "Please complete this required field."} and views == []
        short = await ana.submit(modal, {"reason": "no"})
        assert short.errors == {"why": "Say more"} and not short.closed and ana.modal is modal
        good = await ana.submit(modal, {"reason": "use a branch"})
        assert good.closed and good.acknowledged and good.errors == {} and ana.modal is None
        assert views[-1]["state"]["values"] == {
            "why": {"reason": {"type": "plain_text_input", "value": "use a branch"}}
        }
        assert views[-1]["private_metadata"] == "r1"
        await ana.choose(shown, "Deny with a reason")
        told = await ana.close(await ana.wait_for_modal())
        assert told is not None and told.acknowledged and len(views) == 3


def reason_view(title: str = "Deny") -> dict[str, Any]:
    return {
        "type": "modal",
        "callback_id": "reason",
        "private_metadata": "r1",
        "notify_on_close": True,
        "title": {"type": "plain_text", "text": title},
        "submit": {"type": "plain_text", "text": "Deny"},
        "blocks": [
            {
                "type": "input",
                "block_id": "why",
                "label": {"type": "plain_text", "text": "Why?"},
                "element": {"type": "plain_text_input", "action_id": "reason", "multiline": True},
            }
        ],
    }


async def test_an_answer_by_response_url_is_seen_by_the_clicker_alone(
    slack: LocalSlack, client: AsyncWebClient
) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)

    @app.action("approve")
    async def approve(ack: Any, respond: Any) -> None:
        await ack()
        await respond(text="too late", replace_original=False)

    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
        shown = await ana.wait_for_message()
        click = await ana.click(shown, "Approve")
        note = await ana.wait_for_ephemeral(lambda m: "too late" in m.text)
        assert click.responses == [note] and note.only_for == "U0ANA"
        foreign = await slack.send_action(user="U0EVE", action_id="approve", channel=shown.channel, message_ts=shown.ts)
        await slack.workspace.wait_for(lambda: foreign.responses or None, 10, lambda: "no answer to Eve")
        assert foreign.responses[0].only_for == "U0EVE" and ana.ephemerals == [note]
        assert ana.messages == [shown] and shown.has_button("Approve")


async def test_what_bolt_does_not_acknowledge_in_three_seconds_is_not_acknowledged(
    slack: LocalSlack, client: AsyncWebClient
) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)  # no listener: Bolt answers nothing
    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
        click = await ana.click(await ana.wait_for_message(), "Approve")
    assert click.sent and not click.acknowledged and click.seconds >= 3


async def test_a_click_without_a_link_is_lost_at_once(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
    click = await ana.click(await ana.wait_for_message(), "Approve")
    assert not click.acknowledged and click.seconds == 0 and slack.links == []


async def test_clicks_spread_over_the_links_and_one_may_come_twice(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    heard: list[int] = []
    apps = [app_of(slack) for _ in range(3)]

    def listen(number: int) -> None:
        @apps[number].action("approve")
        async def approve(ack: Any) -> None:
            heard.append(number)
            await ack()

    for number in range(3):
        listen(number)
    async with connected(slack, apps[0]), connected(slack, apps[1], 1), connected(slack, apps[2]):
        await slack.wait_for_link(3)
        await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
        shown = await ana.wait_for_message()
        clicks = await asyncio.gather(*(ana.click(shown, "Approve") for _ in range(40)))
        assert all(click.acknowledged for click in clicks)
        assert set(heard) == {0, 1, 2} and len(heard) == 40
        again = await slack.redeliver(clicks[0])
        assert again.acknowledged and len(heard) == 41


async def test_forged_foreign_and_stale_clicks_arrive_as_they_were_made(
    slack: LocalSlack, client: AsyncWebClient
) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)
    bodies: list[dict[str, Any]] = []

    @app.action("approve")
    async def approve(ack: Any, body: dict[str, Any]) -> None:
        bodies.append(body)
        await ack()

    async with connected(slack, app):
        posted = await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
        where = {"channel": posted["channel"], "message_ts": posted["ts"]}
        forged = await slack.send_action(user="U0EVE", team="TEVIL", action_id="approve", value="r9", **where)
        assert forged.acknowledged
        assert (bodies[0]["user"]["id"], bodies[0]["team"]["id"]) == ("U0EVE", "TEVIL")
        assert bodies[0]["user"]["team_id"] == "TEVIL" and bodies[0]["actions"][0]["value"] == "r9"
        await slack.send_action(user="U0ANA", action_id="approve", message_ts="1.000001", team=None, message=None)
        assert bodies[1]["message"] is None and bodies[1]["container"]["message_ts"] == "1.000001"
        shown = await ana.wait_for_message()
        await client.chat_update(channel=shown.channel, ts=shown.ts, text="done", blocks=DECIDED)
        with pytest.raises(LookupError, match="Approve"):
            await ana.click(shown, "Approve")
        stale = await ana.click(shown, "Approve", version=0)
        assert stale.acknowledged and bodies[2]["message"]["text"] == "?"
