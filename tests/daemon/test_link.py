"""A start that cannot work says why in one sentence; a link that breaks comes back."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slack_gate.config import Settings
from slack_gate.daemon.serve import running
from slack_gate.errors import SlackError
from slack_gate.local_slack import socket_mode
from slack_gate.local_slack.server import LocalSlack
from slack_gate.slack import link
from slack_gate.slack.link import Link, check_bot_token, web_client
from slack_gate.slack.people import FRESH_S, People
from tests.daemon.house import house, settings_for


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def started(settings: Settings) -> str:
    """The sentence a start ends with."""
    with pytest.raises(SlackError) as caught:
        async with asyncio.timeout(20), running(settings):
            pass
    assert caught.value.exit_code == 69
    assert caught.value.next_step
    assert not settings.socket_path.exists()
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"slack_bot_token": "xoxb-wrong"}, "Slack refused SLACK_BOT_TOKEN: invalid_auth."),
        ({"slack_app_token": "xapp-wrong"}, "Slack refused SLACK_APP_TOKEN: invalid_auth."),
        ({"slack_bot_token": "xapp-1-x"}, "SLACK_BOT_TOKEN holds an app-level token (xapp-…)."),
        ({"slack_app_token": "xoxb-x"}, "SLACK_APP_TOKEN holds a bot's or person's token (xox…)."),
        ({"approvers": "U0NOBODY"}, "Slack does not know the approver U0NOBODY (user_not_found)."),
        ({"approvers": "U0ANA,U0GONE"}, "The approver U0GONE is deactivated."),
        ({"approvers": "U0BOT"}, "The approver U0BOT is a bot."),
    ],
)
async def test_a_start_that_cannot_work(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        slack.add_user("U0GONE", name="Gone", deleted=True)
        slack.add_user("U0BOT", name="Bot", is_bot=True)
        assert said in await started(settings_for(slack, tmp_path, **changes))
        assert slack.links == []


@pytest.mark.parametrize(
    ("method", "trouble", "said"),
    [
        ("auth.test", {"error": "account_inactive"}, "SLACK_BOT_TOKEN: account_inactive."),
        ("auth.test", {"http_status": 503}, "SLACK_BOT_TOKEN: HTTP 503."),
        ("auth.test", {"reset_before": True}, "cannot be reached"),
        ("apps.connections.open", {"error": "missing_scope"}, "SLACK_APP_TOKEN: missing_scope."),
        ("apps.connections.open", {"reset_before": True}, "cannot be reached"),
        ("users.info", {"error": "missing_scope"}, "look up the approver U0ANA (missing_scope)"),
        ("users.info", {"reset_before": True, "times": 9}, "cannot be reached"),
    ],
)
async def test_slack_in_trouble_at_the_start(tmp_path: Path, method: str, trouble: dict[str, Any], said: str) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        slack.fail_next(method, **trouble)
        assert said in await started(settings_for(slack, tmp_path))


async def test_a_link_that_never_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "CONNECT_S", 0.5)
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        monkeypatch.setattr(slack._web_api, "_open_connection", lambda: f"ws://127.0.0.1:{slack.port}/nowhere")
        assert "did not accept a Socket Mode connection" in await started(settings_for(slack, tmp_path))


async def test_the_team_of_the_clicks_is_the_bots() -> None:
    async with LocalSlack() as slack:
        client = web_client(slack.bot_token, slack.api_url)
        assert await check_bot_token(client) == slack.team_id
        assert await check_bot_token(client, slack.team_id) == slack.team_id
        with pytest.raises(SlackError, match=f"TOTHER, but the app is installed in {slack.team_id}"):
            await check_bot_token(client, "TOTHER")


async def test_a_persons_token_is_no_bots(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LocalSlack() as slack:
        slack._web_api.bot_token = "xoxp-ana"
        answer = slack._web_api._handlers["auth.test"]
        without = {name: value for name, value in answer({}).items() if name != "bot_id"}
        monkeypatch.setitem(slack._web_api._handlers, "auth.test", lambda args: without)
        with pytest.raises(SlackError, match="holds a person's token"):
            await check_bot_token(web_client("xoxp-ana", slack.api_url))


@pytest.mark.parametrize("case", ["unreachable", "bot token", "approver"])
async def test_the_program_ends_with_one_sentence(tmp_path: Path, case: str) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        environment = {
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "SLACK_GATE_HOME": str(tmp_path / "home"),
            "SLACK_GATE_SOCKET": str(tmp_path / "run" / "gate.sock"),
            "SLACK_API_URL": f"http://127.0.0.1:{free_port()}/api/" if case == "unreachable" else slack.api_url,
            "SLACK_BOT_TOKEN": "xoxb-secret-value" if case == "bot token" else slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_GATE_APPROVERS": "U0NOBODY" if case == "approver" else "U0ANA",
        }
        program = await asyncio.create_subprocess_exec(
            *(Path(sys.executable).parent / "slack-gate", "serve"),
            env=environment,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30):
            out, err = await program.communicate()
        said = err.decode()
        assert program.returncode == 69, said
        assert out == b""
        assert said.startswith("slack-gate: ")
        assert "Traceback" not in said
        assert len(said.strip().splitlines()) == 1
        assert "secret-value" not in said
        wanted = {"unreachable": "cannot be reached", "bot token": "invalid_auth", "approver": "U0NOBODY"}
        assert wanted[case] in said


async def test_no_proxy_stands_before_the_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        await card.wait_for_update(lambda m: not m.buttons)


async def test_a_proxy_is_kept_for_slack_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert web_client("xoxb-x", "https://slack.com/api/").proxy == "http://proxy.example:3128"


# A link that breaks


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PING_S", 0.2)
    monkeypatch.setattr(link, "STUCK_S", 1.0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", ["dropped", "half-open", "refreshed"])
async def test_a_broken_link_comes_back_and_clicks_work_again(tmp_path: Path, how: str) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        [before] = h.slack.links
        if how == "dropped":
            h.slack.drop_links()
        elif how == "half-open":
            h.slack.silence()
        else:
            await h.slack.disconnect("refresh_requested")
        await h.slack.workspace.wait_for(
            lambda: True if h.slack.links and before not in h.slack.links else None, 15, lambda: "no new link"
        )
        click = await h.ana.click(card, "Approve")
        assert click.acknowledged
        assert (await h.ended(hook)).decision == "allow"


@pytest.mark.usefixtures("quick")
async def test_an_address_that_is_used_up_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        good = h.slack._web_api._open_connection
        with monkeypatch.context() as patch:
            dead = f"ws://127.0.0.1:{h.slack.port}/link/?ticket=used"
            patch.setattr(h.slack._web_api, "_open_connection", lambda: dead)
            opened = len(h.slack.calls("apps.connections.open"))
            h.slack.drop_links()
            async with asyncio.timeout(10):
                while len(h.slack.calls("apps.connections.open")) == opened:  # noqa: ASYNC110 - nothing tells
                    await asyncio.sleep(0.02)
        assert h.slack._web_api._open_connection == good
        await h.slack.wait_for_link(timeout=15)
        assert (await h.ana.click(card, "Approve")).acknowledged
        assert (await h.ended(hook)).decision == "allow"


@pytest.mark.usefixtures("quick")
async def test_a_link_that_is_always_sent_away_does_not_flood_slack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PACE_S", 0.5)
    async with house(tmp_path) as h:
        monkeypatch.setattr(socket_mode, "MOST_LINKS", 0)
        start = time.monotonic()
        await h.slack.disconnect("too_many_websockets")
        async with asyncio.timeout(10):
            while len(h.slack.calls("apps.connections.open")) < link.ADDRESSES + 4:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        assert time.monotonic() - start >= 2 * 0.5


async def test_people_are_looked_up_again_after_a_minute() -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        now = 0.0
        people = People(web_client(slack.bot_token, slack.api_url), lambda: now)
        await people.check("U0ANA")
        ana.user.deleted = True
        assert await people.inactive("U0ANA") is None
        now = FRESH_S
        assert await people.inactive("U0ANA") == "U0ANA is deactivated"
        assert await people.inactive("U0NOBODY") == "U0NOBODY is not known to Slack"
        slack.fail_next("users.info", http_status=500)
        assert await people.inactive("U0ANA") is None
        slack.fail_next("users.info", reset_before=True, times=9)
        assert await people.inactive("U0ANA") is None


def test_silence_is_counted_from_the_last_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(link.time, "time", lambda: now)

    class Client:
        last_ping_pong_time: float | None = None

    one = Link.__new__(Link)
    one._heard_at = 990.0
    one._handler = type("Handler", (), {"client": Client()})()
    assert one.silent_s() == 10
    Client.last_ping_pong_time = 999.0
    assert one.silent_s() == 1
    Client.last_ping_pong_time = None  # the SDK forgets it when it reconnects
    now = 1001.0
    assert one.down() is None
    now = 1024.0
    assert one.down() == "the link to Slack has been silent for 25 s"
