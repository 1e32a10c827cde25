"""What each verb does and prints."""

from __future__ import annotations

import json

import pytest

from tests.cage.gh_issue.conftest import Desk
from tests.cage.gh_issue.github import Asked, GitHub, Reply


def test_list_leaves_pull_requests_out(desk: Desk, github: GitHub) -> None:
    github.add("First", labels=[{"name": "bug"}, {"name": "ui"}])
    github.add("A pull request", pull=True)
    github.add("Shut", state="closed")
    github.add("Last")
    assert desk.does("list") == "#4  open  Last\n#1  open  First  [bug, ui]\n"
    assert desk.does("list", "--state", "closed") == "#3  closed  Shut\n"
    assert desk.does("list", "--state", "all", "--limit", "2").splitlines()[:2] == [
        "#4  open  Last",
        "#3  closed  Shut",
    ]
    assert desk.does("pr-list") == "#2  open  A pull request  (acme:topic into main)\n"


def test_list_of_nothing(desk: Desk) -> None:
    assert desk.does("list") == "No issues.\n"
    assert desk.does("pr-list") == "No pull requests.\n"


@pytest.mark.parametrize("link_header", [True, False])
def test_list_reads_as_many_pages_as_it_needs(desk: Desk, github: GitHub, link_header: bool) -> None:
    github.link_header = link_header
    for number in range(1, 251):
        github.add(f"Entry {number}", pull=number > 140)  # the newest page and more hold pull requests only
    lines = desk.does("list").splitlines()
    assert (len(lines), lines[0], lines[29]) == (31, "#140  open  Entry 140", "#111  open  Entry 111")
    assert lines[30] == "There may be more; these are the first 30."
    assert len(github.asked) == 2
    lines = desk.does("list", "--limit", "1000").splitlines()
    assert (len(lines), lines[-1]) == (140, "#1  open  Entry 1")
    assert len(desk.does("pr-list").splitlines()) == 110


def test_view_shows_an_issue_and_all_its_comments(desk: Desk, github: GitHub) -> None:
    number = github.add("Title", "First line\r\nsecond line", labels=[{"name": "bug"}])
    for count in range(101):
        github.say(number, f"remark {count}")
    text = desk.does("view", "1")
    assert text.startswith(
        "#1 Title\nissue, open, by mona, 2026-01-02T03:04:05Z, [bug]\nhttps://github.com/acme/app/issues/1\n\n"
        "    First line\n    second line\n\ncomment by hubot, 2026-01-03T00:00:00Z:\n\n    remark 0\n\n"
    )
    assert text.endswith("    remark 100\n")


def test_view_of_a_pull_request(desk: Desk, github: GitHub) -> None:
    number = github.add("Change", None, pull=True, draft=True)
    github.say(number, "Looks good")
    assert "\npull request, open, by mona," in desk.does("view", "1")
    text = desk.does("pr-view", "1")
    assert "\npull request (acme:topic into main, draft), open, by mona," in text
    assert "    (no text)\n" in text and "    Looks good\n" in text
    github.entries[1].update(state="closed", merged_at="2026-01-01T00:00:00Z", pull_request={"merged_at": "2026"})
    assert ", merged, by mona," in desk.does("view", "1")
    assert ", merged, by mona," in desk.does("pr-view", "1")


def test_an_author_who_has_left(desk: Desk, github: GitHub) -> None:
    github.add(user=None)
    assert "by ghost," in desk.does("view", "1")


def test_create_sends_the_file_as_it_is(desk: Desk, github: GitHub) -> None:
    text = "# Heading\n\n\ttabs, \"quotes\", `code`, ünï😀\r\n$(id) 'x' \\n\n"
    assert desk.does("create", "--title", "Ünï $(id)", "--body-file", desk.body(text)) == (
        "Created #1: https://github.com/acme/app/issues/1\n"
    )
    assert github.asked[-1].data == {"title": "Ünï $(id)", "body": text}
    assert github.asked[-1].path == "/repos/acme/app/issues"


def test_comment_on_issue_and_pull_request(desk: Desk, github: GitHub) -> None:
    for pull in (False, True):
        number = github.add(pull=pull)
        assert desk.does("comment", str(number), "--body-file", desk.body("x" * 65_536)).startswith(
            f"Commented on #{number}: "
        )
        assert github.comments[number][0]["body"] == "x" * 65_536


def test_close_and_reopen(desk: Desk, github: GitHub) -> None:
    for pull in (False, True):
        number = str(github.add(pull=pull))
        assert desk.does("close", number) == f"#{number} is closed.\n"
        assert desk.does("close", number) == f"#{number} is closed.\n"
        assert desk.does("reopen", number) == f"#{number} is open.\n"


def test_labels(desk: Desk, github: GitHub) -> None:
    github.add(labels=[{"name": "old/one"}, {"name": "kept"}])
    said = desk.does("label", "1", "--add", "new one", "--remove", "old/one", "--add", "ü")
    assert said == "#1: added new one, ü, removed old/one. Labels now: [kept, new one, ü].\n"
    assert [(asked.method, asked.path) for asked in github.asked] == [
        ("POST", "/repos/acme/app/issues/1/labels"),
        ("DELETE", "/repos/acme/app/issues/1/labels/old%2Fone"),
    ]
    github.fault = lambda asked: Reply(raw=b"HTTP/1.1 204 No Content\r\n\r\n") if asked.method == "DELETE" else None
    assert desk.does("label", "1", "--remove", "x") == "#1: removed x.\n"  # as some servers answer
    github.fault = None
    said = desk.fails("label", "1", "--add", "more", "--remove", "absent", "--remove", "kept")
    assert "Label does not exist" in said and "Done before: added more." in said
    assert [label["name"] for label in github.entries[1]["labels"]] == ["kept", "new one", "ü", "more"]


