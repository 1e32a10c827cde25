"""A person at a screen: reads the DM, presses buttons, fills modals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slack_gate.local_slack.interactions import Click, Interactions, Submission
from slack_gate.local_slack.socket_mode import Delivery
from slack_gate.local_slack.visible import Control
from slack_gate.local_slack.workspace import Message, Modal, User, Workspace


def anything(message: Message) -> bool:
    return True


class Person:
    """One user of the workspace, as a test or the page drives them."""

    def __init__(self, user: User, workspace: Workspace, interactions: Interactions) -> None:
        self.user = user
        self.id = user.id
        self.name = user.name
        self.channel = user.channel
        self._workspace = workspace
        self._interactions = interactions

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

    async def click(self, message: Message, label: str, *, confirm: bool = True, version: int = -1) -> Click:
        """Presses the button and waits for the acknowledgement (3 s at most).

        `confirm` answers the confirm dialog, where there is one. `version` picks an earlier state of the message, as
        a screen that is behind still shows it.

        Raises:
            LookupError: that version shows no such button.
        """
        return await self._press(message, label, confirm, version, option=False)

    async def choose(self, message: Message, label: str, *, confirm: bool = True, version: int = -1) -> Click:
        """Picks an option of an overflow menu; else like `click`."""
        return await self._press(message, label, confirm, version, option=True)

    async def _press(self, message: Message, label: str, confirm: bool, version: int, *, option: bool) -> Click:
        shown = message.versions[version]
        control = find_control(shown.controls, label, option=option)
        return await self._interactions.click(self.user, message, shown, control, confirm=confirm)

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


def find_control(shown: list[Control], label: str, *, option: bool) -> Control:
    candidates = [control for control in shown if (control.option is not None) == option]
    for control in candidates:
        if control.label == label:
            return control
    raise LookupError(f"nothing labelled {label!r} to press; there is {[control.label for control in candidates]}")
