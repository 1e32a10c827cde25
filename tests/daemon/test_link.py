"""A start that cannot work says why in one sentence; a link that breaks comes back."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from slack_bolt.async_app import AsyncApp

from slack_gate.config import Settings
from slack_gate.daemon import outbox
from slack_gate.daemon.serve import running
from slack_gate.errors import SlackError
from slack_gate.local_slack.faults import cut
from slack_gate.local_slack.server import LocalSlack
from slack_gate.slack import line, link, people
from slack_gate.slack.link import Link, check_bot_token, web_client
from slack_gate.slack.people import FRESH_S, People
from tests.daemon.house import House, house, settings_for
from tests.local_slack.apps import app_of, card, client_of, connected
from tests.ports import free_port


async def started(settings: Settings) -> str:
    """The sentence a start ends with."""
    with pytest.raises(SlackError) as caught:
        async with asyncio.timeout(100), running(settings):
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
        ("users.info", {"error": "account_inactive"}, "look up the approver U0ANA (account_inactive)"),
        ("users.info", {"reset_before": True, "times": 9}, "cannot be reached"),
    ],
)
async def test_slack_in_trouble_at_the_start(tmp_path: Path, method: str, trouble: dict[str, Any], said: str) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        slack.fail_next(method, **trouble)
        assert said in await started(settings_for(slack, tmp_path))


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open", "users.info"])
async def test_a_start_that_slack_has_wait_waits(tmp_path: Path, method: str) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        slack.fail_next(method, http_status=429, retry_after=1, times=2)
        async with running(settings_for(slack, tmp_path)):
            assert len(slack.calls(method)) > 2


async def test_a_start_that_would_have_to_wait_too_long_blames_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "CONNECT_S", 4.0)
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        slack.fail_next("apps.connections.open", http_status=429, retry_after=60)
        with pytest.raises(SlackError, match="SLACK_APP_TOKEN: ratelimited") as caught:
            async with running(settings_for(slack, tmp_path)):
                pass
    assert caught.value.next_step == "That need not be the token's fault: start again in a minute."


async def test_a_link_that_never_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(link, "CONNECT_S", 4.0)
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        monkeypatch.setattr(slack._web_api, "_open_connection", lambda: f"ws://127.0.0.1:{slack.port}/nowhere")
        assert "did not accept a Socket Mode connection" in await started(settings_for(slack, tmp_path))
    gc.collect()
    assert not [one for one in recwarn if "never awaited" in str(one.message)]


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
            "SLACK_GATE_AGENT_PORT": "0",
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
        async with asyncio.timeout(100):
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
    monkeypatch.setattr(line, "PING_S", 0.2)
    monkeypatch.setattr(line, "SILENT_S", 3.0)
    monkeypatch.setattr(line, "DRAIN_S", 1.0)
    monkeypatch.setattr(link, "DOWN_S", 6.0)
    monkeypatch.setattr(link, "SENT_AWAY_S", 1.0)
    monkeypatch.setattr(outbox, "WATCH_S", 0.1)


@asynccontextmanager
async def linked(slack: LocalSlack, app: AsyncApp | None = None) -> AsyncIterator[Link]:
    """A link of its own, both lines open."""
    one = Link(app or app_of(slack), slack.app_token)
    async with one.opened():
        await slack.wait_for_link(2)
        await until(lambda: one.lines == 2)
        yield one


async def until(done: Callable[[], object], timeout: float = 100) -> None:
    """Returns once `done()` is true: what nobody tells of is looked at."""
    async with asyncio.timeout(timeout):
        while not done():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


BREAKS = {
    "reset": "links drop",
    "half-open": "links silence",
    "refresh": "links away refresh_requested",
    "warning": "links away warning",
    "too many": "links away too_many_websockets",
    "unheard of": "links away tired",
}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("how", BREAKS)
async def test_a_broken_link_comes_back_and_clicks_work_again(tmp_path: Path, how: str) -> None:
    async with house(tmp_path) as h:
        await h.slack.wait_for_link(2)
        hook, card = await h.asked("git push origin main")
        before = h.slack.links
        await h.slack.cause(BREAKS[how])
        await h.slack.workspace.wait_for(
            lambda: True if len({*h.slack.links} - {*before}) == 2 else None, 15, lambda: "no two new lines"
        )
        if how == "warning":  # Slack has not closed them, and they are given up
            await h.slack.workspace.wait_for(
                lambda: None if {*h.slack.links} & {*before} else True, 15, lambda: "still on the old lines"
            )
        click = await h.ana.click(card, "Approve")
        assert click.acknowledged
        assert (await h.ended(hook)).decision == "allow"


@pytest.mark.parametrize("how", ["links drop 1", "links away refresh_requested 1", "links away link_disabled 1"])
async def test_one_line_that_ends_loses_no_click(how: str) -> None:
    async with LocalSlack(seed=5) as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        app = app_of(slack)
        heard: list[str] = []

        @app.action("approve")
        async def approve(ack: Any, body: dict[str, Any]) -> None:
            heard.append(body["trigger_id"])
            await ack()

        async with linked(slack, app):
            await client_of(slack).chat_postMessage(channel="U0ANA", text="x", blocks=card())
            shown = await ana.wait_for_message()
            await slack.cause(how)
            await slack.workspace.wait_for(lambda: len(slack.links) == 1 or None, 5, lambda: "nothing ended")
            for _ in range(6):
                assert (await ana.click(shown, "Approve")).acknowledged
            assert len(heard) == 6


async def test_a_click_on_a_line_that_slack_is_about_to_close_is_acknowledged() -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        app = app_of(slack)
        asked, decided = asyncio.Event(), asyncio.Event()

        @app.action("approve")
        async def approve(ack: Any) -> None:
            asked.set()
            await decided.wait()
            await ack()

        async with linked(slack, app):
            await client_of(slack).chat_postMessage(channel="U0ANA", text="x", blocks=card())
            pressed = asyncio.create_task(ana.click(await ana.wait_for_message(), "Approve"))
            await asked.wait()
            await slack.disconnect("warning")
            decided.set()
            assert (await pressed).acknowledged


@pytest.mark.usefixtures("quick")
async def test_an_acknowledgement_goes_by_the_other_line_when_its_own_is_cut() -> None:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        app = app_of(slack)
        asked, decided = asyncio.Event(), asyncio.Event()

        @app.action("approve")
        async def approve(ack: Any) -> None:
            asked.set()
            await decided.wait()
            await ack()

        async with linked(slack, app) as one:
            slack._links._choose = Chosen(slack.links[0])  # type: ignore[assignment]
            await client_of(slack).chat_postMessage(channel="U0ANA", text="x", blocks=card())
            pressed = asyncio.create_task(ana.click(await ana.wait_for_message(), "Approve"))
            await asked.wait()
            cut(slack.links[0].transport)
            await until(lambda: one.lines == 1)
            decided.set()
            assert (await pressed).acknowledged


class Chosen:
    """Routes by hand."""

    def __init__(self, link: Any) -> None:
        self.link = link

    def choice(self, links: list[Any]) -> Any:
        return self.link if self.link in links else links[0]


@pytest.mark.usefixtures("quick")
async def test_a_line_that_hears_nothing_is_replaced_although_it_can_be_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "DOWN_S", 60.0)
    async with LocalSlack(ping_seconds=0.1) as slack, linked(slack) as one:
        before = slack.links
        slack.silence(1)
        await until(lambda: len({*slack.links} - {*before}) == 1)
        assert one.down() is None and one.silent_s() < 3  # the other line was heard all the while


@pytest.mark.usefixtures("quick")
async def test_time_that_a_dead_line_was_waited_for_does_not_count_as_staying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence, and then connections that are ended at once: it is down when nothing has stayed since the silence."""
    monkeypatch.setattr(line, "SILENT_S", 6.0)
    monkeypatch.setattr(link, "BRIEF_S", 5.0)  # also on a slow machine
    monkeypatch.setattr(link, "DOWN_S", 600.0)
    async with LocalSlack(ping_seconds=0.1) as slack, linked(slack) as one:
        slack.refuse_links("fatal_error")
        slack.silence()
        await until(lambda: one.ends["nothing came in"] == 2 and one.ends["disconnect"] > link.LINES, 60)
        monkeypatch.setattr(link, "DOWN_S", 6.0)  # so long they heard nothing before they were given up
        assert "no connection to Slack has stayed" in str(one.down())


