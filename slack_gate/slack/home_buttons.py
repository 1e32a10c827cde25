"""The buttons of the Home tab: requests are decided there, rules revoked, denials taken back, asking paused.

An old button decides nothing and says so.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp

from slack_gate.core.cord import Hand, Pull
from slack_gate.core.outcome import sentence
from slack_gate.core.ports import Verdict
from slack_gate.core.request import BY_SLACK, ON_HOME, Choice, Decision
from slack_gate.errors import GateError
from slack_gate.slack.app import Decider
from slack_gate.slack.blocks import plain, section
from slack_gate.slack.cards import revision_in
from slack_gate.slack.commands import SeenEvents
from slack_gate.slack.contact import Body, Contact, team_of
from slack_gate.slack.faults import FAILED
from slack_gate.slack.home import LIFT, OPEN, PAUSE, PREFIX, RESUME, REVOKE
from slack_gate.slack.home_tab import HomeTab

log = structlog.get_logger()


class HomeButtons:
    """Each press is answered by `tab` as it stands then, and in a dialog where nothing was changed."""

    def __init__(self, contact: Contact, gate: Decider, tab: HomeTab) -> None:
        self._contact = contact
        self._controls = contact.controls
        self._gate = gate
        self._tab = tab
        self._seen = SeenEvents()  # presses, of which Slack may bring one twice

    def listen(self, app: AsyncApp) -> None:
        """Before any listener that takes every action."""
        for choice in (Choice.APPROVE, Choice.DENY, Choice.ALWAYS):
            app.action(PREFIX + choice.value)(self._chosen)
        app.action(REVOKE)(self._revoked)
        app.action(LIFT)(self._lifted)
        app.action(PAUSE)(self._pulled)
        app.action(RESUME)(self._pulled)
        app.action(OPEN)(_only_acknowledged)
        app.action(re.compile(rf"^{re.escape(PREFIX)}"))(self._unknown)

    async def _chosen(self, ack: AsyncAck, body: Body) -> None:
        user = body["user"]["id"]
        try:
            click = await self._gate.decide(self._decision(body))
            told = "" if click.verdict is Verdict.DECIDED else sentence(click)
        except GateError as error:
            log.error("a click could not be recorded", error=str(error))
            told = f"Nothing was approved: {error}"
        self._answer(body, user, told)
        await ack()

    def _decision(self, body: Body) -> Decision:
        """The digest counts only on the tab that was drawn for this person; no request has an empty one."""
        action = body["actions"][0]
        own = self._is_own(body)
        value = str(action.get("value") or "")
        request, digest = [*value.split(" "), "", ""][:2]
        user = body["user"]
        return Decision(
            request=request,
            digest=digest if own else "",
            choice=Choice(str(action["action_id"]).removeprefix(PREFIX)),
            by=BY_SLACK,
            user=user["id"],
            name=self._contact.people.name(user["id"]),
            team=team_of(body),
            message=str((body.get("view") or {}).get("id", "")),
            surface=ON_HOME,
            revision=revision_in(value),
        )

    def _is_own(self, body: Body) -> bool:
        container, view, user = body.get("container") or {}, body.get("view") or {}, body["user"]["id"]
        home = container.get("type") == "view" and view.get("type") == "home"
        same = bool(view.get("id")) and container.get("view_id", view.get("id")) == view.get("id")
        return home and same and view.get("private_metadata") == user and self._tab.shows(user, view["id"])

    async def _revoked(self, ack: AsyncAck, body: Body) -> None:
        rule = str(body["actions"][0].get("value") or "")
        await self._done(ack, body, lambda hand, team: self._controls.revoke(rule, hand, team))

    async def _lifted(self, ack: AsyncAck, body: Body) -> None:
        denied = str(body["actions"][0].get("value") or "")
        await self._done(ack, body, lambda hand, team: self._controls.lift(denied, hand, team))

    async def _pulled(self, ack: AsyncAck, body: Body) -> None:
        pull = Pull(str(body["actions"][0]["action_id"]).removeprefix(PREFIX))
        await self._done(ack, body, lambda hand, team: self._pull(pull, hand, team))

    async def _pull(self, pull: Pull, hand: Hand, team: str) -> str:
        told = await self._controls.pull(pull, hand, team)
        return "" if self._controls.approves(hand.user, team) else told  # the tab shows how it stands

    async def _done(self, ack: AsyncAck, body: Body, act: Callable[[Hand, str], Awaitable[str]]) -> None:
        user, press = body["user"]["id"], str(body.get("trigger_id", ""))
        if not self._seen.new(press):
            told = ""  # done before: what came after it stands
        elif not self._is_own(body):
            told = "This is not your Home tab as it was drawn. Nothing was changed; open it again."
        else:
            try:
                told = await act(self._contact.hand(user, press), team_of(body))
            except GateError as error:
                told = f"Nothing was changed: {error}"
        self._answer(body, user, told)
        await ack()

    async def _unknown(self, ack: AsyncAck, body: Body) -> None:
        self._answer(body, body["user"]["id"], "This button is not known here any more. Nothing was changed.")
        await ack()

    def _answer(self, body: Body, user: str, told: str) -> None:
        """The tab as it stands now, and a dialog that says why nothing changed."""
        if self._controls.approves(user, team_of(body)):
            self._tab.redraw(user, force=bool(told))
        if told:
            self._contact.later(self._tell(body, user, told))

    async def _tell(self, body: Body, user: str, told: str) -> None:
        view = {"type": "modal", "title": plain("slack-gate"), "close": plain("Close"), "blocks": [section(told)]}
        try:
            await self._contact.client.views_open(trigger_id=str(body.get("trigger_id", "")), view=view)
        except FAILED as error:
            log.warning("an answer to a click came as a note on the Home tab", error=repr(error))
            if self._controls.approves(user, team_of(body)):
                self._tab.note(user, told)


async def _only_acknowledged(ack: AsyncAck) -> None:
    """A button that is a link tells of the click too."""
    await ack()
