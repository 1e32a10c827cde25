"""From a hook to a click and back, with real hook processes and real Socket Mode."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from tests.daemon.house import house


async def test_approve_releases_the_agent(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        click = await h.ana.click(card, "Approve")
        ended = await h.ended(hook)
        assert click.acknowledged
        assert (ended.code, ended.decision) == (0, "allow")
        assert "Approved by Ana" in ended.reason
        after = await card.wait_for_update(lambda m: not m.buttons)
        assert "git push origin main" in after.plain()
        assert "Approved by Ana" in after.plain()
        assert [line["decision"] for line in h.log()] == ["pending", "approved"]


async def test_deny_stops_it(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Deny")
        ended = await h.ended(hook)
        assert (ended.code, ended.decision) == (0, "deny")
        assert "Denied by Ana" in ended.reason


async def test_a_reason_reaches_the_agent(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.choose(card, "Deny with a reason")
        modal = await h.ana.wait_for_modal()
        result = await h.ana.submit(modal, {"reason": "use a release branch"})
        ended = await h.ended(hook)
        assert result.closed
        assert ended.decision == "deny"
        assert "Denied by Ana: use a release branch" in ended.reason
        assert h.log()[-1]["reason"] == "use a release branch"


async def test_nobody_answers(tmp_path: Path) -> None:
    async with house(tmp_path, wait=4) as h:
        hook, card = await h.asked("git push origin main")
        ended = await h.ended(hook)
        assert (ended.code, ended.decision) == (0, "deny")
        assert "not a refusal" in ended.reason
        after = await card.wait_for_update(lambda m: not m.buttons)
        assert "expired" in after.plain()
        late = await h.press(card, "Approve")
        assert late.acknowledged
        told = await h.ana.wait_for_ephemeral()
        assert "Too late" in told.plain()
        assert "pproved" not in told.plain() + after.plain()
        assert [line["decision"] for line in h.log()] == ["pending", "expired", "click-ended"]


async def test_green_and_ungated_need_no_card(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        green = await h.bash("sbox ls")
        silent = await h.ask(h.event("Read", file_path="/etc/hostname"))
        assert green.decision == "allow"
        assert (silent.code, silent.stdout, silent.stderr) == (0, b"", b"")
        assert h.slack.calls("chat.postMessage") == []
        assert [line["decision"] for line in h.log()] == ["green", "ungated"]


async def test_always_shows_the_rule_and_survives_a_restart(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("touch a.txt")
        click = await h.ana.click(card, "Always")
        assert "touch" in click.confirm
        assert (await h.ended(hook)).decision == "allow"
        again = await h.bash("touch b.txt")
        assert again.decision == "allow"
        assert len(h.slack.calls("chat.postMessage")) == 1
    async with house(tmp_path) as h:
        h.calls = 100
        assert (await h.bash("touch c.txt")).decision == "allow"
        other = await h.start(h.event(command="touch d.txt && chmod +x d.txt"))
        assert await h.card("chmod +x d.txt")
        other.kill()


async def test_declining_the_confirmation_changes_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked("touch a.txt")
        await h.ana.click(card, "Always", confirm=False)
        assert (await h.running.store.requests(1))[0].state == "pending"


async def test_nothing_to_remember_no_always(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        _, card = await h.asked("rm -rf build")
        assert "Always" not in card.buttons
        assert "Always is not offered" in card.plain()


async def test_sigterm_withdraws_the_card(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        hook.send_signal(signal.SIGTERM)
        ended = await h.ended(hook)
        assert ended.code == 2
        assert ended.stderr
        after = await card.wait_for_update(lambda m: not m.buttons)
        assert "Withdrawn" in after.plain()


async def test_parallel_calls_are_told_apart(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        first, card_a = await h.asked("git push origin aaa")
        second, card_b = await h.asked("git push origin bbb")
        await h.ana.click(card_b, "Deny")
        await h.ana.click(card_a, "Approve")
        assert (await h.ended(first)).decision == "allow"
        assert (await h.ended(second)).decision == "deny"


async def test_twenty_cards_clicked_in_reverse(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        waiting = [await h.asked(f"git push origin b{number:02}") for number in range(20)]
        for number, (_, card) in reversed(list(enumerate(waiting))):
            await h.ana.click(card, "Approve" if number % 2 else "Deny")
        ends = [(await h.ended(hook)).decision for hook, _ in waiting]
        assert ends == ["allow" if number % 2 else "deny" for number in range(20)]


async def test_the_same_call_again_is_the_same_request(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        event = h.event(command="git push origin main")
        first = await h.start(event)
        card = await h.card("git push origin main")
        second = await h.start(event)
        await asyncio.sleep(0.3)
        await h.ana.click(card, "Approve")
        assert (await h.ended(first)).decision == "allow"
        assert (await h.ended(second)).decision == "allow"
        assert len(h.slack.calls("chat.postMessage")) == 1


@pytest.mark.parametrize(
    "event",
    [
        *(b"", b"{", b"[]", b'{"hook_event_name": "PreToolUse", "tool_name": "Bash"}', b"\xff" * 100),
        b'{"session_id": "s1", "hook_event_name": "PreToolUse", "cwd": null, "tool_name": "Bash",'
        b' "tool_input": {"command": "rm -rf build"}, "tool_use_id": "toolu_1"}',
    ],
)
async def test_malformed_events_are_denied_and_logged(tmp_path: Path, event: bytes) -> None:
    async with house(tmp_path) as h:
        ended = await h.ask(event)
        assert (ended.code, ended.decision) == (0, "deny")
        assert h.log()[-1]["decision"] == "malformed"
        assert (await h.bash("sbox true")).decision == "allow"


async def test_what_cannot_be_shown_whole_is_denied_with_its_length(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ended = await h.bash("echo " + "\u200b" * 130_000)
        assert ended.decision == "deny"
        assert "130005 characters" in ended.reason
        hook, card = await h.asked("echo " + "y" * 3000)
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_the_gates_own_files_are_out_of_reach(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        (h.settings.home / "config.toml").write_text("")
        link = tmp_path / "link"
        link.symlink_to(h.settings.home)
        for path in (h.settings.home / "config.toml", h.settings.socket_path, link / "gate.db"):
            assert (await h.ask(h.event("Read", file_path=str(path)))).decision == "deny"
        hook = await h.start(h.event("Grep", pattern="xoxb", path=str(tmp_path)))
        card = await h.card("xoxb")
        await h.ana.click(card, "Deny")
        assert (await h.ended(hook)).decision == "deny"


async def test_the_log_holds_no_secret_and_verifies(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook = await h.start(h.event(command="curl -H 'Authorization: Bearer ghp_EXAMPLE0123456789' x"))
        card = await h.card("[masked 21]")
        assert "ghp_EXAMPLE" not in json.dumps(card.blocks) + card.text
        await h.ana.click(card, "Approve")
        await h.ended(hook)
        assert "ghp_EXAMPLE" not in h.settings.log_path.read_text()
