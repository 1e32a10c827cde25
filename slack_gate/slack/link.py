"""The connection to Slack: tokens checked before anything starts, and the link that brings the clicks.

The link has two lines (WebSockets), so that no click is lost with one of them. Slack's SDK keeps a line by opening the
next one whatever ended the last, without back-off and without telling why; here that is seen, named and slowed down.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import structlog
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from slack_gate.errors import SlackError
from slack_gate.slack.faults import AWAY, FAILED, UNREACHABLE, fault_of
from slack_gate.slack.line import Ended, Line, SentAway
from slack_gate.slack.remedies import remedy

LINES = 2
CONNECT_S = 30.0  # for the first line at the start
OPEN_S = 10.0  # for one line to open
CALL_S = 10  # seconds for one call of the Web API
DOWN_S = 20.0  # no inbound traffic, or no line that stays, for so long: clicks do not arrive
LOOK_S = 1.0  # between looks at the clock: of a longer time, the rest was not lived through
BRIEF_S = 1.0  # a line that Slack ends sooner brought nothing
STEADY_S = 60.0  # a line that held so long may be opened again at once
FIRST_PAUSE_S = 0.5  # before a line is opened again; doubled each time, up to
MOST_PAUSE_S = 20.0
SENT_AWAY_S = 30.0  # before a line is opened again that Slack does not want
# Slack will not change its mind about these by itself: nobody waits for the silence to grow.
FINAL = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "missing_scope",
        "forbidden_team",
        "team_access_not_granted",
        "link_disabled",
    }
)

_OF_THE_TOKEN = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"})

BOT_TOKEN = "OAuth & Permissions, Bot User OAuth Token, xoxb-…"  # noqa: S105 - where it is found, not what it is
APP_TOKEN = "Basic Information, App-Level Tokens, xapp-…"  # noqa: S105

log = structlog.get_logger()


def web_client(token: str, base_url: str) -> AsyncWebClient:
    """Retries are the outbox's: the SDK's own retry after a reset would post a card twice."""
    if urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1"):
        # The SDK and Bolt read these in many places and know no NO_PROXY: a proxy would be asked for our own loopback.
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
            os.environ.pop(name, None)
    return AsyncWebClient(token=token, base_url=base_url, retry_handlers=[], timeout=CALL_S)


async def check_bot_token(client: AsyncWebClient, team: str = "") -> str:
    """The bot's team, which clicks must come from. Raises SlackError with Slack's reason, or if it is not `team`."""
    name = "SLACK_BOT_TOKEN"
    if (client.token or "").startswith("xapp-"):
        raise _mistaken(name, "an app-level token (xapp-…)", BOT_TOKEN)
    found = await answered(client, client.auth_test, lambda code: _refused(name, code, BOT_TOKEN))
    if not found.get("bot_id"):
        raise _mistaken(name, "a person's token", BOT_TOKEN)
    own = str(found["team_id"])
    if team and team != own and not found.get("is_enterprise_install"):
        raise SlackError(
            f"SLACK_GATE_TEAM is {team}, but the app is installed in {own}, so no click could count.",
            f"Unset SLACK_GATE_TEAM or set it to {own}.",
        )
    return team or own


async def check_app_token(client: AsyncWebClient, app_token: str) -> None:
    """Raises SlackError; the SDK itself would try a wrong token for ever."""
    name = "SLACK_APP_TOKEN"
    if app_token.startswith("xox"):
        raise _mistaken(name, "a bot's or person's token (xox…)", APP_TOKEN)
    call = partial(client.apps_connections_open, app_token=app_token)
    await answered(client, call, lambda code: _refused(name, code, APP_TOKEN))


async def answered(
    client: AsyncWebClient,
    call: Callable[[], Awaitable[AsyncSlackResponse]],
    refused: Callable[[str], SlackError],
) -> AsyncSlackResponse:
    """What Slack says before the start. Raises `refused(code)`, or SlackError where it cannot be reached.

    A start after many others is asked to wait, and waits: that is no fault of a token.
    """
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            return await call()
        except AWAY as error:
            raise _unreachable(client, str(error) or type(error).__name__) from error
        except FAILED as error:
            fault = fault_of(error)
            if fault.code == UNREACHABLE:
                raise _unreachable(client, fault.words) from error
            if not fault.wait or time.monotonic() + fault.wait > until:
                raise refused(fault.code) from error
            log.warning("Slack wants the start to wait", seconds=fault.wait)
            await asyncio.sleep(fault.wait)


def _mistaken(name: str, what: str, where: str) -> SlackError:
    return SlackError(f"{name} holds {what}.", f"It must hold the one from the app's page: {where}")


def _refused(name: str, code: str, where: str) -> SlackError:
    said = f"Slack refused {name}: {code}."
    if code in _OF_THE_TOKEN:
        return SlackError(said, f"Copy it again from the app's page: {where}")
    return SlackError(said, remedy(code) or "That need not be the token's fault: start again in a minute.")


def _unreachable(client: AsyncWebClient, why: str) -> SlackError:
    return SlackError(f"Slack at {client.base_url} cannot be reached: {why}.", "Check the network and SLACK_API_URL.")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a line is not open: Slack's code (or our word for it), and in words."""

    code: str
    words: str


