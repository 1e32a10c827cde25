"""Where several people must approve, each approves what the card shows: nobody changes it or remembers it alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from slack_gate.core.offers import ALONE
from slack_gate.core.ports import Verdict
from slack_gate.core.request import BY_SLACK, Choice, Decision
from slack_gate.slack.cards import CAGED, EDITED, MENU, SCOPED
from tests.daemon.house import House, house

RULE = '[gate]\n[[gate.rule]]\ncommand = "git push ..."\napprovals = 2\n'


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon that asks Ana and Bob, both of whom must approve a push."""
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "policy.toml").write_text(RULE)
    async with house(tmp_path, approvers="U0ANA,U0BOB") as h:
        yield h


@pytest.mark.parametrize(("way", "said"), [(EDITED, ALONE), (SCOPED, "nothing was decided"), (CAGED, "as it is")])
async def test_what_the_menu_does_not_offer_says_why_and_is_no_vote(two: House, way: str, said: str) -> None:
    _, card = await two.asked("git push origin main")
    assert "Always is not offered: several people must approve" in card.plain()
    assert card.options in (["Deny with a reason"], ["Deny with a reason", "More time"])
    [request] = await two.running.store.requests(1)
    value = f"{request.id} {request.digest} {way}"
    forged = {"type": "overflow", "action_id": MENU, "selected_option": {"value": value}, "block_id": "x"}
    click = await two.slack.send_action(
        user="U0ANA", action_id=MENU, channel=card.channel, message_ts=card.ts, actions=[forged]
    )
    assert click.acknowledged
    assert said in (await two.ana.wait_for_ephemeral()).plain()
    assert two.ana.modal is None
    [now] = await two.running.store.requests(1)
    assert (now.state, now.votes) == ("pending", ())


async def test_a_changed_text_is_refused_and_both_votes_are_for_the_agents_own(two: House) -> None:
    hook, card = await two.asked("git push origin main")
    [request] = await two.running.store.requests(1)
    vote = Decision(request.id, request.digest, Choice.APPROVE, BY_SLACK, "U0ANA", "Ana", team=two.slack.team_id)
    vote = replace(vote, channel=card.channel, message=card.ts)
    changed = await two.running.gate.decide(replace(vote, edited="git push origin elsewhere"))
    assert changed.verdict is Verdict.UNFIT and "Several people must approve it" in changed.why
    await two.ana.click(card, "Approve")
    await card.wait_for_update(lambda version: "Approvals: 1 of 2: Ana" in version.plain())
    bob = two.slack.add_user("U0BOB", name="Bob")
    theirs = await bob.wait_for_message(lambda message: "Approvals: 1 of 2: Ana" in message.plain())
    await bob.click(theirs, "Approve")
    ended = await two.ended(hook)
    assert ended.decision == "allow" and "updatedInput" not in ended.output


async def test_one_reasoned_no_is_enough(two: House) -> None:
    hook, card = await two.asked("git push origin main")
    await two.ana.click(card, "Approve")
    bob = two.slack.add_user("U0BOB", name="Bob")
    theirs = await bob.wait_for_message(lambda message: message.has_button("Deny"))
    await bob.choose(theirs, "Deny with a reason")
    await bob.submit(await bob.wait_for_modal(), {"reason": "push the branch instead"})
    ended = await two.ended(hook)
    assert ended.decision == "deny" and "push the branch instead" in ended.reason
