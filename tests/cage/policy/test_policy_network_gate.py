"""Network git by the gate: a remote is asked once, then its wrapper runs unasked; a changed address is asked again."""

from __future__ import annotations

from pathlib import Path

import pytest

from slack_gate.core.request import Choice

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
        assert both is not None and both.command is not None and f" && {SBOX} /usr/bin/git status" in both.command
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
