"""The listeners of a card. Each is one transaction and returns; Bolt acknowledges the click after that.

A click carries only ids; what it decides is on file. Every click gets a visible answer: the card redrawn, or a sentence
to the person who clicked.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

import structlog
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.core.offers import Offers, uneditable, unreadable
from slack_gate.core.outcome import sentence
from slack_gate.core.ports import Click, LookBack, Verdict
from slack_gate.core.request import BY_SLACK, Choice, Decision, Request, Scope
from slack_gate.core.wording import remembered
from slack_gate.errors import GateError
from slack_gate.slack import modals
from slack_gate.slack.cards import CAGED, EDITED, MENU, MORE, SCOPED, notice, revision_in
from slack_gate.slack.contact import Body, Later, respond, team_of, whisper
from slack_gate.slack.faults import FAILED, fault_of
from slack_gate.slack.home import PREFIX
from slack_gate.slack.lists import APPROVE_ALL, pairs
from slack_gate.slack.people import People

log = structlog.get_logger()

_DECIDING = {CAGED: Choice.CAGED, MORE: Choice.MORE}  # options of the menu that need no dialog


class Decider(Protocol):
    """The gate, as the buttons need it."""

    async def decide(self, decision: Decision) -> Click: ...

    async def asked(self, decision: Decision) -> Click: ...

    async def preview(self, request: Request, scope: Scope) -> LookBack: ...

    def offers(self, request: Request) -> Offers: ...


class Buttons:
    """`later` runs a coroutine after the acknowledgement; it must survive the listener."""

    def __init__(self, client: AsyncWebClient, gate: Decider, people: People, later: Later) -> None:
        self._client = client
        self._gate = gate
        self._people = people
        self._later = later
        self.app = AsyncApp(client=client, process_before_response=True)
        for choice in Choice:
            self.app.action(choice.value)(self._choice)
        self.app.action(MENU)(self._menu)
        self.app.action(APPROVE_ALL)(self._approve_all)
        self.app.view(modals.REASON_MODAL)(self._reason_given)
        self.app.view(modals.EDIT_MODAL)(self._text_given)
        self.app.view(modals.SCOPE_MODAL)(self._scope_given)
        self.app.action(re.compile(rf"^(?!{re.escape(PREFIX)})"))(self._unknown)

    async def _choice(self, ack: AsyncAck, body: Body) -> None:
        choice = Choice(body["actions"][0]["action_id"])
        sentence = await self._sentence_of(self._gate.decide, self._decision(body, choice))
        if sentence:
            self._later(self._tell(body, sentence))
        await ack()

    async def _menu(self, ack: AsyncAck, body: Body) -> None:
        """An option decides, or opens its dialog at once: the trigger of that lives three seconds."""
        way = _value_of(body).rpartition(" ")[2]
        if (choice := _DECIDING.get(way)) is not None:
            if said := await self._sentence_of(self._gate.decide, self._decision(body, choice)):
                self._later(self._tell(body, said))
        else:
            opens = {EDITED: self._open_edit, SCOPED: self._open_scope}.get(way, self._open_reason)
            self._later(self._opened(body, opens))
        await ack()

    async def _approve_all(self, ack: AsyncAck, body: Body) -> None:
        """Each as with a button of its own; what was not decided is told in one sentence."""
        clicked, told = self._decision(body, Choice.APPROVE), []
        for request, digest in pairs(_value_of(body)):
            decision = replace(clicked, request=request, digest=digest)
            if said := await self._sentence_of(self._gate.decide, decision):
                told.append(f"{request}: {said}")
        if told:
            self._later(self._tell(body, "\n".join(told)[:2900]))
        await ack()

    async def _opened(self, body: Body, opens: Callable[[Body, Request, str], Awaitable[str]]) -> None:
        """The dialog, or a sentence why there is none."""
        decision = self._decision(body, Choice.DENY)
        try:
            click = await self._gate.asked(decision)
            if click.verdict is not Verdict.OPEN or click.request is None:
                said = sentence(click)
            else:
                carried = f"{decision.request} {decision.digest} {decision.channel} {decision.message}"
                carried += "" if decision.revision is None else f" r{decision.revision}"
                said = await opens(body, click.request, carried)
        except GateError as error:
            said = str(error)
        except FAILED as error:
            log.warning("a dialog could not be opened", error=repr(error))
            said = f"The dialog could not be opened ({fault_of(error).words}). Press again, or Deny."
        if said:
            await self._tell(body, said)

    async def _open_reason(self, body: Body, request: Request, carried: str) -> str:
        await self._client.views_open(trigger_id=body["trigger_id"], view=modals.reason_modal(request, carried))
        return ""

    async def _open_edit(self, body: Body, request: Request, carried: str) -> str:
        if (why := uneditable(request)) is not None:
            return f"Nothing was decided. {why} Approve or deny it as it is."
        await self._client.views_open(trigger_id=body["trigger_id"], view=modals.edit_modal(request, carried))
        return ""

    async def _open_scope(self, body: Body, request: Request, carried: str) -> str:
        offers = self._gate.offers(request)
        if not offers.keys:
            return sentence(Click(Verdict.UNREMEMBERABLE, request))
        rule = f"{remembered(offers.keys)}{', in the cage' if offers.caged else ''}"
        view = modals.scope_modal(request, carried, rule, ())
        opened = await self._client.views_open(trigger_id=body["trigger_id"], view=view)
        reaches = {
            modals.SESSION: Scope(session=True),
            modals.DIRECTORY: Scope(directory=True),
            modals.EVERYWHERE: Scope(),
        }
        found = []
        for reach, scope in reaches.items():
            past = await self._gate.preview(request, scope)
            denied = ", ".join(
                f"{one.id} was denied by {one.decided_name or one.decided_by}" for one in past.denied[:3]
            )
            found.append((reach, past.matched, denied))
        view = modals.scope_modal(request, carried, rule, found)
        await self._client.views_update(view_id=opened["view"]["id"], view=view)
        return ""

    async def _reason_given(self, ack: AsyncAck, body: Body) -> None:
        reason = modals.reason_in(body["view"]["state"]["values"])
        if not reason:
            await ack(response_action="errors", errors={modals.FREE: "Choose a reason or write one."})
            return
        await self._given(ack, body, self._submitted(body, Choice.DENY, reason=reason), modals.FREE)

    async def _text_given(self, ack: AsyncAck, body: Body) -> None:
        text = modals.text_in(body["view"]["state"]["values"])
        if (why := unreadable(text)) is not None:
            await ack(response_action="errors", errors={modals.TEXT: why})
            return
        await self._given(ack, body, self._submitted(body, Choice.APPROVE, edited=text), modals.TEXT)

    async def _scope_given(self, ack: AsyncAck, body: Body) -> None:
        scope = modals.scope_in(body["view"]["state"]["values"])
        await self._given(ack, body, self._submitted(body, Choice.ALWAYS, scope=scope), modals.REACH)

    async def _given(self, ack: AsyncAck, body: Body, decision: Decision, field: str) -> None:
        """A dialog's answer: it closes when that decided, else says below `field` why not."""
        try:
            click = await self._gate.decide(decision)
            said = sentence(click)
            closes = click.verdict in (Verdict.DECIDED, Verdict.COUNTED)
        except GateError as error:
            log.error("a click could not be recorded", error=str(error))
            said, closes = f"Nothing was approved: {error}", False
        if not closes:
            await ack(response_action="errors", errors={field: said})
            return
        if said:
            self._later(self._tell({"user": body["user"], "channel": {"id": decision.channel}}, said))
        await ack()

    async def _unknown(self, ack: AsyncAck, body: Body) -> None:
        self._later(self._tell(body, "This button belongs to no request of this slack-gate. Nothing was decided."))
        await ack()

    async def _sentence_of(self, act: Callable[[Decision], Awaitable[Click]], decision: Decision) -> str:
        """What the person who clicked must be told, empty when the redrawn card says it."""
        try:
            return sentence(await act(decision))
        except GateError as error:
            log.error("a click could not be recorded", error=str(error))
            return f"Nothing was approved: {error}"

    def _decision(self, body: Body, choice: Choice) -> Decision:
        """A click on a message."""
        container = body.get("container") or {}
        value = _value_of(body)
        request, digest, *more = [*value.split(" "), ""]
        where = {"channel": container.get("channel_id", ""), "message": container.get("message_ts", "")}
        until = next((int(word) for word in more if word.isdecimal()), None)
        decision = Decision(
            request, digest, choice, BY_SLACK, "", "", **where, revision=revision_in(value), until=until
        )
        return self._by(body, decision)

    def _submitted(self, body: Body, choice: Choice, **answer: Any) -> Decision:
        """A dialog's submission: it carries the ids, the channel and the message of the card it belongs to."""
        carried = body["view"]["private_metadata"]
        request, digest, channel, message = [*carried.split(" "), "", "", "", ""][:4]
        where: dict[str, Any] = {"channel": channel, "message": message, "revision": revision_in(carried)}
        return self._by(body, Decision(request, digest, choice, BY_SLACK, "", "", **where, **answer))

    def _by(self, body: Body, decision: Decision) -> Decision:
        user = body["user"]
        return replace(decision, user=user["id"], name=self._people.name(user["id"]), team=team_of(body))

    async def _tell(self, body: Body, sentence: str) -> None:
        """A message only the person who clicked can see."""
        if url := body.get("response_url"):
            await respond(url, sentence, notice(sentence))
        elif channel := (body.get("channel") or {}).get("id"):
            await whisper(self._client, channel, body["user"]["id"], sentence, notice(sentence))


def _value_of(body: Body) -> str:
    """What the pressed button, or the chosen option, carries."""
    action = (body.get("actions") or [{}])[0]
    return str(action.get("value") or (action.get("selected_option") or {}).get("value") or "")
