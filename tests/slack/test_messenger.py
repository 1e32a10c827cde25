"""Whatever Slack answers, a post is a message id or `Undelivered`: nothing else comes out of the messenger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.core.ports import Undelivered
from slack_gate.slack.link import web_client
from slack_gate.slack.messenger import RETRY_S, Messenger
from tests.slack.test_cards import request

Answer = Callable[[], web.Response]


@asynccontextmanager
async def answering(answer: Answer, people: bool = True) -> AsyncIterator[AsyncWebClient]:
    """A client of a Slack that answers with `answer`; with `people`, it knows every user all the same."""

    async def handle(asked: web.Request) -> web.Response:
        known = {"ok": True, "user": {"id": "U0ANA", "name": "ana"}}
        return web.json_response(known) if people and asked.path.endswith("/users.info") else answer()

    app = web.Application()
    app.router.add_route("*", "/api/{method}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield web_client("xoxb-x", f"http://127.0.0.1:{runner.addresses[0][1]}/api/")
    finally:
        await runner.cleanup()


ODD: dict[str, tuple[Answer, str, float | None]] = {
    "no JSON": (lambda: web.Response(text="{", content_type="application/json"), "not Slack's", RETRY_S),
    "a page": (lambda: web.Response(text="<html>", content_type="text/html"), "HTTP 200", RETRY_S),
    "plain text": (lambda: web.Response(text="hello"), "not Slack's", RETRY_S),
    "a list": (lambda: web.json_response([1]), "not Slack's", RETRY_S),
    "null": (lambda: web.json_response(None), "not Slack's", RETRY_S),
    "no id": (lambda: web.json_response({"ok": True}), "without a message id", RETRY_S),
    "an odd id": (lambda: web.json_response({"ok": True, "channel": "D1", "ts": 5}), "without a message id", RETRY_S),
    "no error": (lambda: web.json_response({"ok": False}), "HTTP 200", RETRY_S),
    "missing scope": (
        lambda: web.json_response({"ok": False, "error": "missing_scope", "needed": "chat:write"}),
        "missing_scope (needed: chat:write)",
        None,
    ),
    "429": (lambda: web.json_response({"ok": False}, status=429, headers={"Retry-After": "7"}), "ratelimited", 7.0),
    "429, odd": (
        lambda: web.json_response({"ok": False}, status=429, headers={"Retry-After": "soon"}),
        "ratelimited",
        RETRY_S,
    ),
    "429, bare": (lambda: web.Response(status=429), "ratelimited", RETRY_S),
    "502": (lambda: web.Response(status=502, text="<html>", content_type="text/html"), "HTTP 502", RETRY_S),
}


@pytest.mark.parametrize("name", ODD)
async def test_odd_answers_to_a_post(name: str) -> None:
    answer, said, retry_after = ODD[name]
    async with answering(answer) as client:
        with pytest.raises(Undelivered) as caught:
            await Messenger(client).post(request(command="ls"), "U0ANA")
    assert said in caught.value.error
    assert caught.value.retry_after == retry_after


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        ("message_not_found", None),
        ("cant_update_message", None),
        ("token_revoked", RETRY_S),
        ("no_permission", RETRY_S),
    ],
)
async def test_a_redraw_is_given_up_only_where_no_button_is_left(error: str, retry_after: float | None) -> None:
    async with answering(lambda: web.json_response({"ok": False, "error": error})) as client:
        with pytest.raises(Undelivered) as caught:
            await Messenger(client).redraw(request(command="ls"), "D0ANA", "1.0")
    assert caught.value.retry_after == retry_after
