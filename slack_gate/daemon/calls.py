"""Calls that come in: answered at once (green, ungated, remembered, refused), or filed as a request that waits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from slack_gate.core.answer import Answer, Ruling, deny
from slack_gate.core.cord import LEFT, NO_PROMPT, NOWHERE, Place, denial
from slack_gate.core.event import APPROVAL, RUNS, NoDecision, ToolEvent
from slack_gate.core.network_git import BY_WRAPPER
from slack_gate.core.ports import Entry
from slack_gate.core.request import Request, State, form_of
from slack_gate.daemon.apart import apart, in_thread
from slack_gate.daemon.ground import Ground
from slack_gate.daemon.house import Caller
from slack_gate.daemon.judge import Allow, Ask, Outcome, Recall, Refuse, Run
from slack_gate.daemon.leads import led_elsewhere
from slack_gate.daemon.memory import remarks
from slack_gate.daemon.planted import planted_words
from slack_gate.errors import RuleGone

REPEAT_S = 30.0  # how long an answered call may be answered again to another client of the same call
MIN_S = 0.5  # a client may say that it cannot wait at all
MARGIN_S = 5.0  # the request ends this long before its client gives up
_BY_MEMORY = frozenset({"remembered", "caged"})  # what would have been asked but for a rule, or for the cage


class Calls(Ground):
    """What no rule and no green lets through becomes a request; the same call again gets the one on file."""

    async def submit(self, event: ToolEvent, caller: Caller) -> Answer | Request:
        """An Answer at once, or the Request to `wait` for; one that the gate runs itself unasked is running already.

        Raises StoreError: then nothing may run.
        """
        while True:
            try:
                return await self._judged(event, caller)
            except RuleGone:  # revoked, over or paused just now
                continue

    async def _judged(self, event: ToolEvent, caller: Caller) -> Answer | Request:
        """As `submit`. Raises RuleGone when a rule was read that did not count any more when it was to be used."""
        found = await apart(lambda: self._judge.look(event), caller.size)
        outcome = await self._recalled(found, caller) if isinstance(found, Recall) else found
        remembered = isinstance(outcome, Allow | Run) and bool(outcome.used)
        if remembered and (cord := await self._store.cord()).paused:
            return await self._refused(event, denial(cord))
        if isinstance(outcome, Allow) and outcome.decision in _BY_MEMORY and (denied := await self._denied(event)):
            return await self._denied_before(event, denied)
        match outcome:
            case Refuse():
                return await self._refused(event, outcome.sentence)
            case Allow():
                entry = self._entry(event, outcome.decision, outcome.by, outcome.reason or None)
                await self._store.answered(entry, outcome.used)
                return outcome.answer
            case Run():
                return await self._admitted(event, caller, outcome)
            case Ask():
                return await self._ask(event, caller, outcome)

    async def announced(self, event: NoDecision) -> Answer:
        """The host only tells us something."""
        await self._store.answered(Entry(event.moment, "gate", agent=event.agent, session=event.session))
        return Answer(Ruling.SILENT)

    async def malformed(self, agent: str, sentence: str) -> Answer:
        """An event that could not be read."""
        await self._store.answered(Entry("malformed", "gate", agent=agent, reason=sentence))
        return deny(f"{sentence} slack-gate cannot show what would run, so it does not run.")

    def placed(self, event: ToolEvent) -> ToolEvent:
        """A command for the gate to run, with the executor that the policy names for it."""
        return self._judge.placed(event)

    async def _recalled(self, recall: Recall, caller: Caller) -> Outcome:
        saved, now = await self._store.rules(), self._clock()
        return await apart(lambda: recall.by(saved, now), caller.size)

    async def _admitted(self, event: ToolEvent, caller: Caller, run: Run) -> Answer | Request:
        request = replace(self._new(event, caller, ""), via=run.via, reason=", ".join(run.used))
        request = replace(request, digest=await self._digest(event, request.key))
        filed = await self._store.admitted(request, caller.nonce, event.executor or "", run.used)
        if filed.id != request.id:
            return await self._refused(event, "This call was answered before; an approval counts once.")
        return filed

    async def _by_cord(self, event: ToolEvent, ask: Ask) -> Answer | Sequence[str]:
        """Who gets a card; an Answer where the cord lets nobody be asked here."""
        cord = await self._store.cord()
        if cord.paused:
            return await self._refused(event, denial(cord))
        if cord.place is Place.CONSOLE:
            if (denied := await self._denied(event)) is not None:
                return await self._denied_before(event, denied)
            # One person alone sits at that prompt, and what it allows, the agent runs.
            fits = ask.demands.approvals == 1 and event.executor is None and self._house.hook_executor == "agent"
            if not (event.prompts and fits) or _caged(event, ask):
                return await self._refused(event, NO_PROMPT)
            why = ask.why.removesuffix(f"; {BY_WRAPPER}")
            await self._store.answered(self._entry(event, "left-to-agent", "gate", why))
            return Answer(Ruling.ASK, f"{LEFT}: {why}.")
        if cord.place is Place.WEB:
            return () if self._doors else await self._refused(event, NOWHERE)
        return self._house.approvers

    async def _ask(self, event: ToolEvent, caller: Caller, ask: Ask) -> Answer | Request:
        approvers = await self._by_cord(event, ask)
        if isinstance(approvers, Answer):
            return approvers
        led, planted = await in_thread(lambda: (led_elsewhere(event), planted_words(event)))
        why = "; ".join(filter(None, (led, ask.why, planted)))
        if remarked := await remarks(self._store, event, self._clock()):
            why = f"{remarked}; {why}"  # first: the agent's own words cannot push it out of view
        caged = _caged(event, ask)
        executor = "cage" if caged else self._house.hook_executor
        if event.command is not None and event.executor is None and executor != "agent":
            why = f"{why.removesuffix(f'; {BY_WRAPPER}')}; approved, it will {RUNS[executor]}"
        if caged and self._released.caged(event) is None:
            return await self._refused(event, "The policy wants this in the cage, and it cannot be run there.")
        request = replace(self._new(event, caller, why), quorum=ask.demands.approvals, caged=caged)
        if (too_long := await apart(lambda: self._unshowable(request), caller.size)) is not None:
            return await self._refused(event, too_long)
        request = replace(request, digest=await self._digest(event, request.key, ask.remotes))
        await self._look(request)
        self._attendance.unattended(request, self._clock())
        house = self._house
        filed = await self._store.submitted(request, approvers, house.surface, house.escalate)
        if filed.id != request.id:
            self._attendance.forget(request.id)
            self._unshown(request.id)
        if filed.key != request.key:
            return await self._denied_before(event, filed)
        if filed.digest != request.digest:
            return await self._refused(event, "This call was asked before with other content, or its script changed.")
        if filed.state is not State.PENDING and not self._may_repeat(filed, caller):
            return await self._refused(event, "This call was answered before; an approval counts once.")
        self._changed()
        return filed

    async def _denied(self, event: ToolEvent) -> Request | None:
        """A no to exactly this in its session stands until it is taken back, whatever rules say."""
        if event.executor is not None or event.tool == APPROVAL:
            return None
        return await self._store.denied(event.agent, event.session, form_of(event))

    async def _denied_before(self, event: ToolEvent, denied: Request) -> Answer:
        who = denied.decided_name or denied.decided_by
        said = f": {denied.reason}" if denied.reason else "."
        sentence = f"{who} denied exactly this before in this session (request {denied.id}){said}"
        return await self._refused(event, f"{sentence.rstrip('.')}. It is not asked again.", denied.id)

    def _new(self, event: ToolEvent, caller: Caller, why: str) -> Request:
        now = self._clock()
        key = event.call or caller.nonce
        longest = max(caller.limit - MARGIN_S, caller.limit / 2, MIN_S)
        return Request(
            id=f"SG-{secrets.token_hex(6)}",
            digest="",
            state=State.PENDING,
            agent=event.agent,
            session=event.session,
            key=key,
            nonce=caller.nonce,
            tool=event.tool,
            tool_input=event.tool_input,
            command=event.command,
            cwd=event.cwd,
            host=self._house.host,
            home=self._house.home,
            why=why,
            created_at=now,
            expires_at=now + min(self._house.wait, longest),
            form=form_of(event) if event.executor is None and event.tool != APPROVAL else "",
            latest_at=now + longest,
            rewritable=event.rewritable or event.executor is not None,
            search_path=event.search_path,
        )

    def _may_repeat(self, filed: Request, caller: Caller) -> bool:
        """The same hook process sending again, or a second hook of the same call, gets the same answer once more."""
        recent = filed.decided_at is not None and self._clock() - filed.decided_at <= REPEAT_S
        return filed.nonce == caller.nonce or recent or filed.state is not State.APPROVED


def _caged(event: ToolEvent, ask: Ask) -> bool:
    """Whether the policy has the gate run this call of a hook in the cage, once it is approved."""
    return event.command is not None and event.executor is None and ask.demands.executor == "cage"
