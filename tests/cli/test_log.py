from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from slack_gate.core.ports import Entry
from tests.cli.conftest import Home


@pytest.fixture
def filled(home: Home) -> Home:
    home.ask(1)
    home.ask(2, "make deploy")
    return home


def test_shown_for_people_and_as_it_stands(filled: Home) -> None:
    lines = filled.run("log").out.splitlines()
    assert len(lines) == 4
    assert lines[0].endswith("Z  pending by gate  touch a")
    assert lines[3].endswith("Z  approved by human-slack (U0ANA)  make deploy")
    assert filled.run("log", "--json").out == filled.log.read_text()


def test_what_a_person_put_in_place_stands_beside_what_was_asked(home: Home) -> None:
    home.ask(1, "make deploy", edited="make check TOKEN=abcdefghij")
    pending, approved = map(json.loads, home.log.read_text().splitlines())
    assert (pending["command"], pending["edited"]) == ("make deploy", None)
    assert (approved["command"], approved["edited"]) == ("make deploy", "make check TOKEN=[masked 10]")
    shown = home.run("log").out.splitlines()[1]
    assert shown.endswith("(U0ANA)  make check TOKEN=[masked 10] (instead of: make deploy)")
    assert home.run("log", "verify").code == 0


def test_it_holds(filled: Home) -> None:
    ended = filled.run("log", "verify")
    assert (ended.code, ended.out) == (0, "The log holds: 4 lines, none changed, none missing.\n")


def test_an_empty_one_holds(home: Home) -> None:
    home.store(lambda store: store.rules())
    assert home.run("log", "verify").out == "The log holds: 0 lines, none changed, none missing.\n"


def _changed(line: bytes, **fields: object) -> bytes:
    return json.dumps({**json.loads(line), **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda lines: [lines[0], _changed(lines[1], decision="denied"), *lines[2:]], "line 2 does not follow"),
        (lambda lines: [lines[0], _changed(lines[1], extra=1), *lines[2:]], "line 2 does not follow"),
        (lambda lines: [lines[0], *lines[2:]], "line 2 does not follow"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "line 1 does not follow"),
        (lambda lines: lines[:3], "line 4 is missing"),
        (lambda lines: [], "line 1 is missing"),
        (lambda lines: [*lines[:3], lines[3][:-20]], "line 4 is not a line"),
        (lambda lines: [*lines[:3], lines[3][:-1]], "line 4 does not follow"),
        (lambda lines: [*lines, b"[]\n"], "line 5 is not a line"),
        (lambda lines: [*lines, b"\xff\xfe\n"], "line 5 is not a line"),
        (lambda lines: [lines[0], b"\n", *lines[1:]], "line 2 is not a line"),
    ],
)
def test_every_change_is_found(filled: Home, change: Callable[[list[bytes]], list[bytes]], fault: str) -> None:
    filled.log.write_bytes(b"".join(change(filled.log.read_bytes().splitlines(keepends=True))))
    before = filled.log.read_bytes()
    ended = filled.run("log", "verify")
    assert ended.code == 1
    assert fault in ended.out
    assert filled.log.read_bytes() == before
    for words in (["log"], ["rules"], ["requests"]):  # still to be looked at
        assert filled.run(*words).code == 0


def test_lines_that_the_database_does_not_know(filled: Home) -> None:
    kept = (filled.path / "gate.db").read_bytes()
    filled.store(lambda store: store.answered(Entry("green", "policy")))
    forged = filled.log.read_bytes()
    for name in ("gate.db-wal", "gate.db-shm"):
        (filled.path / name).unlink(missing_ok=True)
    (filled.path / "gate.db").write_bytes(kept)
    assert "it goes on after line 4" in filled.run("log", "verify").out
    # The same for a database that is new: what it logs may not be taken for lines that the file already holds.
    (filled.path / "gate.db").unlink()
    filled.store_fails("ends with line 5, which is not in the database")
    assert filled.log.read_bytes() == forged
    assert "it goes on after line 0" in filled.run("log", "verify").out


def test_a_chain_that_is_whole_but_another_one(filled: Home) -> None:
    mine = filled.log.read_bytes()
    for name in ("gate.db", "gate.db-wal", "gate.db-shm", "gate-log.jsonl"):
        (filled.path / name).unlink(missing_ok=True)
    filled.ask(1)
    filled.ask(2, "make other")
    filled.log.write_bytes(mine)
    assert "line 4 is not the one that the database holds" in filled.run("log", "verify").out


def test_a_line_that_is_just_being_written(filled: Home) -> None:
    whole = filled.log.read_bytes()
    filled.log.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
    filled.monkeypatch.setattr("slack_gate.cli.log.PAUSES_S", (0.1, 0.0))
    filled.monkeypatch.setattr("slack_gate.cli.log.time.sleep", lambda _seconds: filled.log.write_bytes(whole))
    assert filled.run("log", "verify").code == 0


def test_a_deleted_file(filled: Home) -> None:
    filled.log.unlink()
    ended = filled.run("log", "verify")
    assert ended.code == 1
    assert "the file is missing" in ended.out
    assert filled.run("log").code == 1


def test_a_file_that_cannot_be_read(filled: Home) -> None:
    filled.log.unlink()
    filled.log.mkdir()
    assert "cannot be read (Is a directory)" in filled.run("log", "verify").out
    ended = filled.run("log")
    assert (ended.code, ended.out) == (74, "")
    assert "cannot be read: Is a directory" in ended.err
