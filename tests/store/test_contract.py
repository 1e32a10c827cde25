"""What holds on SQLite and on PostgreSQL alike: each method one transaction; the first end wins."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.notes import ENDED
from slack_gate.core.ports import Entry, Verdict
from slack_gate.core.request import Choice, Decision, State
from slack_gate.core.rules import Key
from slack_gate.core.run import not_started
from slack_gate.errors import LogError, NotFound, StoreError
from slack_gate.store.cards import GIVEN_UP, Cards, Drawing
from slack_gate.store.log import verify
from slack_gate.store.notes import Notes
from tests.store.place import HOME, NOW, REQUEST, TOUCH, Place, click, submitted

OVER = replace(REQUEST, created_at=NOW - 20, expires_at=NOW - 10)


async def test_the_first_end_wins(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        clicks = await asyncio.gather(
            *(store.decided(click(choice), (), (), NOW + 1) for choice in [Choice.APPROVE, Choice.DENY] * 10),
            store.cancelled("SG-1", "caller", NOW + 1),
            store.undeliverable("SG-1", "x", NOW + 1),
        )
        ended = [click for click in clicks[:20] if click.verdict is Verdict.DECIDED]  # type: ignore[union-attr]
        assert len(ended) + sum(end is not None for end in clicks[20:]) == 1
    assert len(place.decisions()) == 2


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (click(request="SG-2"), Verdict.UNKNOWN),
        (click(digest="d2"), Verdict.STALE),
        (click(message="9.9"), Verdict.STALE),
        (click(channel="D9"), Verdict.STALE),
        (click(user="U0BOB"), Verdict.FOREIGN),
    ],
)
async def test_a_click_that_does_not_match_changes_nothing(place: Place, made: Decision, verdict: Verdict) -> None:
    async with place.store() as store:
        await submitted(store)
        assert (await store.decided(made, TOUCH, ["touch"], NOW + 1)).verdict is verdict
        assert (await store.request("SG-1")) == REQUEST
        assert await store.rules() == []


async def test_an_approval_that_could_not_be_recorded_is_undone_once(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        always = click(Choice.ALWAYS)
        decided = await store.decided(always, TOUCH, ["touch"], NOW + 1)
        assert decided.verdict is Verdict.DECIDED and len(await store.rules()) == 1
        for other, at in ((click(user="U0BOB"), NOW + 1), (always, NOW + 2), (click(digest="d2"), NOW + 1)):
            await store.undone(other, at, NOW + 3)
            assert await store.request("SG-1") == decided.request and len(await store.rules()) == 1
        for _ in range(2):
            await store.undone(always, NOW + 1, NOW + 3)
        row = await store.request("SG-1")
        assert row is not None and row.state is State.NOT_RUN
        assert await store.claimed("SG-1", "run-1", "cage", NOW + 3) is None
        assert await store.rules() == []
    assert place.decisions() == ["pending", "approved", "unrecorded", "revoked"]


async def test_the_thread_of_what_was_not_started_does_not_say_that_it_was(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        await store.decided(click(), (), (), NOW + 1)
        assert await store.claimed("SG-1", "run-1", "cage", NOW + 2) is not None
        assert await store.not_run("SG-1", "run-1", not_started("No cage starts here."), NOW + 3) is not None
        told = await Notes(store.database, "slack", HOME).of_runs({"SG-1"})
        assert [(note.name, note.run and note.run.error) for note in told] == [(ENDED, "No cage starts here.")]
    assert place.decisions() == ["pending", "approved", "running", "not-run"]


async def test_a_vote_that_could_not_be_recorded_is_not_counted(place: Place) -> None:
    async with place.store() as store:
        await submitted(store, replace(REQUEST, quorum=2))
        assert (await store.decided(click(), (), (), NOW + 1)).verdict is Verdict.COUNTED
        for _ in range(2):
            await store.undone(click(user="U0BOB"), NOW + 1, NOW + 2)
            row = await store.request("SG-1")
            assert row is not None and row.votes == (("U0ANA", "Ana"),)
        for _ in range(2):
            await store.undone(click(), NOW + 1, NOW + 2)
            row = await store.request("SG-1")
            assert row is not None and (row.state, row.votes) == (State.PENDING, ())
    assert place.decisions() == ["pending", "vote", "unrecorded"]


async def test_a_click_before_the_message_is_on_file_is_honoured(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        assert (await store.decided(click(), (), (), NOW + 1)).verdict is Verdict.DECIDED


async def test_a_click_at_the_deadline_is_too_late(place: Place) -> None:
    async with place.store() as store:
        await submitted(store, OVER)
        assert (await store.decided(click(), (), (), NOW)).verdict is Verdict.ENDED
        if store.database.shared:  # another daemon's; else it is one that has another socket now
            assert await store.expired("other:/gate.sock", NOW) == []
        assert [request.state for request in await store.expired(HOME, NOW)] == [State.EXPIRED]
        assert await store.expired(HOME, NOW) == []


async def test_what_comes_after_the_end_is_refused_in_words(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
    with pytest.raises(StoreError, match="stopping"):
        await store.decided(click(), (), (), NOW)
    with pytest.raises(StoreError, match="stopping"):
        await store.recorded()


async def test_what_comes_while_it_ends_is_refused_in_words(place: Place) -> None:
    opened = AsyncExitStack()
    store = await opened.enter_async_context(place.store())
    first, end = asyncio.create_task(store.log_chains()), asyncio.create_task(opened.aclose())
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="stopping"):
        await store.log_chains()
    assert list(await first) == []
    await end


async def test_nothing_expires_before_its_time(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        assert await store.expired(HOME, NOW) == []
        assert (await store.decided(click(), (), (), NOW)).verdict is Verdict.DECIDED


async def test_always_saves_each_key_once(place: Place) -> None:
    async with place.store() as store:
        for number in (1, 2):
            await submitted(store, replace(REQUEST, id=f"SG-{number}", key=f"toolu_{number}"))
            await store.decided(click(Choice.ALWAYS, request=f"SG-{number}"), TOUCH, ["touch"], NOW + 1)
        [rule] = await store.rules()
        assert (rule.key, rule.created_by, rule.request) == (TOUCH[0], "U0ANA", "SG-1")
        assert await store.revoked(rule.id, NOW + 2) == rule
        assert await store.rules() == []
        with pytest.raises(NotFound):
            await store.revoked(rule.id, NOW + 3)
        await submitted(store, replace(REQUEST, id="SG-3", key="toolu_3"))
        await store.decided(click(Choice.ALWAYS, request="SG-3"), TOUCH, ["touch"], NOW + 1)
        assert len(await store.rules()) == 1


async def test_fifty_rules_at_once_all_stay(place: Place) -> None:
    async with place.store() as store, place.store() as other:
        for number in range(50):
            await submitted(store, replace(REQUEST, id=f"SG-{number}", key=f"toolu_{number}"))
        await asyncio.gather(
            *(
                (store if number % 2 else other).decided(
                    click(Choice.ALWAYS, request=f"SG-{number}"), [Key("Bash", (f"p{number}",))], ["p"], NOW + 1
                )
                for number in range(50)
            )
        )
        assert len(await store.rules()) == 50
        head = await store.log_head()
    with (place.path / "gate-log.jsonl").open("rb") as lines:
        assert verify(lines, head) is None


async def test_the_same_call_is_the_same_request(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        again = await store.submitted(replace(REQUEST, id="SG-9"), ["U0ANA"], "slack")
        assert again.id == "SG-1"
        assert len(await store.requests(10)) == 1


async def test_lines_that_a_crash_left_out_are_written_at_the_start(place: Place) -> None:
    path = place.path / "gate-log.jsonl"
    async with place.store() as store:
        for number in range(5):
            await store.answered(Entry("green", "policy", command=f"c{number}"))
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (b"", b"".join(lines[:2]), b"".join(lines[:3]) + lines[3][:40], whole[:-1]):
        path.write_bytes(kept)
        async with place.store():
            assert path.read_bytes() == whole


async def test_a_damaged_log_stops_everything_and_is_left_alone(place: Place) -> None:
    path = place.path / "gate-log.jsonl"
    async with place.store() as store:
        await store.answered(Entry("green", "policy"))
    for damaged in (b"not ours\n", path.read_bytes() + b"torn but not ours"):
        path.write_bytes(damaged)
        with pytest.raises(LogError):
            async with place.store() as store:
                await store.answered(Entry("green", "policy"))
        assert path.read_bytes() == damaged


async def test_the_log_takes_up_again_when_the_disk_does(place: Place) -> None:
    path = place.path / "gate-log.jsonl"
    async with place.store() as store:
        await store.answered(Entry("green", "policy"))
        path.rename(place.path / "aside")
        path.mkdir()
        for _ in range(2):
            with pytest.raises(LogError):
                await store.answered(Entry("green", "policy"))
        with pytest.raises(LogError):
            await store.recorded()
        path.rmdir()
        (place.path / "aside").rename(path)
        await store.answered(Entry("green", "policy"))
        head = await store.log_head()
    with path.open("rb") as lines:
        assert verify(lines, head) is None
    assert len(place.decisions()) == 4


async def test_two_processes_write_one_chain(place: Place) -> None:
    async with place.store() as one, place.store() as two:
        await asyncio.gather(
            *(store.answered(Entry("green", "policy", command="x" * 12_000)) for store in [one, two] * 100)
        )
        head = await one.log_head()
        assert head is not None
        assert head[0] == 200
    with (place.path / "gate-log.jsonl").open("rb") as lines:
        assert verify(lines, head) is None


_WRITER = """
import asyncio, sys, time
from pathlib import Path
from slack_gate.core.ports import Entry
from slack_gate.store.store import Store

