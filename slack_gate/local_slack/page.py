"""The page: shows one person's DM with the app, its threads and the Home tab, and lets its visitor do what that person
can do there.

It has no login. Whoever holds `key` acts as anyone, so the key stands in the address that only a person is shown, and
every request needs it; requests that other sites could start are refused by their Host and Origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import WSMsgType, web

from slack_gate.local_slack.events import Events
from slack_gate.local_slack.home import HomeTabs
from slack_gate.local_slack.interactions import Interactions
from slack_gate.local_slack.refusal import Refused
from slack_gate.local_slack.response_url import json_object
from slack_gate.local_slack.slash import SlashCommands
from slack_gate.local_slack.workspace import Home, Message, Modal, User, Workspace

STATIC = Path(__file__).parent / "static"
Found = TypeVar("Found")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def own_host(request: web.Request) -> bool:
    """Whether the address asked for is this server's own loopback one, not a name that leads here."""
    return request.host.rpartition(":")[0] in ("127.0.0.1", "localhost")


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    if not own_host(request):
        raise web.HTTPForbidden(text="This server answers to 127.0.0.1 only.")
    return await handler(request)


class Page:
    """Routes of the page; state goes out over a WebSocket, presses come in as `POST /page/act`."""

    def __init__(
        self,
        workspace: Workspace,
        interactions: Interactions,
        homes: HomeTabs,
        commands: SlashCommands,
        events: Events,
        tabs: dict[str, bool],
    ) -> None:
        self.key = secrets.token_urlsafe(18)
        self.workspace = workspace
        self.interactions = interactions
        self.homes = homes
        self.commands = commands
        self.events = events
        self.tabs = tabs

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/", self._shell)
        router.add_get("/page/live", self._live)
        router.add_post("/page/act", self._act)
        router.add_static("/page/static/", STATIC)

    def _check(self, request: web.Request, *, own_origin: bool) -> None:
        if not secrets.compare_digest(request.query.get("key", "").encode(), self.key.encode()):
            raise web.HTTPForbidden(text="Open the page by the whole address that the server printed at its start.")
        if own_origin and request.headers.get("Origin") != f"http://{request.host}":
            raise web.HTTPForbidden(text="Only this server's own page may do that.")

    async def _shell(self, request: web.Request) -> web.Response:
        self._check(request, own_origin=False)
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; "
            f"connect-src 'self' ws://{request.host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        headers = {
            "Content-Security-Policy": policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        shell = (STATIC / "page.html").read_text(encoding="utf-8")
        return web.Response(text=shell, content_type="text/html", headers=headers)

    async def _live(self, request: web.Request) -> web.WebSocketResponse:
        self._check(request, own_origin=True)
        socket = web.WebSocketResponse(heartbeat=20)
        await socket.prepare(request)
        sender = asyncio.create_task(self._push(socket, request.query.get("user", "")))
        try:
            async for message in socket:
                if message.type is WSMsgType.ERROR:
                    break
        finally:
            sender.cancel()
        return socket

    async def _push(self, socket: web.WebSocketResponse, user: str) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                change = self.workspace.change
                await socket.send_json(self.state(user))
                await change.wait()

    def state(self, user_id: str) -> dict[str, Any]:
        """All that one screen shows; without a known user only the people to choose from."""
        members = (each for each in self.workspace.users.values() if each.team_id == self.workspace.team_id)
        people = [each for each in members if not each.deleted]
        user = next((each for each in people if each.id == user_id or len(people) == 1), None)
        modals = self.workspace.modals_of(user.id) if user else []
        return {
            "app": self.workspace.bot.name,
            "bot": self.workspace.bot.id,
            "people": [{"id": each.id, "name": each.name} for each in people],
            "user": user and user.id,
            "messages": [shown_message(message) for message in self.workspace.seen_by(user)] if user else [],
            "modal": shown_modal(modals[-1]) if modals else None,
            "home": shown_home(self.workspace.homes.get(user.id)) if user else None,
            "commands": [
                {"command": name, "hint": known.get("usage_hint", ""), "description": known.get("description", "")}
                for name, known in self.commands.known.items()
            ],
            **self.tabs,
        }

    async def _act(self, request: web.Request) -> web.Response:
        self._check(request, own_origin=True)
        try:
            body = await json_object(request)
            user = self.workspace.users[body["user"]]
            done = await self._perform(user, body)
        except (LookupError, TypeError, Refused):
            raise web.HTTPBadRequest(text="That is no longer on the screen.") from None
        return web.json_response(done if isinstance(done, dict) else {"acknowledged": done})

    async def _perform(self, user: User, body: dict[str, Any]) -> bool | dict[str, Any]:
        """Does what was pressed or typed; False when the app did not acknowledge it."""
        match body["do"]:
            case "press":
                message = self._message(user, body["ts"])
                shown = message.versions[body["version"]]
                names = (body["block_id"], body["action_id"], body.get("option"))
                control = the(control for control in shown.controls if control.names == names)
                return (await self.interactions.click(user, message, shown, control)).acknowledged
            case "dismiss":
                message = self._message(user, body["ts"])
                if message.only_for == user.id:
                    self.workspace.delete(message)
                return True
            case "open":
                opened = await self.homes.open(user, str(body["tab"]))
                return opened is None or opened.acknowledged
            case "press-home":
                home = the(home for home in self.workspace.drawn_homes if home.hash == body["hash"])
                names = (body["block_id"], body["action_id"], body.get("option"))
                control = the(control for control in home.latest.controls if control.names == names)
                if home.user != user.id:
                    raise LookupError
                return (await self.homes.click(user, home, control)).acknowledged
            case "type":
                return await self._typed(user, str(body["text"]).strip(), body.get("thread"))
            case "react":
                message = self._message(user, body["ts"])
                name = str(body["name"])
                on = user.id not in message.reactions.get(name, [])
                told = await self.events.react(user, message, name, added=on)
                return told is None or told.acknowledged
            case "submit":
                result = await self.interactions.submit(user, self._modal(user, body["modal"]), body["values"])
                return result.delivery is None or result.acknowledged
            case "close":
                told = await self.interactions.close(user, self._modal(user, body["modal"]))
                return told is None or told.acknowledged
        raise KeyError(body["do"])

    async def _typed(self, user: User, text: str, thread: str | None) -> dict[str, Any]:
        """A slash command or a message; `error` is what Slack itself says to it."""
        if text.startswith("/"):
            typed = await self.commands.type(user, text, in_thread=thread is not None)
            return {"acknowledged": typed.error is None, "error": typed.error}
        if self.tabs["readOnly"]:
            return {"acknowledged": False, "error": "Sending messages to this app has been turned off."}
        if text:
            await self.events.say(user, text, self._message(user, thread) if thread else None)
        return {"acknowledged": True, "error": None}

    def _message(self, user: User, ts: str) -> Message:
        return the(message for message in self.workspace.seen_by(user) if message.ts == ts)

    def _modal(self, user: User, modal_id: str) -> Modal:
        return the(modal for modal in self.workspace.modals_of(user.id) if modal.id == modal_id)


def the(found: Iterator[Found]) -> Found:
    """The first one; LookupError when there is none."""
    for each in found:
        return each
    raise LookupError


def shown_message(message: Message) -> dict[str, Any]:
    return {
        "ts": message.ts,
        "version": len(message.versions) - 1,
        "text": message.text,
        "blocks": message.blocks,
        "ephemeral": message.only_for is not None,
        "thread": message.thread_ts,
        "author": message.author,
        "reactions": message.reactions,
        "files": [{"name": file.name, "title": file.title, "text": file.text} for file in message.files],
    }


def shown_home(home: Home | None) -> dict[str, Any] | None:
    return None if home is None else {"hash": home.hash, "blocks": home.blocks}


def shown_modal(modal: Modal) -> dict[str, Any]:
    return {"id": modal.id, "hash": modal.hash, "errors": modal.errors, **modal.view}
