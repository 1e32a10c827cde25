from __future__ import annotations

import json

from tests.cli.conftest import Home


def test_newest_first_with_what_became_of_them(home: Home) -> None:
    home.ask(1, "touch a")
    home.ask(2, "curl -H 'Authorization: Bearer ghp_EXAMPLE0123456789' x")
    home.ask(3, None, tool="WebFetch")
    ended = home.run("requests")
    assert ended.out == home.run("requests", "list").out
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines] == ["SG-3", "SG-2", "SG-1"]
    assert lines[2].endswith("approved by Ana  touch a")
    assert lines[0].endswith("WebFetch")
    assert "[masked 21]" in lines[1]
    assert "ghp_EXAMPLE" not in ended.out + home.run("requests", "list", "--json").out
    assert len(home.run("requests", "list", "--limit", "1").out.splitlines()) == 1
    assert home.run("requests", "--limit", "1").out == lines[0] + "\n"


def test_as_json(home: Home) -> None:
    home.ask(1)
    assert home.run("requests", "--json").out == home.run("requests", "list", "--json").out != ""
    [found] = json.loads(home.run("requests", "list", "--json").out)
    assert found == {
        "id": "SG-1", "digest": "d", "state": "approved", "agent": "claude-code", "session": "s1", "tool": "Bash",
        "command": "touch a", "edited": None, "input": {"command": "touch a"}, "cwd": "/w", "createdAt": 1001.0,
        "expiresAt": 1300.0, "decidedAt": 1100.0, "decidedBy": "U0ANA", "reason": "ok",
    }  # fmt: skip


def test_what_a_person_put_in_place_stands_first(home: Home) -> None:
    home.ask(1, "make deploy", edited="make check")
    assert home.run("requests").out.endswith("approved by Ana  make check (instead of: make deploy)\n")
    [found] = json.loads(home.run("requests", "--json").out)
    assert (found["command"], found["edited"]) == ("make deploy", "make check")


def test_nothing_asked_yet(home: Home) -> None:
    home.store(lambda store: store.rules())
    assert home.run("requests").out == ""
    assert json.loads(home.run("requests", "list", "--json").out) == []


def test_the_word_list_may_be_left_out_but_nothing_else_is_guessed(home: Home) -> None:
    home.ask(1)
    assert "Commands:" in home.run("requests", "--help").out
    for words in (["--nothing"], ["lst"], ["--json", "more"]):
        ended = home.run("requests", *words)
        assert (ended.code, ended.out) == (2, "")


def test_none_is_said(home: Home) -> None:
    home.store(lambda store: store.requests(1))
    ended = home.run("requests")
    assert (ended.code, ended.out, ended.err) == (0, "", "Nothing was asked yet.\n")
    assert home.run("requests", "--json").out == "[]\n"
