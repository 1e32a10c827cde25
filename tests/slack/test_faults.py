"""Whatever answers in Slack's place, one reading of it serves the start, the posts and the dialogs."""

from __future__ import annotations

import pytest
from aiohttp import web

from slack_gate.core.ports import RATELIMITED, Undelivered
from slack_gate.errors import SlackError
from slack_gate.slack import link
from slack_gate.slack.faults import FAILED, MAX_WAIT_S, MAX_WORDS, SOON_S, UNREACHABLE, Fault, fault_of
from slack_gate.slack.link import check_bot_token
from slack_gate.slack.messenger import Messenger
from tests.slack.test_cards import request
from tests.slack.test_messenger import ODD, Answer, answering


async def fault(answer: Answer) -> Fault:
    """What a call means that is answered so."""
    async with answering(answer, people=False) as client:
        with pytest.raises(FAILED) as caught:
            await client.auth_test()
    assert isinstance(caught.value, Exception)
    return fault_of(caught.value)


def said(error: object, status: int = 200, **more: object) -> Answer:
    return lambda: web.json_response({"ok": False, "error": error, **more}, status=status)


def too_soon(wait: str | None) -> Answer:
    headers = {} if wait is None else {"Retry-After": wait}
    return lambda: web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)


async def test_slacks_code_and_whether_it_passes() -> None:
    assert await fault(said("invalid_auth")) == Fault("invalid_auth", "invalid_auth", False)
    assert await fault(said("invalid_auth", 500)) == Fault("invalid_auth", "invalid_auth")
    assert await fault(said("internal_error")) == Fault("internal_error", "internal_error")
    assert await fault(said(RATELIMITED)) == Fault(RATELIMITED, RATELIMITED, wait=SOON_S)
    assert await fault(said(None)) == Fault("HTTP 200", "HTTP 200")
    scope = await fault(said("missing_scope", needed="chat:write"))
    assert scope == Fault("missing_scope", "missing_scope (needed: chat:write)", False)


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("9" * 400, SOON_S),
        ("9" * 40, MAX_WAIT_S),
        ("inf", SOON_S),
        ("nan", SOON_S),
        ("-3", SOON_S),
        ("0", SOON_S),
        ("soon", SOON_S),
        ("", SOON_S),
        (None, SOON_S),
    ],
)
async def test_how_long_slack_has_us_wait_is_bounded(wait: str | None, seconds: float) -> None:
    assert await fault(too_soon(wait)) == Fault(RATELIMITED, RATELIMITED, wait=seconds)


@pytest.mark.parametrize("answer", [said("a\n\u202eb" * 500), said({"a": "b" * 5000})], ids=["a text", "an object"])
async def test_what_an_answer_says_is_cut_and_made_visible(answer: Answer) -> None:
    found = await fault(answer)
    assert len(found.words) <= MAX_WORDS
    assert found.words.isprintable() and "\u202e" not in found.words
    assert not found.passes
    needed = (await fault(said("missing_scope", needed="\u202e" * 5000))).words
    assert len(needed) < 2 * MAX_WORDS and needed.isprintable()


async def test_nobody_there() -> None:
    client = link.web_client("xoxb-x", "http://127.0.0.1:1/api/")
    with pytest.raises(FAILED) as caught:
        await client.auth_test()
    assert isinstance(caught.value, Exception)
    assert fault_of(caught.value) == Fault(UNREACHABLE, "no answer from Slack (ClientConnectorError)")


@pytest.mark.parametrize("name", ODD)
async def test_a_post_whose_approver_nobody_can_look_up_is_tried_again_like_any_other(name: str) -> None:
    answer, words, retry_after = ODD[name]
    async with answering(answer, people=False) as client:
        with pytest.raises(Undelivered) as caught:
            await Messenger(client).post(request(command="ls"), "U0ANA")
    assert (words in caught.value.error, caught.value.retry_after) == (True, retry_after)


@pytest.mark.parametrize("name", ODD)
async def test_a_start_says_why_in_a_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "CONNECT_S", 0.0)
    async with answering(ODD[name][0], people=False) as client:
        with pytest.raises(SlackError, match=r"be reached|refused|holds") as caught:
            await check_bot_token(client)
        assert "object" not in str(caught.value)
