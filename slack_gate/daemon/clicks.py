"""What people answer: every click is told what became of it, and decides only what it was shown."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import structlog

from slack_gate.core import network_git, rules
from slack_gate.core.event import MalformedEvent, ToolEvent
from slack_gate.core.offers import Offers
from slack_gate.core.ports import Click, Entry, LookBack, Verdict
from slack_gate.core.request import BY_SLACK, Choice, Decision, Request, Scope, State
from slack_gate.daemon.apart import in_thread
from slack_gate.daemon.ends import Ends
from slack_gate.daemon.memory import look_back
from slack_gate.errors import GateError

log = structlog.get_logger()

_OTHER_FILE = "The file has changed since this was drawn. The card is drawn anew; look at it again."
_CHANGED_SINCE = "What it names has changed since it was asked, so nothing of it is remembered. Deny it."
_NOT_HERE = "Its remote is known only to the slack-gate that its agent waits for. Approve it once, or deny it."
_LINKED = "A link leads to its directory, so a rule for that directory alone would not hold. Choose another reach."
_APPROVES = frozenset({Choice.APPROVE, Choice.ALWAYS, Choice.CAGED})
_KEPT = frozenset({Verdict.COUNTED, Verdict.EXTENDED, Verdict.LIFTED})  # on file, and nothing ended


class Clicks(Ends):
    """The row decides; what is looked at before it only spares a person an answer that could not be kept."""

    async def decide(self, decision: Decision) -> Click:
        """A click, answered whatever it is; it decides only when everything about it matches the row on file."""
        try:
            # One changed text at a time: the one that is kept is the one that decided.
            async with self._editing if decision.edited is not None else nullcontext():
                click = await self._decide(decision)
        except MalformedEvent as error:  # what is looked at before took too long; nothing was filed
            click = Click(Verdict.UNFIT, await self._store.request(decision.request), why=f"{error} Press again.")
        except GateError:  # the person is told no, and so is the agent
            self._unrecorded[decision.request] = self._clock()
            self._waiting.wake(decision.request)
            raise
        if click.verdict is Verdict.DECIDED:
            self._unrecorded.pop(decision.request, None)
            self.ended([click.request] if click.request else [])
            if click.rules:
                await self._let_go()
        elif click.verdict in _KEPT:
            self._changed()
        else:
            await self._store.answered(_late(decision, click))
            await self.expire()
        return click

    async def asked(self, decision: Decision) -> Click:
        """Whether this click could decide now (Verdict.OPEN), else what `decide` would say; for opening a dialog."""
        request = await self._store.request(decision.request)
        if request is None:
            return Click(Verdict.UNKNOWN)
        if not self._is_approver(decision):
            return Click(Verdict.FOREIGN, request)
        if decision.digest != request.digest:
            return Click(Verdict.STALE, request)
        over = request.state is not State.PENDING or self._clock() >= request.expires_at
        return Click(Verdict.ENDED if over else Verdict.OPEN, request)

    def offers(self, request: Request) -> Offers:
        """What a person can answer to a pending request beside yes and no."""
        event, alone = request.event, request.quorum <= 1
        return Offers(
            keys=self._judge.rememberable(event) if alone else (),
            caged=self._released.runs_caged(event),
            cage=alone and self._judge.cages and self._released.caged(event) is not None,
            edit=alone and request.rewritable and request.command is not None,
            more=request.latest_at > request.expires_at,
        )

    async def preview(self, request: Request, scope: Scope) -> LookBack:
        """What Always, saved for this request with this scope, would have meant in the last 30 days."""
        return await self._look_back(request, self._judge.rememberable(request.event), scope)

    async def _look_back(self, request: Request, keys: Sequence[rules.Key], scope: Scope) -> LookBack:
        if not keys:
            return LookBack(0, ())
        session = request.session if scope.session else ""
        cwd = request.cwd if scope.directory else ""
        rule = rules.Rule("", keys[0], "", 0.0, "", request.id, session, cwd)
        return await look_back(self._store, keys, rule, self._clock())

    async def release_covered(self) -> None:
        """A rule was saved, here or by another daemon: what waits here and is covered by it waits no longer."""
        saved, now = await self._store.rules(), self._clock()
        scopes = {(rule.id, rule.until) for rule in saved}
        if scopes <= self._rules_seen or (await self._store.cord()).paused:
            return  # what waits was asked about in spite of these; or no rule counts now
        for request in await self._store.pending(self._house.home):
            event = request.event
            if request.quorum > 1 or not self._judge.rememberable(event):
                continue
            if (coverage := self._judge.covered(event, saved, now, request.caged)) is not None:
                ended = await self._store.remembered(request.id, request.digest, coverage.rules, now)
                self.ended([ended] if ended else [])
        self._rules_seen = scopes

    async def _recorded_elsewhere(self, decision: Decision) -> Click | None:
        """What became of an answer whose record seemed to fail, where the agent waits for another daemon: that one goes
        by what is on file, whatever is told here. None when it is not there, or cannot be looked for."""
        try:
            row = await self._store.request(decision.request)
        except GateError:
            return None
        if row is None or row.home == self._house.home or row.decided_by != (decision.user or decision.by):
            return None
        return Click(Verdict.DECIDED, row)

    async def _let_go(self) -> None:
        """As `release_covered`; that it fails makes no click undecided, and what is covered waits for a person."""
        try:
            await self.release_covered()
        except GateError as error:
            log.error("what a new rule covers waits on", error=str(error))

    async def _decide(self, decision: Decision) -> Click:
        if not self._is_approver(decision):
            return Click(Verdict.FOREIGN, await self._store.request(decision.request))
        if decision.choice is Choice.LIFT:
            return await self._lift(decision)
        keys: Sequence[rules.Key] = ()
        changed: tuple[ToolEvent, str] | None = None
        # A plain yes or no needs no look before: digest and state are compared where it is filed.
        if decision.edited is not None or decision.choice in (Choice.ALWAYS, Choice.CAGED):
            request = await self._store.request(decision.request)
            if request is not None and request.state is State.PENDING and decision.digest == request.digest:
                always = decision.choice is Choice.ALWAYS
                if always:
                    keys = await in_thread(lambda: self._judge.rememberable(request.event))
                if (no := await self._impossible(decision, request, keys)) is not None:
                    return no
                if always and not await in_thread(lambda: self._is_as_shown(request, keys)):
                    here = request.home == self._house.home
                    return Click(Verdict.UNFIT, request, why=_CHANGED_SINCE if here else _NOT_HERE)
                if decision.edited is not None and request.home == self._house.home:
                    event = _with_text(request, decision.edited)
                    changed = event, await self._digest(event, request.key)
        if decision.choice not in (Choice.DENY, Choice.MORE) and (other := await self._other_file(decision)):
            return Click(Verdict.UNFIT, other, why=_OTHER_FILE)
        click = await self._filed(decision, keys)
        if changed is not None and click.verdict is Verdict.DECIDED:  # else another daemon's may have decided
            self._released.edited(decision.request, *changed)
        return click

    async def _filed(self, decision: Decision, keys: Sequence[rules.Key]) -> Click:
        """What becomes of it on file. Where that cannot be recorded it raises, and nothing of an approval counts then,
        though it may have been committed."""
        now = self._clock()
        try:
            return await self._store.decided(decision, keys, [str(key) for key in keys], now)
        except GateError:
            self._unrecorded[decision.request] = self._clock()  # before anything else: its agent may ask again just now
            if (recorded := await self._recorded_elsewhere(decision)) is not None:
                return recorded
            if decision.choice in _APPROVES:
                self._told_no[decision] = now
                await self._undo()
            raise

    def _is_as_shown(self, request: Request, keys: Sequence[rules.Key]) -> bool:
        """Whether the call still leads where it did when it was asked, and Always would save what was shown.
        Another daemon's files are not here to be looked at: no remote of its repositories is known."""
        if request.home != self._house.home:
            return not network_git.may_use(request.event)
        remotes = network_git.remotes(request.event)
        named = tuple(key.words for key in keys if network_git.is_remote(key.words))
        return named == remotes and self._digest_now(request.event, request.key, remotes) == request.digest

    async def _impossible(self, decision: Decision, request: Request, keys: Sequence[rules.Key]) -> Click | None:
        """What speaks against this answer, whoever gives it; `keys` are what Always would save."""
        if decision.choice is Choice.ALWAYS:
            if not keys:
                return Click(Verdict.UNREMEMBERABLE, request)
            if decision.scope.directory and request.home == self._house.home and rules.is_linked(request.cwd):
                return Click(Verdict.UNFIT, request, why=_LINKED)
            if denied := (await self._look_back(request, keys, decision.scope)).denied:
                return Click(Verdict.DENIED_BEFORE, request, why=_denied_words(denied))
        unfit = None if decision.choice is Choice.DENY else await self._unfit(decision, request)
        return None if unfit is None else Click(Verdict.UNFIT, request, why=unfit)

    async def _unfit(self, decision: Decision, request: Request) -> str | None:
        """Why the text put in place, or the cage, cannot be."""
        as_it_is = decision.edited is None and decision.choice is not Choice.CAGED
        if request.quorum > 1 and not as_it_is:
            return "Several people must approve it, so it is approved or denied as it is."
        if decision.edited is not None:
            if request.command is None or not request.rewritable:
                return "This call cannot be changed here. Approve or deny it as it is."
            unfit = await self._unfit_text(request, _with_text(request, decision.edited))
            if unfit is not None or not decision.edited.strip():
                return unfit or "The command is empty."
        event = _with_text(request, decision.edited)
        if decision.choice is Choice.CAGED and self._released.caged(event) is None:
            return "This call cannot be run in the cage. Approve or deny it as it is."
        return None

    async def _other_file(self, decision: Decision) -> Request | None:
        """The request, if the file it would change is another one than its card shows; then the card is drawn anew."""
        files = self._files
        if files is None or decision.request not in self._shown_files:
            return None
        request = await self._store.request(decision.request)
        if request is None or request.digest != decision.digest or not await in_thread(lambda: files.changed(request)):
            return None
        await self._store.renewed(request.id, self._clock())
        self._changed()
        return request

    async def _lift(self, decision: Decision) -> Click:
        lifted = await self._store.lifted(decision.request, decision.by, decision.user, decision.name, self._clock())
        return Click(Verdict.UNKNOWN if lifted is None else Verdict.LIFTED, lifted)

    def _is_approver(self, decision: Decision) -> bool:
        if decision.by != BY_SLACK:  # who may use the page or the terminal is seen to there
            return decision.by in self._doors
        return decision.user in self._house.approvers and decision.team == self._house.team


def _with_text(request: Request, text: str | None) -> ToolEvent:
    """The call, with another text where there is one."""
    event = request.event
    return event if text is None else replace(event, tool_input={**event.tool_input, "command": text})


def _denied_words(denied: Sequence[Request]) -> str:
    first = denied[0]
    more = f" and {len(denied) - 1} more" if len(denied) > 1 else ""
    return f"It would cover what was denied: {first.id} by {first.decided_name or first.decided_by}{more}."


def _late(decision: Decision, click: Click) -> Entry:
    request = click.request
    return Entry(
        decision=f"click-{click.verdict.value}",
        by=decision.by,
        request=decision.request,
        digest=request.digest if request else None,
        command=request.command if request else None,
        user=decision.user,
        reason=decision.choice.value,
    )
