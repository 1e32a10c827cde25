"""The approval page in a real Chromium: on a phone and on a desk, by keyboard alone, without scripts."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect
from sqlalchemy import update

from slack_gate.core.event import ToolEvent
from slack_gate.core.request import Request, State
from slack_gate.daemon.files_now import FilesNow
from slack_gate.daemon.house import Caller
from slack_gate.store.tables import requests
from tests.local_slack.screens import ARTIFACTS, NEEDS, PATIENCE_MS, chromium
from tests.web.conftest import Doors

SCREENS: dict[str, Any] = {"phone": {"width": 360, "height": 740}, "desk": {"width": 1280, "height": 800}}
LONG = "printf '%s' " + "a-rather-long-word-" * 30 + " && rm -rf build"

pytestmark = NEEDS


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


class Visit:
    """A page with the login, and everything that a browser complained of."""

    def __init__(self, context: BrowserContext, page: Page, problems: list[str]) -> None:
        self.context = context
        self.page = page
        self.problems = problems
        self.received = 0

    async def shot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=ARTIFACTS / f"page-{name}.png", full_page=True)


async def visit(browser: Browser, doors: Doors, screen: str = "desk", **context: Any) -> Visit:
    opened = await browser.new_context(
        viewport=SCREENS[screen],
        http_credentials={"username": "human", "password": doors.page.login.password},
        **context,
    )
    page, problems = await opened.new_page(), list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)
    page.on("request", lambda sent: problems.append(sent.url) if not sent.url.startswith(doors.page_url) else None)
    page.set_default_timeout(PATIENCE_MS)
    await page.goto(doors.page_url)
    return Visit(opened, page, problems)


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_request_comes_in_is_read_and_approved(
    browser: Browser, doors: Doors, screen: str, scheme: str
) -> None:
    seen = await visit(browser, doors, screen, color_scheme=scheme)
    page = seen.page
    await expect(page.get_by_role("status").first).to_have_text("Nothing is waiting")
    task, _ = await doors.asking(command=LONG.replace("rm -rf build", "true"), reason="to see it")
    card = page.get_by_role("article", name="agent wants to run in the cage:")
    await expect(card).to_be_visible()  # by itself
    await expect(page.get_by_role("status").first).to_have_text("1 waiting for you")
    assert await page.title() == "(1) slack-gate"
    assert (await card.locator("pre").first.text_content() or "").strip() == LONG.replace("rm -rf build", "true")
    await seen.shot(f"{screen}-{scheme}")
    width = await page.evaluate("document.documentElement.scrollWidth")
    assert width <= SCREENS[screen]["width"]  # nothing is out of view to the right
    for name in ("Approve", "Deny"):
        box = await card.get_by_role("button", name=name, exact=True).bounding_box()
        assert box is not None and box["height"] >= 44 and box["width"] >= 44
    await card.get_by_role("button", name="Approve", exact=True).click()
    assert (await task)["decision"] == "ran"
    await expect(page.locator("#history")).to_contain_text("Approved by a person on the page")
    await expect(card).to_have_count(0)
    assert seen.problems == []


async def test_by_keyboard_alone(browser: Browser, doors: Doors) -> None:
    task, request = await doors.asking(command="make all")
    seen = await visit(browser, doors)
    page = seen.page
    order = []
    for _ in range(5):
        await page.keyboard.press("Tab")
        order.append(await page.evaluate("document.activeElement.name || document.activeElement.tagName"))
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert order == ["reason", "ok", "ok", "ok", "SUMMARY"]  # as they stand
    for _ in range(4):
        await page.keyboard.press("Shift+Tab")
    await page.keyboard.type("not today")
    await page.keyboard.press("Enter")  # a line end, no button: typing a reason approves nothing
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Deny"
    assert (await doors.daemon.store.request(request.id)).state is State.PENDING  # type: ignore[union-attr]
    await page.keyboard.press("Enter")
    answer = await task
    assert answer["decision"] == "denied" and "not today" in answer["message"]
    await expect(page.get_by_role("article")).to_have_count(0)
    task, request = await doors.asking(command="make install")
    await expect(page.get_by_role("article")).to_be_visible()
    while not await focused(page, "Approve"):
        await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Space")
    assert (await task)["by"] == "human-web"
    assert seen.problems == []


async def a_write(doors: Doors, file: Path, content: str) -> Request:
    """A hook's Write that waits; the page draws it as a change to the file as it is."""
    files = FilesNow(lambda path: False)
    doors.page._file, doors.daemon.gate._files = files.of, files
    event = ToolEvent("codex", "s", "c", "Write", {"file_path": str(file), "content": content}, "/srv")
    request = await doors.daemon.gate.submit(event, Caller("a" * 32, 600.0))
    assert isinstance(request, Request)
    return request


