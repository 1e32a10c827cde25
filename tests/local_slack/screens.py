"""A real Chromium for the tests of the page, and where its screenshots go: `TEST_ARTIFACTS`, else `test-artifacts/`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from slack_gate.local_slack import LocalSlack

ARTIFACTS = Path(os.environ.get("TEST_ARTIFACTS") or Path(__file__).parents[2] / "test-artifacts")
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 800}
PATIENCE_MS = 100_000  # on a slow machine

NEEDS = [
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="needs /usr/bin/chromium"),
    pytest.mark.timeout(900),
]

expect.set_options(timeout=PATIENCE_MS)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE_MS)
        yield browser
        await browser.close()


async def opened(
    browser: Browser, slack: LocalSlack, problems: list[str], query: str = "", size: Any = DESK, **more: Any
) -> Page:
    """The page of that size; what goes wrong in it, and each request that leaves the server, lands in `problems`."""
    page = await browser.new_page(viewport=size, **more)
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: problems.append(request.url) if slack.api_url[:-4] not in request.url else None)
    await page.goto(slack.page_url + query)
    return page


async def shot(page: Page, name: str) -> None:
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=ARTIFACTS / f"{name}.png")


async def fits(page: Page) -> bool:
    """Whether nothing makes the page scroll sideways."""
    return bool(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"))