def test_pull_requests_go_to_the_default_branch_unless_told(desk: Desk, github: GitHub) -> None:
    github.default_branch = "trunk/ü"
    words = ["pr-create", "--title", "T", "--head", "topic", "--body-file", desk.body()]
    assert desk.does(*words) == "Created #1: https://github.com/acme/app/pull/1\n"
    assert github.asked[-1].data == {"title": "T", "head": "topic", "base": "trunk/ü", "body": "Some text"}
    desk.does(*words, "--base", "release")
    assert github.asked[-1].data["base"] == "release"
    said = desk.fails(*words[:4], "absent", *words[5:])
    assert said.endswith("GitHub says: Validation Failed; PullRequest head invalid\n")


def test_diff(desk: Desk, github: GitHub) -> None:
    github.add(pull=True)
    assert desk.does("pr-diff", "1") == "diff --git a/x b/x\n-old\n+new\n"
    assert github.asked[-1].headers["accept"] == "application/vnd.github.diff"


def test_a_diff_that_is_too_large(desk: Desk, github: GitHub) -> None:
    errors = [{"resource": "PullRequest", "field": "diff", "code": "too_large"}]
    github.fault = lambda _: Reply(406, {"message": "Sorry, the diff exceeded 300 files", "errors": errors})
    assert "Sorry, the diff exceeded 300 files; PullRequest diff too_large" in desk.fails("pr-diff", "1")


def test_link_branch_makes_a_linked_branch(desk: Desk, github: GitHub) -> None:
    github.add()
    assert desk.does("link-branch", "1", "feature/x") == "Created the branch feature/x from main, linked to #1.\n"
    assert (github.links, github.branches["feature/x"]) == ({1: ["feature/x"]}, "a" * 40)
    assert desk.does("link-branch", "1", "feature/x") == "The branch feature/x is linked to #1 already.\n"
    assert "seems to exist" in desk.fails("link-branch", "1", "taken")
    github.add(pull=True)
    assert "#2 is a pull request" in desk.fails("link-branch", "2", "y")
    assert github.branches.keys() == {"main", "taken", "topic", "feature/x"}


def test_link_branch_says_why_github_refuses(desk: Desk, github: GitHub) -> None:
    github.add()
    refused = Reply(data={"data": None, "errors": [{"type": "FORBIDDEN", "message": "Resource not accessible"}]})
    github.fault = lambda asked: refused if asked.path == "/graphql" else None
    assert desk.fails("link-branch", "1", "x") == "gh_issue.py: GitHub refuses. GitHub says: Resource not accessible\n"
    odd = Reply(data={"errors": 7})
    github.fault = lambda asked: odd if asked.path == "/graphql" else None
    assert desk.fails("link-branch", "1", "x") == "gh_issue.py: GitHub refuses.\n"
    limited = Reply(data={"errors": [{"type": "RATE_LIMITED", "message": "x"}]}, headers={"Retry-After": "7"})
    github.fault = lambda asked: limited if asked.path == "/graphql" else None
    assert "Try again in 7 seconds" in desk.fails("link-branch", "1", "x")
    github.fault = lambda asked: Reply(409, {"message": "Git Repository is empty."}) if "/ref/" in asked.path else None
    assert "Git Repository is empty." in desk.fails("link-branch", "1", "x")


def test_the_repository_of_the_call_comes_first(desk: Desk, github: GitHub) -> None:
    github.add()
    desk.fails("view", "1", "--repo", "acme/other")
    assert github.asked[-1].path == "/repos/acme/other/issues/1"
    desk.env["GH_ISSUE_REPO"] = ""
    assert desk.does("view", "1", "--repo", "acme/app")


def test_requests_are_as_github_wants_them(desk: Desk, github: GitHub) -> None:
    github.add()
    desk.does("comment", "1", "--body-file", desk.body())
    headers = github.asked[0].headers
    wanted = {
        "accept": "application/vnd.github+json",
        "x-github-api-version": "2022-11-28",
        "content-type": "application/json",
    }
    assert wanted.items() <= headers.items() and headers["user-agent"]


def test_what_github_no_longer_says_in_full(desk: Desk, github: GitHub) -> None:
    """Every field but the number may be missing or of another type."""
    odd: list[object] = [None, 7, {}, "x", [{"name": {}}, None]]
    for value in odd:
        entry = dict.fromkeys(("title", "body", "state", "user", "labels", "head", "base", "pull_request"), value)
        answers = json.dumps({"number": 1, **entry}), json.dumps([{"number": 1, **entry}, value])

        def fault(asked: Asked, answers: tuple[str, str] = answers) -> Reply:
            return Reply(text=answers["/1" not in asked.path or "comments" in asked.path])

        github.fault = fault
        for words in (["view", "1"], ["pr-view", "1"], ["pr-list"]):
            text = desk.does(*words)
            assert "#1" in text and not [odd for odd in ("None", "[", "{") if odd in text]