@pytest.mark.parametrize("reason", ["too_many_websockets", "link_disabled", "refresh_requested"])
async def test_lines_always_sent_away_do_not_flood_slack(reason: str) -> None:
    async with LocalSlack() as slack, linked(slack) as one:
        slack.refuse_links(reason)
        opened = len(slack.calls("apps.connections.open"))
        await slack.disconnect(reason)
        await until(lambda: one.lines == 0)
        await asyncio.sleep(3)
        assert len(slack.calls("apps.connections.open")) - opened <= 8  # two lines, each after 0.5, 1, 2 s at most


async def test_a_connection_refused_for_ever_is_asked_for_slowly() -> None:
    async with LocalSlack() as slack, linked(slack) as one:
        opened = len(slack.calls("apps.connections.open"))
        slack.revoke_tokens("token_revoked")
        await until(lambda: one.lines == 0)
        await asyncio.sleep(3)
        assert len(slack.calls("apps.connections.open")) - opened <= 4


def test_the_pause_grows_to_a_bound_and_is_never_the_same() -> None:
    pauses = [link._pause("unreachable", failures) for failures in range(1, 40)]
    assert all(pause <= link.MOST_PAUSE_S for pause in pauses)
    assert pauses[0] <= link.FIRST_PAUSE_S and min(pauses[10:]) >= link.MOST_PAUSE_S / 2
    assert len(set(pauses)) == len(pauses)
    assert link._pause("invalid_auth", 1) >= link.SENT_AWAY_S / 2
    assert link.DOWN_S + outbox.WATCH_S + line.PING_S <= 25.5


