"""What people are told: every end of a click, every kind of call, in words that differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slack_gate.core import change
from slack_gate.core.answer import settled
from slack_gate.core.cage_first import UNCAGED
from slack_gate.core.change import FileNow
from slack_gate.core.event import APPROVAL, RUNS
from slack_gate.core.fields import length
from slack_gate.core.inside import inside, wrapped
from slack_gate.core.kinds import parts_now
from slack_gate.core.notes import reminder
from slack_gate.core.offers import ALONE, uneditable, unreadable
from slack_gate.core.outcome import outcome_of, sentence
from slack_gate.core.ports import Click, Verdict
from slack_gate.core.request import State
from slack_gate.core.respell import pinned
from slack_gate.core.rules import Key, Rule
from slack_gate.core.strict_json import NotStrict, strict_object
from slack_gate.core.wording import arrival, headline, remarks
from tests.core.test_request import EVENT, REQUEST

QUIET = (Verdict.DECIDED, Verdict.OPEN, Verdict.EXTENDED)


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict not in QUIET])
def test_each_click_that_changes_no_card_is_answered(verdict: Verdict) -> None:
    assert sentence(Click(verdict, REQUEST, why="Because."))


@pytest.mark.parametrize("verdict", QUIET)
def test_where_the_card_says_it_nothing_else_does(verdict: Verdict) -> None:
    assert sentence(Click(verdict, REQUEST)) == ""


def test_a_late_click_hears_what_happened() -> None:
    ends = [state for state in State if state not in (State.RUNNING, State.FINISHED, State.LOST, State.PENDING)]
    told = [sentence(Click(Verdict.ENDED, replace(REQUEST, state=state, decided_name="Bob"))) for state in ends]
    assert len(set(told)) == len(ends) and all(text.startswith("Too late") for text in told)
    assert sentence(Click(Verdict.ENDED)) == "Too late, nothing changed: it has ended."


def test_what_ran_says_first_who_let_it_and_then_how_it_ended() -> None:
    """A time beside an end would read as the time of that end."""
    done = replace(REQUEST, state=State.FINISHED, created_at=1000.0, decided_at=1012.0, decided_name="Ana")
    assert outcome_of(done) == "Approved by Ana after 12 s. Finished."
    changed = replace(done, state=State.LOST, edited="ls", caged=True)
    said = "Approved with a change, in the cage only, by Ana after 12 s. Outcome unknown: it may have run."
    assert outcome_of(changed) == said
    for via, who in (("allowlist", "the allowlist"), ("green", "the classifier"), ("always", "Always")):
        assert outcome_of(replace(done, via=via, decided_name=via)) == f"Allowed by {who}. Finished."
    assert len({outcome_of(replace(done, state=state)) for state in State}) == len(State)


def edit(tool: str, file: FileNow | None, **fields: Any) -> str:
    request = replace(REQUEST, tool=tool, tool_input=fields, command=None)
    return "\n".join(f"{part.caption}\n{part.shown}" for part in parts_now(request, file))


def test_several_edits_are_numbered_each_with_its_change() -> None:
    edits = [
        {"old_string": "a", "new_string": "b"},
        {"old_string": "c", "new_string": "d", "replace_all": True},
    ]
    shown = edit("MultiEdit", None, file_path="/w/a", edits=edits)
    assert "change 1 of 2" in shown and "change 2 of 2" in shown and "in every place" in shown


def test_several_edits_are_drawn_as_the_file_they_leave() -> None:
    """One after the other: the second one's text is there only after the first."""
    edits = [
        {"old_string": "a = 1", "new_string": "b = 1"},
        {"old_string": "b = 1\n", "new_string": "b = 2\n"},
        {"old_string": "x", "new_string": "y", "replace_all": True},
    ]
    shown = edit("MultiEdit", FileNow("a = 1\nx\nx\n"), file_path="/w/a", edits=edits)
    assert "In the file as it is now: - goes, + comes\n-a = 1\n-x\n-x\n+b = 2\n+y\n+y\n " in shown
    assert (
        "change 2 of 3 at line 1: " in shown
        and "change 3 of 3, in every place (in 2 places, the first at line 2): " in shown
    )
    lost = edit("MultiEdit", FileNow("a = 1\na = 1\n"), file_path="/w/a", edits=edits[:2])
    assert "stands in 2 places: it may fail" in lost and "In the file as it is now:" not in lost
    assert "change 2 of 2: - goes" in lost
    assert "change 1 of 3, a new file" in edit("MultiEdit", FileNow(missing=True), file_path="/w/a", edits=edits)


