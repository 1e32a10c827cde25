"""A card that did not arrive is not pending; a card that did never keeps buttons that decide nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.request import State
from slack_gate.daemon import outbox, posts, redraws, serve
from slack_gate.daemon.posts import POST_S
from slack_gate.daemon.serve import running
from slack_gate.errors import StoreError
from slack_gate.local_slack.server import LocalSlack
from slack_gate.slack import line, link, messenger
from slack_gate.store import tables
from tests.daemon.house import House, house, settings_for
from tests.daemon.serving import serving

POST = "chat.postMessage"
UPDATE = "chat.update"
HISTORY = "conversations.history"


async def only_request(h: House) -> Any:
    [request] = await h.running.store.requests(10)
    return request


@pytest.mark.parametrize(
    "code",
    [
        "messages_tab_disabled",
        "missing_scope",
        "channel_not_found",
        "not_in_channel",
        "account_inactive",
        "token_revoked",
        "invalid_auth",
        "is_archived",
        "restricted_action",
        "user_disabled",
        "invalid_blocks",
        "msg_blocks_too_long",
    ],
)
async def test_a_refusal_is_told_at_once_with_slacks_code(tmp_path: Path, code: str) -> None:
    async with house(tmp_path) as h:
        h.slack.fail_next(POST, code)
        ended = await h.bash("git push origin main")
        assert (ended.code, ended.decision) == (0, "deny")
        assert code in ended.reason  # not that it took too long
        assert "not a refusal" in ended.reason
        assert (await only_request(h)).state is State.UNDELIVERABLE
        assert len(h.slack.calls(POST)) == 1
        assert [line["decision"] for line in h.log()] == ["pending", "undeliverable"]
        # The next request is asked as ever.
        hook, card = await h.asked("git push origin next")
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


@pytest.mark.parametrize("trouble", [{"http_status": 500}, {"error": "internal_error"}, {"reset_before": True}])
async def test_trouble_that_passes_is_waited_for(tmp_path: Path, trouble: dict[str, Any]) -> None:
    async with house(tmp_path) as h:
        h.slack.fail_next(POST, **trouble)
        hook, card = await h.asked("git push origin main")
        assert len(h.slack.calls(POST)) == 2
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


@pytest.mark.parametrize("trouble", [{"http_status": 503}, {"reset_before": True}, {"delay": 60.0}])
async def test_trouble_that_stays_is_told(
    tmp_path: Path, trouble: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "POST_S", 4.0)
    monkeypatch.setattr(messenger, "RETRY_S", 0.2)
    async with house(tmp_path) as h:
        h.slack.fail_next(POST, times=1000, **trouble)
        ended = await h.bash("git push origin main")
        assert "Nobody could be asked" in ended.reason
        assert ("HTTP 503" if "http_status" in trouble else "no answer") in ended.reason
        request = await only_request(h)
        assert request.state is State.UNDELIVERABLE
        assert request.decided_at - request.created_at <= 20  # of the 60 of the delay, and of the 300 of the wait


async def test_the_limit_leaves_time_to_tell_within_fifteen_seconds() -> None:
    assert POST_S <= 14
    assert link.DOWN_S + outbox.WATCH_S <= 25


async def test_too_many_requests_are_waited_for(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        h.slack.fail_next(POST, http_status=429, retry_after=2)
        start = time.monotonic()
        hook, card = await h.asked("git push origin main")
        assert time.monotonic() - start >= 2
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_a_wait_longer_than_the_request_is_undeliverable(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        h.slack.fail_next(POST, http_status=429, retry_after=600)
        assert "ratelimited" in (await h.bash("git push origin main")).reason


async def test_five_at_once_all_arrive_at_one_message_a_second(tmp_path: Path) -> None:
    async with LocalSlack(posting_limit=1.0) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        async with running(settings) as daemon:
            h = House(slack, ana, settings, daemon)
            names = [f"git push origin branch-{number}" for number in range(5)]
            asked = await asyncio.gather(*(h.asked(name) for name in names))
            assert [call.error for call in slack.calls(POST)].count(None) == 5
            for _, card in asked:
                await ana.click(card, "Approve")
            ends = await asyncio.gather(*(h.ended(hook) for hook, _ in asked))
            assert [end.decision for end in ends] == ["allow"] * 5
            assert len(slack.calls(POST)) <= 9  # three at once, a few refused, then one a second


async def buttons_gone(h: House, cards: int) -> list[Any]:
    """All messages of the DM, once there are so many and none has a button."""
    return await h.slack.workspace.wait_for(
        lambda: h.ana.messages if len(h.ana.messages) == cards and not any(m.buttons for m in h.ana.messages) else None,
        10,
        lambda: f"{[(m.buttons, m.plain()) for m in h.ana.messages]}",
    )


async def test_a_post_whose_answer_is_lost_is_found_again(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        first, seen = await h.asked("git push origin first")  # the channel is known from now on
        h.slack.fail_next(POST, reset_after=True)
        hook, card = await h.asked("git push origin main")
        await h.slack.workspace.wait_for(lambda: h.slack.calls(HISTORY) or None, 10, lambda: "nobody looked")
        await h.running.store.recorded()
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        await h.ana.click(seen, "Deny")
        await h.ended(first)
        await buttons_gone(h, 2)
        assert len(h.slack.calls(POST)) == 2


async def test_the_first_card_ever_may_be_posted_twice_and_both_are_redrawn(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        h.slack.fail_next(POST, reset_after=True)
        hook = await h.start(h.event(command="git push origin main"))
        await h.slack.workspace.wait_for(lambda: len(h.ana.messages) == 2 or None, 10, lambda: "two cards")
        lost, known = h.ana.messages
        await known_on_file(h, known.ts)
        click = await h.ana.click(lost, "Approve")
        assert click.acknowledged
        assert "not the message" in (await h.ana.wait_for_ephemeral()).plain()
        assert (await only_request(h)).state is State.PENDING
        await h.ana.click(known, "Deny")
        assert (await h.ended(hook)).decision == "deny"
        assert all("Denied by Ana" in card.plain() for card in await buttons_gone(h, 2))


async def known_on_file(h: House, ts: str) -> None:
    """Returns once the card's message is in its row."""
    await h.on_file(tables.cards.c.message == ts)


