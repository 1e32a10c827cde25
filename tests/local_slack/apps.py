"""Real clients and apps for the tests, and a card to post."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack


def client_of(slack: LocalSlack, token: str | None = None) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token if token is None else token, base_url=slack.api_url, retry_handlers=[])


def app_of(slack: LocalSlack) -> AsyncApp:
    return AsyncApp(client=client_of(slack), process_before_response=True)


@asynccontextmanager
async def connected(slack: LocalSlack, app: AsyncApp, links: int = 1) -> AsyncIterator[list[AsyncSocketModeHandler]]:
    """The app on `links` Socket Mode connections of its own."""
    handlers = [AsyncSocketModeHandler(app, slack.app_token, ping_interval=1) for _ in range(links)]
    try:
        for handler in handlers:
            await handler.connect_async()
        await slack.wait_for_link(links)
        yield handlers
    finally:
        for handler in handlers:
            await handler.close_async()


def card(*, command: str = "git push", confirm: bool = False) -> list[dict[str, object]]:
    """A small approval card."""
    always: dict[str, object] = {
        "type": "button",
        "action_id": "always",
        "text": {"type": "plain_text", "text": "Always"},
        "value": "r1",
    }
    if confirm:
        always["confirm"] = {
            "title": {"type": "plain_text", "text": "Always allow?"},
            "text": {"type": "plain_text", "text": f"Every {command} from now on"},
            "confirm": {"type": "plain_text", "text": "Save"},
            "deny": {"type": "plain_text", "text": "Cancel"},
        }
    return [
        {"type": "section", "text": {"type": "mrkdwn", "text": "*Claude Code* wants to run &amp; waits"}},
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_preformatted", "elements": [{"type": "text", "text": command}]}],
        },
        {
            "type": "actions",
            "block_id": "gate.r1",
            "elements": [
                {
                    "type": "button",
                    "action_id": "approve",
                    "style": "primary",
                    "text": {"type": "plain_text", "text": "Approve"},
                    "value": "r1",
                },
                {
                    "type": "button",
                    "action_id": "deny",
                    "style": "danger",
                    "text": {"type": "plain_text", "text": "Deny"},
                    "value": "r1",
                },
                always,
                {
                    "type": "overflow",
                    "action_id": "more",
                    "options": [
                        {"text": {"type": "plain_text", "text": "Deny with a reason"}, "value": "deny_reason:r1"},
                        {"text": {"type": "plain_text", "text": "More time"}, "value": "more_time:r1"},
                    ],
                },
            ],
        },
    ]
