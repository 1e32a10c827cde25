"""What GitHub and the network may do wrong: each time one sentence, exit 1, and no change sent twice."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cage.gh_issue.conftest import Desk
from tests.cage.gh_issue.github import GitHub, Reply

UNSURE = "It is not known whether GitHub did it: look before you try again."


def whole(body: bytes, status: str = "200 OK", headers: str = "") -> Reply:
    return Reply(raw=f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)


# name: the answer, what the sentence holds, and whether a change may have been made
FAULTS: dict[str, tuple[Reply, str, bool]] = {
    "401": (
        Reply(401, {"message": "Bad credentials"}),
        "GitHub does not accept the token in ~/.config/spikybot/pat",
        False,
    ),
    "403": (
        Reply(403, {"message": "Resource not accessible"}, {"X-Accepted-GitHub-Permissions": "issues=write"}),
        "The token may not do this. It needs issues=write. GitHub says: Resource not accessible",
        False,
    ),
    "403 rate limit": (
        Reply(403, {"message": "x"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9999999999"}),
        ", at 2286-11-20 17:46:39 UTC.",
        False,
    ),
    "rate limit over": (
        Reply(403, {"message": "x"}, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}),
        "rate limit is reached. Try again in 1 seconds",
        False,
    ),
    "403 secondary limit": (
        Reply(403, {"message": "You have exceeded a secondary rate limit."}, {"X-RateLimit-Remaining": "55"}),
        "rate limit is reached. Try again in 60 seconds",
        False,
    ),
    "403 with Retry-After": (Reply(403, {"message": "x"}, {"Retry-After": "17"}), "Try again in 17 seconds", False),
    "429": (Reply(429, {"message": "x"}, {"Retry-After": "9" * 40}), "Try again in 60 seconds", False),
    "404": (Reply(404, {"message": "Not Found"}), "GitHub has no repos/acme/app/issues/1", False),
    "410": (Reply(410, {"message": "This issue was deleted"}), "is gone, or switched off in this repository", False),
    "422": (
        Reply(
            422,
            {"message": "Validation Failed", "errors": [{"resource": "Issue", "field": "title", "code": "missing"}]},
        ),
        "GitHub refuses what was sent. GitHub says: Validation Failed; Issue title missing\n",
        False,
    ),
    "422 custom": (
        Reply(
            422, {"message": "No", "errors": [{"code": "custom", "message": "head and base are equal"}, "and more", 7]}
        ),
        "GitHub says: No; head and base are equal; and more\n",
        False,
    ),
    "422 odd errors": (Reply(422, {"message": ["x"], "errors": {"a": 1}}), "GitHub refuses what was sent.\n", False),
    "451": (Reply(451, {"message": "Blocked"}), "GitHub refuses (status 451). GitHub says: Blocked", False),
    "403 HTML": (Reply(403, text="<html>proxy login</html>"), "The token may not do this.", False),
    "500": (Reply(500, text="<html>oops</html>"), "GitHub itself has a fault (status 500).", True),
    "502": (Reply(502, {"message": "Server Error"}), "fault (status 502). GitHub says: Server Error", True),
    "HTML": (Reply(200, text="<html>Please log in</html>"), "(status 200) is not the JSON that was asked for", True),
    "empty": (whole(b""), "is not the JSON that was asked for", True),
    "cut JSON": (whole(b'{"number": 1, "ti'), "is not the JSON that was asked for", True),
    "not UTF-8": (whole(b'{"number": "\xff"}'), "is not the JSON that was asked for", True),
    "deep JSON": (whole(b"[" * 200_000), "is not the JSON that was asked for", True),
    "a list": (whole(b"[]"), "answer is not understood", False),
    "a text": (whole(b'"x"'), "answer is not understood", False),
    "no number": (whole(b'{"number": {}}'), "answer is not understood", False),
    "cut off": (
        Reply(raw=b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"number": 1}'),
        "ended before its end",
        True,
    ),
    "cut chunk": (Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{"), "broke off", True),
    "cut in the headers": (Reply(raw=b"HTTP/1.1 200 OK\r\nContent-"), "is not the JSON", True),
    "hung up": (Reply(raw=b""), "broke off", True),
    "no HTTP": (Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "broke off", True),
    "long header": (Reply(raw=b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000), "broke off", True),
    "many headers": (Reply(raw=b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n"), "broke off", True),
    "moved nowhere": (Reply(307, {"message": "Moved"}), "", False),
    "not modified": (Reply(304), "renamed or moved, and nothing was changed", False),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, desk: Desk, github: GitHub) -> None:
    reply, sentence, unsure = FAULTS[name]
    github.fault = lambda _: reply
    with ThreadPoolExecutor() as both:
        reading = both.submit(desk.fails, "view", "1")
        said = desk.fails("create", "--title", "x", "--body-file", desk.body())
    assert sentence.replace("/issues/1", "/issues") in said
    assert (UNSURE in said) == unsure
    assert sentence in reading.result() and UNSURE not in reading.result()
    assert [asked.method for asked in github.changes()] == ["POST"]


def test_reading_follows_a_renamed_repository(desk: Desk, github: GitHub) -> None:
    number = github.add("Moved")
    github.say(number, "here")
    old = re.compile("/repos/acme/old/(.*)")
    starts = github.url, "", github.url.replace("127.0.0.1", "localhost"), github.url
    for status, start in zip((301, 302, 307, 308), starts, strict=True):

        def fault(asked: Any, status: int = status, start: str = start) -> Reply | None:
            found = old.match(asked.path)
            return Reply(status, {}, {"Location": f"{start}/repos/acme/app/{found[1]}"}) if found else None

        github.fault = fault
        text = desk.does("view", "1", "--repo", "acme/old")
        assert "#1 Moved" in text and "    here" in text


def test_a_change_follows_nothing(desk: Desk, github: GitHub) -> None:
    github.add()
    github.fault = lambda asked: (
        Reply(307, {}, {"Location": "/repos/acme/app/issues/1"}) if "old" in asked.path else None
    )
    assert "Use its present name" in desk.fails("close", "1", "--repo", "acme/old")
    assert (len(github.asked), github.entries[1]["state"]) == (1, "open")


def test_moves_without_end(desk: Desk, github: GitHub) -> None:
    github.fault = lambda asked: Reply(301, {}, {"Location": asked.path + "0"})
    assert "round in circles" in desk.fails("view", "1")
    assert len(github.asked) == 4


def test_pages_without_end(desk: Desk, github: GitHub) -> None:
    """Every page says that there is another one, and none holds an issue."""
    link = f'<{github.url}/repos/acme/app/issues?page=2>; rel="next"'
    github.fault = lambda _: Reply(
        data=[{"number": 1, "pull_request": {}, "state": "open"}] * 3, headers={"Link": link}
    )
    assert len(desk.does("list").splitlines()) == 31  # an empty object is no pull request
    github.asked.clear()
    github.fault = lambda _: Reply(data=[{"number": 1, "pull_request": {"url": "x"}}], headers={"Link": link})
    assert desk.does("list") == "There may be more; these are the first 0.\n"
    assert len(github.asked) == 20


def test_an_answer_without_end(desk: Desk, github: GitHub) -> None:
    github.fault = lambda _: Reply(raw=b"HTTP/1.1 200 OK\r\n\r\n[" + b" " * (40 << 20))
    assert "longer than 32 MiB" in desk.fails("view", "1")


def test_long_answers_within_the_limit(desk: Desk, github: GitHub) -> None:
    github.add(body="x\n" * 3_000_000)
    assert len(desk.does("view", "1")) > 15_000_000


def in_less_time(desk: Desk, seconds: int) -> None:
    text = desk.helper.read_text()
    desk.helper.write_text(text.replace("\nDEADLINE_S = 90 ", f"\nDEADLINE_S = {seconds} "))
    assert text != desk.helper.read_text()


DRIPS = {  # what comes before the drip, and the call that waits for it
    "status": (b"", ["close", "1"]),
    "headers": (b"HTTP/1.1 200 OK\r\n", ["close", "1"]),
    "body": (b"HTTP/1.1 200 OK\r\n\r\n[", ["view", "1"]),
}


@pytest.mark.parametrize("name", DRIPS)
def test_an_answer_that_drips(name: str, desk: Desk) -> None:
    """A byte now and then keeps every single read alive; the deadline is for everything."""
    start, words = DRIPS[name]
    in_less_time(desk, 4)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            link, _ = server.accept()
            with link:
                link.recv(65_536)
                link.sendall(start)
                try:
                    while not ended.wait(0.05):
                        link.sendall(b"1")
                except OSError:
                    return  # the helper has hung up

        thread = threading.Thread(target=drip)
        thread.start()
        said = desk.fails(*words, env={"GITHUB_API_URL": f"http://127.0.0.1:{server.getsockname()[1]}"})
        ended.set()
        thread.join()
    assert "broke off: no answer in time" in said
    assert (UNSURE in said) == (words[0] == "close")


def test_nobody_listens(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    said = desk.fails("close", "1", env={"GITHUB_API_URL": url})
    assert "127.0.0.1 cannot be reached: Connection refused." in said and UNSURE not in said


def test_github_does_something_else(desk: Desk, github: GitHub) -> None:
    github.fault = lambda _: Reply(data={"number": 1, "state": "open"})
    assert desk.fails("close", "1") == "gh_issue.py: GitHub left #1 open.\n"


def test_the_output_cannot_be_written(desk: Desk, github: GitHub) -> None:
    github.add(body="x" * 300_000)
    for line in ("'{}' view 1 >/dev/full", "'{}' list >/dev/full", "'{}' view 1 | true; exit ${{PIPESTATUS[0]}}"):
        bash = ["bash", "-c", line.format(desk.helper)]
        done = subprocess.run(bash, env=desk.env, capture_output=True, text=True, timeout=100, check=False)
        assert done.stderr.startswith("gh_issue.py: It was done, but the output cannot be written: ")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_numbers_that_are_no_numbers(desk: Desk, github: GitHub) -> None:
    github.fault = lambda _: whole(json.dumps({"number": 1, "title": 5, "comments": 0}).encode()[:-1] + b', "x": NaN}')
    assert desk.does("view", "1").startswith("#1 5\n")
    github.fault = lambda _: whole(b'{"number": ' + b"9" * 100_000 + b"}")
    assert "is not the JSON" in desk.fails("view", "1")
