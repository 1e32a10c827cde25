"""The gate on a real store, without a surface: time, ends, restarts, scripts, a log that cannot be written."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.event import NoDecision, ToolEvent
from slack_gate.core.ports import Verdict
from slack_gate.core.request import Choice, Decision, Request, State
from slack_gate.daemon.attendance import GRACE_S
from slack_gate.daemon.calls import REPEAT_S
from slack_gate.daemon.clock import SteadyClock
from slack_gate.daemon.house import Caller
from slack_gate.daemon.scripts import scripts_of
from slack_gate.errors import LogError, StoreError
from slack_gate.store.log import verify
from tests.daemon.desk import SECOND, desk

# Time


async def test_a_click_after_sleep_is_too_late_before_any_timer_fired(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        d.clock.now += 7215  # the machine slept for two hours and nothing has swept yet
        click = await d.click(request)
        assert click.verdict is Verdict.ENDED
        answer = await d.answer()
        assert answer.ruling is Ruling.DENY
        assert "not a refusal" in answer.reason
        assert "Approved" not in answer.reason
        assert d.decisions() == ["pending", "click-ended", "expired"]
        assert await d.state(request) is State.EXPIRED


async def test_time_is_over_at_the_deadline_and_not_before(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        d.clock.now = request.expires_at - 0.01
        await d.gate.expire()
        assert await d.state(request) is State.PENDING
        d.clock.now = request.expires_at
        await d.gate.expire()
        assert await d.state(request) is State.EXPIRED


@pytest.mark.parametrize(("limit", "ends"), [(330.0, 300.0), (100.0, 95.0), (4.0, 2.0)])
async def test_the_request_ends_before_its_client_gives_up(tmp_path: Path, limit: float, ends: float) -> None:
    async with desk(tmp_path) as d:
        request = await d.gate.submit(d.event(), Caller("a" * 32, limit))
        assert isinstance(request, Request)
        assert request.expires_at - request.created_at == ends


def test_the_clock_follows_a_step_forward_and_no_step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    boot, wall = 100.0, 1_000_000.0
    monkeypatch.setattr("slack_gate.daemon.clock.time.clock_gettime", lambda _clock: boot)
    monkeypatch.setattr("slack_gate.daemon.clock.time.time", lambda: wall)
    clock = SteadyClock()
    assert clock() == 1_000_000.0
    boot, wall = 110.0, wall - 3600
    assert clock() == 1_000_010.0
    boot, wall = 120.0, 1_007_215.0
    assert clock() == 1_007_215.0


# Ends


async def test_each_end_has_its_own_outcome_and_one_record(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        approved = await d.asked()
        await d.click(approved)
        denied = await d.asked(d.event("make denied"))
        await d.click(denied, Choice.DENY)
        withdrawn = await d.asked()
        await d.gate.cancel(withdrawn.id)
        unsent = await d.asked()
        await d.gate.undeliverable(unsent.id, "channel_not_found.")
        always = await d.asked(d.event("touch a"))
        await d.click(always, Choice.ALWAYS)
        remembered = await d.gate.submit(d.event("touch b"), SECOND)
        late = await d.asked()
        d.clock.now = late.expires_at
        await d.gate.expire()
        reasons = [(await d.answer()).reason for _ in range(6)]
        assert isinstance(remembered, Answer)
        assert len({reason.split("(request")[0] for reason in reasons}) == 5  # Always and Approve read alike
        ends = {line["request"]: line["decision"] for line in d.log() if line["decision"] != "pending"}
        requests = [approved, denied, withdrawn, unsent, late]
        assert [ends[one.id] for one in requests] == ["approved", "denied", "cancelled", "undeliverable", "expired"]
        for one in (*requests, always):
            lines = [line for line in d.log() if line["request"] == one.id]
            assert [line["decision"] == "pending" for line in lines] == [True, False]
            assert {line["digest"] for line in lines} == {one.digest}
            assert all(line["cwd"] == "/srv/app" and line["ts"].endswith("Z") for line in lines)
        [allowed] = [line for line in d.log() if line["decision"] == "remembered"]
        [rule] = await d.store.rules()
        assert (allowed["by"], allowed["reason"]) == ("always", rule.id)
        assert verify((tmp_path / "gate-log.jsonl").open("rb"), await d.store.log_head()) is None


async def test_an_end_is_final(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        await d.click(request)
        await d.gate.cancel(request.id)
        await d.gate.undeliverable(request.id, "late")
        d.clock.now += 10_000
        await d.gate.expire()
        assert d.decisions() == ["pending", "approved"]
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_two_calls_alike_without_an_id_are_two_requests(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        first = await d.asked(d.event("rm -r dist", call=None), "1" * 32)
        second = await d.asked(d.event("rm -r dist", call=None), "2" * 32)
        assert first.id != second.id
        assert first.digest != second.digest
        await d.click(first, Choice.DENY)
        await d.click(second)
        assert [(await d.answer()).ruling for _ in range(2)] == [Ruling.DENY, Ruling.ALLOW]


async def test_a_digest_answers_no_other_request(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        first, second = await d.asked(), await d.asked()
        assert (await d.click(first, digest=second.digest)).verdict is Verdict.STALE
        assert await d.state(first) is State.PENDING
        assert (await d.click(first, request="SG-unknown")).verdict is Verdict.UNKNOWN
        assert d.decisions() == ["pending", "pending", "click-stale", "click-unknown"]


@pytest.mark.parametrize("changes", [{"user": "U0EVE"}, {"team": "T2"}, {"team": ""}, {"user": "u0ana"}])
async def test_only_an_approver_of_the_right_team(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        assert (await d.click(request, **changes)).verdict is Verdict.FOREIGN
        asked = Decision(request.id, request.digest, Choice.DENY, "x", changes.get("user", "U0ANA"), "", "", "T1")
        if "user" in changes:
            assert (await d.gate.asked(asked)).verdict is Verdict.FOREIGN
        assert await d.state(request) is State.PENDING


async def test_whether_a_click_could_decide(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        ask = Decision(request.id, request.digest, Choice.DENY, "human-slack", "U0ANA", "Ana", team="T1")
        assert (await d.gate.asked(ask)).verdict is Verdict.OPEN
        for decision, verdict in [
            (Decision("SG-x", request.digest, Choice.DENY, "human-slack", "U0ANA", "", team="T1"), Verdict.UNKNOWN),
            (Decision(request.id, "0", Choice.DENY, "human-slack", "U0ANA", "", team="T1"), Verdict.STALE),
        ]:
            assert (await d.gate.asked(decision)).verdict is verdict
        d.clock.now = request.expires_at
        assert (await d.gate.asked(ask)).verdict is Verdict.ENDED


async def test_an_announcement_is_logged_and_left_to_the_host(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        answer = await d.gate.announced(NoDecision("claude-code", "s1", "Notification"))
        assert answer == Answer(Ruling.SILENT)
        assert d.decisions() == ["Notification"]


async def test_a_request_that_is_not_on_file_is_no_approval(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        answer = await d.gate.wait("SG-unknown", d.event())
        assert answer.ruling is Ruling.DENY
        assert "not on file" in answer.reason


# Twice is once


async def test_an_approval_answers_the_same_hook_again_and_nobody_later(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        event = d.event()
        request = await d.asked(event, "1" * 32)
        await d.click(request)
        await d.answer()
        same = await d.gate.submit(event, Caller("1" * 32, 330.0))
        assert isinstance(same, Request)
        assert (await d.gate.wait(same.id, event)).ruling is Ruling.ALLOW
        assert isinstance(await d.gate.submit(event, SECOND), Request)  # a second hook of the same call
        d.clock.now += REPEAT_S + 1
        again = await d.gate.submit(event, SECOND)
        assert isinstance(again, Answer)
        assert again.ruling is Ruling.DENY
        assert "counts once" in again.reason
        assert d.decisions() == ["pending", "approved", "refused"]


async def test_a_denial_answers_the_same_call_for_ever(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        event = d.event()
        await d.click(await d.asked(event), Choice.DENY)
        await d.answer()
        d.clock.now += 10 * REPEAT_S
        again = await d.gate.submit(event, SECOND)
        assert isinstance(again, Request)
        assert (await d.gate.wait(again.id, event)).ruling is Ruling.DENY


async def test_the_same_id_with_other_content_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("git push origin main", call="t1"))
        other = await d.gate.submit(d.event("git push origin evil", call="t1"), SECOND)
        assert isinstance(other, Answer)
        assert other.ruling is Ruling.DENY
        assert "other content" in other.reason
        assert await d.state(request) is State.PENDING


# Callers that go


async def test_a_caller_that_vanished_has_a_grace_to_come_back(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        event = d.event()
        request = await d.asked(event)
        d.waits.pop().cancel()
        await asyncio.sleep(0)
        d.clock.now += GRACE_S - 1
        await d.gate.expire()
        back = await d.asked(event)
        assert back.id == request.id
        d.clock.now += GRACE_S
        await d.gate.expire()
        assert await d.state(request) is State.PENDING
        d.waits.pop().cancel()
        await asyncio.sleep(0)
        d.clock.now += GRACE_S
        await d.gate.expire()
        assert await d.state(request) is State.CANCELLED


async def test_one_of_two_callers_may_go(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        event = d.event()
        request = await d.asked(event)
        await d.asked(event, "f" * 32)
        d.waits.pop().cancel()
        await asyncio.sleep(0)
        d.clock.now += GRACE_S + 1
        await d.gate.expire()
        await d.click(request)
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_a_request_nobody_began_to_wait_for_ends_too(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.gate.submit(d.event(), SECOND)
        assert isinstance(request, Request)
        d.clock.now += GRACE_S
        await d.gate.expire()
        assert await d.state(request) is State.CANCELLED


async def test_several_look_at_once_for_callers_that_are_gone(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        requests = [await d.asked() for _ in range(4)]
        for wait in d.waits:
            wait.cancel()
        await asyncio.sleep(0)
        d.clock.now += GRACE_S
        await asyncio.gather(*(d.gate.expire() for _ in range(4)))  # the sweeper, and late clicks
        assert [await d.state(request) for request in requests] == [State.CANCELLED] * 4


async def test_after_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        event, gone = d.event(), d.event()
        request, lost = await d.asked(event), await d.asked(gone)
    drawn: list[bool] = []
    async with desk(tmp_path, lambda: drawn.append(True)) as d:
        await d.gate.resume()
        assert drawn  # cards whose row ended while nobody drew are drawn
        assert (await d.asked(event)).id == request.id
        d.clock.now += GRACE_S
        await d.gate.expire()
        assert await d.state(lost) is State.CANCELLED
        await d.click(request)
        assert (await d.answer()).ruling is Ruling.ALLOW
        assert d.decisions() == ["pending", "pending", "cancelled", "approved"]


# Scripts


@pytest.mark.parametrize(
    "command",
    [
        "bash x.sh",
        "python3 -u x.sh arg",
        "cd scripts && ./y.sh",
        "timeout 5 ./scripts/y.sh > out.txt",
        ". ./x.sh && true",
        "bash -c './scripts/y.sh'",
        "env A=1 $PWD/nothing; bash 'x.sh'",
    ],
)
async def test_a_script_that_changed_while_it_waited_does_not_run(tmp_path: Path, command: str) -> None:
    for name in ("x.sh", "scripts/y.sh"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("echo shown")
    (tmp_path / "scripts" / "y.sh").chmod(0o755)
    async with desk(tmp_path) as d:
        event = d.event(command, str(tmp_path))
        request = await d.asked(event)
        for name in ("x.sh", "scripts/y.sh"):
            (tmp_path / name).write_text("echo other")
        await d.click(request)
        answer = await d.answer()
        assert answer.ruling is Ruling.DENY
        assert "changed" in answer.reason
        assert [(line["decision"], line["request"]) for line in d.log()][-1] == ("refused", request.id)
        again = await d.gate.submit(event, Caller("1" * 32, 330.0))
        assert isinstance(again, Answer)
        assert again.ruling is Ruling.DENY
        await d.click(await d.asked(d.event(command, str(tmp_path))))
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_files_that_are_data_may_change(tmp_path: Path) -> None:
    (tmp_path / "app.txt").write_text("1")
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("git add app.txt", str(tmp_path)))
        (tmp_path / "app.txt").write_text("2")
        await d.click(request)
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_large_and_unreadable_scripts_are_told_apart_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "x.sh"
    monkeypatch.setattr("slack_gate.daemon.scripts.LARGE", 4)
    script.write_text("12345")
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("bash x.sh", str(tmp_path)))
        script.write_text("54321 ")
        await d.click(request)
        assert (await d.answer()).ruling is Ruling.DENY


def _scripts(command: str, place: Path) -> dict[str, str]:
    return dict(scripts_of(ToolEvent("claude-code", "s", "c", "Bash", {"command": command}, str(place))))


def test_a_script_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.sh").touch()

    def refuse(path: str, _flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("slack_gate.daemon.scripts.os.open", refuse)
    (seen,) = _scripts("bash x.sh", tmp_path).values()
    assert seen.startswith("unreadable: Permission denied ")


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("make -C sub", ["sub/Makefile"]),
        ("npm run x", ["package.json"]),
        ("pytest -q", ["conftest.py"]),
        ("cd sub && pnpm x", ["sub/package.json", "package.json"]),
        ("python3 -mrun", ["run/__init__.py"]),
        ("python3 -m run.inner", ["run/inner.py"]),
        ("psql -fq.sql", ["q.sql"]),
        ("node run", ["run/index.js"]),
        ("bash ~+/q.sql", ["q.sql"]),
        ("bash ${PWD}/q.sql", ["q.sql"]),
        ("bash -c 'cd sub; sh \"a b\"'", ["sub/a b"]),
        ("cat <<E\ndon't\nE\nsh q.s'ql'", ["q.sql"]),
        ("git apply q.sql", ["q.sql"]),
        ("git log q.sql", []),
        ("grep x q.sql | sort", []),
        ("/bin/sh -c true", []),
    ],
)
def test_what_an_approval_is_bound_to(tmp_path: Path, command: str, names: list[str]) -> None:
    """`names` and perhaps more of the files that are there; none where `names` is empty."""
    for name in ("Makefile", "package.json", "conftest.py", "q.sql", "run/inner.py", "run/__init__.py", "run/index.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    for name in ("Makefile", "package.json", "a b"):
        (tmp_path / "sub" / name).touch()
    found = {os.path.relpath(os.path.realpath(path), tmp_path) for path in _scripts(command, tmp_path)}
    assert found >= set(names)
    assert bool(found) == bool(names)


def test_beyond_a_number_of_bytes_and_files_a_change_is_noticed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slack_gate.daemon.scripts.MAX_BYTES", 3)
    monkeypatch.setattr("slack_gate.daemon.scripts.MAX_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text("12")
    before = _scripts("sh a b c", tmp_path)
    assert [len(value) == 64 for value in before.values()] == [True, False, True]
    os.link(tmp_path / "a", tmp_path / "d")
    assert all(len(value) == 64 for value in _scripts("sh a d", tmp_path).values())  # read once
    before = _scripts("sh a b c", tmp_path)
    for name in "abc":
        (tmp_path / name).write_text("34")
        assert _scripts("sh a b c", tmp_path) != before
        before = _scripts("sh a b c", tmp_path)


# Own files, and what is not remembered


async def test_own_files_are_refused_for_every_tool(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        for event in (
            d.event(f"sbox cat {tmp_path}/own/x"),
            d.event(tool="Read", tool_input={"file_path": f"{tmp_path}/own/x"}),
            d.event(tool="mcp__x__y", tool_input={"z": [f"{tmp_path}/own"]}),
        ):
            answer = await d.gate.submit(event, SECOND)
            assert isinstance(answer, Answer)
            assert answer.ruling is Ruling.DENY
        assert d.decisions() == ["refused"] * 3


async def test_a_search_from_above_is_asked_even_when_the_program_is_remembered(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.click(await d.asked(d.event("grep -r x src")), Choice.ALWAYS)
        await d.answer()
        assert isinstance(await d.gate.submit(d.event("grep -r x lib"), SECOND), Answer)
        request = await d.asked(d.event(f"grep -r xoxb {tmp_path}"))
        assert "rests on" in request.why
        assert (await d.click(request, Choice.ALWAYS)).verdict is Verdict.UNREMEMBERABLE
        assert await d.state(request) is State.PENDING


async def test_always_refused_saves_nothing_and_leaves_approve(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("bash -c 'make deploy'"))
        assert (await d.click(request, Choice.ALWAYS)).verdict is Verdict.UNREMEMBERABLE
        assert await d.store.rules() == []
        assert d.decisions() == ["pending", "click-unrememberable"]
        await d.click(request)
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_what_cannot_be_shown_is_refused_without_a_card(tmp_path: Path) -> None:
    drawn: list[bool] = []
    async with desk(tmp_path, lambda: drawn.append(True)) as d:
        answer = await d.gate.submit(d.event("echo " + "x" * 600), SECOND)
        assert answer == Answer(Ruling.DENY, "too long")
        assert not drawn


# A log that cannot be written


async def test_no_log_no_run_and_service_resumes(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        journal = tmp_path / "gate-log.jsonl"
        kept = journal.read_bytes()
        journal.unlink()
        journal.mkdir()  # even root cannot write there
        with pytest.raises(LogError):
            await d.click(request)
        with pytest.raises(LogError):
            await d.answer()
        unfiled = d.event()
        with pytest.raises(LogError):
            await d.gate.submit(unfiled, SECOND)
        with pytest.raises(LogError):
            await d.gate.submit(d.event("sbox ls"), SECOND)
        journal.rmdir()
        journal.write_bytes(kept)
        answer = await d.gate.submit(d.event("sbox ls"), SECOND)
        assert isinstance(answer, Answer)
        assert answer.ruling is Ruling.ALLOW
        d.clock.now += GRACE_S
        await d.gate.expire()  # the request that could not be recorded has nobody waiting
        assert d.decisions() == ["pending", "approved", "unrecorded", "pending", "green", "green", "cancelled"]
        assert verify(journal.open("rb"), await d.store.log_head()) is None


async def test_an_answer_is_held_back_while_the_end_is_not_in_the_file(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked()
        journal = tmp_path / "gate-log.jsonl"
        kept = journal.read_bytes()
        await d.click(request)
        journal.write_bytes(kept)  # as a crash between commit and write leaves it
        assert (await d.answer()).ruling is Ruling.ALLOW
        assert d.decisions() == ["pending", "approved"]


async def test_an_expiry_tells_the_agent_the_green_way(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.asked(d.event("make  test"))
        d.clock.now += 400
        await d.gate.expire()
        assert "needs no asking: sbox make test" in (await d.answer()).reason


async def test_a_call_is_judged_once_also_where_rules_are_on_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as d:
        await d.click(await d.asked(d.event("mkdir a")), Choice.ALWAYS)
        await d.answer()
        looked: list[str | None] = []
        explained = d.gate._judge.explained

        def noted(event: ToolEvent) -> Any:
            looked.append(event.command)
            return explained(event)

        monkeypatch.setattr(d.gate._judge, "explained", noted)
        asked = await d.gate.submit(d.event("rmdir b"), SECOND)
        covered = await d.gate.submit(d.event("mkdir c"), SECOND)
        assert isinstance(asked, Request)
        assert isinstance(covered, Answer) and covered.ruling is Ruling.ALLOW
        assert looked == ["rmdir b", "mkdir c"]


async def test_rules_are_not_read_for_what_they_cannot_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unread() -> Any:
        raise AssertionError("the rules were read")

    async with desk(tmp_path) as d:
        monkeypatch.setattr(d.store, "rules", unread)
        for event in (d.event("sbox ls"), d.event(tool="Read", tool_input={"file_path": "/srv/app/x"})):
            answer = await d.gate.submit(event, SECOND)
            assert isinstance(answer, Answer) and answer.ruling is not Ruling.DENY


async def test_a_caller_that_is_gone_is_not_forgotten_while_the_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> Any:
        raise StoreError("The database is away.")

    async with desk(tmp_path) as d:
        requests = [await d.gate.submit(d.event(), Caller(f"{number:032x}", 330.0)) for number in range(2)]
        d.clock.now += GRACE_S
        with monkeypatch.context() as patched:
            patched.setattr(d.store, "cancelled", away)
            with pytest.raises(StoreError):
                await d.gate.expire()
        await d.gate.expire()
        for request in requests:
            assert isinstance(request, Request)
            assert await d.state(request) is State.CANCELLED


async def test_what_always_saves_is_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked at is what is saved; each look reads files."""
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("touch a"))
        judged: list[ToolEvent] = []
        rememberable = d.gate._judge.rememberable
        monkeypatch.setattr(d.gate._judge, "rememberable", lambda event: (judged.append(event), rememberable(event))[1])
        assert (await d.click(request, Choice.ALWAYS)).rules
        assert len(judged) == 1