async def test_slacks_retry_after_is_waited_for() -> None:
    async with LocalSlack() as slack, linked(slack):
        slack.fail_next("apps.connections.open", http_status=429, retry_after=2, times=2)
        start = time.monotonic()
        slack.drop_links()
        await slack.workspace.wait_for(lambda: True if not slack.links else None, 5, lambda: "still open")
        await slack.wait_for_link(2)
        assert time.monotonic() - start >= 2


FATAL = [
    ("token revoked invalid_auth app", "invalid_auth", "Install the app again"),
    ("token revoked account_inactive", "account_inactive", "Install the app again"),
    ("token revoked token_revoked", "token_revoked", "Install the app again"),
    ("links refuse link_disabled", "link_disabled", "Turn on Socket Mode"),
]


@pytest.mark.parametrize(("words", "code", "fix"), FATAL)
async def test_what_slack_will_not_take_back_ends_waiting_requests_at_once(
    tmp_path: Path, words: str, code: str, fix: str
) -> None:
    async with house(tmp_path) as h:
        await h.slack.wait_for_link(2)
        hook, _card = await h.asked("git push origin main")
        await h.slack.cause(words)
        await h.slack.cause("links away link_disabled" if "link_disabled" in words else "links drop")
        reason = (await h.ended(hook)).reason
        assert "silent" not in reason  # not after the 20 s of silence
        assert code in reason and "This is not a refusal" in reason
        status = await health_of(h)
        assert status["healthy"] is False and code in status["fault"] and fix in status["fault"]
        assert code in (await h.bash("git push origin next")).reason


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("words", "code", "fix"), FATAL)
async def test_the_daemon_recovers_when_slack_does(tmp_path: Path, words: str, code: str, fix: str) -> None:
    async with house(tmp_path) as h:
        await h.slack.wait_for_link(2)
        await h.slack.cause(words)
        await h.slack.cause("links away link_disabled" if "link_disabled" in words else "links drop")
        while code not in str((await health_of(h))["fault"]):
            assert (await h.bash("git push origin early")).decision == "deny"
        assert code in (await h.bash("git push origin main")).reason
        h.slack.mend()
        await h.slack.wait_for_link(2)
        async with asyncio.timeout(100):
            # a line counts once it has stayed; what the last card met is told until the next one
            while (why := (await health_of(h))["fault"]) and "last card" not in why:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        hook, card = await h.asked("git push origin next")
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        status = await health_of(h)
        assert (status["healthy"], status["fault"], status["lines"], status["notes"]) == (True, None, 2, [])