async def focused(page: Page, label: str) -> bool:
    return bool(await page.evaluate("document.activeElement.textContent") == label)


async def test_updates_take_neither_focus_nor_words(browser: Browser, doors: Doors) -> None:
    _, first = await doors.asking(command="make first")
    other, second = await doors.asking(command="make second")
    seen = await visit(browser, doors, "phone")
    page = seen.page
    reason = page.locator(f"[id='{first.id}'] textarea")
    await reason.fill("half a sen")
    await reason.focus()
    _, third = await doors.asking(command="make third")
    await expect(page.locator(f"[id='{third.id}']")).to_be_visible()
    await doors.decide(second)
    await other
    await expect(page.locator(f"[id='{second.id}']")).to_have_count(0)
    await expect(page.locator("#history")).to_contain_text("make second")
    await expect(reason).to_have_value("half a sen")
    await expect(reason).to_be_focused()
    await page.keyboard.type("tence")
    await doors.decide(first, "0")  # elsewhere, while somebody writes
    await expect(page.locator(f"[id='{first.id}'] .said")).to_have_text("This has ended; see below who decided.")
    await expect(reason).to_have_value("half a sentence")
    await expect(page.locator(f"[id='{first.id}'] button").first).to_be_disabled()
    await page.locator(f"[id='{third.id}'] textarea").focus()
    await expect(page.locator(f"[id='{first.id}']")).to_have_count(0)
    assert seen.problems == []


async def test_a_card_that_stays_is_told_what_is_new(browser: Browser, doors: Doors) -> None:
    """One approval of two: the card waits on, says so, and keeps what is typed there."""
    _, request = await doors.asking(command="make all")
    store = doors.daemon.store
    await store.database.run(lambda c: c.execute(update(requests).values(quorum=2)))
    seen = await visit(browser, doors)
    page = seen.page
    await expect(page.locator(".facts")).to_contain_text("Approvals: 0 of 2")
    await page.locator("textarea").fill("looks right")
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator(".facts")).to_contain_text("Approvals: 1 of 2: a person on the page")
    await expect(page.locator("textarea")).to_have_value("looks right")
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
    row = await store.request(request.id)
    assert row is not None and row.state is State.PENDING
    assert seen.problems == []


@pytest.mark.parametrize("screen", SCREENS)
async def test_a_file_that_changed_is_drawn_anew_before_anything_is_decided(
    browser: Browser, doors: Doors, screen: str, outside: Path
) -> None:
    file = outside / "app.conf"
    file.write_text("port = 80\n")
    request = await a_write(doors, file, "port = 8080\n")
    seen = await visit(browser, doors, screen)
    page = seen.page
    await expect(page.locator("pre .removed")).to_have_text("-port = 80")
    await seen.shot(f"change-{screen}")
    await page.locator("textarea").fill("fine so far")
    file.write_text("port = 81\n")
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator("pre .removed")).to_have_text("-port = 81")
    await expect(page.locator(".said")).to_contain_text("The file has changed")
    await expect(page.locator("textarea")).to_have_value("fine so far")
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.state is State.PENDING
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.get_by_role("article")).to_have_count(0)
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.state is State.APPROVED
    assert [problem for problem in seen.problems if "409" not in problem] == []  # Chromium tells of it by itself


