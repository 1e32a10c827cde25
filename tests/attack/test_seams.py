"""Where one feature meets another: each alone holds, together they let something through or say what is not so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.cord import Hand, Pull
from slack_gate.core.event import RUNS, ToolEvent
from slack_gate.core.ports import Verdict
from slack_gate.core.request import Choice, Decision, Request, Scope, State
from slack_gate.daemon import files_now
from slack_gate.daemon.files_now import FilesNow
from slack_gate.daemon.house import Caller
from slack_gate.errors import StoreError
from slack_gate.local_slack.person import find_control
from slack_gate.store.cards import Cards
from slack_gate.store.tables import requests
from tests.daemon.desk import SECOND, Desk, desk
from tests.daemon.house import house
from tests.daemon.test_changes import outside
from tests.daemon.test_home_tab import home_with

__all__ = ["outside"]

ANA = Hand("human-slack", "U0ANA", "Ana")
BOB: dict[str, Any] = {"user": "U0BOB", "name": "Bob"}


def run(d: Desk, command: str) -> ToolEvent:
    return d.event(tool=RUNS["cage"], tool_input={"command": command, "timeoutSeconds": 30}, call=None)


def write(d: Desk, file: Path) -> ToolEvent:
    return d.event(tool="Write", tool_input={"file_path": str(file), "content": "b\n"})


async def drawn(d: Desk) -> None:
    """Every card shows its request as it stands."""
    cards = Cards(d.store.database, "slack", "")
    for card in await cards.due(d.clock.now):
        await cards.posted(card.id, "D1", "1.1", revision=card.request.revision)


# A denial, and rules


async def test_of_two_alike_the_denied_one_holds_the_other_when_a_rule_is_saved(tmp_path: Path) -> None:
    """Of `npm publish && make deploy`, which waits twice, both parts are remembered in the end."""
    async with desk(tmp_path) as d:
        await d.click(await d.asked(d.event("npm publish")), Choice.ALWAYS)
        both = "npm publish && make deploy"
        denied, twin = await d.asked(d.event(both)), await d.asked(d.event(both))
        await d.click(denied, Choice.DENY)
        [rule] = await d.store.rules()
        assert await d.store.remembered(twin.id, twin.digest, [rule.id], d.clock()) is None
        assert await d.state(twin) is State.PENDING
        await d.store.lifted(denied.id, "human-slack", "U0ANA", "Ana", d.clock())
        assert await d.store.remembered(twin.id, twin.digest, [rule.id], d.clock()) is not None


async def test_a_rule_that_with_others_covers_what_was_denied_is_not_saved(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.click(await d.asked(d.event("npm publish")), Choice.ALWAYS)
        denied = await d.asked(d.event("npm publish && make deploy"))
        await d.click(denied, Choice.DENY)
        click = await d.click(await d.asked(d.event("make deploy", cwd="/srv/b")), Choice.ALWAYS)
        assert click.verdict is Verdict.DENIED_BEFORE and denied.id in click.why


@pytest.mark.parametrize(
    "arguments",
    ["--token abcdefgh12345678", "https://u:pw12345678@h.example/x", "x --password=hunter2hunter2", "ghp_a1b2c3d4e5f6"],
)
async def test_a_denial_is_seen_when_looking_back_though_a_secret_in_it_is_masked(
    tmp_path: Path, arguments: str
) -> None:
    async with desk(tmp_path) as d:
        denied = await d.asked(d.event(f"npm publish {arguments}"))
        await d.click(denied, Choice.DENY)
        row = await d.store.request(denied.id)
        assert row is not None and "[masked " in (row.command or "")
        click = await d.click(await d.asked(d.event("npm publish")), Choice.ALWAYS)
        assert click.verdict is Verdict.DENIED_BEFORE and denied.id in click.why


# A rule, and a pause or its end


async def test_while_paused_no_rule_lets_go_what_waits(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        one, two = await d.asked(d.event("make deploy")), await d.asked(d.event("make deploy", cwd="/srv/b"))
        await d.store.pulled(Pull.PAUSE, ANA, d.clock())
        assert (await d.click(one, Choice.ALWAYS)).verdict is Verdict.DECIDED
        assert await d.state(two) is State.PENDING
        await d.store.pulled(Pull.RESUME, ANA, d.clock())
        await d.gate.release_covered()
        assert await d.state(two) is State.APPROVED


@pytest.mark.parametrize("end", ["revoked", "paused"])
async def test_a_rule_that_ends_between_the_look_at_it_and_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async with desk(tmp_path, executors=("cage",)) as d:
        for event in (d.event("make deploy"), run(d, "make deploy")):
            await d.click(await d.asked(event), Choice.ALWAYS)
        looked = d.store.cord

        async def ended() -> Any:
            found = await looked()
            if end == "paused" and not found.paused:
                await d.store.pulled(Pull.PAUSE, ANA, d.clock())
            for rule in await d.store.rules() if end == "revoked" else ():
                await d.store.revoked(rule.id, d.clock())
            return found

        monkeypatch.setattr(d.store, "cord", ended)
        for event in (d.event("make deploy"), run(d, "make deploy")):
            found = await d.gate.submit(event, Caller(f"{d.calls + 100:032x}", 60.0))
            if end == "revoked":
                assert isinstance(found, Request) and found.state is State.PENDING
            else:
                assert isinstance(found, Answer) and found.ruling is Ruling.DENY and "paused by Ana" in found.reason
                await d.store.pulled(Pull.RESUME, ANA, d.clock())
        assert "remembered" not in d.decisions() and "running" not in d.decisions()


async def test_a_run_by_a_rule_is_a_use_of_it(tmp_path: Path) -> None:
    async with desk(tmp_path, executors=("cage",)) as d:
        await d.click(await d.asked(run(d, "make deploy")), Choice.ALWAYS)
        filed = await d.gate.submit(run(d, "make deploy"), SECOND)
        assert isinstance(filed, Request) and filed.state is State.RUNNING
        [rule] = await d.store.rules()
        assert (rule.uses, rule.used_at) == (1, d.clock.now)


async def test_a_rule_saved_again_when_its_time_was_over_is_whoevers_saved_it_then(tmp_path: Path) -> None:
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB")) as d:
        await d.click(await d.asked(d.event("make deploy")), Choice.ALWAYS, scope=Scope(seconds=10.0))
        d.clock.now += 20
        again = await d.asked(d.event("make deploy"))
        assert (await d.click(again, Choice.ALWAYS, **BOB)).verdict is Verdict.DECIDED
        [rule] = await d.store.rules()
        assert (rule.created_by, rule.request, rule.created_at) == ("U0BOB", again.id, d.clock.now)


async def test_a_rule_for_a_directory_does_not_follow_its_name(tmp_path: Path, outside: Path) -> None:
    app, production = outside / "app", outside / "production"
    app.mkdir()
    production.mkdir()
    async with desk(tmp_path) as d:
        event = d.event("npm publish", cwd=str(app))
        scope = Scope(directory=True)
        assert (await d.click(await d.asked(event), Choice.ALWAYS, scope=scope)).verdict is Verdict.DECIDED
        again = await d.gate.submit(d.event("npm publish", cwd=str(app)), SECOND)
        assert isinstance(again, Answer) and again.ruling is Ruling.ALLOW
        app.rename(outside / "old")
        app.symlink_to(production)
        elsewhere = await d.asked(d.event("npm publish", cwd=str(app)))
        click = await d.click(elsewhere, Choice.ALWAYS, scope=scope)
        assert click.verdict is Verdict.UNFIT and "A link leads to its directory" in click.why
        assert (await d.click(elsewhere)).verdict is Verdict.DECIDED


# Several people, a restart, and what the card shows beside the call


async def test_a_vote_for_what_the_file_was_does_not_count(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[gate.rule]]\ntool = "Write"\napprovals = 2\n')
    file = outside / "app.ini"
    file.write_text("a\n")
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB")) as d:
        d.gate._files = FilesNow(lambda path: False)
        asked = await d.asked(write(d, file))
        assert (await d.click(asked)).verdict is Verdict.COUNTED
        await drawn(d)
        file.write_text("other\n")
        assert (await d.click(asked, **BOB)).verdict is Verdict.UNFIT
        await drawn(d)
        assert (await d.click(asked, **BOB)).verdict is Verdict.COUNTED
        await drawn(d)
        assert (await d.click(asked)).verdict is Verdict.DECIDED
        assert d.decisions() == ["pending", "vote", "renewed", "click-unfit", "vote", "approved"]


async def test_a_card_from_before_a_restart_approves_no_other_file(tmp_path: Path, outside: Path) -> None:
    file = outside / "app.ini"
    file.write_text("a\n")
    async with desk(tmp_path) as d:
        d.gate._files = FilesNow(lambda path: False)
        event = write(d, file)
        asked = await d.asked(event)
        await drawn(d)
    file.write_text("other\n")
    async with desk(tmp_path) as d:
        d.gate._files = FilesNow(lambda path: False)
        await d.gate.reopen()
        assert (await d.asked(event, nonce=asked.nonce)).id == asked.id
        assert (await d.click(asked)).verdict is Verdict.STALE
        await drawn(d)
        file.write_text("a third\n")
        assert (await d.click(asked)).verdict is Verdict.UNFIT
        await drawn(d)
        assert (await d.click(asked)).verdict is Verdict.DECIDED


async def test_of_two_presses_the_second_reaches_another_daemon(tmp_path: Path, outside: Path) -> None:
    """It has not looked at the file; that the card is to be drawn anew is on file."""
    file = outside / "app.ini"
    file.write_text("a\n")
    async with desk(tmp_path) as d:
        d.gate._files = FilesNow(lambda path: False)
        asked = await d.asked(write(d, file))
        await drawn(d)
        file.write_text("other\n")
        assert (await d.click(asked)).verdict is Verdict.UNFIT
        there: dict[str, Any] = {"team": "T1", "channel": "D1", "message": "1.1"}
        press = Decision(asked.id, asked.digest, Choice.APPROVE, "human-slack", "U0ANA", "Ana", **there)
        assert (await d.store.decided(press, (), (), d.clock.now)).verdict is Verdict.STALE
        no = replace(press, choice=Choice.DENY)
        assert (await d.store.decided(no, (), (), d.clock.now)).verdict is Verdict.DECIDED


@pytest.mark.parametrize("where", ["home", "dialog"])
async def test_what_was_opened_before_the_file_changed_approves_nothing(
    tmp_path: Path, outside: Path, where: str
) -> None:
    """The card has been drawn anew meanwhile; the Home tab on the screen, or the dialog, has not."""
    file = outside / "app.ini"
    file.write_text("a\n")
    async with house(tmp_path) as h:
        hook = await h.start(h.event("Write", file_path=str(file), content="b\n"))
        card = await h.card(str(file))
        if where == "home":
            await h.ana.open_home()
            home = await home_with(h.ana, "-a")
            approve = find_control(home.latest.controls, "Approve", 0, option=False)
        else:
            await h.ana.choose(card, "Always with scope")
            dialog = await h.ana.wait_for_modal()
        file.write_text("other\n")
        await h.ana.click(card, "Approve")
        await card.wait_for_update(lambda version: "-other" in version.plain())
        await h.drawn_anew()
        if where == "home":
            await h.ana._homes.click(h.ana.user, home, approve, confirm=True)
        else:
            await h.ana.submit(dialog, {"reach": "everywhere", "time": "good"})
        [row] = await h.running.store.requests(1)
        assert row.state is State.PENDING and await h.running.store.rules() == []
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_a_file_that_is_not_remembered_any_more(
    tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many other calls push it out of what the daemon keeps."""
    monkeypatch.setattr(files_now, "KEPT", 2)
    file = outside / "app.ini"
    file.write_text("a\n")
    async with desk(tmp_path) as d:
        d.gate._files = FilesNow(lambda path: False)
        asked = await d.asked(write(d, file))
        for number in range(3):
            await d.asked(write(d, outside / f"x{number}"))
        file.write_text("other\n")
        assert (await d.click(asked)).verdict is Verdict.UNFIT
        await drawn(d)
        assert (await d.click(asked)).verdict is Verdict.DECIDED


