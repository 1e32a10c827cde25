"""A person at a screen: reads the DM and the Home tab, presses buttons, fills modals, writes and reacts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slack_gate.local_slack.events import Events
from slack_gate.local_slack.home import HomeTabs
from slack_gate.local_slack.interactions import Click, Interactions, Submission
from slack_gate.local_slack.slash import SlashCommands, Typed
from slack_gate.local_slack.socket_mode import Delivery
from slack_gate.local_slack.visible import Control
from slack_gate.local_slack.workspace import Home, Message, Modal, User, Workspace


def anything(message: Message) -> bool:
    return True


class Person:
    """One user of the workspace, as a test or the page drives them."""

    def __init__(
        self,
        user: User,
        workspace: Workspace,
        interactions: Interactions,
        homes: HomeTabs,
        commands: SlashCommands,
        events: Events,
    ) -> None:
        self.user = user
        self.id = user.id
        self.name = user.name
        self.channel = user.channel
        self._workspace = workspace
        self._interactions = interactions
        self._homes = homes
        self._commands = commands
        self._events = events

    @property
    def messages(self) -> list[Message]:
        """The DM, oldest first, without ephemeral messages."""
        return [message for message in self._workspace.seen_by(self.user) if message.only_for is None]

    @property
    def ephemerals(self) -> list[Message]:
        return [message for message in self._workspace.seen_by(self.user) if message.only_for is not None]

    @property
    def modal(self) -> Modal | None:
        """The modal on top, if any is open."""
        return next(iter(reversed(self._workspace.modals_of(self.id))), None)

    async def wait_for_message(self, matches: Callable[[Message], bool] = anything, timeout: float = 10) -> Message:
        """The newest message of the DM that matches, waiting for one if need be.

        Raises:
            TimeoutError: none within `timeout` seconds.
        """
        return await self._newest(lambda: self.messages, matches, timeout, "message")

    async def wait_for_ephemeral(self, matches: Callable[[Message], bool] = anything, timeout: float = 10) -> Message:
        """The newest message only this person sees that matches, waiting for one if need be.

        Raises:
            TimeoutError: none within `timeout` seconds.
        """
        return await self._newest(lambda: self.ephemerals, matches, timeout, "ephemeral message")

    async def _newest(
        self, shown: Callable[[], list[Message]], matches: Callable[[Message], bool], timeout: float, what: str
    ) -> Message:
        return await self._workspace.wait_for(
            lambda: next((message for message in reversed(shown()) if matches(message)), None),
            timeout,
            lambda: f"no {what} for {self.name} matched; there are {[message.plain() for message in shown()]}",
        )

    async def wait_for_modal(self, matches: Callable[[Modal], bool] | None = None, timeout: float = 5) -> Modal:
        """The modal on top, once there is one (that matches).

        Raises:
            TimeoutError: none within `timeout` seconds.
        """

        def find() -> Modal | None:
            modal = self.modal
            return modal if modal and (matches is None or matches(modal)) else None

        return await self._workspace.wait_for(find, timeout, lambda: f"no such modal opened for {self.name}")

    async def click(
        self, message: Message, label: str, *, confirm: bool = True, version: int = -1, number: int = 0
    ) -> Click:
        """Presses the button and waits for the acknowledgement (3 s at most).

        `confirm` answers the confirm dialog, where there is one. `version` picks an earlier state of the message, as
        a screen that is behind still shows it; `number` the one after so many of that label.

        Raises:
            LookupError: that version shows no such button.
        """
        return await self._press(message, label, confirm, version, number, option=False)

    async def choose(self, message: Message, label: str, *, confirm: bool = True, version: int = -1) -> Click:
        """Picks an option of an overflow menu; else like `click`."""
        return await self._press(message, label, confirm, version, 0, option=True)

    async def _press(
        self, message: Message, label: str, confirm: bool, version: int, number: int, *, option: bool
    ) -> Click:
        shown = message.versions[version]
        control = find_control(shown.controls, label, number, option=option)
        return await self._interactions.click(self.user, message, shown, control, confirm=confirm)

    @property
    def home(self) -> Home | None:
        """What the app drew on this person's Home tab, None before it did."""
        return self._workspace.homes.get(self.id)

    async def open_home(self) -> Delivery | None:
        """Looks at the Home tab; None when the app is not told."""
        return await self._homes.open(self.user)

    async def wait_for_home(self, matches: Callable[[Home], bool] = lambda home: True, timeout: float = 10) -> Home:
        """The Home tab, once the app has drawn one that matches.

        Raises:
            TimeoutError: not within `timeout` seconds.
        """

        def find() -> Home | None:
            return self.home if self.home and matches(self.home) else None

        return await self._workspace.wait_for(
            find, timeout, lambda: f"no such Home of {self.name}; it says {self.home and self.home.plain()!r}"
        )

    async def click_home(
        self, home: Home, label: str, *, confirm: bool = True, option: bool = False, number: int = 0
    ) -> Click:
        """Presses the button (or picks the overflow option) on a Home tab, the one after `number` of that label.

        Raises:
            LookupError: it shows no such button.
        """
        pressed = find_control(home.latest.controls, label, number, option=option)
        return await self._homes.click(self.user, home, pressed, confirm=confirm)

    async def command(self, line: str) -> Typed:
        """Types a slash command, such as `/gate status`."""
        return await self._commands.type(self.user, line)

    async def say(self, text: str, thread: Message | None = None) -> Message:
        """Writes in the DM, or in a message's thread."""
        message, _ = await self._events.say(self.user, text, thread)
        return message

    async def react(self, message: Message, name: str) -> Delivery | None:
        """Adds an emoji to a message; None when the app is not told."""
        return await self._events.react(self.user, message, name)

    async def unreact(self, message: Message, name: str) -> Delivery | None:
        """Takes the emoji away again."""
        return await self._events.react(self.user, message, name, added=False)

    async def submit(self, modal: Modal, values: dict[str, Any] | None = None) -> Submission:
        """Fills the inputs (by action id) and presses submit.

        A value is the text, the value of the chosen option, or for checkboxes a list of such.

        Raises:
            LookupError: no input or no option of that name.
        """
        return await self._interactions.submit(self.user, modal, values or {})

    async def close(self, modal: Modal) -> Delivery | None:
        """Closes the modal without submitting; the delivery of `view_closed` where the app asked for it."""
        return await self._interactions.close(self.user, modal)


def find_control(shown: list[Control], label: str, number: int = 0, *, option: bool) -> Control:
    """The button or option of that label after `number` others of it. Raises LookupError."""
    candidates = [control for control in shown if (control.option is not None) == option]
    same = [control for control in candidates if control.label == label]
    if len(same) <= number:
        raise LookupError(f"nothing labelled {label!r} to press; there is {[control.label for control in candidates]}")
    return same[number]