async def test_of_a_long_change_the_changed_lines_stand_first(browser: Browser, doors: Doors, outside: Path) -> None:
    file = outside / "app.conf"
    file.write_text("".join(f"line {number}\n" for number in range(300)))
    await a_write(doors, file, file.read_text().replace("line 150\n", "line 150b\n"))
    seen = await visit(browser, doors, "phone")
    page = seen.page
    await expect(page.locator("pre").nth(1)).to_contain_text("-line 150\n+line 150b")
    assert len((await page.locator("pre").nth(1).text_content() or "").split("\n")) < 20
    await expect(page.get_by_text("line 299")).to_have_count(2)  # the last line, by the buttons, and in the whole
    await expect(page.locator("details pre")).not_to_be_visible()
    await page.get_by_text("The whole, 302 lines").click()
    await expect(page.locator("details pre")).to_contain_text(" line 299")
    assert seen.problems == []


async def test_a_click_that_comes_too_late_is_told(browser: Browser, doors: Doors) -> None:
    _, request = await doors.asking(command="make all")
    seen = await visit(browser, doors)
    await seen.page.route("**/events", lambda route: route.abort())
    await seen.page.goto(doors.page_url)
    await doors.decide(request, "0")
    await seen.page.get_by_role("button", name="Approve", exact=True).click()
    said = seen.page.locator(f"[id='{request.id}'] .said")
    await expect(said).to_have_text("Too late, nothing changed: a person on the page denied it.")
    await seen.page.evaluate("refresh()")
    await expect(said).to_be_visible()  # it goes when its reader has left it, not before
    await seen.page.locator("#history h2").focus()
    await expect(said).to_have_count(0)


async def test_always_is_two_steps_and_says_the_rule(browser: Browser, doors: Doors) -> None:
    task, _ = await doors.asking(command="cargo build")
    seen = await visit(browser, doors, "phone")
    page = seen.page
    await expect(page.get_by_role("button", name="Always", exact=True)).to_have_count(0)
    await page.get_by_text("Always …").click()
    button = page.get_by_role("button", name="Always", exact=True)
    await expect(button).to_have_accessible_description(
        "From now on this runs without asking, until revoked: cargo build (any arguments, any directory)"
    )
    await button.click()
    await task
    (rule,) = await doors.daemon.store.rules()
    assert rule.shown == "cargo build"
    assert seen.problems == []


async def test_without_scripts(browser: Browser, doors: Doors) -> None:
    task, _ = await doors.asking(command="make all")
    seen = await visit(browser, doors, "phone", java_script_enabled=False)
    page = seen.page
    await page.get_by_label("Reason for the agent").fill("no scripts")
    await page.get_by_role("button", name="Deny", exact=True).click()
    assert "no scripts" in (await task)["message"]
    await expect(page.locator("#history")).to_contain_text("Denied by a person on the page")
    _, request = await doors.asking(command="make more")
    await expect(page.get_by_role("article")).to_be_visible()  # the page comes anew by itself
    await doors.decide(request, "0")


async def test_what_a_screen_reader_is_told(browser: Browser, doors: Doors) -> None:
    await doors.asking(command="make all")
    event = ToolEvent("codex", "s", "c", "Write", {"file_path": "/etc/motd", "content": "a\nb\n"}, "/w")
    await doors.daemon.gate.submit(event, Caller("a" * 32, 600.0))
    seen = await visit(browser, doors)
    page = seen.page
    await expect(page.get_by_role("article", name="codex wants to use Write:")).to_be_visible()
    assert await page.evaluate("document.documentElement.lang") == "en"
    found = await page.evaluate(
        """() => ({
            unnamed: Array.from(document.querySelectorAll('button, textarea, summary'))
                .filter((e) => !(e.labels?.length || e.textContent.trim())).length,
            ids: Array.from(document.querySelectorAll('[id]')).map((e) => e.id),
            refs: Array.from(document.querySelectorAll('[aria-labelledby], [aria-describedby]'))
                .flatMap((e) => [e.getAttribute('aria-labelledby'), e.getAttribute('aria-describedby')])
                .filter(Boolean).flatMap((ids) => ids.split(' ')).filter((id) => !document.getElementById(id)),
            levels: Array.from(document.querySelectorAll('h1, h2, h3')).map((e) => Number(e.tagName[1])),
            landmarks: document.querySelectorAll('main').length,
            live: document.querySelectorAll('[role=status], [role=alert]').length,
        })"""
    )
    assert found["unnamed"] == 0 and found["refs"] == [] and found["landmarks"] == 1 and found["live"] >= 2
    assert len(set(found["ids"])) == len(found["ids"])
    assert found["levels"] == [1, 2, 2, 2]
    button = page.get_by_role("article", name="codex wants to use Write:").get_by_role("button", name="Approve")
    await expect(button).to_have_accessible_description("codex wants to use Write: file_path: /etc/motd")
    assert seen.problems == []