async def test_a_card_that_arrives_after_all_is_redrawn_at_the_end(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        first, seen = await h.asked("git push origin first")
        h.slack.fail_next(POST, reset_before=True)
        hook, card = await h.asked("git push origin main")
        await known_on_file(h, card.ts)
        late = h.slack.workspace.post(card.channel, card.text, card.blocks, metadata=card.metadata)  # Slack was slow
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        assert "Approved by Ana" in (await late.wait_for_update(lambda m: not m.buttons)).plain()
        await card.wait_for_update(lambda m: not m.buttons)
        assert seen.buttons
        first.kill()


async def test_without_the_right_to_look_a_lost_post_is_repeated(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as h:
        h.slack._web_api.scopes = ["chat:write", "users:read"]
        first, _ = await h.asked("git push origin first")
        h.slack.fail_next(POST, reset_after=True)
        hook = await h.start(h.event(command="git push origin main"))
        await h.slack.workspace.wait_for(lambda: len(h.ana.messages) == 3 or None, 10, lambda: "a second copy")
        card = h.ana.messages[-1]
        await known_on_file(h, card.ts)
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        await card.wait_for_update(lambda m: not m.buttons)
        # The other copy decides nothing, says so, and is redrawn once a click has told where it is.
        copy = h.ana.messages[-2]
        await h.ana.click(copy, "Deny")
        assert "Nothing was decided" in (await h.ana.wait_for_ephemeral()).plain()
        assert "Approved by Ana" in (await copy.wait_for_update(lambda m: not m.buttons)).plain()
        first.kill()


@pytest.mark.parametrize("trouble", [{"http_status": 503}, {"error": "token_revoked"}, {"http_status": 429}])
async def test_a_lost_post_of_a_request_that_ends_meanwhile(
    tmp_path: Path, trouble: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "POST_S", 1.5)
    async with house(tmp_path) as h:
        first, seen = await h.asked("git push origin first")
        h.slack.fail_next(POST, reset_after=True)
        h.slack.fail_next(HISTORY, times=2, **trouble)
        ended = await h.bash("git push origin main")
        assert "Nobody could be asked" in ended.reason
        [card] = [message for message in h.ana.messages if message is not seen]
        assert "Could not be asked" in (await card.wait_for_update(lambda m: not m.buttons, 15)).plain()
        first.kill()


async def test_a_post_performed_after_its_request_has_ended_is_redrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "POST_S", 4.0)
    monkeypatch.setattr(redraws, "LATE_S", 15.0)
    async with house(tmp_path) as h:
        first, seen = await h.asked("git push origin first")
        await h.slack.cause("chat.postMessage late 10")
        assert "no answer in" in (await h.bash("git push origin main")).reason
        assert h.ana.messages == [seen]
        card = await h.card("git push origin main")
        assert "Could not be asked" in (await card.wait_for_update(lambda m: not m.buttons)).plain()
        first.kill()


async def test_a_daemon_killed_while_it_posts_asks_with_one_card(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        h = House(slack, ana, settings, None)  # type: ignore[arg-type]  # a process of its own, which can be killed
        async with serving(settings) as daemon:
            await h.asked("git push origin first")
            await slack.cause("chat.postMessage late 3")
            hook = await h.start(h.event(command="git push origin main"))
            await slack.workspace.wait_for(lambda: len(slack.calls(POST)) == 2 or None, 10, lambda: "no post began")
            daemon.kill()
            await daemon.wait()
        card = await h.card("git push origin main")
        async with serving(settings):
            await slack.workspace.wait_for(lambda: slack.calls(HISTORY) or None, 20, lambda: "nobody looked")
            await ana.click(card, "Approve")
            assert (await h.ended(hook)).decision == "allow"
            await card.wait_for_update(lambda m: not m.buttons)
            assert len(slack.calls(POST)) == 2
        for each in h.hooks:
            if each.returncode is None:
                each.kill()
                await each.wait()


async def test_waiting_posts_share_one_look(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        first, _ = await h.asked("git push origin first")
        h.slack.fail_next(POST, reset_after=True, times=4)
        asked = await asyncio.gather(*(h.asked(f"git push origin b{number}x") for number in range(4)))
        await h.slack.workspace.wait_for(lambda: h.slack.calls(HISTORY) or None, 10, lambda: "nobody looked")
        for _, card in asked:
            await known_on_file(h, card.ts)
        assert len(h.slack.calls(POST)) == 5 and len(h.ana.messages) == 5
        assert len(h.slack.calls(HISTORY)) <= 3  # fewer than posts, also where the hooks came one after the other
        for hook in (first, *(hook for hook, _ in asked)):
            hook.kill()


async def test_redraws_wait_as_long_as_slack_says(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        asked = [await h.asked(f"git push origin b{number}x") for number in range(3)]
        h.slack.fail_next(UPDATE, http_status=429, retry_after=2)
        start = time.monotonic()
        for hook, card in asked:
            await h.ana.click(card, "Deny")
            await h.ended(hook)
        await buttons_gone(h, 3)
        assert time.monotonic() - start >= 2
        assert len(h.slack.calls(UPDATE)) <= 3 + 3  # those already under way; then one by one


@pytest.mark.parametrize(
    "troubles",
    [
        [{"http_status": 500}, {"reset_before": True}],
        [{"error": "internal_error"}, {"http_status": 429}],
        [{"error": "missing_scope"}, {"error": "token_revoked"}],
    ],
)
async def test_a_failing_redraw_is_repeated_until_the_buttons_are_gone(
    tmp_path: Path, troubles: list[dict[str, Any]]
) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        for trouble in troubles:
            h.slack.fail_next(UPDATE, **trouble)
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"  # a decision does not wait for its picture
        after = await card.wait_for_update(lambda m: not m.buttons)
        assert "Approved by Ana" in after.plain()
        assert len(h.slack.calls(UPDATE)) == len(troubles) + 1


@pytest.mark.parametrize("code", ["invalid_blocks", "msg_too_long", "msg_blocks_too_long"])
async def test_a_picture_slack_refuses_is_replaced_by_a_bare_one(tmp_path: Path, code: str) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        h.slack.fail_next(UPDATE, code)
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        after = await card.wait_for_update(lambda m: not m.buttons)
        assert "Denied by Ana" in after.plain()
        assert "git push origin main" in after.plain()
        assert len(after.blocks) == 1


async def test_a_deleted_message_is_not_redrawn_for_ever(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        h.slack.workspace.delete(card)
        await h.press(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        other, second = await h.asked("git push origin next")
        await h.ana.click(second, "Approve")
        await h.ended(other)
        await second.wait_for_update(lambda m: not m.buttons)
        assert [call.error for call in h.slack.calls(UPDATE)] == ["message_not_found", None]


async def test_a_slow_redraw_holds_up_no_new_card(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        h.slack.fail_next(UPDATE, delay=100)
        await h.ana.click(card, "Approve")
        await h.ended(hook)
        await h.asked("git push origin next")
        assert card.buttons


async def test_an_approver_deactivated_after_the_start(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        h.ana.user.deleted = True
        ended = await h.bash("git push origin main")
        assert "approver_inactive (U0ANA is deactivated)" in ended.reason
        assert h.slack.calls(POST) == []


async def test_another_approver_who_can_be_reached_is_enough(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        ana, ben = slack.add_user("U0ANA", name="Ana"), slack.add_user("U0BEN", name="Ben")
        settings = settings_for(slack, tmp_path, approvers="U0ANA,U0BEN")
        async with running(settings) as daemon:
            h = House(slack, ben, settings, daemon)
            ana.user.deleted = True
            hook, card = await h.asked("git push origin main")
            await h.press(card, "Approve", user="U0BEN")
            assert "Approved by Ben" in (await h.ended(hook)).reason


async def test_a_fault_of_the_card_itself_ends_its_request_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw: Callable[..., Any] = messenger.picture_of

    def broken(request: Any, *more: Any) -> Any:
        if "poison" in request.command:
            raise IndexError("no such part")
        return draw(request, *more)

    monkeypatch.setattr(messenger, "picture_of", broken)
    async with house(tmp_path) as h:
        assert "slack-gate failed (IndexError)" in (await h.bash("git push origin poison")).reason
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


@pytest.mark.parametrize("method", ["due", "next_due", "posted", "drawn", "failed"])
async def test_a_database_that_is_away_for_a_moment(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "AWAY_S", 0.05)
    async with house(tmp_path) as h:
        works = getattr(outbox.Cards, method)
        was_away = asyncio.Event()

        async def away(*values: Any) -> Any:
            if not was_away.is_set():
                was_away.set()
                raise StoreError("The database is locked.")
            return await works(*values)

        monkeypatch.setattr(outbox.Cards, method, away)
        if method == "failed":
            h.slack.fail_next(POST, http_status=500)
        hook = await h.start(h.event(command="git push origin main"))
        await h.slack.workspace.wait_for(lambda: h.ana.messages or None, 10, lambda: "no card")
        async with asyncio.timeout(100):
            await was_away.wait() if method in ("due", "next_due", "posted") else None
        await h.ana.click(h.ana.messages[-1], "Approve")
        assert (await h.ended(hook)).decision == "allow"
        await h.ana.messages[-1].wait_for_update(lambda m: not m.buttons)
        async with asyncio.timeout(100):
            await was_away.wait()
        assert len(h.ana.messages) == 1


# The link


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link's silence counts after 6 s instead of 25."""
    monkeypatch.setattr(line, "PING_S", 0.2)
    monkeypatch.setattr(line, "SILENT_S", 3.0)
    monkeypatch.setattr(link, "DOWN_S", 6.0)
    monkeypatch.setattr(outbox, "WATCH_S", 0.1)


async def cut_off(h: House) -> None:
    """No link, and no new one until `fail_next` runs out."""
    h.slack.fail_next("apps.connections.open", "internal_error", times=10_000)
    h.slack.drop_links()
    await h.slack.workspace.wait_for(lambda: True if not h.slack.links else None, 5, lambda: "a link is open")


@pytest.mark.usefixtures("quick")
async def test_a_card_posted_while_the_link_is_dead_is_undeliverable(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await cut_off(h)
        hook, card = await h.asked("git push origin main")
        ended = await h.ended(hook)
        assert "the link to Slack has been silent for 6 s" in ended.reason
        assert (await only_request(h)).state is State.UNDELIVERABLE
        after = await card.wait_for_update(lambda m: not m.buttons)
        assert "Could not be asked" in after.plain()
        # From now on nothing is posted until the link is back.
        posts = len(h.slack.calls(POST))
        assert "silent" in (await h.bash("git push origin next")).reason
        assert len(h.slack.calls(POST)) == posts


@pytest.mark.usefixtures("quick")
async def test_a_card_that_arrived_is_undeliverable_once_the_link_is_dead(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await known_on_file(h, card.ts)
        await cut_off(h)
        assert "internal_error" in (await h.ended(hook)).reason  # Slack's own code for why it does not come back
        assert (await only_request(h)).state is State.UNDELIVERABLE
        await card.wait_for_update(lambda m: not m.buttons)


@pytest.mark.usefixtures("quick")
async def test_a_request_that_can_be_decided_elsewhere_outlives_a_dead_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[outbox.Outbox] = []

    class Seen(outbox.Outbox):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts[:4], lambda: True)
            seen.append(self)

    monkeypatch.setattr(serve, "Outbox", Seen)
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await known_on_file(h, card.ts)
        await cut_off(h)
        async with asyncio.timeout(100):
            while seen[0]._down() is None:  # noqa: ASYNC110 - silence tells nobody
                await asyncio.sleep(0.02)
        await seen[0]._cards.waiting()  # a round of the watch
        await asyncio.sleep(3 * outbox.WATCH_S)
        assert (await only_request(h)).state is State.PENDING
        assert "Approve" in card.buttons
        hook.kill()
