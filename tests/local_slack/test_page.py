"""The page in a real Chromium, on a phone and on a desk."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser, Page, expect
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack
from tests.local_slack.apps import app_of, card, connected
from tests.local_slack.screens import DESK, NEEDS, chromium
from tests.local_slack.screens import opened as open_page
from tests.local_slack.screens import shot as screenshot

SCREENS = {"phone": {"width": 390, "height": 844}, "desk": DESK}

pytestmark = NEEDS


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def opened(browser: Browser, slack: LocalSlack, screen: str, problems: list[str], query: str = "") -> Page:
    return await open_page(browser, slack, problems, query, SCREENS[screen])


async def shot(page: Page, name: str) -> None:
    await screenshot(page, f"local-slack-{name}")


def showcase() -> list[dict[str, Any]]:
    """One of each thing the page can draw, hostile text among it."""
    hostile = "echo '<img src=x onerror=alert(1)>' && printf '%s' \"*not bold* <@U0ANA> :x:\""
    pieces: list[dict[str, Any]] = [
        {"type": "text", "text": "A quote, "},
        {"type": "text", "text": "bold", "style": {"bold": True}},
        {"type": "text", "text": ", "},
        {"type": "text", "text": "code()", "style": {"code": True}},
        {"type": "text", "text": " and "},
        {"type": "link", "url": "https://example.com/a", "text": "a link"},
    ]
    bullets = [
        {"type": "rich_text_section", "elements": [{"type": "text", "text": words}]}
        for words in ("git push: sends commits to a remote", "reaches: network")
    ]
    return [
        {"type": "header", "text": {"type": "plain_text", "text": "Claude Code asks :warning:"}},
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "*Bash* in `~/projects/shop` because _git push_ &amp; ~not~ <@U0ANA>"},
            "fields": [
                {"type": "mrkdwn", "text": "*Host*\nbuild-7"},
                {"type": "mrkdwn", "text": "*Session*\n4f1c"},
            ],
        },
        {
            "type": "rich_text",
            "elements": [
                {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": hostile}]},
                {"type": "rich_text_quote", "elements": pieces},
                {"type": "rich_text_list", "style": "bullet", "elements": bullets},
            ],
        },
        {"type": "divider"},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "83 characters · 1 line · expires in 5 min"}]},
        *card(command="make", confirm=True)[2:],
    ]


@pytest.mark.parametrize("screen", SCREENS)
async def test_a_card_is_read_confirmed_and_answered(browser: Browser, slack: LocalSlack, screen: str) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    slack.add_user("U0ANA", name="Ana")
    slack.add_user("U0BEN", name="Ben")
    problems: list[str] = []
    app = app_of(slack)

    @app.action("always")
    async def always(ack: Any, body: dict[str, Any], client: AsyncWebClient, respond: Any) -> None:
        await ack()
        done = [
            {"type": "section", "text": {"type": "mrkdwn", "text": ":white_check_mark: Always allowed by <@U0ANA>"}}
        ]
        await client.chat_update(channel=body["channel"]["id"], ts=body["message"]["ts"], text="done", blocks=done)
        await respond(text="Saved the rule *make* for `~/projects/shop`.", replace_original=False)

    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="git push?", blocks=card(command="git push origin main"))
        await client.chat_postMessage(channel="U0ANA", text="make?", blocks=showcase())
        page = await opened(browser, slack, screen, problems, "&user=U0ANA")
        message = page.locator("article").last
        await expect(message.locator("pre")).to_have_text(
            "echo '<img src=x onerror=alert(1)>' && printf '%s' \"*not bold* <@U0ANA> :x:\""
        )
        await expect(message.locator(".mention")).to_have_text("@Ana")
        await expect(message.locator("strong").filter(has_text="Bash")).to_be_visible()
        await expect(page.locator("article img")).to_have_count(0)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
        await shot(page, f"{screen}-card")

        await message.get_by_role("button", name="Always").click()
        dialog = page.get_by_role("dialog", name="Always allow?")
        await expect(dialog).to_contain_text("Every make from now on")
        await shot(page, f"{screen}-confirm")
        await dialog.get_by_role("button", name="Cancel").click()
        await expect(dialog).to_have_count(0)
        await message.get_by_role("button", name="Always").click()
        await page.keyboard.press("Enter")  # the confirming button has the focus
        await expect(page.locator("article").nth(1)).to_contain_text("✅ Always allowed by @Ana")
        await expect(page.locator("article").nth(1).get_by_role("button")).to_have_count(0)
        note = page.locator("article.only-you")
        await expect(note).to_contain_text("Only visible to you")
        await shot(page, f"{screen}-answered")
        await note.get_by_role("button", name="Dismiss message").click()
        await expect(note).to_have_count(0)
    assert problems == []


@pytest.mark.parametrize("screen", SCREENS)
async def test_a_reason_is_chosen_and_written_by_keyboard(browser: Browser, slack: LocalSlack, screen: str) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    slack.add_user("U0ANA", name="Ana")
    problems: list[str] = []
    app = app_of(slack)
    states: list[dict[str, Any]] = []

    @app.action("more")
    async def more(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=form())

    @app.view("reason")
    async def reason(ack: Any, view: dict[str, Any]) -> None:
        states.append(view["state"]["values"])
        if len(states) == 1:
            await ack(response_action="errors", errors={"why": "Say what to do instead."})
        else:
            await ack()

    async with connected(slack, app):
        await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
        page = await opened(browser, slack, screen, problems)
        opener = page.get_by_role("button", name="More actions")
        await opener.focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("menuitem", name="Deny with a reason")).to_be_focused()
        await page.keyboard.press("ArrowDown")
        await expect(page.get_by_role("menuitem", name="More time")).to_be_focused()
        await page.keyboard.press("ArrowUp")
        await shot(page, f"{screen}-menu")
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Deny with a reason")
        await dialog.get_by_label("Push to a branch").check()
        await dialog.get_by_label("Tell the agent").fill("no")
        await dialog.get_by_role("button", name="Deny").click()
        await expect(dialog.get_by_role("alert").first).to_have_text("Say what to do instead.")
        await shot(page, f"{screen}-modal")
        await expect(dialog.get_by_label("Push to a branch")).to_be_checked()
        await dialog.get_by_label("Tell the agent").fill("use a branch")
        await dialog.get_by_role("button", name="Deny").click()
        await expect(dialog).to_have_count(0)
        assert states[-1]["why"]["text"]["value"] == "use a branch"
        assert states[-1]["canned"]["kind"]["selected_option"]["value"] == "branch"
    assert problems == []


def form() -> dict[str, Any]:
    def plain(text: str) -> dict[str, Any]:
        return {"type": "plain_text", "text": text}

    options = [{"text": plain("Push to a branch"), "value": "branch"}, {"text": plain("Not now"), "value": "later"}]
    return {
        "type": "modal",
        "callback_id": "reason",
        "title": plain("Deny with a reason"),
        "submit": plain("Deny"),
        "close": plain("Back"),
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": "The agent is told what you write."}},
            {
                "type": "input",
                "block_id": "canned",
                "optional": True,
                "label": plain("Reason"),
                "element": {"type": "radio_buttons", "action_id": "kind", "options": options},
            },
            {
                "type": "input",
                "block_id": "why",
                "label": plain("Tell the agent"),
                "hint": plain("One sentence is enough."),
                "element": {"type": "plain_text_input", "action_id": "text", "multiline": True},
            },
        ],
    }


async def test_a_press_that_nobody_acknowledges_is_marked(browser: Browser, slack: LocalSlack) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    slack.add_user("U0ANA", name="Ana")
    await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
    page = await opened(browser, slack, "phone", [])
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_role("alert")).to_contain_text("did not answer to “Approve” in time")
    await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    await shot(page, "phone-unanswered")


async def test_a_modal_nobody_answers_and_escape(browser: Browser, slack: LocalSlack) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    ana = slack.add_user("U0ANA", name="Ana")
    app = app_of(slack)

    @app.action("approve")
    async def approve(ack: Any, body: dict[str, Any], client: AsyncWebClient) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=form())

    async with connected(slack, app):
        parent = await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
        await client.chat_postMessage(channel="U0ANA", text="later", blocks=[])
        await client.chat_postMessage(channel="U0ANA", text="a reply", thread_ts=parent["ts"])
        page = await opened(browser, slack, "desk", [])
        await expect(page.locator("#messages article")).to_have_text(
            [re.compile("Approve.*1 reply"), re.compile("later")]
        )
        await page.get_by_role("button", name="Approve").click()
        dialog = page.get_by_role("dialog", name="Deny with a reason")
        await dialog.get_by_label("Tell the agent").fill("no")
    await dialog.get_by_role("button", name="Deny").click()  # the link is gone
    await expect(dialog.get_by_role("alert")).to_have_text("We had some trouble connecting. Try again?")
    await expect(dialog.get_by_label("Tell the agent")).to_have_value("no")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    assert ana.modal is None


async def test_a_long_section_is_folded_as_slack_folds_it(browser: Browser, slack: LocalSlack) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    slack.add_user("U0ANA", name="Ana")
    text = {"type": "mrkdwn", "text": "word " * 300}
    for more in ({}, {"expand": True}):
        await client.chat_postMessage(channel="U0ANA", text="x", blocks=[{"type": "section", "text": text, **more}])
    page = await opened(browser, slack, "desk", [])
    await expect(page.get_by_role("button", name="See more")).to_have_count(1)
    folded, whole = page.locator("article .text").first, page.locator("article .text").last
    assert await folded.evaluate("node => node.scrollHeight > node.clientHeight")
    assert await whole.evaluate("node => node.scrollHeight === node.clientHeight")
    await page.get_by_role("button", name="See more").click()
    assert await folded.evaluate("node => node.scrollHeight === node.clientHeight")


async def test_a_new_visitor_picks_whose_messages_to_see(browser: Browser, slack: LocalSlack) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    slack.add_user("U0ANA", name="Ana")
    slack.add_user("U0BEN", name="Ben")
    slack.add_user("U0EVE", name="Eve", team_id="TOTHER")
    await client.chat_postMessage(channel="U0BEN", text="for Ben")
    page = await opened(browser, slack, "desk", [])
    await expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(["AAna", "BBen"])
    await page.get_by_role("link", name="Ben").click()
    await expect(page.locator("article")).to_contain_text("for Ben")


async def test_without_the_key_or_from_another_site_nothing_is_shown_or_done(slack: LocalSlack) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    await client.chat_postMessage(channel="U0ANA", text="?", blocks=card())
    shown = await ana.wait_for_message()
    root = slack.api_url.removesuffix("/api/")
    key, own = {"key": slack.page_key}, {"Origin": root}
    press = {"do": "dismiss", "user": "U0ANA", "ts": shown.ts}
    async with aiohttp.ClientSession() as session:

        async def status(method: str, path: str, params: dict[str, str], headers: dict[str, str]) -> int:
            async with session.request(method, root + path, params=params, headers=headers, json=press) as answer:
                return answer.status

        wrong = {"key": "wrong"}
        evil = {"Origin": "http://evil.example"}
        renamed = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert await status("GET", "/", {}, {}) == 403
        assert await status("GET", "/", wrong, {}) == 403
        assert await status("GET", "/", key, renamed) == 403
        for method, path in (("POST", "/page/act"), ("GET", "/page/live")):
            assert await status(method, path, wrong, own) == 403
            assert await status(method, path, key, {}) == 403
            assert await status(method, path, key, evil) == 403
            assert await status(method, path, key, renamed) == 403
        assert await status("POST", "/page/act", key, own) == 200
        assert ana.messages == [shown]  # only what one person alone sees can be dismissed
        for body in ({"do": "press"}, {**press, "ts": "1.1"}, {**press, "do": "shrug"}, {**press, "user": "U0EVE"}, []):
            async with session.post(root + "/page/act", params=key, headers=own, json=body) as answer:
                assert answer.status == 400
        async with session.get(root + "/", params=key) as answer:
            policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