async def test_each_button_says_what_it_decides(browser: Browser, doors: Doors) -> None:
    """Two that wait differ for whoever only hears them; a long text is not read out with every button."""
    for command in ("make all", "make install", LONG):
        await doors.asking(command=command)
    seen = await visit(browser, doors)
    approve = seen.page.get_by_role("button", name="Approve", exact=True)
    await expect(approve).to_have_count(3)
    await expect(approve.nth(0)).to_have_accessible_description("agent wants to run in the cage: make all")
    await expect(approve.nth(1)).to_have_accessible_description("agent wants to run in the cage: make install")
    described = re.compile("^agent wants to run in the cage: Programs: printf, rm .{0,400}$")
    await expect(approve.nth(2)).to_have_accessible_description(described)


TARGETS = """() => Array.from(document.querySelectorAll('a, button, summary, textarea'))
    .filter((e) => e.checkVisibility())
    .map((e) => [e.textContent.trim() || e.name, e.getBoundingClientRect()])
    .filter(([, box]) => box.height < 44 || box.width < 44)
    .map(([name, box]) => `${name}: ${box.width} x ${box.height}`)"""


async def test_a_thumb_hits_whatever_can_be_pressed(browser: Browser, doors: Doors, outside: Path) -> None:
    file = outside / "app.conf"
    file.write_text("".join(f"line {number}\n" for number in range(300)))
    await a_write(doors, file, file.read_text().replace("line 150\n", "line 150b\n"))
    await doors.asking(command="cargo build")
    seen = await visit(browser, doors, "phone")
    await expect(seen.page.get_by_text("The whole, 302 lines")).to_be_visible()
    for always in await seen.page.get_by_text("Always …").all():
        await always.click()
    assert await seen.page.evaluate(TARGETS) == []
    await seen.page.goto(f"{doors.page_url}cord")
    assert await seen.page.evaluate(TARGETS) == []


