"""The transition table, the digest, and the words of each end."""

from dataclasses import replace

import pytest

from slack_gate.core.answer import Ruling, settled
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import TRANSITIONS, Request, State, digest, may

EVENT = ToolEvent("claude-code", "s1", "toolu_1", "Bash", {"command": "git push"}, "/w/app")
REQUEST = Request(
    id="SG-1",
    digest="d",
    state=State.PENDING,
    agent="claude-code",
    session="s1",
    key="toolu_1",
    nonce="n",
    tool="Bash",
    tool_input={"command": "git push"},
    command="git push",
    cwd="/w/app",
    host="box",
    home="box:/run/gate.sock",
    why="not green",
    created_at=1000.0,
    expires_at=1300.0,
)


def test_every_state_stands_in_the_table() -> None:
    assert set(TRANSITIONS) == set(State)


@pytest.mark.parametrize("end", [state for state in State if state not in (State.PENDING,)])
def test_only_a_pending_request_is_decided(end: State) -> None:
    by_people = {State.APPROVED, State.DENIED}
    assert not any(may(start, end) for start in State if start is not State.PENDING and end in by_people)


def test_nothing_returns_to_pending() -> None:
    assert not any(may(start, State.PENDING) for start in State)


@pytest.mark.parametrize(
    "other",
    [
        replace(EVENT, tool_input={"command": "git push "}),
        replace(EVENT, tool_input={"command": "git push", "run_in_background": True}),
        replace(EVENT, cwd="/w/other"),
        replace(EVENT, session="s2"),
        replace(EVENT, agent="codex"),
        replace(EVENT, tool="Task"),
    ],
)
def test_the_digest_binds_everything_shown(other: ToolEvent) -> None:
    assert digest(other, "toolu_1", "box") != digest(EVENT, "toolu_1", "box")


def test_the_digest_binds_a_long_text_to_its_end() -> None:
    texts = ["true; " * 1667 + end for end in ("rm -rf a", "rm -rf b", "rm -rf")]
    assert len({digest(replace(EVENT, tool_input={"command": text}), "a", "box") for text in texts}) == 3


def test_the_digest_binds_call_and_host() -> None:
    assert len({digest(EVENT, "a", "box"), digest(EVENT, "b", "box"), digest(EVENT, "a", "other")}) == 3


def _ended(state: State, reason: str = "") -> Request:
    return replace(REQUEST, state=state, decided_at=1010.0, decided_by="U0ANA", decided_name="Ana", reason=reason)


def test_an_approval_allows_and_names_who() -> None:
    answer = settled(_ended(State.APPROVED))
    assert (answer.ruling, answer.reason) == (Ruling.ALLOW, "Approved by Ana (request SG-1).")


def test_each_end_has_words_of_its_own() -> None:
    ends = (State.DENIED, State.EXPIRED, State.CANCELLED, State.UNDELIVERABLE, State.NOT_RUN)
    answers = [settled(_ended(end)) for end in ends]
    assert all(answer.ruling is Ruling.DENY and answer.reason for answer in answers)
    assert len({answer.reason for answer in answers}) == len(ends)


def test_a_reason_reaches_the_agent() -> None:
    assert "use a release branch" in settled(_ended(State.DENIED, "use a release branch")).reason


def test_an_expiry_is_no_refusal_and_no_invitation() -> None:
    words = settled(_ended(State.EXPIRED)).reason.lower()
    assert "not a refusal" in words
    assert not any(word in words for word in ("retry", "again", "denied", "declined", "rephrase"))
    assert "sbox" in words


def test_an_expiry_of_a_tool_the_cage_cannot_run_does_not_point_to_it() -> None:
    assert "sbox" not in settled(replace(_ended(State.EXPIRED), command=None)).reason


def test_an_expiry_tells_the_green_way_when_there_is_one() -> None:
    for command in ("make x", None):
        words = settled(replace(_ended(State.EXPIRED), command=command), "sbox make x").reason
        assert words.endswith("this needs no asking: sbox make x")
    assert "`sbox CMD`" in settled(_ended(State.EXPIRED), "x" * 401).reason
    assert "make x" not in settled(_ended(State.DENIED), "sbox make x").reason


@pytest.mark.parametrize("state", [State.RUNNING, State.FINISHED, State.LOST])
def test_what_was_carried_out_is_not_allowed_again(state: State) -> None:
    answer = settled(_ended(state))
    assert answer.ruling is Ruling.DENY and "counts once" in answer.reason


@pytest.mark.parametrize("state", [State.PENDING])
def test_a_request_that_has_not_ended_has_no_answer(state: State) -> None:
    with pytest.raises(ValueError, match="no answer"):
        settled(_ended(state))
