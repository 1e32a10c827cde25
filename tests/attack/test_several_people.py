"""One person who passes for several: in Slack, on the page and at the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.answer import Ruling
from slack_gate.core.ports import Verdict
from slack_gate.core.request import BY_PAGE, BY_TERMINAL, State
from tests.daemon.desk import desk

POLICY = """
[[gate.rule]]
command = "git push ..."
approvals = 2
"""
ANA_ELSEWHERE: list[dict[str, Any]] = [
    {"by": BY_PAGE, "user": "human", "name": "a person on the page"},
    {"by": BY_TERMINAL, "user": "ana", "name": "ana"},
]


@pytest.mark.parametrize("slack_first", [True, False])
@pytest.mark.parametrize("elsewhere", ANA_ELSEWHERE, ids=["page", "terminal"])
async def test_one_person_at_two_surfaces_is_one(tmp_path: Path, elsewhere: dict[str, Any], slack_first: bool) -> None:
    (tmp_path / "policy.toml").write_text(f"[gate]\n{POLICY}")
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB"), page="http://127.0.0.1:1/", terminal=True) as d:
        request = await d.asked(d.event("git push origin main"))
        ways: list[dict[str, Any]] = [{}, elsewhere] if slack_first else [elsewhere, {}]
        first, second = [await d.click(request, **way) for way in ways]
        assert first.verdict is Verdict.COUNTED
        assert second.verdict is (Verdict.UNFIT if slack_first else Verdict.COUNTED)
        row = await d.store.request(request.id)
        assert row is not None and (row.state, row.votes) == (State.PENDING, (("U0ANA", "Ana"),))
        assert (await d.click(request, user="U0BOB", name="Bob")).verdict is Verdict.DECIDED
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_the_page_and_the_terminal_are_no_two_people(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(f"[gate]\n{POLICY}")
    async with desk(tmp_path, approvers=(), page="http://127.0.0.1:1/", terminal=True) as d:
        request = await d.asked(d.event("git push origin main"))
        page, terminal = ANA_ELSEWHERE
        assert (await d.click(request, **page)).verdict is Verdict.COUNTED
        for again in (page, terminal):
            click = await d.click(request, **again)
            assert click.verdict is Verdict.UNFIT and "Approve it in Slack" in click.why
        assert await d.state(request) is State.PENDING