async def test_what_waited_at_another_socket_expires(tmp_path: Path) -> None:
    """A daemon's name holds its socket, which is another one without XDG_RUNTIME_DIR: nobody else ends what it left."""
    async with desk(tmp_path) as d:
        request = await d.asked()
        query = update(requests).values(home="box:/home/ana/.config/slack-gate/run/gate.sock")
        await d.store.database.run(lambda connection: connection.execute(query))
    async with desk(tmp_path) as d:
        await d.gate.reopen()
        await d.gate.resume()
        d.clock.now += 299
        await d.gate.expire()
        assert await d.state(request) is State.PENDING
        d.clock.now += 1
        await d.gate.expire()
        assert await d.state(request) is State.EXPIRED and d.gate._attendance.empty


async def test_the_vote_of_somebody_who_is_no_approver_any_more(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[gate.rule]]\ncommand = "git push ..."\napprovals = 2\n')
    async with desk(tmp_path, approvers=("U0ANA", "U0BOB", "U0CY")) as d:
        event = d.event()
        request = await d.asked(event)
        assert (await d.click(request, **BOB)).verdict is Verdict.COUNTED
    async with desk(tmp_path, approvers=("U0ANA", "U0CY")) as d:
        await d.gate.reopen()
        await d.asked(event, nonce=request.nonce)
        first = await d.click(request)
        assert first.verdict is Verdict.COUNTED and first.request is not None
        assert first.request.votes == (("U0ANA", "Ana"),)
        assert (await d.click(request, user="U0CY", name="Cy")).verdict is Verdict.DECIDED


