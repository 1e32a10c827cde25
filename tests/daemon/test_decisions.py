"""What a person can answer beside yes and no, and what the policy file demands."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.ports import Click, Verdict
from slack_gate.core.request import Choice, Decision, Request, Scope, State
from slack_gate.daemon import apart
from slack_gate.daemon.house import Caller
from slack_gate.errors import ConfigError, StoreError
from slack_gate.slack.cards import card
from slack_gate.slack.lists import listing
from tests.daemon.desk import Desk, desk


async def again(d: Desk, command: str, **event: Any) -> Answer | Request:
    return await d.gate.submit(d.event(command, **event), Caller(f"{d.calls:032x}", 330.0))


# A changed text


async def test_the_edited_text_is_what_is_released_and_the_agent_is_told(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("git push --tags origin main", rewritable=True))
        click = await d.click(request, edited="git push origin main")
        assert click.verdict is Verdict.DECIDED
        answer = await d.answer()
        assert (answer.ruling, answer.command) == (Ruling.ALLOW, "git push origin main")
        assert "changed" in answer.advice and "git push origin main" in answer.advice
        row = await d.store.request(request.id)
        assert row is not None and (row.command, row.edited) == ("git push --tags origin main", "git push origin main")


async def test_an_edit_is_masked_on_file(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 8
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("deploy", rewritable=True))
        await d.click(request, edited=f"TOKEN={secret} deploy")
        assert (await d.answer()).command == f"TOKEN={secret} deploy"
        await d.store.tidied()
        for file in tmp_path.glob("gate*"):
            assert secret.encode() not in file.read_bytes()


@pytest.mark.parametrize("text", ["", "  ", "cat {own}/gate.db", "x" * 501])
async def test_a_text_that_may_not_run_or_cannot_be_shown(tmp_path: Path, text: str) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("deploy", rewritable=True))
        click = await d.click(request, edited=text.format(own=tmp_path / "own"))
        assert click.verdict is Verdict.UNFIT and click.why
        assert await d.state(request) is State.PENDING


async def test_a_host_that_runs_only_its_own_text(tmp_path: Path) -> None:
    async with desk(tmp_path, cages=True) as d:
        request = await d.asked(d.event("deploy"))
        assert (await d.click(request, edited="deploy -n")).verdict is Verdict.UNFIT
        assert (await d.click(request, Choice.CAGED)).verdict is Verdict.UNFIT
        assert (await d.click(request)).verdict is Verdict.DECIDED


async def test_an_edit_does_not_outlive_the_daemon(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("deploy", rewritable=True))
        d.waits.pop().cancel()
        await d.click(request, edited="deploy -n")
        d.gate._released.forget(request.id)
        answer = await d.gate.wait(request.id, replace(request.event, rewritable=True))
        assert answer.ruling is Ruling.DENY and "started again" in answer.reason


async def test_a_script_of_the_edited_text_that_changes(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("echo 1\n")
    async with desk(tmp_path) as d:
        event = d.event("deploy", rewritable=True)
        request = await d.asked(event)
        d.waits.pop().cancel()
        await d.click(request, edited=f"bash {script}")
        script.write_text("echo 2\n")
        answer = await d.gate.wait(request.id, event)
        assert answer.ruling is Ruling.DENY and "changed since" in answer.reason


# In the cage, more time


async def test_approved_for_the_cage(tmp_path: Path) -> None:
    async with desk(tmp_path, cages=True) as d:
        request = await d.asked(d.event("deploy | tee x", rewritable=True))
        assert (await d.click(request, Choice.CAGED)).verdict is Verdict.DECIDED
        assert (await d.answer()).command == "/usr/bin/sbox bash -c 'deploy | tee x'"


async def test_more_time_never_beyond_what_the_client_can_wait(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(limit=505.0)
        assert request.expires_at == d.clock.now + 300
        more = await d.click(request, Choice.MORE)
        assert more.verdict is Verdict.EXTENDED and more.request is not None
        assert more.request.expires_at == d.clock.now + 500 and more.request.revision == 1
        assert (await d.click(request, Choice.MORE)).verdict is Verdict.LATEST
        d.clock.now += 499
        await d.gate.expire()
        assert (await d.click(request)).verdict is Verdict.DECIDED


async def test_taking_back_what_is_not_denied_approves_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        assert (await d.click(request, Choice.LIFT)).verdict is Verdict.UNKNOWN
        assert await d.state(request) is State.PENDING


async def test_of_two_changes_at_once_the_one_that_decided_runs(tmp_path: Path) -> None:
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB")) as d:
        request = await d.asked(d.event("deploy", rewritable=True))
        ana = d.click(request, edited="deploy -a")
        bob = d.click(request, user="U0BOB", name="Bob", edited="deploy -b")
        clicks = await asyncio.gather(ana, bob)
        assert sorted(click.verdict for click in clicks) == [Verdict.DECIDED, Verdict.ENDED]
        row = await d.store.request(request.id)
        assert row is not None and (await d.answer()).command == row.edited


async def test_a_change_that_another_daemon_was_first_with_leaves_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("deploy", rewritable=True))
        decided = d.store.decided

        async def second(decision: Decision, *rest: Any) -> Click:
            theirs = await decided(replace(decision, edited="deploy --theirs"), *rest)
            assert theirs.verdict is Verdict.DECIDED
            d.gate.ended([request])  # this daemon hears of it while the click is on its way
            await asyncio.sleep(0.2)
            return await decided(decision, *rest)

        monkeypatch.setattr(d.store, "decided", second)
        assert (await d.click(request, edited="deploy --ours")).verdict is Verdict.ENDED
        answer = await d.answer()
        assert (answer.ruling, answer.command) == (Ruling.DENY, None)


async def test_a_look_that_takes_too_long_decides_nothing_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("deploy", rewritable=True))
        with monkeypatch.context() as patched:
            patched.setattr(apart, "LIMIT_S", 0.0)
            click = await d.click(request, edited="deploy -a")
        assert (click.verdict, click.why[-12:]) == (Verdict.UNFIT, "Press again.")
        assert (await d.click(request, edited="deploy -a")).verdict is Verdict.DECIDED
        assert (await d.answer()).command == "deploy -a"


# Several people


POLICY = """
[gate]
[[gate.rule]]
command = "git push ..."
approvals = 2
[[gate.rule]]
command = "terraform destroy ..."
do = "deny"
reason = "Ask in #infra."
[[gate.rule]]
command = "sbox curl ..."
do = "ask"
[[gate.rule]]
tool = "mcp__db__*"
do = "never-remember"
[[gate.rule]]
path = "~/prod/*"
do = "deny"
[[gate.rule]]
command = "mkdir ..."
executor = "cage"
"""


async def test_two_people_must_approve(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB", "U0CY")) as d:
        request = await d.asked(d.event("git push origin main"))
        assert request.quorum == 2
        first = await d.click(request)
        assert first.verdict is Verdict.COUNTED and first.request is not None
        assert first.request.votes == (("U0ANA", "Ana"),)
        assert (await d.click(request)).verdict is Verdict.COUNTED  # the same person counts once
        assert await d.state(request) is State.PENDING
        assert (await d.click(request, Choice.ALWAYS, user="U0BOB", name="Bob")).verdict is Verdict.UNREMEMBERABLE
        assert (await d.click(request, user="U0BOB", name="Bob")).verdict is Verdict.DECIDED
        assert (await d.answer()).ruling is Ruling.ALLOW
        assert d.decisions().count("vote") == 2


@pytest.mark.parametrize("how", [{"edited": "git push origin x"}, {"choice": Choice.CAGED}])
async def test_what_several_approve_is_approved_as_it_is(tmp_path: Path, how: dict[str, Any]) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path, cages=True, approvers=("U0ANA", "U0BOB")) as d:
        request = await d.asked(d.event("git push origin main", rewritable=True))
        assert (await d.click(request, **how)).verdict is Verdict.UNFIT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("git push origin x", "2 people"),
        ("mkdir a", "by the cage"),
        ("terraform destroy", "Ask in #infra."),
    ],
)
async def test_a_change_gets_nothing_past_the_policy(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path, cages=True, approvers=("U0ANA", "U0BOB")) as d:
        request = await d.asked(d.event("make deploy", rewritable=True))
        click = await d.click(request, edited=text)
        assert click.verdict is Verdict.UNFIT and why in click.why
        assert await d.state(request) is State.PENDING


async def test_what_runs_in_the_cage_may_be_changed(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path, cages=True) as d:
        request = await d.asked(d.event("mkdir a", rewritable=True))
        assert (await d.click(request, edited="mkdir b")).verdict is Verdict.DECIDED
        assert (await d.answer()).command == "/usr/bin/sbox bash -c 'mkdir b'"


async def test_one_no_is_enough(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB")) as d:
        request = await d.asked(d.event("git push origin main"))
        await d.click(request)
        await d.click(request, Choice.DENY, user="U0BOB", name="Bob")
        assert (await d.answer()).ruling is Ruling.DENY


async def test_the_policy_denies_without_a_card(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path) as d:
        for command in ("terraform destroy", "cd x && /usr/bin/terraform destroy -auto-approve", "(terraform destroy)"):
            answer = await again(d, command)
            assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY
            assert "Ask in #infra." in answer.reason and "'terraform destroy ...'" in answer.reason
        prod = str(Path.home() / "prod" / "x")
        answer = await again(d, "", tool="Write", tool_input={"file_path": prod, "content": ""})
        assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY
        assert isinstance(await again(d, "terraform plan"), Request)


@pytest.mark.parametrize("first", ["deny", "ask"])
async def test_what_the_policy_demands_comes_before_what_is_remembered(tmp_path: Path, first: str) -> None:
    async with desk(tmp_path) as d:
        for command in ("git status", "git push origin main"):
            await d.click(await d.asked(d.event(command)), Choice.ALWAYS)
            await d.answer()
        assert isinstance(await again(d, "git status && git push origin dev"), Answer)
        rules = [f'[[gate.rule]]\ncommand = "git push ..."\ndo = "{do}"\n' for do in ("ask", first)]
        (tmp_path / "policy.toml").write_text("".join(rules))
        found = await again(d, "git status && git push origin main")
        if first == "ask":
            assert isinstance(found, Request) and "asked each time" in found.why
        else:
            assert isinstance(found, Answer) and found.ruling is Ruling.DENY and "'git push ...'" in found.reason
            last = d.log()[-1]
            assert (last["decision"], last["by"]) == ("refused", "gate") and "'git push ...'" in last["reason"]
        assert isinstance(await again(d, "git status"), Answer)


async def test_the_policy_asks_for_what_is_green(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path) as d:
        assert isinstance(await again(d, "sbox echo x"), Answer)
        request = await d.asked(d.event("sbox curl x"))
        assert "asked each time" in request.why
        assert (await d.click(request, Choice.ALWAYS)).verdict is Verdict.UNREMEMBERABLE


async def test_never_remembered(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path) as d:
        request = await d.asked(d.event(tool="mcp__db__query", tool_input={"q": "1"}))
        assert (await d.click(request, Choice.ALWAYS)).verdict is Verdict.UNREMEMBERABLE
        other = await d.asked(d.event(tool="mcp__web__get", tool_input={"q": "1"}))
        assert (await d.click(other, Choice.ALWAYS)).verdict is Verdict.DECIDED


async def test_what_the_policy_puts_into_the_cage_stays_there_when_remembered(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path, cages=True) as d:
        request = await d.asked(d.event("mkdir a", rewritable=True))
        assert "approved, it will run in the cage" in request.why
        await d.click(request, Choice.ALWAYS)
        assert (await d.answer()).command == "/usr/bin/sbox bash -c 'mkdir a'"
        remembered = await again(d, "mkdir b", rewritable=True)
        assert isinstance(remembered, Answer) and remembered.command == "/usr/bin/sbox bash -c 'mkdir b'"


async def test_a_policy_that_breaks_later_has_everything_asked(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path) as d:
        assert isinstance(await again(d, "sbox echo x"), Answer)
        (tmp_path / "policy.toml").write_text("[gate\n")
        request = await again(d, "sbox echo x")
        assert isinstance(request, Request) and "policy.toml cannot be used" in request.why
        (tmp_path / "policy.toml").unlink()
        assert isinstance(await again(d, "sbox echo y"), Answer)


async def test_a_broken_policy_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[[gate.rule]]\ncommand = 'x'\ndo = 'allow'\n")
    with pytest.raises(ConfigError, match="line 3"):
        async with desk(tmp_path):
            pass


# What was denied


async def test_denied_once_it_is_denied_again_with_the_first_reason(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("make deploy"))
        await d.click(request, Choice.DENY, reason="not on Fridays")
        answer = await again(d, "make deploy", tool_input={"command": "make deploy", "description": "please"})
        assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY
        assert "not on Fridays" in answer.reason and request.id in answer.reason
        assert isinstance(await again(d, "make deploy", session="s2"), Request)
        assert isinstance(await again(d, "make deploy", cwd="/srv/other"), Request)


async def test_a_denial_taken_back(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("make deploy"))
        await d.click(request, Choice.DENY)
        assert (await d.click(request, Choice.LIFT, user="U0EVE")).verdict is Verdict.FOREIGN
        assert isinstance(await again(d, "make deploy"), Answer)
        assert (await d.click(request, Choice.LIFT)).verdict is Verdict.LIFTED
        assert (await d.click(request, Choice.LIFT)).verdict is Verdict.UNKNOWN
        assert isinstance(await again(d, "make deploy"), Request)
        assert "lifted" in d.decisions()


async def test_another_wording_of_what_was_denied_is_said_on_its_card(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("curl -d @x https://a.example/up"))
        await d.click(request, Choice.DENY)
        alike = await again(d, "curl --data-binary @x https://a.example/up")
        assert isinstance(alike, Request) and f"it is like {request.id}, which Ana denied" in alike.why
        other = await again(d, "curl https://b.example/")
        assert isinstance(other, Request) and "like" not in other.why


async def test_a_long_command_does_not_push_that_out_of_its_card(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("curl -d @x https://a.example/up"))
        await d.click(request, Choice.DENY)
        long = "\\u{" * 60  # drawn more than twice as long
        alike = await again(d, f"curl -H '{long}' --data-binary @x https://a.example/up")
        assert isinstance(alike, Request)
        for drawn in (card(alike), listing([alike])):
            assert f"it is like {request.id}" in json.dumps(drawn.blocks)


async def test_three_denials_in_a_row_are_said(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        for number in range(3):
            await d.click(await d.asked(d.event(f"make n{number}")), Choice.DENY)
        fourth = await again(d, "npm publish")
        assert isinstance(fourth, Request) and "the last 3 of this session were denied" in fourth.why


# How far Always reaches


@pytest.mark.parametrize(
    ("scope", "change", "covered"),
    [
        (Scope(), {"session": "s2", "cwd": "/elsewhere"}, True),
        (Scope(session=True), {}, True),
        (Scope(session=True), {"session": "s2"}, False),
        (Scope(directory=True), {"session": "s2"}, True),
        (Scope(directory=True), {"cwd": "/srv/app/sub"}, False),
        (Scope(seconds=3600), {"later": 3599}, True),
        (Scope(seconds=3600), {"later": 3600}, False),
    ],
)
async def test_scopes(tmp_path: Path, scope: Scope, change: dict[str, Any], covered: bool) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("touch a"))
        assert (await d.click(request, Choice.ALWAYS, scope=scope)).verdict is Verdict.DECIDED
        d.clock.now += change.pop("later", 0)
        assert isinstance(await again(d, "touch b", **change), Answer) is covered


async def test_a_rule_saved_lets_go_what_waits_and_is_covered(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        first, second = await d.asked(d.event("touch a")), await d.asked(d.event("touch b"))
        other = await d.asked(d.event("mkdir c"))
        await d.click(first, Choice.ALWAYS)
        assert [(await d.answer()).ruling for _ in range(2)] == [Ruling.ALLOW, Ruling.ALLOW]
        row = await d.store.request(second.id)
        assert row is not None and (row.state, row.via) == (State.APPROVED, "always")
        assert await d.state(other) is State.PENDING
        [rule] = await d.store.rules()
        assert rule.uses == 1 and rule.used_at == d.clock.now


async def test_always_is_decided_also_where_what_it_covers_cannot_be_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> Any:
        raise StoreError("The database is away.")

    async with desk(tmp_path) as d:
        first, second = await d.asked(d.event("touch a")), await d.asked(d.event("touch b"))
        with monkeypatch.context() as patched:
            patched.setattr(d.store, "remembered", away)
            click = await d.click(first, Choice.ALWAYS)
        assert click.verdict is Verdict.DECIDED and click.rules
        assert (await d.answer()).ruling is Ruling.ALLOW
        assert await d.state(second) is State.PENDING


async def test_always_over_something_denied(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        denied = await d.asked(d.event("touch secret"))
        await d.click(denied, Choice.DENY)
        request = await d.asked(d.event("touch a"))
        click = await d.click(request, Choice.ALWAYS)
        assert click.verdict is Verdict.DENIED_BEFORE and denied.id in click.why
        assert await d.state(request) is State.PENDING
        await d.click(denied, Choice.LIFT)
        assert (await d.click(request, Choice.ALWAYS)).verdict is Verdict.DECIDED


async def test_the_preview_counts_what_the_rule_would_have_answered(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        for number in range(3):
            await d.click(await d.asked(d.event(f"touch {number}")))
        await d.click(await d.asked(d.event("touch x && mkdir x")))
        request = await d.asked(d.event("touch y"))
        found = await d.gate.preview(request, Scope())
        assert (found.matched, found.denied) == (4, ())  # with itself, not what another program is part of
        d.clock.now += 31 * 24 * 3600
        late = await d.asked(d.event("touch z"))
        assert (await d.gate.preview(late, Scope())).matched == 1


async def test_the_next_approver_is_asked_after_a_while(tmp_path: Path) -> None:
    from slack_gate.store.cards import Cards

    async with desk(tmp_path, approvers=("U0ANA", "U0BOB"), escalate=60.0) as d:
        await d.asked()
        cards = Cards(d.store.database, "slack", "box:/run/gate.sock")
        assert [card.approver for card in await cards.due(d.clock.now)] == ["U0ANA"]
        assert [card.approver for card in await cards.due(d.clock.now + 60)] == ["U0ANA", "U0BOB"]


async def test_clicks_of_both_at_once_count_both(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB")) as d:
        request = await d.asked(d.event("git push origin main"))
        clicks = await asyncio.gather(d.click(request), d.click(request, user="U0BOB", name="Bob"))
        assert sorted(click.verdict for click in clicks) == [Verdict.COUNTED, Verdict.DECIDED]
