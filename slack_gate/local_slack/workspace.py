"""The state of the one workspace: its people, their DMs with the app and every version of every message, the Home tabs
that the app drew, open modals."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from slack_gate.local_slack.blocks import Blocks, completed
from slack_gate.local_slack.visible import Version

Found = TypeVar("Found")


@dataclass
class User:
    """A member of the workspace, or of another one when `team_id` differs."""

    id: str
    name: str
    team_id: str
    deleted: bool = False
    is_bot: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False

    @property
    def channel(self) -> str:
        """The DM between this user and the app."""
        return f"D{self.id[1:]}"


@dataclass(frozen=True)
class SharedFile:
    """A file in a message; a text is drawn as a snippet."""

    id: str
    name: str
    title: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(eq=False)
class Message:
    """One message in a DM; `text`, `blocks` and the rest show its newest version."""

    workspace: Workspace = field(repr=False)
    channel: str
    ts: str
    versions: list[Version]
    only_for: str | None = None
    """The user who alone sees it (ephemeral), else None."""
    thread_ts: str | None = None
    metadata: dict[str, Any] | None = None
    deleted: bool = False
    author: str | None = None
    """The user who wrote it, None for the app."""
    reactions: dict[str, list[str]] = field(default_factory=dict)
    """Who reacted, by the emoji's name."""
    files: list[SharedFile] = field(default_factory=list)

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    @property
    def text(self) -> str:
        return self.latest.text

    @property
    def blocks(self) -> Blocks:
        return self.latest.blocks

    @property
    def buttons(self) -> list[str]:
        return self.latest.buttons

    @property
    def options(self) -> list[str]:
        return self.latest.options

    def has_button(self, label: str) -> bool:
        return self.latest.has_button(label)

    def plain(self) -> str:
        return self.latest.plain()

    async def wait_for_update(self, matches: Callable[[Version], bool], timeout: float = 10) -> Version:
        """The newest version, once it matches.

        Raises:
            TimeoutError: it did not within `timeout` seconds.
        """
        return await self.workspace.wait_for(
            lambda: self.latest if matches(self.latest) else None,
            timeout,
            lambda: f"message {self.ts} never matched; it says: {self.plain()!r}",
        )


@dataclass(eq=False)
class Modal:
    """A modal on a user's screen."""

    id: str
    user: str
    view: dict[str, Any]
    hash: str
    closed: bool = False
    errors: dict[str, str] = field(default_factory=dict)
    """Sentences the app put below inputs, by block id."""

    @property
    def title(self) -> str:
        return str(self.view["title"]["text"])

    @property
    def blocks(self) -> Blocks:
        blocks: Blocks = self.view["blocks"]
        return blocks

    @property
    def labels(self) -> list[str]:
        """Labels of the inputs."""
        return [block["label"]["text"] for block in self.blocks if block["type"] == "input"]

    def plain(self) -> str:
        return Version("", self.blocks).plain()


@dataclass(eq=False)
class Home:
    """What the app drew on one user's Home tab."""

    id: str
    user: str
    view: dict[str, Any]
    hash: str

    @property
    def latest(self) -> Version:
        return Version("", self.view["blocks"])

    @property
    def blocks(self) -> Blocks:
        return self.latest.blocks

    @property
    def buttons(self) -> list[str]:
        return self.latest.buttons

    def plain(self) -> str:
        return self.latest.plain()