@pytest.mark.usefixtures("quick")
async def test_too_many_connections_leave_one_line_and_a_note(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.slack.wait_for_link(2)
        h.slack.refuse_links("too_many_websockets")
        await h.slack.disconnect("too_many_websockets", 1)
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        status = await health_of(h)
        assert status["healthy"] is True and status["lines"] == 1
        assert "too_many_websockets" in status["notes"][0] and "ten connections" in status["notes"][0]


async def health_of(h: House) -> dict[str, Any]:
    """What `slack-gate status --json` prints."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from slack_gate.cli import main; main()", "status", "--json"),
        env={**os.environ, "SLACK_GATE_SOCKET": str(h.settings.socket_path), "SLACK_GATE_HOME": str(h.settings.home)},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(100):
        out, _ = await program.communicate()
    found: dict[str, Any] = json.loads(out)
    assert (program.returncode == 0) is found["healthy"]
    return found


async def test_a_refused_post_is_in_the_status_with_its_fix_until_one_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "FRESH_S", 0.0)
    async with house(tmp_path) as h:
        for words, code, fix in (
            ("token revoked account_inactive bot", "account_inactive", "Install the app again"),
            ("scope missing chat:write", "missing_scope (needed: chat:write)", "manifests/slack-app.yaml"),
            ("messages off", "messages_tab_disabled", "Messages Tab"),
            ("chat.postMessage error cannot_dm_bot", "cannot_dm_bot", "A bot cannot approve"),
            ("chat.postMessage error restricted_action", "restricted_action", "admin"),
            ("user gone U0ANA", "approver_inactive (U0ANA is deactivated)", "SLACK_GATE_APPROVERS"),
        ):
            await h.slack.cause(words)
            assert code in (await h.bash("git push origin main")).reason
            status = await health_of(h)
            assert status["healthy"] is False and code in status["fault"] and fix in status["fault"], words
            h.slack.mend()
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"
        assert (await health_of(h))["healthy"] is True


async def test_another_program_on_the_same_token_is_counted(tmp_path: Path) -> None:
    async with house(tmp_path) as h, connected(h.slack, app_of(h.slack)):
        await h.slack.wait_for_link(3)
        h.slack.drop_links(1)
        await h.slack.wait_for_link(3)
        h.slack.drop_links()
        await h.slack.wait_for_link(3)
        assert (await health_of(h))["otherConnections"] in (0, 1)


@pytest.mark.parametrize("frame", ["", "[", "[]", "null", '{"type": 5}', '{"type": "disconnect"}', "x" * 70_000])
async def test_odd_frames_do_no_harm(frame: str) -> None:
    async with LocalSlack() as slack, linked(slack) as one:
        for each in slack.links:
            await each.socket.send_str(frame)
        await until(lambda: one.lines == 2)
        await slack.wait_for_link(2)


@pytest.mark.parametrize("greeting", ["disconnect", "nonsense"])
async def test_a_line_that_is_not_greeted_is_not_used(greeting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with LocalSlack() as slack, linked(slack) as one:
        monkeypatch.setattr(
            slack._links, "_hello", lambda: {"type": greeting, "reason": "too_many_websockets", "num_connections": 1}
        )
        slack.drop_links()
        wanted = "too_many_websockets" if greeting == "disconnect" else "did not say hello"
        await until(lambda: any(wanted in note for note in one.notes()))
        assert one.lines == 0


async def test_nothing_stays_open_after_the_end() -> None:
    async with LocalSlack() as slack:
        async with linked(slack):
            pass
        await slack.workspace.wait_for(lambda: True if not slack.links else None, 5, lambda: "still open")
        assert not [task for task in asyncio.all_tasks() if "_keep" in repr(task) or "_live" in repr(task)]


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
        slack.fail_next("users.info", http_status=200)  # a page instead of an answer
        assert await people.inactive("U0ANA") is None
        slack.fail_next("users.info", reset_before=True, times=9)
        assert await people.inactive("U0ANA") is None


def test_silence_is_counted_from_the_last_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(link.time, "monotonic", lambda: now)
    one = Link(AsyncApp(client=web_client("xoxb-x", "http://127.0.0.1:1/api/")), "xapp-x", lambda: 5000.0 + now)
    now = 1010.0
    assert one.silent_s() == 10
    one._heard()
    for _ in range(int(link.DOWN_S) - 1):
        now += 1
        assert one.down() is None
    assert one.silent_s() == link.DOWN_S - 1
    now += 1
    assert one.down() == "the link to Slack has been silent for 20 s"


def test_a_process_that_was_stopped_has_time_to_open_its_lines_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(link.time, "monotonic", lambda: now)
    one = Link(AsyncApp(client=web_client("xoxb-x", "http://127.0.0.1:1/api/")), "xapp-x", lambda: now)
    now += 300
    assert one.down() is None
    for _ in range(int(link.DOWN_S)):
        now += 1
        down = one.down()
    assert "silent" in str(down)
