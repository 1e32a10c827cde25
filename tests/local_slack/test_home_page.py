"""The gate's own Home tab, commands, threads and reactions on the page, as a person uses them on a phone and a desk."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.daemon.house import House, house
from tests.local_slack.screens import DESK, NEEDS, PHONE, chromium, fits, opened, shot

SCREENS: dict[str, dict[str, Any]] = {
    "phone": {"size": PHONE},
    "phone-dark": {"size": PHONE, "color_scheme": "dark"},
    "desk": {"size": DESK},
    "desk-dark": {"size": DESK, "color_scheme": "dark"},
}
HOSTILE = "git push '<!channel> <@U0ANA> *b* :tada:' \u202e\u2066 # <img src=x onerror=alert(1)>"
LONG = "python3 - <<'EOF'\n" + "\n".join(f"print('line {number} of what would run')" for number in range(90)) + "\nEOF"

pytestmark = NEEDS


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def waiting(h: House, *commands: str) -> None:
    """So many hooks wait, and each has its card."""
    for command in commands:
        await h.start(h.event(command=command, description="Publish the release"))
        await h.ana.wait_for_message(lambda message, command=command: command[:30] in message.plain())  # type: ignore[misc]


async def home(browser: Browser, h: House, problems: list[str], screen: str) -> Page:
    return await opened(browser, h.slack, problems, "&user=U0ANA&tab=home", **SCREENS[screen])


@pytest.mark.parametrize("screen", SCREENS)
async def test_the_home_tab_is_read_and_decided_on(browser: Browser, tmp_path: Path, screen: str) -> None:
    problems: list[str] = []
    async with house(tmp_path, wait=300) as h:
        page = await home(browser, h, problems, screen)
        await expect(page.get_by_role("heading", name="Nothing waits")).to_be_visible()
        await shot(page, f"home-{screen}-empty")
        await waiting(h, "git push origin main", HOSTILE, "npm publish --access public", LONG)
        tab = page.locator("#home")
        await expect(tab.get_by_role("heading", name="4 requests wait")).to_be_visible()
        await expect(tab.locator("pre").nth(0)).to_have_text("git push origin main")
        await expect(tab.locator("pre").nth(1)).to_contain_text("\\u{202e}\\u{2066}")
        await expect(tab.locator(".mention, img")).to_have_count(0)
        await expect(tab.get_by_role("button", name="Open the card")).to_have_count(1)
        assert await fits(page)
        await shot(page, f"home-{screen}-waiting")

        await tab.get_by_role("button", name="Always").first.click()
        dialog = page.get_by_role("dialog", name="Always allow?")
        await expect(dialog).to_contain_text("git push")
        await shot(page, f"home-{screen}-always")
        await dialog.get_by_role("button", name="Always allow").click()
        await expect(tab.get_by_role("heading", name="Runs without asking: 1")).to_be_visible()
        await expect(tab.get_by_role("heading", name=re.compile("Decided today: [12]"))).to_be_visible()
        for left in ("2 requests wait", "1 request waits"):
            await tab.get_by_role("button", name="Deny").first.click()
            await expect(tab.get_by_role("heading", name=left)).to_be_visible()
        await expect(tab.get_by_role("button", name="Approve")).to_have_count(0)
        await tab.evaluate("node => node.scrollTo(0, node.scrollHeight)")
        await shot(page, f"home-{screen}-decided")

        await tab.get_by_role("button", name="Revoke").click()
        await shot(page, f"home-{screen}-revoke")
        await page.get_by_role("dialog", name="Revoke this rule?").get_by_role("button", name="Revoke").click()
        await expect(tab.get_by_role("button", name="Revoke")).to_have_count(0)
        await tab.get_by_role("button", name="Pause").click()
        await page.get_by_role("dialog", name="Pause slack-gate?").get_by_role("button", name="Pause").click()
        await expect(tab.get_by_text("Paused by Ana since")).to_be_visible()
        await tab.evaluate("node => node.scrollTo(0, 0)")
        await shot(page, f"home-{screen}-paused")
        await tab.get_by_role("button", name="Resume").click()
        await expect(tab.get_by_text("Gated calls are asked in Slack.")).to_be_visible()
        assert await fits(page)
    assert problems == []


async def test_a_press_on_what_has_ended_opens_a_dialog(browser: Browser, tmp_path: Path) -> None:
    async with house(tmp_path, wait=300) as h:
        page = await home(browser, h, [], "phone")
        await waiting(h, "git push origin main")
        approve = page.locator("#home").get_by_role("button", name="Approve")
        await expect(approve).to_be_visible()
        h.slack.fail_next("views.publish", "ratelimited", times=1, delay=0)
        [request] = await h.running.store.requests(1)
        shown = h.ana.home
        await h.running.gate.cancel(request.id)
        assert shown is not None
        await h.ana.click_home(shown, "Approve")
        dialog = page.get_by_role("dialog", name="slack-gate")
        await expect(dialog).to_contain_text("Too late, nothing changed: the agent stopped waiting.")
        await shot(page, "home-phone-too-late")
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)


@pytest.mark.parametrize("screen", SCREENS)
async def test_commands_threads_and_reactions(browser: Browser, tmp_path: Path, screen: str) -> None:
    problems: list[str] = []
    async with house(tmp_path, reactions=True, wait=300) as h:
        await waiting(h, "git push origin main", "npm publish --access public")
        page = await opened(browser, h.slack, problems, "&user=U0ANA", **SCREENS[screen])
        field = page.get_by_role("textbox", name="Message slack-gate")
        await field.fill("/")
        await expect(page.get_by_text("What waits, the rules, a pause")).to_be_visible()
        await shot(page, f"messages-{screen}-command")
        await field.fill("/gate status")
        await field.press("Enter")
        only = page.locator("article.only-you")
        await expect(only).to_contain_text("2 requests wait.")
        await field.fill("/nonsense")
        await field.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("/nonsense is not a valid command")
        await field.fill("help")
        await field.press("Enter")
        await expect(only.last).to_contain_text("/gate resume")
        assert await fits(page)
        await shot(page, f"messages-{screen}-answers")

        message = page.locator("#messages article").filter(has=page.get_by_role("button", name="Approve")).first
        await message.hover()
        await message.get_by_role("button", name="Reply in thread").click()
        thread = page.locator("#thread")
        await expect(thread.get_by_text("git push origin main").first).to_be_visible()
        reply = thread.get_by_role("textbox", name="Reply…")
        await reply.fill("pending")
        await reply.press("Enter")
        await expect(thread.locator("article")).to_have_count(3)  # the card, the word, the answer
        await expect(thread.locator("article").last).to_contain_text("npm publish --access public")
        await reply.fill("/gate status")
        await reply.press("Enter")
        await expect(thread.get_by_role("alert")).to_have_text("/gate is not supported in threads. Sorry!")
        assert await fits(page)
        await shot(page, f"thread-{screen}")
        await thread.get_by_role("button", name="Close thread").click()
        await expect(thread).to_be_hidden()
        await expect(message.get_by_role("button", name="2 replies")).to_be_visible()

        await message.scroll_into_view_if_needed()
        await message.hover()
        await message.get_by_role("button", name="Add reaction").click()
        await shot(page, f"messages-{screen}-emoji")
        await page.get_by_role("button", name="+1", exact=True).last.click()
        decided = page.locator("#messages article").filter(has_text="Approved by Ana")
        await expect(decided).to_be_visible()
        await expect(decided.get_by_role("button", name="+1, 1")).to_have_attribute("aria-pressed", "true")
        await shot(page, f"messages-{screen}-reacted")
    assert problems == []
