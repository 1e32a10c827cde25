"""What is longer than a card: its ends on the card, the whole of it in the thread before it can be approved."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.display import exact
from slack_gate.core.request import State
from slack_gate.daemon import posts
from slack_gate.slack import messenger
from tests.daemon.house import House, house
from tests.slack.test_cards import literals

LONG = "echo start; " + "true; " * 3000 + "rm -rf /srv/data"
UPLOAD = "files.getUploadURLExternal"


async def bare(h: House) -> Any:
    return await h.ana.wait_for_message(lambda m: m.has_button("Deny") and "echo start" in m.plain())


def snippets(h: House, card: Any) -> list[str]:
    return [file.text for message in h.ana.messages if message.thread_ts == card.ts for file in message.files]


async def test_the_whole_stands_in_the_thread_before_approve_appears(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook = await h.start(h.event(command=LONG))
        card = await h.card("echo start")
        assert not card.versions[0].has_button("Approve")
        assert "cannot be approved" in card.versions[0].plain()
        [whole] = snippets(h, card)
        assert exact(whole) == LONG
        order = [call.method for name in (UPLOAD, "chat.update") for call in h.slack.calls(name)]
        assert order == [UPLOAD, "chat.update"]
        shown = card.plain()
        assert "rm -rf /srv/data" in shown and f"{len(LONG)} characters, 1 line" in shown
        assert len(shown) < 8000
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        await card.wait_for_update(lambda version: not version.buttons)


@pytest.mark.parametrize(
    "command", ["echo " + "x" * (size - 5) for size in (2999, 3001, 12_500, 45_000)] + ["&" * 2999]
)
async def test_of_whatever_length_it_is_delivered_whole(tmp_path: Path, command: str) -> None:
    async with house(tmp_path) as h:
        hook = await h.start(h.event(command=command))
        card = await h.ana.wait_for_message(lambda m: m.has_button("Approve"))
        shown = [exact(text) for text in (*literals(card.blocks), *snippets(h, card))]
        assert command in shown and f"{len(command)} characters, 1 line" in card.plain()
        refused = [call.error for name in ("chat.postMessage", "chat.update") for call in h.slack.calls(name)]
        assert not any(refused)
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_three_thousand_lines_with_characters_that_hide(tmp_path: Path) -> None:
    command = "".join(f"echo {n} \u202e\u200b\n" for n in range(3000)) + "done"
    async with house(tmp_path) as h:
        await h.start(h.event(command=command))
        card = await h.card("echo 0")
        [whole] = snippets(h, card)
        assert exact(whole) == command
        assert "\u202e" not in whole
        assert "6000 hidden or look-alike characters" in card.plain()


async def test_secrets_are_masked_in_the_snippet(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 8
    async with house(tmp_path) as h:
        await h.start(h.event(command=LONG.replace("start", f"start GH_TOKEN={secret}")))
        card = await h.card("echo start")
        [whole] = snippets(h, card)
        assert secret not in whole + card.plain()
        assert "GH_TOKEN=[masked 36]" in whole


@pytest.mark.parametrize("method", [UPLOAD, "upload_url", "files.completeUploadExternal"])
async def test_trouble_with_the_file_that_passes(tmp_path: Path, method: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(messenger, "RETRY_S", 0.1)
    async with house(tmp_path) as h:
        h.slack.fail_next(method, http_status=503)
        hook = await h.start(h.event(command=LONG))
        card = await h.card("echo start")
        assert len([m for m in h.ana.messages if m.thread_ts is None]) == 1
        assert [exact(one) for one in snippets(h, card)] == [LONG]
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_what_cannot_be_put_there_is_undeliverable(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        h.slack.withdraw_scope("files:write")
        ended = await h.bash(LONG)
        assert ended.decision == "deny" and "missing_scope (needed: files:write)" in ended.reason
        [request] = await h.running.store.requests(10)
        assert request.state is State.UNDELIVERABLE
        [message] = h.ana.messages
        await message.wait_for_update(lambda version: not version.buttons)
        assert "Could not be asked" in message.plain()
        # A short one needs no file.
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_trouble_that_stays(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(posts, "POST_S", 20.0)
    monkeypatch.setattr(messenger, "RETRY_S", 0.2)
    async with house(tmp_path) as h:
        h.slack.fail_next("upload_url", http_status=503, times=1000)
        ended = await h.bash(LONG)
        assert "Nobody could be asked" in ended.reason
        [message] = h.ana.messages
        await message.wait_for_update(lambda version: not version.buttons)
        assert not any(version.has_button("Approve") for version in message.versions)


async def test_a_denial_needs_no_file(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        h.slack.fail_next(UPLOAD, delay=5.0)
        hook = await h.start(h.event(command=LONG))
        card = await bare(h)
        await h.ana.click(card, "Deny")
        assert re.match("Denied by Ana", (await h.ended(hook)).reason)


@pytest.mark.parametrize("text", ["x" * 131_071, "é" * 70_000])
async def test_what_no_shell_can_be_started_with_is_refused_before_anybody_is_asked(tmp_path: Path, text: str) -> None:
    """The same length in bytes goes through the agent's own shell, or the one in the cage."""
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["bash", "-c", f": {text}"], check=True)
    async with house(tmp_path) as h:
        ended = await h.bash(f": {text}")
        assert ended.decision == "deny" and f"{len(text) + 2} characters" in ended.reason
        assert "131071 bytes" in ended.reason and h.slack.calls("chat.postMessage") == []
        hook = await h.start(h.event(command=f": {text[:60_000]}"))
        await h.ana.click(await h.card(text[:100]), "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_the_length_is_named_where_nothing_can_hold_it(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ended = await h.ask(h.event("Write", file_path="/srv/x", content="\u200b" * 130_000))
        assert "The input has 13" in ended.reason and "at most 1000000 can be shown" in ended.reason
        assert h.slack.calls("chat.postMessage") == []