# The policy, and everything that waits or is left to others


async def test_the_console_gets_nothing_that_the_policy_has_run_in_the_cage(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('[[gate.rule]]\ncommand = "make ..."\nexecutor = "cage"\n')
    async with desk(tmp_path, cages=True) as d:
        await d.store.pulled(Pull.CONSOLE, ANA, d.clock())
        answer = await d.gate.submit(d.event("make deploy", prompts=True, rewritable=True), SECOND)
        assert isinstance(answer, Answer) and answer.ruling is Ruling.DENY and "/gate slack" in answer.reason
        other = await d.gate.submit(d.event("npm publish", prompts=True, rewritable=True), SECOND)
        assert isinstance(other, Answer) and other.ruling is Ruling.ASK


@pytest.mark.parametrize("demand", ["approvals = 2", 'executor = "cage"'])
async def test_a_policy_that_became_stricter_while_it_waited(tmp_path: Path, demand: str) -> None:
    async with desk(tmp_path, cages=True) as d:
        request = await d.asked(d.event("make deploy", rewritable=True))
        (tmp_path / "policy.toml").write_text(f'[[gate.rule]]\ncommand = "make ..."\n{demand}\n')
        await d.click(request)
        answer = await d.answer()
        assert answer.ruling is Ruling.DENY and "the policy has had" in answer.reason


@pytest.mark.parametrize("how", [{"choice": Choice.CAGED}, {"edited": "make deploy -n"}])
async def test_what_the_policy_demands_since_and_was_approved_so_is_released(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    async with desk(tmp_path, cages=True) as d:
        request = await d.asked(d.event("make deploy", rewritable=True))
        text = 'executor = "cage"' if "choice" in how else 'do = "ask"'
        (tmp_path / "policy.toml").write_text(f'[[gate.rule]]\ncommand = "make ..."\n{text}\n')
        assert (await d.click(request, **how)).verdict is Verdict.DECIDED
        assert (await d.answer()).ruling is Ruling.ALLOW


# A changed text, and the script that the card was about


async def test_a_script_that_changed_before_the_text_was_changed(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("echo 1\n")
    async with desk(tmp_path) as d:
        request = await d.asked(d.event(f"bash {script}", rewritable=True))
        script.write_text("echo 2\n")
        await d.click(request, edited=f"bash {script} -x")
        answer = await d.answer()
        assert answer.ruling is Ruling.DENY and "changed since" in answer.reason


# A press that failed on one daemon, and the next one on another


async def test_a_press_that_failed_here_spoils_no_later_one_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        decided = d.store.decided

        async def away(*_: Any) -> Any:
            raise StoreError("The database is away.")

        with monkeypatch.context() as patched:
            patched.setattr(d.store, "decided", away)
            with pytest.raises(StoreError):
                await d.click(request)
        d.clock.now += 2
        decision = Decision(request.id, request.digest, Choice.APPROVE, "human-slack", "U0ANA", "Ana", team="T1")
        assert (await decided(decision, (), (), d.clock.now)).verdict is Verdict.DECIDED
        d.gate._waiting.wake(request.id)
        assert (await d.answer()).ruling is Ruling.ALLOW
