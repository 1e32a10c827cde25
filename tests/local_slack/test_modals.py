"""Filling and answering modals: what Slack refuses by itself, and every answer an app may give to a submission."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack, Person
from tests.local_slack.apps import app_of, card, connected


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def question(action: str, **element: Any) -> dict[str, Any]:
    return {
        "type": "input",
        "block_id": f"b.{action}",
        "optional": action != "text",
        "label": plain(action),
        "element": {"action_id": action, **element},
    }


def view(title: str = "Questions") -> dict[str, Any]:
    options = [{"text": plain(name), "value": name} for name in ("one", "two", "three")]
    blocks = [
        question("text", type="plain_text_input", min_length=2, max_length=5),
        question("note", type="plain_text_input", initial_value="as is"),
        question("pick", type="static_select", options=options),
        question("mark", type="radio_buttons", options=options, initial_option=options[1]),
        question("tick", type="checkboxes", options=options, initial_options=options[:1]),
    ]
    return {"type": "modal", "callback_id": "q", "title": plain(title), "submit": plain("Go"), "blocks": blocks}


async def asked(slack: LocalSlack, client: AsyncWebClient, app: Any) -> Person:
    """Ana, with the modal open that the app opens on Approve."""
    ana = slack.add_user("U0ANA", name="Ana")

    @app.action("approve")
    async def approve(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=view())

    await client.chat_postMessage(channel="U0ANA", text="x", blocks=card())
    await ana.click(await ana.wait_for_message(), "Approve")
    await ana.wait_for_modal()
    return ana


async def test_every_kind_of_input(slack: LocalSlack, client: AsyncWebClient) -> None:
    app = app_of(slack)
    states: list[dict[str, Any]] = []

    @app.view("q")
    async def answered(ack: Any, view: dict[str, Any]) -> None:
        states.append(view["state"]["values"])
        await ack()

    async with connected(slack, app):
        ana = await asked(slack, client, app)
        modal = await ana.wait_for_modal()
        assert (modal.title, modal.labels) == ("Questions", ["text", "note", "pick", "mark", "tick"])
        assert "Questions" not in modal.plain() and "three" in modal.plain()
        for text, problem in (("", "complete"), ("x", "at least 2"), ("x" * 6, "at most 5")):
            result = await ana.submit(modal, {"text": text})
            assert list(result.errors) == ["b.text"] and problem in result.errors["b.text"]
            assert not result.closed and not result.acknowledged
        with pytest.raises(LookupError, match="no input nothing"):
            await ana.submit(modal, {"nothing": "x"})
        with pytest.raises(LookupError, match="no option 'nine'"):
            await ana.submit(modal, {"text": "fine", "pick": "nine"})
        assert states == []
        done = await ana.submit(modal, {"text": "fine", "pick": "three", "tick": ["one", "two"]})
        assert done.closed and done.errors == {}
    (state,) = states
    assert state["b.text"]["text"] == {"type": "plain_text_input", "value": "fine"}
    assert state["b.note"]["note"]["value"] == "as is"
    assert state["b.pick"]["pick"]["selected_option"]["value"] == "three"
    assert state["b.mark"]["mark"]["selected_option"]["value"] == "two"
    assert [one["value"] for one in state["b.tick"]["tick"]["selected_options"]] == ["one", "two"]


async def test_every_answer_to_a_submission(slack: LocalSlack, client: AsyncWebClient) -> None:
    app = app_of(slack)
    answers: list[dict[str, Any]] = [
        {"response_action": "update", "view": view("Second")},
        {"response_action": "push", "view": view("Third")},
        {"response_action": "update", "view": {**view(), "title": plain("x" * 25)}},
        {"response_action": "shrug"},
        {"response_action": "clear"},
    ]

    @app.view("q")
    async def answered(ack: Any) -> None:
        await ack(**answers.pop(0))

    async with connected(slack, app):
        ana = await asked(slack, client, app)
        titles = []
        for _ in range(4):
            result = await ana.submit(await ana.wait_for_modal(), {"text": "fine"})
            assert result.acknowledged and not result.closed
            titles.append((await ana.wait_for_modal()).title)
        assert titles == ["Second", "Third", "Third", "Third"]
        assert "shrug" in result.errors[""]
        assert (await ana.submit(await ana.wait_for_modal(), {"text": "fine"})).closed
        assert ana.modal is None


async def test_a_modal_the_app_does_not_answer_stays_open(slack: LocalSlack, client: AsyncWebClient) -> None:
    app = app_of(slack)
    async with connected(slack, app):
        ana = await asked(slack, client, app)
        modal = await ana.wait_for_modal()
    result = await ana.submit(modal, {"text": "fine"})  # the link is gone
    assert not result.acknowledged and not result.closed and ana.modal is modal
    assert await ana.close(modal) is None and ana.modal is None