async def test_what_ended_on_another_day_says_which(browser: Browser, doors: Doors) -> None:
    for command in ("make today", "make before"):
        _, request = await doors.asking(command=command)
        await doors.decide(request, "0")
        await doors.ended(request)
    earlier = update(requests).where(requests.c.command == "make before").values(decided_at=1_790_000_000.0)
    await doors.daemon.store.database.run(lambda c: c.execute(earlier))
    seen = await visit(browser, doors, timezone_id="Europe/Vienna", locale="en-GB")
    items = seen.page.locator("#past li")
    await expect(items.filter(has_text="make before").locator("time")).to_have_text("21/09/2026, 16:13:20")
    await expect(items.filter(has_text="make today").locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    await seen.context.close()
    plain = await visit(browser, doors, java_script_enabled=False)
    await expect(plain.page.locator("#past li").filter(has_text="make before").locator("time")).to_have_text(
        "2026-09-21 14:13:20 UTC"
    )


CONTRAST = """() => {
    const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
        return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    };
    const ground = (e) => {
        const colour = getComputedStyle(e).backgroundColor;
        return colour === 'rgba(0, 0, 0, 0)' && e.parentElement ? ground(e.parentElement) : colour;
    };
    return Array.from(document.querySelectorAll('body *')).filter((e) => e.checkVisibility()).map((e) => {
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), e.tagName + ' ' + e.className];
    }).filter(([ratio]) => ratio < 4.5);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_can_be_read(browser: Browser, doors: Doors, scheme: str) -> None:
    await doors.asking(command="cargo build")
    seen = await visit(browser, doors, color_scheme=scheme)
    await seen.page.get_by_text("Always …").click()
    assert await seen.page.evaluate(CONTRAST) == []


async def test_another_site_cannot_frame_or_press(browser: Browser, doors: Doors) -> None:
    """With the person logged in, in the same browser."""
    _, request = await doors.asking(command="make all")
    seen = await visit(browser, doors)
    form = doors.form(request)
    fields = "".join(f'<input name="{name}" value="{value}">' for name, value in form.items())
    evil = f'<iframe src="{doors.page_url}"></iframe><form method=post action="{doors.page_url}decide">{fields}</form>'
    await seen.context.route("http://evil.example/*", lambda route: route.fulfill(body=evil, content_type="text/html"))
    page = await seen.context.new_page()
    await page.goto("http://evil.example/")
    frame = page.frames[1]
    assert await frame.locator("article").count() == 0
    async with page.expect_navigation() as found:
        await page.evaluate("document.forms[0].submit()")
    answer = await found.value
    assert answer is not None and answer.status == 403
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.state is State.PENDING


async def test_a_line_that_wraps_does_not_pass_for_two(browser: Browser, doors: Doors) -> None:
    await doors.asking(command=LONG + "\necho next")
    seen = await visit(browser, doors, "phone")
    lefts = await seen.page.evaluate(
        """() => Array.from(document.querySelectorAll('pre')[0].children).map((line) => {
            const range = document.createRange();
            range.selectNodeContents(line);
            return Array.from(range.getClientRects()).map((r) => Math.round(r.left));
        })"""
    )
    assert len(lefts) == 2 and len(lefts[0]) > 5
    assert all(left > lefts[0][0] for left in lefts[0][1:-1]) and lefts[1][0] == lefts[0][0]


async def test_what_travels(browser: Browser, doors: Doors) -> None:
    """From nothing to buttons that work: at most 100 KiB, with a full history."""
    for number in range(50):
        event = ToolEvent("a", "s", f"c{number}", "Bash", {"command": f"make number{number} " + "x" * 400}, "/w")
        filed = await doors.daemon.gate.submit(event, Caller("a" * 32, 600.0))
        assert not hasattr(filed, "ruling")
        await doors.decide(filed, "0", reason="because of this and that")  # type: ignore[arg-type]
    await doors.asking(command=LONG)
    seen = await visit(browser, doors)
    session = await seen.context.new_cdp_session(seen.page)
    received: list[float] = []
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    await session.send("Network.enable")
    await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    await seen.page.reload()
    await expect(seen.page.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
    async with asyncio.timeout(100):
        while len(received) < 3:  # noqa: ASYNC110 - the page, its style and its script
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)  # whatever else there is
    print(f"transferred: {sum(received):.0f} bytes in {len(received)} answers")
    if path := os.environ.get("SLACK_GATE_FIGURES"):
        Path(path).write_text(f"{sum(received):.0f}\n")
    assert len(received) >= 3 and sum(received) <= 100 * 1024


@asynccontextmanager
async def slowly(page: Page) -> AsyncIterator[None]:
    """The moment in which buttons take no click lasts long enough for a busy machine."""
    session = await page.context.new_cdp_session(page)
    await session.send("Animation.enable")
    await session.send("Animation.setPlaybackRate", {"playbackRate": 0.01})
    yield
    await session.send("Animation.setPlaybackRate", {"playbackRate": 1000})


async def middle_of(page: Page, request: str, button: str) -> tuple[float, float]:
    box = await page.locator(f"[id='{request}']").get_by_role("button", name=button, exact=True).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("scripts", [True, False])
async def test_a_double_click_decides_one_request(browser: Browser, doors: Doors, scripts: bool) -> None:
    """What moves up into the place of an answered card takes no click that was meant for that one."""
    task, _ = await doors.asking(command="echo first")
    _, other = await doors.asking(command="echo other")
    seen = await visit(browser, doors, java_script_enabled=scripts)
    page = seen.page
    await page.set_viewport_size({"width": 1280, "height": 2400})  # nothing scrolls when a card goes
    first = page.get_by_role("article").first
    button = first.get_by_role("button", name="Approve", exact=True)
    await button.click(trial=True)
    box = await button.bounding_box()
    assert box is not None
    at = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    async with slowly(page):
        await page.mouse.click(*at)
        assert (await task)["by"] == "human-web"
        await expect(page.get_by_role("article")).to_have_count(1)
        assert await middle_of(page, other.id, "Approve") == at
        await page.mouse.click(*at, click_count=2)
        await asyncio.sleep(0.3)
        row = await doors.daemon.store.request(other.id)
        assert row is not None and row.state is State.PENDING
    await page.locator(f"[id='{other.id}']").get_by_role("button", name="Deny", exact=True).click()  # a moment later
    await doors.ended(other)
    assert seen.problems == []


async def test_a_double_click_on_more_time_counts_once(browser: Browser, doors: Doors) -> None:
    """The card is drawn with its new end between the two."""
    event = ToolEvent("a", "s", "c", "Bash", {"command": "make all"}, str(doors.projects))
    request = await doors.daemon.gate.submit(event, Caller("a" * 32, 5000.0))
    assert isinstance(request, Request)
    seen = await visit(browser, doors)
    page = seen.page
    button = page.get_by_role("button", name="More time")
    await button.click(trial=True)
    at = await middle_of(page, request.id, "More time")
    async with slowly(page):
        await page.mouse.click(*at)
        await expect(page.locator(".left")).to_have_attribute("data-until", str(int(request.expires_at) + 300))
        await page.mouse.click(*at, click_count=2)
        await asyncio.sleep(0.3)
    row = await doors.daemon.store.request(request.id)
    assert row is not None and round(row.expires_at - request.expires_at) == 300
    await button.click()  # a moment later
    await expect(page.locator(".left")).to_have_attribute("data-until", str(int(request.expires_at) + 600))
    assert seen.problems == []


async def test_a_withdrawn_card_gives_its_place_to_nobodys_click(browser: Browser, doors: Doors) -> None:
    """An agent may hang up at the moment its card is clicked, so that another one comes to lie there."""
    task, first = await doors.asking(command="echo harmless")
    _, other = await doors.asking(command="echo harmful")
    seen = await visit(browser, doors)
    page = seen.page
    await page.set_viewport_size({"width": 1280, "height": 2400})  # nothing scrolls when a card goes
    await page.locator(f"[id='{first.id}']").get_by_role("button", name="Approve", exact=True).click(trial=True)
    at = await middle_of(page, first.id, "Approve")
    async with slowly(page):
        task.cancel()
        await expect(page.locator(f"[id='{first.id}']")).to_have_count(0)
        assert await middle_of(page, other.id, "Approve") == at
        await page.mouse.click(*at)
        await asyncio.sleep(0.3)
        row = await doors.daemon.store.request(other.id)
        assert row is not None and row.state is State.PENDING
    assert seen.problems == []


async def test_a_page_that_comes_into_view_takes_no_click_at_once(browser: Browser, doors: Doors) -> None:
    """Another site may bring it under the second click of a double click."""
    _, request = await doors.asking(command="echo harmful")
    seen = await visit(browser, doors)
    page = seen.page
    button = page.get_by_role("button", name="Approve", exact=True)
    await button.click(trial=True)
    at = await middle_of(page, request.id, "Approve")
    async with slowly(page):
        await page.evaluate("window.dispatchEvent(new Event('focus'))")
        await page.mouse.click(*at)
        await asyncio.sleep(0.3)
        row = await doors.daemon.store.request(request.id)
        assert row is not None and row.state is State.PENDING
    await button.click()
    await doors.ended(request)