class Workspace:
    """What the server remembers. Every change wakes those who wait for one."""

    def __init__(self, app_name: str) -> None:
        self.team_id = "T" + secrets.token_hex(4).upper()
        self.app_id = "A" + secrets.token_hex(4).upper()
        self.bot_id = "B" + secrets.token_hex(4).upper()
        self.domain = "local"
        self.bot = User("U" + secrets.token_hex(4).upper(), app_name, self.team_id, is_bot=True)
        self.users: dict[str, User] = {}
        self.messages: list[Message] = []
        self.modals: list[Modal] = []
        self.homes: dict[str, Home] = {}
        self.drawn_homes: deque[Home] = deque(maxlen=200)
        """Every version of every Home tab, the newest last: a screen may be behind."""
        self.echo: Callable[..., None] = lambda message, *, changed: None
        """Told of the app's own messages and of each change to one."""
        self._last_ts = 0
        self.change = asyncio.Event()
        """Set by the next change, and then replaced by a fresh one."""

    def changed(self) -> None:
        self.change.set()
        self.change = asyncio.Event()

    async def wait_for(self, find: Callable[[], Found | None], timeout: float, missing: Callable[[], str]) -> Found:
        """What `find` returns as soon as it is not None; looked for again after every change.

        Raises:
            TimeoutError: nothing within `timeout` seconds; the sentence is `missing()`.
        """
        try:
            async with asyncio.timeout(timeout):
                while (found := find()) is None:
                    await self.change.wait()
                return found
        except TimeoutError:
            raise TimeoutError(f"after {timeout:g} s: {missing()}") from None

    def add_user(self, user: User) -> None:
        self.users[user.id] = user
        self.changed()

    def user_in(self, channel: str) -> User | None:
        return next((user for user in self.users.values() if user.channel == channel), None)

    def new_ts(self) -> str:
        """A message's name: seconds with six digits, never the same twice."""
        self._last_ts = max(self._last_ts + 1, time.time_ns() // 1000)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def post(self, channel: str, text: str, blocks: Blocks, *, quiet: bool = False, **more: Any) -> Message:
        """A new message; a `quiet` one is not echoed."""
        message = Message(self, channel, self.new_ts(), [Version(text, completed(blocks))], **more)
        self.messages.append(message)
        self.changed()
        if not quiet:
            self.echo(message, changed=False)
        return message

    def find(self, channel: str, ts: str) -> Message | None:
        return next((m for m in self.messages if m.channel == channel and m.ts == ts and not m.deleted), None)

    def update(self, message: Message, text: str, blocks: Blocks) -> None:
        message.versions.append(Version(text, completed(blocks)))
        self.changed()
        self.echo(message, changed=True)

    def delete(self, message: Message) -> None:
        message.deleted = True
        self.changed()

    def seen_by(self, user: User) -> list[Message]:
        """The user's DM from the oldest message to the newest, ephemeral ones included."""
        shown = (message for message in self.messages if message.channel == user.channel and not message.deleted)
        return [message for message in shown if message.only_for in (None, user.id)]

    def open_modal(self, user: str, view: dict[str, Any]) -> Modal:
        modal = Modal("V" + secrets.token_hex(5).upper(), user, _shown(view), secrets.token_hex(6))
        self.modals.append(modal)
        self.changed()
        return modal

    def update_modal(self, modal: Modal, view: dict[str, Any]) -> None:
        modal.view, modal.hash, modal.errors = _shown(view), secrets.token_hex(6), {}
        self.changed()

    def close_modal(self, modal: Modal) -> None:
        modal.closed = True
        self.modals.remove(modal)
        self.changed()

    def publish_home(self, user: str, view: dict[str, Any]) -> Home:
        """Draws the user's Home tab; its id stays the same."""
        old = self.homes.get(user)
        name = old.id if old else "V" + secrets.token_hex(5).upper()
        home = self.homes[user] = Home(name, user, _shown(view), secrets.token_hex(6))
        self.drawn_homes.append(home)
        self.changed()
        return home

    def react(self, message: Message, user: str, name: str, *, added: bool) -> bool:
        """Whether that changed anything."""
        people = message.reactions.get(name, [])
        if (user in people) == added:
            return False
        message.reactions[name] = [*people, user] if added else [one for one in people if one != user]
        if not message.reactions[name]:
            del message.reactions[name]
        self.changed()
        return True

    def modals_of(self, user: str) -> list[Modal]:
        """The user's stack of modals, the one on top last."""
        return [modal for modal in self.modals if modal.user == user]


def _shown(view: dict[str, Any]) -> dict[str, Any]:
    return {**view, "blocks": completed(view["blocks"])}
