"""The server: puts the workspace, the Web API, Socket Mode and the page on one loopback port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from aiohttp import web

from slack_gate.local_slack.events import Events
from slack_gate.local_slack.faults import Fault, Faults
from slack_gate.local_slack.files import Files
from slack_gate.local_slack.grants import Clock, Grants
from slack_gate.local_slack.home import HomeTabs
from slack_gate.local_slack.interactions import Click, Interactions
from slack_gate.local_slack.limits import BURST, Limit, TierLimits
from slack_gate.local_slack.methods import Methods
from slack_gate.local_slack.page import Page, guard
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.response_url import ResponseUrls
from slack_gate.local_slack.slash import SlashCommands
from slack_gate.local_slack.socket_mode import Delivery, Link, Links
from slack_gate.local_slack.trouble import Act, trouble
from slack_gate.local_slack.visible import Version
from slack_gate.local_slack.web_api import Call, WebApi
from slack_gate.local_slack.workspace import Message, User, Workspace

HOST = "127.0.0.1"
LARGEST_BODY = 4 * 1024 * 1024  # bytes; a modal over its own limit must get far enough to be told so


def own_manifest() -> dict[str, Any]:
    """The manifest of slack-gate: beside the package in a wheel, under `manifests/` in the repository."""
    here = Path(__file__).parent
    packaged = here / "slack-app.yaml"
    path = packaged if packaged.exists() else here.parents[1] / "manifests" / "slack-app.yaml"
    manifest: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return manifest


class LocalSlack:
    """A workspace with one app installed, on `http://127.0.0.1:port` while the context is open.

    `port` 0 takes a free one; `manifest` is the app's (default: slack-gate's own); `posting_limit` is messages a second
    a channel takes (None: no limit); `tiers` holds the limits of the other methods, so many times as fast as Slack's
    (None: no limit); `ping_seconds` is the time between pings on each link; `redeliveries` how often a click that is
    not acknowledged is sent again; `seed` makes the choice of links repeatable; `clock` counts seconds for everything
    that expires.
    """

    def __init__(
        self,
        port: int = 0,
        manifest: dict[str, Any] | None = None,
        posting_limit: float | None = None,
        *,
        tiers: float | None = None,
        ping_seconds: float = 5.0,
        redeliveries: int = 0,
        seed: int | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.port = port
        manifest = own_manifest() if manifest is None else manifest
        settings = manifest.get("settings", {})
        self.workspace = Workspace(manifest["display_information"]["name"])
        self._faults = Faults()
        self._grants = Grants(clock)
        self._clock = clock
        self._usual = (posting_limit, tiers, redeliveries)
        self._planned: set[asyncio.Task[None]] = set()
        self._links = Links(self.workspace.app_id, ping_seconds, self.workspace.changed, seed, redeliveries)
        interactive = bool(settings.get("interactivity", {}).get("is_enabled"))
        self._interactions = Interactions(self.workspace, self._grants, self._links, interactive)
        self._files = Files(self.workspace, self._faults)
        self._methods = Methods(self.workspace, self._grants, manifest, self._files)
        self._web_api = WebApi(self._methods, self._faults, manifest, self._socket_url)
        self._limit(posting_limit, tiers)
        self._scopes, self._messages_tab = tuple(self._web_api.scopes), self._methods.messages_tab
        scopes = self._web_api.scopes
        self._events = Events(self.workspace, self._links, manifest, scopes)
        self.home_tabs = HomeTabs(self._interactions, self._events)
        self.commands = SlashCommands(self.workspace, self._grants, self._links, self._interactions, manifest, scopes)
        tabs = manifest.get("features", {}).get("app_home", {})
        shown = {"homeTab": self._methods.home_tab, "readOnly": bool(tabs.get("messages_tab_read_only_enabled"))}
        self._page = Page(self.workspace, self._interactions, self.home_tabs, self.commands, self._events, shown)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Opens the port.

        Raises:
            OSError: it is taken.
        """
        app = web.Application(middlewares=[guard], client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/api/{method}", self._web_api.answer)
        app.router.add_get("/link/", self._links.serve)
        response_urls = ResponseUrls(self.workspace, self._grants, self._faults)
        app.router.add_post("/actions/{team}/{secret}", response_urls.answer)
        app.router.add_post("/commands/{team}/{secret}", response_urls.answer)
        app.router.add_post("/upload/v1/{secret}", self._files.receive)
        self._page.add_routes(app.router)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self.port).start()
        self.port = self._runner.addresses[0][1]
        self._interactions.root = self._files.root = self._root

    async def stop(self) -> None:
        """Cuts what is open and frees the port."""
        self._forget_plans()
        self._links.drop()
        await self._events.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # Where things are

    @property
    def _root(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def api_url(self) -> str:
        return f"{self._root}/api/"

    @property
    def page_key(self) -> str:
        """Who holds it may press any button on the page."""
        return self._page.key

    @property
    def page_url(self) -> str:
        """The page with its key: for a person's eyes only, never for the agent's."""
        return f"{self._root}/?key={self.page_key}"

    @property
    def bot_token(self) -> str:
        return self._web_api.bot_token

    @property
    def app_token(self) -> str:
        return self._web_api.app_token

    @property
    def team_id(self) -> str:
        return self.workspace.team_id

    def _socket_url(self) -> str:
        return f"ws://{HOST}:{self.port}/link/?ticket={self._links.ticket()}&app_id={self.workspace.app_id}"

    # People and what they do

    def add_user(self, user_id: str, name: str, team_id: str | None = None, **flags: bool) -> Person:
        """A new user; `flags`: deleted, is_bot, is_restricted, is_ultra_restricted."""
        user = User(user_id, name, team_id or self.team_id, **flags)
        self.workspace.add_user(user)
        return Person(user, self.workspace, self._interactions, self.home_tabs, self.commands, self._events)

    async def send_action(
        self,
        *,
        user: str,
        action_id: str,
        block_id: str = "",
        value: str | None = None,
        channel: str | None = None,
        message_ts: str = "",
        team: str | None = None,
        **payload: Any,
    ) -> Click:
        """Sends a raw button click, as forged, foreign, stale or odd as the arguments make it.

        `user` need not exist; `channel` defaults to that user's DM; `payload` replaces whole top-level fields.
        """
        known = self.workspace.users.get(user)
        who = known or User(user, user, team or self.team_id)
        where = channel or who.channel
        message = self.workspace.find(where, message_ts)
        pressed: dict[str, Any] = {
            "type": "button",
            "action_id": action_id,
            "block_id": block_id,
            "text": {"type": "plain_text", "text": "forged", "emoji": True},
            "action_ts": f"{time.time():.6f}",
        }
        if value is not None:
            pressed["value"] = value
        if team is not None:
            payload.setdefault("team", {"id": team, "domain": "elsewhere"})
        return await self._interactions.send(who, where, message_ts, pressed, message, None, overrides=payload)

    async def redeliver(self, sent: Click | Delivery) -> Delivery:
        """Sends the envelope of a click or an event again, as Slack now and then does."""
        delivery = sent.delivery if isinstance(sent, Click) else sent
        if delivery is None:
            raise ValueError("the click was declined, so nothing was sent")
        return await self._links.send(delivery.envelope)

    async def send_event(self, subscription: str, event: dict[str, Any]) -> Delivery | None:
        """Sends an event of the Events API, as forged or odd as it is; None when the app did not subscribe to it."""
        return await self._events.tell(subscription, event)

    async def wait_for_message_version(
        self, message: Message, matches: Callable[[Version], bool], timeout: float = 10
    ) -> Version:
        """The newest version of the message, once it matches; `TimeoutError` after `timeout` seconds."""
        return await message.wait_for_update(matches, timeout)

    # Links and calls

    @property
    def links(self) -> list[Link]:
        """Open Socket Mode connections."""
        return list(self._links.open)

    async def wait_for_link(self, n: int = 1, timeout: float = 10) -> None:
        """Returns once at least `n` links are open; `TimeoutError` after `timeout` seconds."""
        await self.workspace.wait_for(
            lambda: True if len(self.links) >= n else None,
            timeout,
            lambda: f"{len(self.links)} of {n} links are open",
        )

    def calls(self, method: str) -> list[Call]:
        """The recorded calls of a method, oldest first."""
        return [call for call in self._web_api.calls if call.method == method]

    # Trouble on order

    def fail_next(
        self,
        method: str,
        error: str | None = None,
        *,
        http_status: int | None = None,
        retry_after: float = 1,
        reset_before: bool = False,
        reset_after: bool = False,
        delay: float = 0.0,
        performed: bool = False,
        times: int = 1,
    ) -> None:
        """Makes the next `times` calls of a method fail (or `response_url`); the arguments are those of `Fault`."""
        fault = Fault(error, http_status, retry_after, reset_before, reset_after, delay, performed)
        self._faults.add(method, fault, times)

    def drop_links(self, count: int | None = None) -> None:
        """Resets Socket Mode connections (None: all)."""
        self._links.drop(count)

    def silence(self, count: int | None = None) -> None:
        """Makes open Socket Mode connections (None: all) half-open: they look alive and carry nothing."""
        self._links.silence(count)

    async def disconnect(self, reason: str = "refresh_requested", count: int | None = None) -> None:
        """Sends a disconnect frame on links: warning, refresh_requested, link_disabled or too_many_websockets."""
        await self._links.disconnect(reason, count)

    def refuse_links(self, reason: str | None) -> None:
        """Every new connection is greeted and sent away with this reason, until told None."""
        self._links.refusing = reason

    def lose_acks(self, count: int) -> None:
        """The next acknowledgements do not arrive: the app believes a click handled that Slack sends again."""
        self._links.acks_to_lose += count

    def deliver_twice(self, count: int) -> None:
        """The next clicks come again, marked as retries, although they were acknowledged."""
        self._links.to_repeat += count

    def retry_clicks(self, times: int) -> None:
        """A click that is not acknowledged is sent again so often."""
        self._links.redeliveries = times

    def limit(self, factor: float) -> None:
        """Posts and calls are limited as Slack limits them, `factor` times as fast."""
        self._limit(factor, factor)

    def _limit(self, posts: float | None, tiers: float | None) -> None:
        self._methods.limit = None if posts is None else Limit(posts, BURST, self._clock)
        self._web_api.tiers = None if tiers is None else TierLimits(tiers, self._clock)

    def later(self, seconds: float, act: Callable[[], Awaitable[None] | None]) -> None:
        """Does it after so many seconds, if this is open then."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            if (acting := act()) is not None:
                await acting

        plan = asyncio.get_running_loop().create_task(wait())
        self._planned.add(plan)
        plan.add_done_callback(self._planned.discard)

    def _forget_plans(self) -> None:
        for plan in self._planned - {asyncio.current_task()}:
            plan.cancel()

    def revoke_tokens(self, error: str = "account_inactive", which: str = "both") -> None:
        """Makes the `bot` token, the `app` token or both worthless; without the app's, links are cut as well."""
        for name, token in (("bot", self.bot_token), ("app", self.app_token)):
            if which in (name, "both"):
                self._web_api.revoked[token] = error
        if which != "bot":
            self._links.drop()

    def withdraw_scope(self, scope: str) -> None:
        """The bot's token has this scope no more."""
        self._web_api.scopes = [each for each in self._web_api.scopes if each != scope]

    def deactivate(self, user_id: str) -> None:
        """The account is closed; messages to it are taken and read by nobody."""
        self.workspace.users[user_id].deleted = True
        self.workspace.changed()

    def close_messages_tab(self) -> None:
        """The app may not write direct messages any more."""
        self._methods.messages_tab = False

    def mend(self) -> None:
        """Everything works again, but what was cut or closed stays so until it is opened anew; plans are dropped."""
        self._forget_plans()
        posts, tiers, self._links.redeliveries = self._usual
        self._limit(posts, tiers)
        self._links.to_repeat = 0
        self._faults.clear()
        self._links.refusing = None
        self._links.acks_to_lose = 0
        self._web_api.revoked.clear()
        self._web_api.scopes = list(self._scopes)
        self._methods.messages_tab = self._messages_tab
        for user in self.workspace.users.values():
            user.deleted = False

    async def cause(self, words: str) -> None:
        """Trouble in words, such as `chat.update http 503 x3`; see trouble.py.

        Raises:
            ValueError: no such trouble; the sentence tells which there are.
        """
        if (waiting := self.trouble(words)()) is not None:
            await waiting

    def trouble(self, words: str) -> Act:
        """What `cause` does. Raises ValueError likewise, and then nothing was done."""
        return trouble(self, words)