@pytest.mark.parametrize("edits", [[], "x", [{"old_string": "a"}], [{"old_string": "a", "new_string": 1}]])
def test_edits_of_another_form_are_shown_as_data(edits: Any) -> None:
    shown = edit("MultiEdit", None, file_path="/w/a", edits=edits)
    assert "change 1" not in shown and "edits" in shown


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            FileNow("a\nport = 80\n"),
            "In the file as it is now, at line 2: - goes, + comes\n a\n-port = 80\n+port = 8080\n ",
        ),
        (FileNow("80\n"), "change at line 1: - goes, + comes\n-80\n+8080"),
        (FileNow("80 80\n"), "change, whose old text stands in 2 places: it may fail"),
        (FileNow("a\n"), "change, whose old text is not in the file as it is now"),
        (FileNow(missing=True), "change, a new file"),
        (FileNow(why="it is not UTF-8"), "change: - goes, + comes\n-80\n+8080"),
        (None, "change: - goes, + comes\n-80\n+8080"),
    ],
)
def test_an_edit_says_where_its_text_stands(file: FileNow | None, said: str) -> None:
    assert said in edit("Edit", file, file_path="/w/a", old_string="80", new_string="8080")


def test_an_edit_in_many_places_is_not_drawn_around_each() -> None:
    fields = {"file_path": "/w/a", "old_string": "b", "new_string": "c", "replace_all": True}
    shown = edit("Edit", FileNow("a b\n" * 100), **fields)
    assert "In the file" not in shown and "change in 100 places, the first at line 1: - goes, + comes\n-b\n+c" in shown
    assert "In the file as it is now, in 2 places" in edit("Edit", FileNow("a b\n" * 2), **fields)


def test_a_write_says_what_stands_there_now() -> None:
    fields = {"file_path": "/w/a", "content": "a\n"}
    assert "content of a new file, 2 characters" in edit("Write", FileNow(missing=True), **fields)
    assert "as it is already" in edit("Write", FileNow("a\n"), **fields)
    assert "as a change to what is there now" in edit("Write", FileNow("b\n"), **fields)


def test_what_is_not_shown_of_a_file_is_said_with_its_host() -> None:
    write = replace(REQUEST, tool="Write", tool_input={"file_path": "/w/a", "content": "a"}, command=None, host="box-2")
    assert remarks(write) == ["The file is on box-2: what stands in it now is not shown here"]
    assert remarks(write, FileNow(why="it is growing")) == ["What stands in the file now is not shown: it is growing"]
    assert remarks(write, FileNow("b")) == remarks(write, FileNow(missing=True)) == []
    assert remarks(replace(write, tool="Read")) == []


def test_what_cannot_be_edited_says_why() -> None:
    can = replace(REQUEST, rewritable=True, tool_input={"command": "git push"})
    assert uneditable(can) is None
    assert "cannot be changed here" in str(uneditable(REQUEST))
    assert uneditable(replace(can, quorum=2)) == ALONE
    for command, why in (("x TOKEN=abcdefgh12", "secrets"), ("a\u200b", "does not show"), ("a" * 3001, "3001 char")):
        assert why in str(uneditable(replace(can, command=command)))
    assert unreadable("git push") is None and "2 characters that only look like" in str(
        unreadable("echo \u201ca\u201d")
    )


def test_what_was_remembered_is_told_with_the_ways_to_revoke_it() -> None:
    rule = Rule("R-1", Key("Bash", ("touch",)), "touch", 1.0, "U0ANA", "SG-1")
    told = sentence(Click(Verdict.DECIDED, REQUEST, (rule,)))
    assert told.startswith("Remembered: touch (R-1).") and "Home tab" in told and "slack-gate rules revoke ID" in told


def test_how_long_an_input_is_counts_names_and_texts_at_any_depth() -> None:
    assert length({"a": ["bc", {"d": 1}], "e": None}) == 5


NOTEBOOK = '{"cells": [{"id": "one", "source": ["x = 1\\n", "y = 2\\n"]}]}'


