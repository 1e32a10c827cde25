"""Network git by the gate: a remote is asked once, then its wrapper runs unasked; a changed address is asked again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.cord import Hand, Pull
from slack_gate.core.network_git import BY_WRAPPER
from slack_gate.core.ports import Verdict
from slack_gate.core.request import Choice, State
from slack_gate.daemon.house import Caller
from slack_gate.daemon.released import Released

from .conftest import CAGE, House, git
from .test_policy_gate import answer, gate
from .test_policy_network import SBOX, ahead, run
from .test_policy_network import port as port  # fixtures
from .test_policy_network import remote as remote

pytestmark = pytest.mark.skipif(not CAGE, reason="bubblewrap cannot make namespaces here")


async def test_a_remote_is_allowed_once(house: House, remote: Path, tmp_path: Path) -> None:
    ahead(house)
    push, address = "git push origin HEAD:new", git(house.repo, "config", "remote.origin.url").strip()
    async with gate(tmp_path) as one:
        asked = await one.asked(one.event(push, str(house.repo), rewritable=True))
        assert asked.why.startswith(f"the remote origin of {house.repo} is {address}")
        assert "new" not in git(remote, "branch")
        click = await one.click(asked, Choice.ALWAYS)
        assert [rule.shown for rule in click.rules] == [f"git remote origin {address} of {house.repo}"]
        await one.answer()
        said = await answer(one, push, house.repo)
        assert said is not None and said.command is not None and "net_git.py" in said.command
        assert (one.log()[-1]["decision"], one.log()[-1]["command"]) == ("remembered", push)
        assert run(said.command, house).returncode == 0
        assert "new" in git(remote, "branch")
        both = await answer(one, "git fetch && git status", house.repo)
        assert (
            both is not None
            and both.command is not None
            and f" && {shlex.quote(SBOX)} /usr/bin/git status" in both.command
        )
        assert await answer(one, "git push --force", house.repo) is None
        git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
        again = await one.asked(one.event(push, str(house.repo), rewritable=True))
        assert f"is https://example.com/x.git; allowed before was {address}" in again.why


async def test_a_host_that_runs_its_own_text_is_asked_for_the_remote_too(
    house: House, remote: Path, tmp_path: Path
) -> None:
    async with gate(tmp_path) as one:
        asked = await one.asked(one.event("git push", str(house.repo)))
        await one.click(asked, Choice.ALWAYS)
        await one.answer()
        said = await answer(one, "git push", house.repo, rewritable=False)
        assert said is not None and (said.command or "").endswith("git push") and "net_git" not in (said.command or "")
        assert await answer(one, "git pull", house.repo, rewritable=False) is None


async def test_an_approved_push_goes_by_the_wrapper_to_the_address_shown(
    house: House, remote: Path, tmp_path: Path
) -> None:
    ahead(house)
    async with gate(tmp_path) as one:
        asked = await one.asked(one.event("git push origin HEAD:new", str(house.repo), rewritable=True))
        assert asked.why.endswith("approved, it runs by slack-gate's own git")
        await one.click(asked, Choice.APPROVE)
        said = await one.answer()
        assert said.command is not None and "net_git.py" in said.command
        assert run(said.command, house).returncode == 0 and "new" in git(remote, "branch")
        again = await one.asked(one.event("git push origin HEAD:other", str(house.repo), rewritable=True))
        git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
        await one.click(again, Choice.APPROVE)
        refused = await one.answer()
        assert refused.command is None and refused.ruling.name == "DENY", refused


async def test_what_a_rule_lets_go_goes_by_the_wrapper_too(house: House, remote: Path, tmp_path: Path) -> None:
    ahead(house)
    async with gate(tmp_path) as one:
        first = await one.asked(one.event("git push origin HEAD:new", str(house.repo), rewritable=True))
        await one.asked(one.event("git push origin HEAD:other", str(house.repo), rewritable=True))
        await one.click(first, Choice.ALWAYS)
        said, covered = await one.answer(), await one.answer()
        assert all("net_git.py" in (released.command or "") for released in (said, covered)), covered


async def test_always_saves_what_was_shown_or_nothing(house: House, remote: Path, tmp_path: Path) -> None:
    async with gate(tmp_path) as one:
        asked = await one.asked(one.event("git push", str(house.repo), rewritable=True))
        git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
        click = await one.click(asked, Choice.ALWAYS)
        assert click.verdict is Verdict.UNFIT and "changed since it was asked" in click.why, click
        assert await one.store.rules() == []
        assert await one.state(asked) is State.PENDING


async def test_an_address_that_changes_between_two_looks(
    house: House, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As fast as it may be: what was looked at is what the wrapper is given."""
    ahead(house)
    address = git(house.repo, "config", "remote.origin.url").strip()
    network = Released.network

    def late(self: Released, *rest: Any) -> str | None:
        git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
        try:
            return network(self, *rest)
        finally:
            git(house.repo, "config", "remote.origin.url", address)

    async with gate(tmp_path) as one:
        asked = await one.asked(one.event("git push", str(house.repo), rewritable=True))
        with monkeypatch.context() as patched:
            patched.setattr(Released, "network", late)
            await one.click(asked)
            assert (await one.answer()).ruling is Ruling.DENY
        asked = await one.asked(one.event("git push", str(house.repo), rewritable=True))
        await one.click(asked, Choice.ALWAYS)
        assert (await one.answer()).ruling is Ruling.ALLOW
        monkeypatch.setattr(Released, "network", late)
        assert await answer(one, "git push", house.repo) is None


async def test_the_card_and_the_approval_name_one_address(
    house: House, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gate(tmp_path) as one:
        digest = one.gate._digest

        async def late(*rest: Any) -> str:
            git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
            return await digest(*rest)

        monkeypatch.setattr(one.gate, "_digest", late)
        asked = await one.asked(one.event("git push", str(house.repo), rewritable=True))
        assert "example.com" not in asked.why
        await one.click(asked)
        assert (await one.answer()).ruling is Ruling.DENY


async def test_what_is_left_to_the_agents_own_prompt_is_not_said_to_go_by_the_wrapper(
    house: House, remote: Path, tmp_path: Path
) -> None:
    """What that prompt allows, the agent runs, with git as it finds it."""
    async with gate(tmp_path) as one:
        await one.store.pulled(Pull.CONSOLE, Hand("human-slack", "U0ANA", "Ana"), one.clock())
        event = one.event("git push origin HEAD:new", str(house.repo), rewritable=True, prompts=True)
        said = await one.gate.submit(event, Caller("c" * 32, 60.0))
        assert isinstance(said, Answer) and said.ruling is Ruling.ASK and said.command is None
        assert "the remote origin" in said.reason and BY_WRAPPER not in said.reason
        assert BY_WRAPPER not in one.log()[-1]["reason"]
