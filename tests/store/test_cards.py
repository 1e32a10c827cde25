"""The outbox's rows, on both databases: one daemon draws a card, and no message that shows it is forgotten."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, select, update

from slack_gate.core.request import Choice, State
from slack_gate.store import tables
from slack_gate.store.cards import GIVEN_UP, SETTLED_S, Card, Cards, Drawing
from slack_gate.store.store import Store
from tests.store.place import HOME, NOW, REQUEST, Place, click, submitted


def cards_of(store: Store) -> Cards:
    return Cards(store.database, "slack", HOME)


async def the_card(cards: Cards, now: float = NOW) -> Card:
    [card] = await cards.due(now)
    return card


async def test_one_of_two_daemons_draws_a_card(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        one, other = cards_of(store), cards_of(store)
        card = await the_card(one)
        won = await asyncio.gather(one.claim([[card]], NOW, NOW + 60), other.claim([[card]], NOW, NOW + 60))
        assert sorted(map(len, won)) == [0, 1]
        assert await other.due(NOW + 59) == []
        assert (await the_card(other, NOW + 60)).unclear  # the first one may have posted before it died


async def test_a_claimed_post_is_unclear_until_its_outcome_is_known(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA", "U0BOB"], "slack")
        cards = cards_of(store)
        ana, bob = await cards.due(NOW)
        assert not ana.unclear
        for _ in range(2):  # marked once
            await cards.claim([[ana, bob]], NOW + 1, NOW + 1)
        ana, bob = await cards.due(NOW + 1)
        assert (ana.unclear, ana.strays) == (True, ())
        await cards.failed(ana.id, "ratelimited", NOW + 1, NOW + 2, [])
        await cards.posted(bob.id, "D2", "2.1")
        assert not (await the_card(cards, NOW + 2)).unclear
        assert await cards.channel("U0BOB") == "D2" and await cards.channel("U0ANA") == ""


async def test_a_restarted_daemon_draws_what_it_was_drawing(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        other = replace(REQUEST, id="SG-2", key="toolu_2", home="elsewhere")
        await store.submitted(other, ["U0ANA"], "slack")
        cards, there = cards_of(store), Cards(store.database, "slack", "elsewhere")
        first, second = await cards.due(NOW)
        assert await cards.claim([[second]], NOW, NOW + 60) == {second.id}  # whoever's agent asks
        assert await there.claim([[first]], NOW, NOW + 60) == {first.id}
        assert await cards.due(NOW) == []
        await cards.resumed(NOW)
        assert (await the_card(cards)).id == second.id  # the other one is being drawn
        assert await cards.waiting() == ["SG-1"]


async def two_on_one_message(store: Store) -> None:
    for number in (1, 2):
        await store.submitted(replace(REQUEST, id=f"SG-{number}", key=f"toolu_{number}"), ["U0ANA"], "slack")
    cards = cards_of(store)
    await cards.listed(await cards.due(NOW), "D1", "1.1")
    for number in (1, 2):
        await store.decided(click(Choice.DENY, request=f"SG-{number}"), (), (), NOW + 1)


async def test_a_message_is_drawn_by_one_daemon_at_a_time(place: Place) -> None:
    """Two drawings of one message under way at once may arrive in the wrong order."""
    async with place.store() as store:
        await two_on_one_message(store)
        one, other = cards_of(store), Cards(store.database, "slack", "elsewhere")
        first, second = await one.due(NOW + 1)
        assert await one.claim([[first], [second]], NOW + 1, NOW + 60) == {first.id}
        assert await other.claim([[second]], NOW + 1, NOW + 60) == set()
        assert await other.due(NOW + 1) == []
        await one.drawn([Drawing(first.id, State.DENIED)], NOW + 2)
        assert (await the_card(other, NOW + 2)).id == second.id
        assert await other.claim([[second]], NOW + 2, NOW + 60) == {second.id}
        assert await one.due(NOW + 59) == []
        assert (await the_card(one, NOW + 60)).id == second.id  # the other one has died


@pytest.mark.parametrize("ended", ["first", "last", "it failed first", "it failed last"])
async def test_what_was_drawn_after_its_lease_is_drawn_anew(place: Place, ended: str) -> None:
    """A daemon stood still between reading and drawing: whose picture came last, nobody knows."""
    async with place.store() as store:
        await two_on_one_message(store)
        late, other = cards_of(store), Cards(store.database, "slack", "elsewhere")
        first, second = await late.due(NOW + 1)
        assert await late.claim([[first]], NOW + 1, NOW + 60) == {first.id}
        assert len(await other.claim([await other.due(NOW + 60)], NOW + 60, NOW + 120)) == 2
        both = [Drawing(card.id, State.DENIED) for card in (first, second)]

        async def late_ends() -> None:
            if "failed" in ended:
                await late.failed(first.id, "no answer", NOW + 62, NOW + 62)
            else:
                await late.drawn(both[:1], NOW + 62, both[1:])

        if "first" in ended:
            await late_ends()
        await other.drawn(both, NOW + 62)
        if "last" in ended:
            await late_ends()
        again = await other.due(NOW + 62)
        assert first.id in [card.id for card in again]
        assert await other.claim([again], NOW + 62, NOW + 120) == {card.id for card in again}
        await other.drawn([Drawing(card.id, State.DENIED) for card in again], NOW + 63)
        assert await other.due(NOW + 64) == []


async def test_one_that_waits_is_drawn_anew_after_a_late_drawing(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        late, other = cards_of(store), Cards(store.database, "slack", "elsewhere")
        await late.posted((await the_card(late)).id, "D1", "1.1")
        assert await store.renewed("SG-1", NOW) is not None
        card = await the_card(late)
        assert await late.claim([[card]], NOW, NOW + 60) == {card.id}
        assert await other.claim([[card]], NOW + 60, NOW + 120) == {card.id}
        await other.drawn([Drawing(card.id, State.PENDING, 1)], NOW + 61)
        assert await other.due(NOW + 61) == []
        await late.drawn([Drawing(card.id, State.PENDING)], NOW + 62)
        assert not (await the_card(other, NOW + 62)).unshown  # its approver was asked


async def test_a_message_that_is_another_cards_copy_is_drawn_by_one_daemon_at_a_time(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        cards, other = cards_of(store), Cards(store.database, "slack", "elsewhere")
        await store.submitted(replace(REQUEST, id="SG-2", key="toolu_2"), ["U0ANA"], "slack")
        await cards.posted((await the_card(cards)).id, "D1", "2.2", ["1.1"])
        for number in (1, 2):
            pressed = click(Choice.DENY, request=f"SG-{number}", message=f"{number}.{number}")
            await store.decided(pressed, (), (), NOW + 1)
        own, copy = await cards.due(NOW + 1)
        assert ((own.message, own.strays), (copy.message, copy.strays)) == (("1.1", ()), ("2.2", ("1.1",)))
        assert [card.id for card in await cards.sharing("D1", "1.1")] == [own.id, copy.id]
        assert await cards.claim([[copy]], NOW + 1, NOW + 60) == {copy.id}
        assert await other.claim([[own]], NOW + 1, NOW + 60) == set()


async def test_two_daemons_that_begin_at_once_do_not_both_draw_a_message(place: Place) -> None:
    async with place.store() as store, place.store() as another:
        await two_on_one_message(store)
        one, other = cards_of(store), Cards(another.database, "slack", "elsewhere")
        first, second = await one.due(NOW + 1)
        for turn in range(30):
            at = NOW + 2 + turn
            won = await asyncio.gather(one.claim([[first]], at, at + 60), other.claim([[second]], at, at + 60))
            assert sorted(map(len, won)) == [0, 1]
            for card in (first, second):
                await one.released(card.id, at)


async def test_posts_of_blocked_approvers_and_redraws_can_be_left_out(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        await store.decided(click(Choice.DENY), (), (), NOW + 1)
        second = replace(REQUEST, id="SG-2", key="toolu_2", created_at=NOW + 1)
        await store.submitted(second, ["U0ANA", "U0BOB"], "slack")
        cards = cards_of(store)

        async def due(**how: object) -> list[tuple[str, str]]:
            return [(card.request.id, card.approver) for card in await cards.due(NOW + 2, **how)]  # type: ignore[arg-type]

        assert await due() == [("SG-2", "U0ANA"), ("SG-2", "U0BOB"), ("SG-1", "U0ANA")]  # posts first
        assert await due(blocked=["U0ANA"]) == [("SG-2", "U0BOB"), ("SG-1", "U0ANA")]
        assert await due(redraws=False) == [("SG-2", "U0ANA"), ("SG-2", "U0BOB")]
        assert await due(blocked=["U0ANA", "U0BOB"], redraws=False) == []
        assert await due(limit=1) == [("SG-2", "U0ANA")]


async def test_a_copy_that_is_seen_while_the_card_is_redrawn_is_redrawn_next(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        cards = cards_of(store)
        await store.decided(click(), (), (), NOW + 1)
        for again in (None, NOW + 600):
            card = await the_card(cards, NOW + 2)
            await cards.claim([[card]], NOW + 2, NOW + 60)
            copy = "2.2" if again is None else "3.3"
            await cards.seen("SG-1", "U0ANA", "D1", copy)
            await cards.drawn([Drawing(card.id, State.APPROVED, 0, card.strays, again)], NOW + 2)
            assert copy in (await the_card(cards, NOW + 2)).strays
        card = await the_card(cards, NOW + 2)
        await cards.claim([[card]], NOW + 2, NOW + 60)
        await cards.drawn([Drawing(card.id, State.APPROVED, 0, card.strays)], NOW + 2)
        assert await cards.due(NOW + 3) == [] and await cards.next_due(NOW + 3) is None


async def test_a_copy_that_is_seen_after_the_end_is_redrawn(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        cards = cards_of(store)
        await cards.seen("SG-1", "U0ANA", "D1", "1.1")  # the card itself
        await cards.seen("SG-1", "U0ANA", "D1", "")
        await cards.seen("SG-1", "U0ANA", "D9", "9.9")  # another channel
        await cards.seen("SG-1", "U0EVE", "D1", "9.9")
        await cards.seen("SG-9", "U0ANA", "D1", "9.9")
        await store.decided(click(Choice.DENY), (), (), NOW + 1)
        card = await the_card(cards, NOW + 1)
        assert card.strays == ()
        await cards.claim([[card]], NOW + 1, NOW + 60)
        await cards.drawn([Drawing(card.id, State.DENIED, 0, ())], NOW + 1)
        assert await cards.due(NOW + 2) == []
        for _ in range(2):
            await cards.seen("SG-1", "U0ANA", "D1", "2.2")
        assert (await the_card(cards, NOW + 2)).strays == ("2.2",)


async def test_a_click_tells_where_a_card_is_that_was_never_put_on_file(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        cards = cards_of(store)
        await cards.seen("SG-1", "U0ANA", "D1", "1.1")  # before it was posted
        assert (await the_card(cards)).strays == () and await cards.channel("U0ANA") == ""
        await cards.claim([[await the_card(cards)]], NOW, NOW)
        await cards.seen("SG-1", "U0ANA", "D1", "1.1")
        card = await the_card(cards)
        assert (card.message, card.channel, card.strays, card.unclear) == ("", "D1", ("1.1",), True)
        assert await cards.channel("U0ANA") == "D1"


async def test_found_messages_are_kept_with_those_seen_meanwhile(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        cards = cards_of(store)
        card = await the_card(cards)
        await cards.claim([[card]], NOW, NOW)
        await cards.posted(card.id, "D1", "1.1", ["?"])
        await cards.seen("SG-1", "U0ANA", "D1", "3.3")
        await cards.found(card.id, "D1", ["2.2"], settled=False)
        await store.decided(click(Choice.DENY), (), (), NOW + 1)
        card = await the_card(cards, NOW + 1)
        assert (sorted(card.strays), card.unclear) == (["2.2", "3.3"], True)
        await cards.found(card.id, "D1", [], settled=True)
        assert not (await the_card(cards, NOW + 1)).unclear


async def test_a_post_given_up_is_looked_for_once_its_request_has_ended(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        cards = cards_of(store)
        card = await the_card(cards)
        await cards.claim([[card]], NOW, NOW)
        await cards.failed(card.id, "no answer", NOW, GIVEN_UP, ["?"])
        assert await cards.due(NOW + 1) == [] and await cards.untaken() == {"SG-1": "no answer"}
        await store.undeliverable("SG-1", "no answer.", NOW + 1)
        assert await cards.next_due(NOW + 1) == 0
        card = await the_card(cards, NOW + 1)
        assert card.unclear and await cards.claim([[card]], NOW + 1, NOW + 60) == {card.id}


async def test_what_was_approved_long_ago_costs_nothing(place: Place) -> None:
    async with place.store() as store:
        await submitted(store)
        cards = cards_of(store)
        await store.decided(click(), (), (), NOW + 1)
        card = await the_card(cards, NOW + 1)
        await cards.claim([[card]], NOW + 1, NOW + 60)
        await cards.drawn([Drawing(card.id, State.APPROVED, 0, ())], NOW + 1)
        await store.claimed("SG-1", "run-1", "cage", NOW + 2)
        assert (await the_card(cards, NOW + 2)).request.state is State.RUNNING
        assert await cards.due(NOW + 2 + SETTLED_S) == []  # nothing begins so late
        await cards.resumed(NOW + 500)
        assert (await the_card(cards, NOW + 500)).request.state is State.RUNNING  # after a restart, all is compared


async def test_a_drawing_that_cannot_be_recorded_is_due_again(place: Place) -> None:
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        cards = cards_of(store)
        card = await the_card(cards)
        await cards.claim([[card]], NOW, NOW + 60)
        await cards.released(card.id, NOW + 1)
        assert (await the_card(cards, NOW + 1)).unclear


async def test_a_copy_that_is_seen_while_the_card_is_posted_is_kept(place: Place) -> None:
    """An earlier post arrives, and is pressed, while the next one is under way."""
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA", "U0BOB", "U0CAT"], "slack")
        cards = cards_of(store)
        every = await cards.due(NOW)
        await cards.claim([[card] for card in every], NOW, NOW + 60)
        for card in every:
            await cards.seen("SG-1", card.approver, "D1", "1.1")
        ana, bob, cat = every
        await cards.failed(ana.id, "no answer", NOW, NOW + 1, ["?"])
        await cards.posted(bob.id, "D1", "2.2", ["?"])
        await cards.listed([cat], "D1", "3.3")
        await store.undeliverable("SG-1", "no answer.", NOW + 1)
        strays = {card.approver: (card.strays, card.unclear) for card in await cards.due(NOW + 2)}
        assert strays == {"U0ANA": (("1.1",), True), "U0BOB": (("1.1",), True), "U0CAT": (("1.1",), False)}


async def test_a_card_that_two_daemons_posted_is_redrawn_in_both_places(place: Place) -> None:
    """The first one stood still for longer than its lease."""
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        cards, other = cards_of(store), Cards(store.database, "slack", "elsewhere")
        card = await the_card(cards)
        await cards.claim([[card]], NOW, NOW + 60)
        later = await the_card(other, NOW + 61)
        await other.claim([[later]], NOW + 61, NOW + 121)
        await other.posted(later.id, "D1", "2.2", ["?"])
        await cards.posted(card.id, "D1", "1.1")
        await store.undeliverable("SG-1", "no answer.", NOW + 1)
        card = await the_card(cards, NOW + 62)
        assert (card.message, card.strays) == ("1.1", ("2.2",))


async def test_a_copy_that_is_seen_while_its_message_is_drawn_for_another_is_redrawn(place: Place) -> None:
    async with place.store() as store:
        await two_on_one_message(store)
        cards = cards_of(store)
        first, second = await cards.due(NOW + 1)
        await cards.claim([[first]], NOW + 1, NOW + 60)
        await cards.seen("SG-2", "U0ANA", "D1", "2.2")
        claimed, beside = (Drawing(card.id, State.DENIED, 0, ()) for card in (first, second))
        await cards.drawn([claimed], NOW + 2, [beside])
        assert (await the_card(cards, NOW + 2)).strays == ("2.2",)


async def test_what_nobody_will_draw_any_more_holds_no_message(place: Place) -> None:
    """An older program gives up a post that one of ours had begun, and does not know of the drawer."""
    async with place.store() as store:
        await store.submitted(REQUEST, ["U0ANA"], "slack")
        cards = cards_of(store)
        await cards.claim([[await the_card(cards)]], NOW, NOW + 60)
        await cards.seen("SG-1", "U0ANA", "D1", "1.1")
        old = update(tables.cards).values(due_at=GIVEN_UP, error="no answer")
        await store.database.run(lambda connection: connection.execute(old))
        await store.undeliverable("SG-1", "no answer.", NOW + 61)
        card = await the_card(cards, NOW + 61)
        assert await cards.claim([[card]], NOW + 61, NOW + 121) == {card.id}


async def test_a_drawing_reads_no_card_of_other_messages(place: Place) -> None:
    """Most cards have ended long ago, and the one thread of the database waits for each statement."""
    async with place.store() as store:
        await two_on_one_message(store)
        await store.database.run(lambda connection: many(connection, place))
        cards = cards_of(store)
        first, second = await cards.due(NOW + 1)
        statements: list[tuple[str, Any]] = []
        engine = store.database._engine
        event.listen(engine, "before_cursor_execute", lambda *call: statements.append((call[2], call[3])))
        await cards.claim([[first, second]], NOW + 1, NOW + 60)
        await cards.sharing("D1", "1.1")
        seen = [one for one in statements if one[0].startswith(("SELECT", "UPDATE"))]
        assert len(seen) == 3
        for statement, values in seen:
            plan = await store.database.run(partial(explained, statement=statement, values=values))
            assert not re.search(r"Seq Scan on cards|SCAN cards(_\d+)?$", plan, re.MULTILINE), plan


def many(connection: Connection, place: Place) -> None:
    row = {"surface": "slack", "approver": "U0ANA", "channel": "D1", "drawn": "denied"}
    ids = [f"old-{number}" for number in range(20_000)]
    names = [column.name for column in tables.requests.columns]
    first = connection.execute(select(tables.requests).where(tables.requests.c.id == "SG-1")).one()._asdict()
    old = [{**first, "id": one, "key": one, "state": "pending", "decided_at": None} for one in ids]
    connection.execute(insert(tables.requests), [{name: each[name] for name in names} for each in old])
    connection.execute(insert(tables.cards), [{**row, "request": one, "message": f"2.{one}"} for one in ids])
    if place.url.startswith("postgresql"):
        connection.exec_driver_sql("ANALYZE")


def explained(connection: Connection, statement: str, values: Any) -> str:
    how = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    rows = connection.exec_driver_sql(how + statement, values).all()
    return "\n".join(str(row[-1]) for row in rows)