async def main(url, log, number):
    async with Store(url, Path(log), time.time) as store:
        sys.stdin.readline()
        for count in range(25):
            await store.answered(Entry("green", "policy", command=f"{number}-{count} " + "x" * 12_000))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_many_programs_at_once_write_whole_lines(place: Place) -> None:
    async with place.store() as store:
        writers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _WRITER, place.url, str(place.log), str(number)),
                cwd=Path(__file__).parents[2],
                stdin=asyncio.subprocess.PIPE,
            )
            for number in range(6)
        ]
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(b"\n")
        ends = await asyncio.gather(*(writer.communicate() for writer in writers))
        assert len(ends) == 6 and [writer.returncode for writer in writers] == [0] * 6
        head = await store.log_head()
    lines = place.log.read_bytes().splitlines(keepends=True)
    assert {json.loads(line)["command"].split()[0] for line in lines} == {
        f"{a}-{b}" for a in range(6) for b in range(25)
    }
    assert len(lines) == 150 and verify(lines, head) is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda lines: lines[:2], "line 3 is missing"),
        (lambda lines: [], "line 1 is missing"),
        (lambda lines: lines[1:], "line 1 does not follow"),
        (lambda lines: [lines[0], lines[2]], "line 2 does not follow"),
        (lambda lines: [lines[0], lines[1].replace(b"green", b"denid"), lines[2]], "line 2 does not follow"),
        (lambda lines: [lines[0], b"{}\n", lines[2]], "line 2 is not a line"),
        (lambda lines: [lines[0], b"\xff\n", lines[2]], "line 2 is not a line"),
        (lambda lines: [*lines[:2], lines[2][:-1]], "line 3 does not follow"),
    ],
)
async def test_verify_finds_every_change(place: Place, change: Any, fault: str) -> None:
    async with place.store() as store:
        for _ in range(3):
            await store.answered(Entry("green", "policy"))
        head = await store.log_head()
    lines = (place.path / "gate-log.jsonl").read_bytes().splitlines(keepends=True)
    assert verify(lines, head) is None
    found = verify(change(lines), head)
    assert found is not None
    assert fault in found