def test_a_notebooks_cell_is_compared_with_itself() -> None:
    found = edit("NotebookEdit", FileNow(NOTEBOOK), notebook_path="/w/n", cell_id="one", new_source="x = 3\ny = 2\n")
    assert "x = 1" in found and "x = 3" in found and "change to what is there now" in found
    missing = edit("NotebookEdit", FileNow(NOTEBOOK), notebook_path="/w/n", cell_id="two", new_source="x = 3\n")
    assert "change to what is there now" not in missing and "x = 3" in missing
    unread = edit("NotebookEdit", FileNow(why="it is growing"), notebook_path="/w/n", cell_id="one", new_source="x = 3")
    assert "change to what is there now" not in unread and "x = 3" in unread
    none = edit("NotebookEdit", None, notebook_path="/w/n", cell_id="one", new_source="x = 3\n", edit_mode="insert")
    assert "x = 3" in none


def test_reminders_only_while_it_waits_and_for_long_waits() -> None:
    assert reminder(REQUEST, 1000.0) == "" and reminder(replace(REQUEST, expires_at=1001.0), 1000.9) == ""
    assert reminder(REQUEST, 1151.0) != reminder(REQUEST, 1271.0) != ""
    assert reminder(replace(REQUEST, state=State.DENIED), 1271.0) == "" and reminder(REQUEST, 1300.0) == ""


def test_one_line_for_whoever_watches() -> None:
    assert arrival(REQUEST) == "pending SG-1: git push"
    assert arrival(replace(REQUEST, command=None, tool="WebFetch")) == "pending SG-1: WebFetch"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("make", ((), "make")),
        ("sbox --net-allow pypi -- pip download x", (("--net-allow", "pypi"), "pip download x")),
        ("sbox -- make 'a b'", ((), "make 'a b'")),
        ("sbox a && sbox b", ((), "command a && command b")),
        ("sbox --check", None),
        ("sbox", None),
        ("sbox --", None),
        ("sbox --net-allow pypi --", None),
        ("sbox a && sbox --net-allow pypi -- b", None),
    ],
)
def test_what_runs_inside(command: str, found: Any) -> None:
    assert inside(command) == found


@pytest.mark.parametrize("command", ["-c x", "+x"])
def test_a_leading_dash_would_be_an_option_of_bash(command: str) -> None:
    assert wrapped(replace(EVENT, tool_input={"command": command}, rewritable=True)) is None
    assert wrapped(replace(EVENT, rewritable=False)) is None


def test_what_cannot_be_pinned() -> None:
    assert pinned("git status", {}) is None and pinned("ls", {}) == "ls"


@pytest.mark.parametrize(
    "text", [b'{"a": 1e999}', b'{"a": NaN}', b'{"a": 1, "a": 2}', b"[]", b"\xff", b'{"a": "\\u0000"}']
)
def test_json_that_two_readers_could_take_differently(text: bytes) -> None:
    with pytest.raises(NotStrict):
        strict_object(text)
    assert strict_object(b'{"a": 1.5}') == {"a": 1.5}


def test_headlines_name_what_is_started() -> None:
    subagent = headline(replace(REQUEST, tool="Task", command=None))
    mcp = headline(replace(REQUEST, tool="mcp__db__query", command=None))
    question = headline(replace(REQUEST, tool=APPROVAL, command=None))
    assert headline(replace(REQUEST, tool=RUNS["cage"])) == "claude-code wants to run in the cage:"
    assert "starts a subagent" in subagent and "MCP server db" in mcp and question == "claude-code asks:"


def test_texts_too_long_to_compare_are_both_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "MAX_WORK", 0)
    old, new = ("".join(f"{sign}{n}\n" for n in range(6000)) for sign in "ab")
    shown = edit("Edit", None, file_path="/w/a", old_string=old, new_string=new)
    assert "what goes" in shown and "what comes" in shown and "a5999" in shown and "b5999" in shown


def test_a_cell_that_is_added_or_taken_away_is_no_change_of_one() -> None:
    for mode in ("insert", "delete"):
        shown = edit(
            "NotebookEdit", FileNow(NOTEBOOK), notebook_path="/w/n", cell_id="one", new_source="z", edit_mode=mode
        )
        assert "change to what is there now" not in shown and mode in shown


def test_what_the_cage_has_stopped_is_not_sent_back_there() -> None:
    for command, hint, way in (("make", "sbox make", True), ("make", "", True), (f"{UNCAGED} make", "sbox x", False)):
        expired = replace(REQUEST, state=State.EXPIRED, tool_input={"command": command}, command=command)
        assert ("sbox" in settled(expired, hint).reason) == way, command