class Link:
    """Open inside `opened`. `clock` counts seconds and the machine's sleep."""

    def __init__(self, app: AsyncApp, app_token: str, clock: Callable[[], float] = time.time) -> None:
        self._app = app
        self._app_token = app_token
        self._clock = clock
        self._lines: set[Line] = set()
        self._troubles: dict[int, Trouble] = {}
        self._heard_at = clock()
        self._awake = _Awake()
        self._heard_awake = self._awake()  # after sleep or a stop, there is time to open the lines again
        self._stayed_until = time.monotonic()  # when a line that had stayed was last heard, while none stays now
        self._brief = 0  # lines that ended soon after they had opened, since the last one that stayed
        self._first = asyncio.Event()
        self.ends: Counter[str] = Counter()  # how often lines ended or did not open, by Slack's code or our word
        self.others = 0  # connections of this app that are not ours, as Slack counted when the newest line opened

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Raises SlackError when no line opens in time."""
        keepers = [asyncio.create_task(self._keep(number)) for number in range(1, LINES + 1)]
        keepers.append(asyncio.create_task(self._awake.run()))
        try:
            await self._wait_for_first()
            yield
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            await asyncio.gather(*(line.close() for line in list(self._lines)))

    async def _wait_for_first(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._first.wait()
        except TimeoutError as error:
            trouble = self._trouble()
            raise SlackError(
                f"Slack did not accept a Socket Mode connection in {CONNECT_S:.0f} s"
                f"{f' ({trouble.words})' if trouble else ''}.",
                (remedy(trouble.code) if trouble else "") or "Check the network.",
            ) from error

    # Keeping a line

    async def _keep(self, number: int) -> None:
        """Opens the line again whenever it ends or is about to; the old one is read until Slack has closed it."""
        failures = 0
        while True:
            opened_at = time.monotonic()
            try:
                line = await self._open(number)
            except _NotOpened as failed:
                trouble, least = Trouble(failed.code, str(failed)), failed.retry_after
            else:
                opened_at = time.monotonic()
                why = await line.ending()
                if time.monotonic() - opened_at > BRIEF_S:
                    self._stayed_until, self._brief = max(self._stayed_until, line.heard_at), 0
                else:
                    self._brief += 1
                trouble, least = Trouble(why.value, f"Slack ended it: {why.value}" if why.by_slack else why.value), 0.0
            failures = 1 if time.monotonic() - opened_at > STEADY_S else failures + 1
            self.ends[trouble.code] += 1
            pause = max(_pause(trouble.code, failures), least)
            self._report(number, trouble, pause)
            await asyncio.sleep(pause)

    async def _open(self, number: int) -> Line:
        """Raises _NotOpened."""
        try:
            async with asyncio.timeout(OPEN_S):
                reply = await self._app.client.apps_connections_open(app_token=self._app_token)
                line = Line(self._app, self._heard, self._send_elsewhere)
                hello = await line.open(str(reply["url"]))
        except SlackApiError as error:
            fault = fault_of(error)
            words = fault.words if fault.code == UNREACHABLE else f"Slack refused a connection: {fault.words}"
            raise _NotOpened(fault.code, words, fault.wait) from error
        except SentAway as sent:
            raise _NotOpened(sent.why.value, f"Slack sent the connection away: {sent.why.value}") from sent
        except FAILED as error:
            raise _NotOpened(UNREACHABLE, str(error) or f"no answer ({type(error).__name__})") from error
        self._lines.add(line)
        line.closed.add_done_callback(lambda _: self._lines.discard(line))
        ended = self._troubles.pop(number, None)
        log.info("a line to Slack is open", line=number, after=ended.words if ended else None)
        self._count(hello)
        self._first.set()
        return line

    def _count(self, connections: int) -> None:
        """Slack gives each click to one connection of the app, also to one that is not ours."""
        others = max(connections - len(self._lines), 0)
        if others > self.others:
            log.warning("other connections of this app may be given clicks meant for this daemon", others=others)
        self.others = others

    def _report(self, number: int, trouble: Trouble, pause: float) -> None:
        known = self._troubles.get(number)
        self._troubles[number] = trouble
        if known is not None and known.code == trouble.code:
            return
        if trouble.code in (Ended.WARNING.value, Ended.REFRESH.value):  # every few hours
            log.info("Slack wants a line opened anew", line=number, why=trouble.code)
            return
        fix = remedy(trouble.code)
        log.warning(
            "a line to Slack is not open",
            line=number,
            error=trouble.code,
            why=trouble.words,
            again_in=round(pause, 1),
            **({"fix": fix} if fix else {}),
        )

    async def _send_elsewhere(self, text: str) -> None:
        """An acknowledgement whose own line has gone meanwhile."""
        for line in list(self._lines):
            if line.usable and await line.send(text):
                return

    def _heard(self) -> None:
        self._heard_at, self._heard_awake = self._clock(), self._awake()

    # How it is

    @property
    def lines(self) -> int:
        """Lines that clicks can come in by."""
        return sum(line.usable for line in self._lines)

    def silent_s(self) -> float:
        """Seconds since anything came in; a quiet link answers pings, so this stays small while it lives."""
        return max(self._clock() - self._heard_at, 0.0)

    def down(self) -> str | None:
        """Why clicks would not arrive now, None while the link lives or is only just being opened again."""
        now = time.monotonic()
        trouble = self._trouble()
        why = f" ({trouble.words})" if trouble else ""
        if self.lines == 0 and trouble is not None and trouble.code in FINAL:
            return f"the link to Slack is down: {trouble.words}"
        if (silent := self._awake() - self._heard_awake) >= DOWN_S:
            return f"the link to Slack has been silent for {silent:.0f} s{why}"
        stays = any(line.usable and now - line.opened_at > BRIEF_S for line in self._lines)
        if self._brief > LINES and not stays and now - self._stayed_until >= DOWN_S:
            return f"no connection to Slack has stayed for {now - self._stayed_until:.0f} s{why}"
        return None

    def notes(self) -> list[str]:
        """What is wrong with the link, with the fix, although it works or may work again by itself."""
        troubles = {trouble.code: trouble for trouble in self._troubles.values()}
        return [f"{trouble.words}. {remedy(trouble.code)}".rstrip(". ") for trouble in troubles.values()]

    def fix(self) -> str:
        trouble = self._trouble()
        return remedy(trouble.code) if trouble else ""

    def _trouble(self) -> Trouble | None:
        """The one that a person must mend, else the newest."""
        troubles = list(self._troubles.values())
        return next((each for each in troubles if each.code in FINAL), troubles[-1] if troubles else None)


class _Awake:
    """Seconds in which this process could have heard something: not while the machine slept, nor while the process was
    stopped, as in a paused container."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._passed = 0.0

    def __call__(self) -> float:
        now = time.monotonic()
        self._passed += min(now - self._at, 2 * LOOK_S)
        self._at = now
        return self._passed

    async def run(self) -> None:
        """Looks often enough, until cancelled."""
        while True:
            self()
            await asyncio.sleep(LOOK_S)


class _NotOpened(Exception):
    def __init__(self, code: str, words: str, retry_after: float = 0.0) -> None:
        super().__init__(words)
        self.code = code
        self.retry_after = retry_after


def _pause(code: str, failures: int) -> float:
    """Seconds; never the same twice, so that many daemons do not come back at once."""
    if code in FINAL or code == Ended.TOO_MANY.value:
        longest = SENT_AWAY_S
    else:
        longest = min(FIRST_PAUSE_S * 2.0 ** min(failures - 1, 20), MOST_PAUSE_S)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads, hides nothing
