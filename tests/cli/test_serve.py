"""`slack-gate serve`: a home of its own, a process that ends in good order."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from slack_gate.daemon.process import make_private
from slack_gate.errors import ConfigError
from slack_gate.local_slack.server import LocalSlack
from tests.daemon.house import House, settings_for
from tests.daemon.serving import serving, spawn


def test_the_home_is_made_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "home")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a" / "home").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    make_private(tmp_path / "open")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700


def test_a_home_that_is_a_file_or_another_users(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        make_private(tmp_path / "file")
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 65534, 65534)
    with pytest.raises(ConfigError, match="another user"):
        make_private(tmp_path / "theirs")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_stops_in_good_order_and_hooks_hear_no(tmp_path: Path, number: signal.Signals) -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        h = House(slack, ana, settings, None)  # type: ignore[arg-type]
        async with serving(settings) as daemon:
            hook = await h.start(h.event(command="git push origin main"), "--limit", "12")
            await h.card("git push origin main")
            daemon.send_signal(number)
            async with asyncio.timeout(100):
                assert await daemon.wait() == 0
            ended = await h.ended(hook)
            assert (ended.code, ended.decision) == (2, "deny")


async def test_a_bad_token_ends_it_with_the_reason(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        for changes, words in [
            ({"slack_bot_token": "xoxb-wrong"}, b"invalid_auth"),
            ({"slack_app_token": "xapp-wrong"}, b"invalid_auth"),
            ({"approvers": "U0NOBODY"}, b"U0NOBODY"),
        ]:
            daemon = await spawn(settings_for(slack, tmp_path, **changes), "serve")
            async with asyncio.timeout(100):
                _, error = await daemon.communicate()
            assert daemon.returncode not in (0, None)
            assert words in error
            assert b"Traceback" not in error
            assert b"wrong" not in error
            assert not (tmp_path / "run" / "gate.sock").exists()


async def test_a_daemon_whose_terminal_is_gone_goes_on(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path)
        h = House(slack, ana, settings, None)  # type: ignore[arg-type]
        async with serving(settings, stderr=theirs) as daemon:
            os.close(theirs)
            os.close(ours)  # from now on every message fails
            slack.fail_next("chat.postMessage", error="channel_not_found")
            lost = await h.bash("git push origin lost")
            assert (lost.decision, "channel_not_found" in lost.reason) == ("deny", True)
            hook, card = await h.asked("git push origin main")
            await ana.click(card, "Approve")
            assert (await h.ended(hook)).decision == "allow"
            daemon.kill()  # Python's own last flush would fail too
            await daemon.wait()
