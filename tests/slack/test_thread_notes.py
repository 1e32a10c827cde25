"""What a run leaves in the thread of its card: short enough for a phone, both ends, and the whole as a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slack_gate.core.notes import ENDED, HALF, NEARLY, Note
from slack_gate.core.request import State
from slack_gate.core.run import Carried
from slack_gate.local_slack.blocks import message_faults, total
from slack_gate.slack.threads import MAX_LINES, drawn
from tests.slack.test_cards import ended, literals, plain, request

RUN = Carried("cage", 1_700_000_012.0, 1_700_000_013.0, 3, False, "", "", "")


def note(**run: str) -> Note:
    return Note(ENDED, 1, "U0ANA", "D1", "1.1", ended(request(command="make"), State.FINISHED), replace(RUN, **run))


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("one\n", 0),
        ("\n".join(map(str, range(MAX_LINES))) + "\n", 0),
        ("\n".join(map(str, range(MAX_LINES + 1))) + "\n", 1),
        ("\n".join(map(str, range(900))) + "\n", 1),
        ("x" * 5000, 1),
        ("\n" * 90, 0),
        ("ab\n" * 1000 + "x" * 3000, 1),
    ],
)
def test_output_that_is_long_in_lines_or_characters_shows_both_ends(text: str, files: int) -> None:
    picture, found = drawn(note(stdout=text))
    assert message_faults(picture.blocks) == [] and total(picture.blocks) < 4000
    shown = literals(picture.blocks)
    assert len(found) == files and sum(part.count("\n") for part in shown) <= MAX_LINES + 1
    if not files:
        return
    [whole] = [file.text for file in found]
    head, tail = shown
    assert whole.startswith(head) and whole.endswith(tail)
    assert f"{len(whole) - len(head) - len(tail)} characters between" in plain(picture.blocks)


def test_what_a_phone_shows_of_a_note_names_what_it_is_about() -> None:
    waiting = request(command="git push --force", why="x")
    for name, said in (
        (HALF, "Half of the time to answer is over"),
        (NEARLY, "Nine tenths of the time to answer are over"),
    ):
        picture, files = drawn(Note(name, 1, "U0ANA", "D1", "1.1", waiting))
        assert picture.text.startswith(f"{said}: git push (deletes, the network) on build-7. ") and files == []
    assert drawn(note())[0].text == "Ended with exit code 3 after 1 s. make"
    several = replace(note(), request=ended(request(command="make a\nmake b"), State.FINISHED))
    assert drawn(several)[0].text == "Ended with exit code 3 after 1 s. make a\u23cemake b"
    long, _ = drawn(note(stdout="x"))
    assert len(long.text) < 400
