"""Each method one transaction; the first end wins; nothing on disk holds a secret after it."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.ports import Entry, Verdict
from slack_gate.core.request import Choice, Decision, Request, State
from slack_gate.core.rules import Key
from slack_gate.errors import LogError, NotFound, StoreError
from slack_gate.store.cards import GIVEN_UP, Cards
from slack_gate.store.log import verify
from slack_gate.store.store import Store

HOME = "box:/run/gate.sock"
REQUEST = Request(
    id="SG-1",
    digest="d1",
    state=State.PENDING,
    agent="claude-code",
    session="s1",
    key="toolu_1",
    nonce="n1",
    tool="Bash",
    tool_input={"command": "curl -u a:b --password hunter2"},
    command="curl -u a:b --password hunter2",
    cwd="/w",
    host="box",
    home=HOME,
    why="not green",
    created_at=1000.0,
    expires_at=1300.0,
)
TOUCH = (Key("Bash", ("touch",)),)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def _store(place: Path, repair: bool = True) -> AsyncIterator[Store]:
    async with Store(f"sqlite:///{place / 'gate.db'}", place / "gate-log.jsonl", Clock(), repair) as store:
        yield store


def _click(choice: Choice = Choice.APPROVE, **changes: Any) -> Decision:
    values: dict[str, Any] = {
        "request": "SG-1",
        "digest": "d1",
        "choice": choice,
        "by": "human-slack",
        "user": "U0ANA",
        "name": "Ana",
        "team": "T1",
        "channel": "D1",
        "message": "1.1",
    }
    return Decision(**{**values, **changes})


async def _submitted(store: Store, request: Request = REQUEST) -> None:
    await store.submitted(request, ["U0ANA"], "slack")
    cards = Cards(store.database, "slack")
    for card in await cards.due(1000.0):
        await cards.posted(card.id, "D1", "1.1")


def _decisions(place: Path) -> list[str]:
    return [json.loads(line)["decision"] for line in (place / "gate-log.jsonl").read_text().splitlines()]


async def test_the_first_end_wins(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await _submitted(store)
        clicks = await asyncio.gather(
            *(store.decided(_click(choice), (), (), 1001.0) for choice in [Choice.APPROVE, Choice.DENY] * 10),
            store.cancelled("SG-1", "caller", 1001.0),
            store.undeliverable("SG-1", "x", 1001.0),
        )
        ended = [click for click in clicks[:20] if click.verdict is Verdict.DECIDED]  # type: ignore[union-attr]
        assert len(ended) + sum(end is not None for end in clicks[20:]) == 1
    assert len(_decisions(tmp_path)) == 2


@pytest.mark.parametrize(
    ("click", "verdict"),
    [
        (_click(request="SG-2"), Verdict.UNKNOWN),
        (_click(digest="d2"), Verdict.STALE),
        (_click(message="9.9"), Verdict.STALE),
        (_click(channel="D9"), Verdict.STALE),
        (_click(user="U0BOB"), Verdict.FOREIGN),
    ],
)
async def test_a_click_that_does_not_match_changes_nothing(tmp_path: Path, click: Decision, verdict: Verdict) -> None:
    async with _store(tmp_path) as store:
        await _submitted(store)
        assert (await store.decided(click, TOUCH, ["touch"], 1001.0)).verdict is verdict
        assert (await store.request("SG-1")) == REQUEST
        assert await store.rules() == []


async def test_a_click_before_the_message_is_on_file_is_honoured(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        assert (await store.decided(_click(), (), (), 1001.0)).verdict is Verdict.DECIDED


async def test_a_click_at_the_deadline_is_too_late(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await _submitted(store)
        assert (await store.decided(_click(), (), (), 1300.0)).verdict is Verdict.ENDED
        assert [request.state for request in await store.expired(HOME, 1300.0)] == [State.EXPIRED]
        assert await store.expired(HOME, 1300.0) == []


async def test_only_this_homes_requests_expire(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await _submitted(store)
        assert await store.expired("other:/gate.sock", 9999.0) == []
        assert await store.expired(HOME, 1299.9) == []


async def test_an_ended_request_keeps_no_secret(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await _submitted(store)
        click = await store.decided(_click(), (), (), 1001.0)
        assert click.request is not None
        assert click.request.command == "curl -u a:b --password [masked 7]"
        assert click.request.digest == "d1"
    assert not [path for path in tmp_path.iterdir() if b"hunter2" in path.read_bytes()]


async def test_always_saves_each_key_once(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        for number in (1, 2):
            await _submitted(store, replace(REQUEST, id=f"SG-{number}", key=f"toolu_{number}"))
            await store.decided(_click(Choice.ALWAYS, request=f"SG-{number}"), TOUCH, ["touch"], 1001.0)
        [rule] = await store.rules()
        assert (rule.key, rule.created_by, rule.request) == (TOUCH[0], "U0ANA", "SG-1")
        assert await store.revoked(rule.id, 1002.0) == rule
        assert await store.rules() == []
        with pytest.raises(NotFound):
            await store.revoked(rule.id, 1003.0)
        await _submitted(store, replace(REQUEST, id="SG-3", key="toolu_3"))
        await store.decided(_click(Choice.ALWAYS, request="SG-3"), TOUCH, ["touch"], 1001.0)
        assert len(await store.rules()) == 1


async def test_fifty_rules_at_once_all_stay(tmp_path: Path) -> None:
    async with _store(tmp_path) as store, _store(tmp_path) as other:
        for number in range(50):
            await _submitted(store, replace(REQUEST, id=f"SG-{number}", key=f"toolu_{number}"))
        await asyncio.gather(
            *(
                (store if number % 2 else other).decided(
                    _click(Choice.ALWAYS, request=f"SG-{number}"), [Key("Bash", (f"p{number}",))], ["p"], 1001.0
                )
                for number in range(50)
            )
        )
        assert len(await store.rules()) == 50
        head = await store.log_head()
    with (tmp_path / "gate-log.jsonl").open("rb") as lines:
        assert verify(lines, head) is None


async def test_the_same_call_is_the_same_request(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await _submitted(store)
        again = await store.submitted(replace(REQUEST, id="SG-9"), ["U0ANA"], "slack")
        assert again.id == "SG-1"
        assert len(await store.requests(10)) == 1


async def test_lines_that_a_crash_left_out_are_written_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "gate-log.jsonl"
    async with _store(tmp_path) as store:
        for number in range(5):
            await store.answered(Entry("green", "policy", command=f"c{number}"))
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (b"", b"".join(lines[:2]), b"".join(lines[:3]) + lines[3][:40], whole[:-1]):
        path.write_bytes(kept)
        async with _store(tmp_path):
            assert path.read_bytes() == whole


async def test_a_damaged_log_stops_everything_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "gate-log.jsonl"
    async with _store(tmp_path) as store:
        await store.answered(Entry("green", "policy"))
    for damaged in (b"not ours\n", path.read_bytes() + b"torn but not ours"):
        path.write_bytes(damaged)
        with pytest.raises(LogError):
            async with _store(tmp_path) as store:
                await store.answered(Entry("green", "policy"))
        assert path.read_bytes() == damaged


async def test_the_log_takes_up_again_when_the_disk_does(tmp_path: Path) -> None:
    path = tmp_path / "gate-log.jsonl"
    async with _store(tmp_path) as store:
        await store.answered(Entry("green", "policy"))
        path.rename(tmp_path / "aside")
        path.mkdir()
        for _ in range(2):
            with pytest.raises(LogError):
                await store.answered(Entry("green", "policy"))
        with pytest.raises(LogError):
            await store.recorded()
        path.rmdir()
        (tmp_path / "aside").rename(path)
        await store.answered(Entry("green", "policy"))
        head = await store.log_head()
    with path.open("rb") as lines:
        assert verify(lines, head) is None
    assert len(_decisions(tmp_path)) == 4


async def test_two_processes_write_one_chain(tmp_path: Path) -> None:
    async with _store(tmp_path) as one, _store(tmp_path) as two:
        await asyncio.gather(
            *(store.answered(Entry("green", "policy", command="x" * 12_000)) for store in [one, two] * 100)
        )
        head = await one.log_head()
        assert head is not None
        assert head[0] == 200
    with (tmp_path / "gate-log.jsonl").open("rb") as lines:
        assert verify(lines, head) is None


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
async def test_verify_finds_every_change(tmp_path: Path, change: Any, fault: str) -> None:
    async with _store(tmp_path) as store:
        for _ in range(3):
            await store.answered(Entry("green", "policy"))
        head = await store.log_head()
    lines = (tmp_path / "gate-log.jsonl").read_bytes().splitlines(keepends=True)
    assert verify(lines, head) is None
    found = verify(change(lines), head)
    assert found is not None
    assert fault in found


async def test_a_long_command_is_logged_with_what_was_left_out(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await store.answered(Entry("refused", "gate", command="x" * 100_000))
    assert "67232 characters left out" in (tmp_path / "gate-log.jsonl").read_text()


async def test_a_corrupt_database_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "gate.db").write_bytes(b"this is not a database, and long enough to be sure of it" * 40)
    before = (tmp_path / "gate.db").read_bytes()
    with pytest.raises(StoreError, match="cannot be used"):
        async with _store(tmp_path):
            pass
    assert (tmp_path / "gate.db").read_bytes() == before


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    async with _store(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "gate.db") as database:
        database.execute("UPDATE about SET value = '99' WHERE name = 'schema'")
    with pytest.raises(StoreError, match="newer"):
        async with _store(tmp_path):
            pass


async def test_other_databases_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not installed|not in mysql"):
        Store("mysql://x/y", tmp_path / "log", Clock())
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(f"sqlite:///{tmp_path}/missing/gate.db", tmp_path / "log", Clock())


async def test_files_are_private(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        await store.answered(Entry("green", "policy"))
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


async def test_a_locked_database_is_a_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slack_gate.store.database.BUSY_S", 0.1)
    async with _store(tmp_path) as store:
        with sqlite3.connect(tmp_path / "gate.db", isolation_level=None) as database:
            database.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="locked"):
                await store.answered(Entry("green", "policy"))
            database.execute("ROLLBACK")
        await store.answered(Entry("green", "policy"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE requests SET state = 'sleeping'",
        "UPDATE requests SET state = 'approved'",
        "UPDATE requests SET state = 'approved', decided_at = 1.0",
        "UPDATE requests SET expires_at = 0",
        "INSERT INTO cards (request, surface, approver, channel, message, drawn, error, attempts, due_at) "
        "VALUES ('SG-1', 'slack', 'U0ANA', '', '', '', '', 0, 0)",
    ],
)
async def test_the_database_itself_refuses(tmp_path: Path, change: str) -> None:
    async with _store(tmp_path) as store:
        await _submitted(store)
    database = sqlite3.connect(tmp_path / "gate.db")
    with pytest.raises(sqlite3.IntegrityError):
        database.execute(change)
    database.close()


async def test_cards_are_due_until_they_show_the_row(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        cards = Cards(store.database, "slack")
        await store.submitted(REQUEST, ["U0ANA", "U0BOB"], "slack")
        ana, bob = await cards.due(1000.0)
        assert (ana.approver, bob.approver, ana.message) == ("U0ANA", "U0BOB", "")
        await cards.posted(ana.id, "D1", "1.1")
        await cards.failed(bob.id, "user_disabled", GIVEN_UP)
        assert await cards.due(1000.0) == []
        assert await cards.hopeless("SG-1") is None
        await store.decided(_click(), (), (), 1001.0)
        stale, unsent = await cards.due(1001.0)
        assert (stale.id, stale.request.state) == (ana.id, State.APPROVED)
        assert (unsent.id, unsent.message) == (bob.id, "")  # it may have arrived after all
        await cards.drawn(unsent.id, State.APPROVED)
        await cards.failed(stale.id, "ratelimited", 1005.0)
        assert await cards.due(1004.0) == []
        assert await cards.next_due() == 1005.0
        await cards.drawn(stale.id, State.APPROVED)
        assert await cards.next_due() is None


async def test_a_request_no_card_of_which_can_arrive_is_hopeless(tmp_path: Path) -> None:
    async with _store(tmp_path) as store:
        cards = Cards(store.database, "slack")
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        [card] = await cards.due(1000.0)
        assert await cards.hopeless("SG-1") is None
        await cards.failed(card.id, "messages_tab_disabled", GIVEN_UP)
        assert await cards.hopeless("SG-1") == "messages_tab_disabled"
        assert await cards.hopeless("SG-unknown") is None
