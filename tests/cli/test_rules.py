from __future__ import annotations

import json

from slack_gate.core.request import Scope
from tests.cli.conftest import Home


def test_nothing_remembered(home: Home) -> None:
    home.store(lambda store: store.rules())
    ended = home.run("rules")
    assert (ended.code, ended.out, ended.err) == (0, "", "Nothing is remembered.\n")
    assert json.loads(home.run("rules", "list", "--json").out) == []


def test_a_rule_is_listed_id_first(home: Home) -> None:
    home.ask(1)
    listed = home.run("rules")
    assert listed.out == home.run("rules", "list").out
    assert home.run("rules", "--json").out == home.run("rules", "list", "--json").out != ""
    rule = listed.out.split()[0]
    assert rule.startswith("R-")
    assert "Bash: touch  (by U0ANA, 1970-01-01T00:18+" in listed.out
    assert listed.out.endswith(")  any directory; not used yet\n")
    [found] = json.loads(home.run("rules", "list", "--json").out)
    assert found == {
        "id": rule, "tool": "Bash", "words": ["touch"], "shown": "touch", "createdAt": 1100.0, "createdBy": "U0ANA",
        "request": "SG-1", "session": None, "cwd": None, "until": None, "usedAt": None, "uses": 0,
    }  # fmt: skip


def test_how_far_a_rule_reaches_is_listed(home: Home) -> None:
    home.ask(1, scope=Scope(session=True, directory=True, seconds=4_000_000_000.0))
    assert "  in /w, session s1 only, until 2096-10-02 07:25 UTC; not used yet\n" in home.run("rules").out
    [found] = json.loads(home.run("rules", "list", "--json").out)
    assert (found["session"], found["cwd"], found["until"]) == ("s1", "/w", 4_000_001_100.0)


def test_revoking(home: Home) -> None:
    home.ask(1)
    rule = home.run("rules").out.split()[0]
    ended = home.run("rules", "revoke", rule)
    assert (ended.code, ended.out) == (0, f"Revoked {rule}: touch\n")
    assert home.run("rules").out == ""
    for unknown in (rule, "R-00000000", ""):
        ended = home.run("rules", "revoke", unknown)
        assert ended.code == 1
        assert "no active rule" in ended.err
        assert "slack-gate rules" in ended.err
    assert json.loads(home.log.read_text().splitlines()[-1])["decision"] == "revoked"
