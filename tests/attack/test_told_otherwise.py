"""What the person is told, and what then happens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from slack_gate.core.answer import Ruling
from slack_gate.core.outcome import outcome_of, sentence
from slack_gate.core.ports import Verdict
from slack_gate.core.request import Choice, Request
from slack_gate.daemon.house import Caller
from slack_gate.errors import GateError, LogError, StoreError
from slack_gate.store.log import Line, verify
from tests.daemon.desk import Desk, desk
from tests.daemon.house import house


async def told_no(d: Desk, monkeypatch: pytest.MonkeyPatch, request: Request, choice: Choice, **who: str) -> None:
    """A click while no line can be written, committed all the same: "Nothing was approved: …"."""

    def full(lines: Sequence[Line]) -> int:
        raise LogError("The log cannot be written: No space left on device.")

    with monkeypatch.context() as patched:
        patched.setattr(d.store.journal, "append", full)
        with pytest.raises(GateError):
            await d.click(request, choice, **who)


async def test_told_that_nothing_was_approved_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log refuses once (a full disk) while the click is recorded: the person reads "Nothing was approved: …"."""
    async with desk(tmp_path) as d:
        request = await d.asked()
        append = d.store.journal.append
        faults = [LogError("The log cannot be written: No space left on device.") for _ in range(2)]  # tried twice

        def once(lines: Sequence[Line]) -> int:
            if faults:
                raise faults.pop()
            return append(lines)

        monkeypatch.setattr(d.store.journal, "append", once)
        with pytest.raises(GateError):
            await d.click(request)
        assert (await d.answer()).ruling is Ruling.DENY


async def test_nor_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hook lost the daemon before it was answered, and sends the same call to the next one."""
    hook = Caller("a" * 32, 330.0)
    async with desk(tmp_path) as d:
        event = d.event()
        request = await d.gate.submit(event, hook)
        assert isinstance(request, Request)
        await told_no(d, monkeypatch, request, Choice.APPROVE)
    async with desk(tmp_path) as d:
        again = await d.gate.submit(event, hook)
        assert isinstance(again, Request) and again.id == request.id
        answer = await d.gate.wait(again.id, event)
        assert answer.ruling is Ruling.DENY and "could not be recorded" in answer.reason
        row = await d.store.request(request.id)
        assert row is not None and outcome_of(row).endswith("It did not run.\nThe approval could not be recorded.")
        click = await d.click(request)  # Slack brings it again
        assert "it did not run. The approval could not be recorded." in sentence(click)
        assert d.decisions() == ["pending", "approved", "unrecorded", "click-ended"]


async def test_nothing_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(tmp_path) as d:
        request = await d.asked(d.event("touch a"))
        await told_no(d, monkeypatch, request, Choice.ALWAYS)
        assert (await d.answer()).ruling is Ruling.DENY
        assert await d.store.rules() == []
        assert isinstance(await d.gate.submit(d.event("touch b"), Caller("b" * 32, 330.0)), Request)
        assert d.decisions() == ["pending", "approved", "unrecorded", "revoked", "refused", "pending"]


async def test_the_card_says_so(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        log, aside = h.settings.log_path, tmp_path / "aside"
        log.rename(aside)
        log.mkdir()  # no line can be written
        await h.press(card, "Approve")
        assert (await h.ended(hook)).decision == "deny"
        await card.wait_for_update(lambda version: "The approval could not be recorded." in version.plain())
        log.rmdir()
        aside.rename(log)
        assert (await h.bash("sbox true")).decision == "allow"
        assert verify(log.read_bytes().splitlines(keepends=True), await h.running.store.log_head()) is None


async def test_no_vote_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two: with hers, the next person's would let it run."""
    (tmp_path / "policy.toml").write_text('[[gate.rule]]\ncommand = "git push ..."\ndo = "ask"\napprovals = 2\n')
    async with desk(tmp_path, approvers=("U0ANA", "U0BEN")) as d:
        request = await d.asked(d.event("git push origin main"))
        await told_no(d, monkeypatch, request, Choice.APPROVE)
        assert (await d.click(request, user="U0BEN", name="Ben")).verdict is Verdict.COUNTED
        assert (await d.click(request)).verdict is Verdict.DECIDED
        assert (await d.answer()).ruling is Ruling.ALLOW


async def test_what_cannot_be_undone_at_once_is_undone_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(tmp_path) as d:
        request, undone = await d.asked(d.event("touch a")), d.store.undone

        async def away(*_: object) -> None:
            raise StoreError("The database is away.")

        with monkeypatch.context() as patched:
            patched.setattr(d.store, "undone", away)
            await told_no(d, monkeypatch, request, Choice.ALWAYS)
            assert len(await d.store.rules()) == 1
        assert d.store.undone == undone
        await d.gate.expire()  # as the sweeper does
        assert await d.store.rules() == []