async def test_a_long_command_is_logged_with_what_was_left_out(place: Place) -> None:
    async with place.store() as store:
        await store.answered(Entry("refused", "gate", command="x" * 100_000))
    assert "67232 characters left out" in (place.path / "gate-log.jsonl").read_text()


async def test_cards_are_due_until_they_show_the_row(place: Place) -> None:
    async with place.store() as store:
        cards = Cards(store.database, "slack", HOME)
        await store.submitted(REQUEST, ["U0ANA", "U0BOB"], "slack")
        ana, bob = await cards.due(NOW)
        assert (ana.approver, bob.approver, ana.message) == ("U0ANA", "U0BOB", "")
        await cards.posted(ana.id, "D1", "1.1")
        await cards.failed(bob.id, "user_disabled", NOW, GIVEN_UP)
        assert await cards.due(NOW) == []
        assert await cards.untaken() == {}
        await store.decided(click(), (), (), NOW + 1)
        stale, unsent = await cards.due(NOW + 1)
        assert (stale.id, stale.request.state) == (ana.id, State.APPROVED)
        assert (unsent.id, unsent.message) == (bob.id, "")  # it may have arrived after all
        assert len(await cards.claim([[stale], [unsent]], NOW + 1, NOW + 60)) == 2
        await cards.drawn([Drawing(unsent.id, State.APPROVED)], NOW + 1)
        await cards.failed(stale.id, "ratelimited", NOW + 1, NOW + 5)
        assert await cards.due(NOW + 4) == []
        assert await cards.next_due() == NOW + 5
        assert await cards.claim([await cards.due(NOW + 5)], NOW + 5, NOW + 60) == {stale.id}
        await cards.drawn([Drawing(stale.id, State.APPROVED)], NOW + 5)
        assert await cards.next_due() is None


async def test_a_request_no_card_of_which_can_arrive_is_untaken(place: Place) -> None:
    async with place.store() as store:
        cards = Cards(store.database, "slack", HOME)
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        [card] = await cards.due(NOW)
        assert await cards.untaken() == {}
        await cards.failed(card.id, "messages_tab_disabled", NOW, GIVEN_UP)
        assert await cards.untaken() == {"SG-1": "messages_tab_disabled"}
        assert await Cards(store.database, "slack", "elsewhere").untaken() == {}


async def test_a_card_that_another_daemon_has_drawn_is_not_drawn_again(place: Place) -> None:
    """Both have read that it is due; the slower one comes when it is due again, or for good."""
    async with place.store() as store, place.store() as other:
        mine, theirs = Cards(store.database, "slack", HOME), Cards(other.database, "slack", "elsewhere")
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        [read], [read_too] = await mine.due(NOW), await theirs.due(NOW)
        assert await mine.claim([[read]], NOW, NOW + 60) == {read.id}
        assert await theirs.claim([[read_too]], NOW, NOW + 60) == set()
        await mine.failed(read.id, "internal_error", NOW, NOW)
        assert await theirs.claim([[read_too]], NOW, NOW + 60) == set()
        [again], [again_too] = await mine.due(NOW), await theirs.due(NOW)
        assert await mine.claim([[again]], NOW, NOW + 60) == {read.id}
        await mine.posted(again.id, "D1", "1.1")
        assert await theirs.claim([[again_too]], NOW, NOW + 60) == set()
