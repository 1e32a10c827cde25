"""The only place that joins things. Doors translate and call: submit, wait, decide, cancel, expire.

submit   a call comes in: answered at once (green, ungated, remembered, refused) or filed as a pending request
wait     the answer of a pending request, when it has ended and its log line is on disk
decide   a person's click
cancel   the caller is gone
expire   time is over
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from cage import cage_policy
from slack_gate.core import rules
from slack_gate.core.answer import Answer, Ruling, changed, deny, settled
from slack_gate.core.cord import LEFT, NO_PROMPT, NOWHERE, Place, denial
from slack_gate.core.event import APPROVAL, RUNS, NoDecision, ToolEvent
from slack_gate.core.offers import Offers
from slack_gate.core.ports import Click, Clock, Entry, Files, LookBack, Store, Verdict, Waiting
from slack_gate.core.request import (
    BY_PAGE,
    BY_RULES,
    BY_SLACK,
    BY_TERMINAL,
    Choice,
    Decision,
    Request,
    Scope,
    State,
    digest,
    form_of,
)
from slack_gate.daemon.apart import apart, in_thread
from slack_gate.daemon.judge import Allow, Ask, Judge, Refuse, Run
from slack_gate.daemon.leads import leads_of
from slack_gate.daemon.memory import look_back, remarks
from slack_gate.daemon.released import Gone, Released
from slack_gate.daemon.scripts import scripts_of
from slack_gate.errors import GateError

GRACE_S = 30.0  # how long a hook that vanished without a word may come back
REPEAT_S = 30.0  # how long an answered call may be answered again to another client of the same call
MIN_S = 0.5  # a client may say that it cannot wait at all
MARGIN_S = 5.0  # the request ends this long before its client gives up
_BY_MEMORY = frozenset({"remembered", "caged"})  # what would have been asked but for a rule, or for the cage

_UNRECORDED = "The answer to it could not be recorded, and the person was told so; it did not run."
_OTHER_FILE = "The file has changed since this was drawn. The card is drawn anew; look at it again."
_CHANGED = (
    "It was approved, but a script that it names, or where its directory or file leads, has changed since it was "
    "asked, so it did not run. Ask again as it is now."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that waits: its nonce, how many seconds it says it can wait, and the bytes of its event."""

    nonce: str
    limit: float
    size: int = 0


@dataclass(frozen=True, slots=True)
class House:
    """What is the same for every request of this daemon; times in seconds."""

    home: str
    host: str
    approvers: Sequence[str]  # in Slack
    team: str
    surface: str
    wait: float
    hook_executor: str = "agent"  # what runs a hook's allowed command; `agent`: the agent itself
    escalate: float = 0.0  # seconds from one approver to the next; 0 asks all at once
    page: str = ""  # address of the page, empty without one
    terminal: bool = False  # a person can answer in the daemon's own terminal


class Gate:
    """`unshowable` says why a request cannot be shown whole (None: it can); `changed` is called when a card may need to
    be drawn."""

    def __init__(
        self,
        store: Store,
        waiting: Waiting,
        judge: Judge,
        released: Released,
        house: House,
        clock: Clock,
        unshowable: Callable[[Request], str | None],
        changed: Callable[[], None],
        files: Files | None = None,
    ) -> None:
        self._store = store
        self._waiting = waiting
        self._judge = judge
        self._released = released
        self._house = house
        self._clock = clock
        self._unshowable = unshowable
        self._changed = changed
        self._files = files
        self._viewers = 0  # people who look at the page now
        doors = {BY_PAGE: bool(house.page), BY_TERMINAL: house.terminal}
        self._doors = {by for by, is_open in doors.items() if is_open}
        self._callers: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._questions: set[str] = set()  # pending ones: whoever asked comes back for the answer, or not
        self._shown_files: set[str] = set()  # pending ones whose card shows a file as it was
        self._unrecorded: set[str] = set()
        self._editing = asyncio.Lock()

    async def resume(self) -> None:
        """After a start: agents of requests still pending get the grace to come back."""
        for request in await self._store.pending(self._house.home):
            self._unattended(request)
        self._changed()

    # submit

    async def announced(self, event: NoDecision) -> Answer:
        """The host only tells us something."""
        await self._store.answered(Entry(event.moment, "gate", agent=event.agent, session=event.session))
        return Answer(Ruling.SILENT)

    async def submit(self, event: ToolEvent, caller: Caller) -> Answer | Request:
        """An Answer at once, or the Request to `wait` for; one that the gate runs itself unasked is running already.

        Raises StoreError: then nothing may run.
        """
        outcome = await apart(lambda: self._judge.outcome(event, (), self._clock()), caller.size)
        if outcome.may_be_remembered and (saved := await self._store.rules()):  # one look less where they do not count
            outcome = await apart(lambda: self._judge.outcome(event, saved, self._clock()), caller.size)
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

    def placed(self, event: ToolEvent) -> ToolEvent:
        """A command for the gate to run, with the executor that the policy names for it."""
        return self._judge.placed(event)

    async def _admitted(self, event: ToolEvent, caller: Caller, run: Run) -> Answer | Request:
        request = replace(self._new(event, caller, ""), via=run.via, reason=", ".join(run.used))
        request = replace(request, digest=await self._digest(event, request.key))
        filed = await self._store.admitted(request, caller.nonce, event.executor or "")
        if filed.id != request.id:
            return await self._refused(event, "This call was answered before; an approval counts once.")
        return filed

    async def malformed(self, agent: str, sentence: str) -> Answer:
        """An event that could not be read."""
        await self._store.answered(Entry("malformed", "gate", agent=agent, reason=sentence))
        return deny(f"{sentence} slack-gate cannot show what would run, so it does not run.")

    async def _refused(self, event: ToolEvent, sentence: str, request: str | None = None) -> Answer:
        await self._store.answered(self._entry(event, "refused", "gate", sentence, request))
        return deny(sentence)

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
            if not (event.prompts and fits):
                return await self._refused(event, NO_PROMPT)
            await self._store.answered(self._entry(event, "left-to-agent", "gate", ask.why))
            return Answer(Ruling.ASK, f"{LEFT}: {ask.why}.")
        if cord.place is Place.WEB:
            return () if self._doors else await self._refused(event, NOWHERE)
        return self._house.approvers

    async def _ask(self, event: ToolEvent, caller: Caller, ask: Ask) -> Answer | Request:
        approvers = await self._by_cord(event, ask)
        if isinstance(approvers, Answer):
            return approvers
        why = ask.why
        if remarked := await remarks(self._store, event, self._clock()):
            why = f"{remarked}; {why}"  # first: the agent's own words cannot push it out of view
        caged = event.command is not None and event.executor is None and ask.demands.executor == "cage"
        executor = "cage" if caged else self._house.hook_executor
        if event.command is not None and event.executor is None and executor != "agent":
            why = f"{why}; approved, it will {RUNS[executor]}"
        if caged and self._released.caged(event) is None:
            return await self._refused(event, "The policy wants this in the cage, and it cannot be run there.")
        request = replace(self._new(event, caller, why), quorum=ask.demands.approvals, caged=caged)
        if (too_long := await apart(lambda: self._unshowable(request), caller.size)) is not None:
            return await self._refused(event, too_long)
        request = replace(request, digest=await self._digest(event, request.key))
        if (files := self._files) is not None and event.tool in cage_policy.FILE_TOOLS:
            await in_thread(lambda: files.look(request))
            self._shown_files.add(request.id)
        self._unattended(request)
        house = self._house
        filed = await self._store.submitted(request, approvers, house.surface, house.escalate)
        if filed.id != request.id:
            self._left.pop(request.id, None)
            self._questions.discard(request.id)
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

    def _unattended(self, request: Request) -> None:
        """Nobody waits for it yet, and perhaps never will: the grace begins. A question stands until it expires."""
        if request.tool == APPROVAL:
            self._questions.add(request.id)
        else:
            self._left[request.id] = self._clock()

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
        )

    def _may_repeat(self, filed: Request, caller: Caller) -> bool:
        """The same hook process sending again, or a second hook of the same call, gets the same answer once more."""
        recent = filed.decided_at is not None and self._clock() - filed.decided_at <= REPEAT_S
        return filed.nonce == caller.nonce or recent or filed.state is not State.APPROVED

    async def _digest(self, event: ToolEvent, key: str) -> str:
        return await in_thread(
            lambda: digest(event, key, self._house.host, {**scripts_of(event), **leads_of(event)})
        )

    def _entry(
        self, event: ToolEvent, decision: str, by: str, reason: str | None = None, request: str | None = None
    ) -> Entry:
        return Entry(
            decision=decision,
            by=by,
            request=request,
            digest=digest(event, event.call or "", self._house.host),
            agent=event.agent,
            session=event.session,
            tool=event.tool,
            command=event.command,
            cwd=event.cwd,
            reason=reason,
        )

    # wait

    async def wait(self, request: str, event: ToolEvent) -> Answer:
        """The answer to `event` once its request has ended. Cancelling this coroutine means the client went away."""
        self._callers[request] = self._callers.get(request, 0) + 1
        self._left.pop(request, None)
        try:
            row = await self._end_of(request)
        except BaseException:
            self._leave(request, self._clock())
            raise
        self._leave(request, None)
        if row is None:
            return deny(f"The request {request} is not on file any more, so it does not run.")
        if request in self._unrecorded:  # the log may have failed, and been mended, while this waited
            return await self._refused(event, _UNRECORDED, request)
        if row.state is not State.APPROVED:
            hint = self._judge.explained(event).hint if row.state is State.EXPIRED else ""
            return settled(row, hint)
        try:
            return await self._allowed(row, event)
        except Gone as gone:
            return await self._refused(event, str(gone), request)

    async def _allowed(self, row: Request, event: ToolEvent) -> Answer:
        """What a person approved, as it was approved. Raises Gone."""
        approved, bound = (event, row.digest) if row.edited is None else await self._edited(row, event)
        if await self._digest(approved, row.key) != bound:
            raise Gone(_CHANGED)
        answer = settled(row)
        if row.edited is not None:
            answer = replace(answer, advice=changed(row, approved.command or ""))
        if row.via == BY_RULES:
            coverage = self._released.remembered(event, await self._store.rules(), self._clock(), row.caged)
            if coverage is None:
                raise Gone("The rule that it was allowed by does not cover it any more. Ask again.")
            return replace(answer, command=coverage.command if coverage.command != event.command else None)
        text = self._released.text(row, approved, event.command, self._clock())
        self._released.forget(row.id)
        return replace(answer, command=text or None)

    async def _edited(self, row: Request, event: ToolEvent) -> tuple[ToolEvent, str]:
        """The call as a person changed it, here or on another daemon, and the digest it must have. Raises Gone."""
        if (here := self._released.edit(row.id)) is not None:
            return here
        if (text := await self._store.taken(row.id)) is None:
            raise Gone("It was approved with a change, and slack-gate was started again since. Ask again.")
        approved = replace(event, tool_input={**event.tool_input, "command": text}, rewritable=row.rewritable)
        if (unfit := await self._unfit_text(row, approved)) is not None:  # there it was judged by another policy
            raise Gone(f"It was approved with a change that cannot run here. {unfit}")
        return approved, await self._digest(approved, row.key)

    def fetched(self, request: str) -> ToolEvent | None:
        """The call that was handed over for this approved request, once; None when it is not there any more."""
        return self._released.fetched(request)

    async def _end_of(self, request: str) -> Request | None:
        with self._waiting.listening(request) as ended:
            while True:
                row = await self._store.settled(request)  # the answer leaves after its log line
                if row is None or row.state is not State.PENDING:
                    return row
                del row  # a thousand may wait here
                await ended.wait()
                ended.clear()

    def _leave(self, request: str, left_at: float | None) -> None:
        """One caller fewer; `left_at` starts the grace of a request that nobody waits for any more."""
        self._callers[request] -= 1
        if not self._callers[request]:
            del self._callers[request]
            if left_at is not None:
                self._left[request] = left_at

    # decide

    async def decide(self, decision: Decision) -> Click:
        """A click, answered whatever it is; it decides only when everything about it matches the row on file."""
        try:
            # One changed text at a time: the one that is kept is the one that decided.
            async with self._editing if decision.edited is not None else nullcontext():
                click = await self._decide(decision)
        except GateError:
            self._unrecorded.add(decision.request)  # committed perhaps; the person is told no, and so is the agent
            self._waiting.wake(decision.request)
            raise
        if click.verdict is Verdict.DECIDED:
            self._unrecorded.discard(decision.request)
            self.ended([click.request] if click.request else [])
            if click.rules:
                await self.release_covered()
        elif click.verdict in _KEPT:
            self._changed()
        else:
            await self._store.answered(_late(decision, click))
            await self.expire()
        return click

    async def _decide(self, decision: Decision) -> Click:
        if not self._is_approver(decision):
            return Click(Verdict.FOREIGN, await self._store.request(decision.request))
        if decision.choice is Choice.LIFT:
            return await self._lift(decision)
        keys: Sequence[rules.Key] = ()
        # A plain yes or no needs no look before: digest and state are compared where it is filed.
        if decision.edited is not None or decision.choice in (Choice.ALWAYS, Choice.CAGED):
            request = await self._store.request(decision.request)
            if request is not None and request.state is State.PENDING and decision.digest == request.digest:
                if (no := await self._impossible(decision, request)) is not None:
                    return no
                keys = self._judge.rememberable(request.event) if decision.choice is Choice.ALWAYS else ()
        if decision.choice not in (Choice.DENY, Choice.MORE) and (other := await self._other_file(decision)):
            return Click(Verdict.UNFIT, other, why=_OTHER_FILE)
        return await self._store.decided(decision, keys, [str(key) for key in keys], self._clock())

    async def _impossible(self, decision: Decision, request: Request) -> Click | None:
        """What speaks against this answer, whoever gives it."""
        if decision.choice is Choice.ALWAYS:
            if not self._judge.rememberable(request.event):
                return Click(Verdict.UNREMEMBERABLE, request)
            if denied := (await self.preview(request, decision.scope)).denied:
                return Click(Verdict.DENIED_BEFORE, request, why=_denied_words(denied))
        unfit = None if decision.choice is Choice.DENY else await self._unfit(decision, request)
        return None if unfit is None else Click(Verdict.UNFIT, request, why=unfit)

    async def _unfit(self, decision: Decision, request: Request) -> str | None:
        """Why the text put in place, or the cage, cannot be; keeps the text when it can."""
        event = replace(request.event, rewritable=request.rewritable)
        as_it_is = decision.edited is None and decision.choice is not Choice.CAGED
        if request.quorum > 1 and not as_it_is:
            return "Several people must approve it, so it is approved or denied as it is."
        if decision.edited is not None:
            if request.command is None or not request.rewritable:
                return "This call cannot be changed here. Approve or deny it as it is."
            event = replace(event, tool_input={**event.tool_input, "command": decision.edited})
            unfit = await self._unfit_text(request, event)
            if unfit is not None or not decision.edited.strip():
                return unfit or "The command is empty."
            if request.home == self._house.home:
                self._released.edited(request.id, event, await self._digest(event, request.key))
        if decision.choice is Choice.CAGED and self._released.caged(event) is None:
            return "This call cannot be run in the cage. Approve or deny it as it is."
        return None

    async def _unfit_text(self, request: Request, event: ToolEvent) -> str | None:
        """Why the call with another text cannot be put in place of the one that `request` asks for."""
        anew = replace(request, command=event.command, tool_input=event.tool_input)
        return await in_thread(lambda: self._judge.unfit(event, request.caged) or self._unshowable(anew))

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

    async def preview(self, request: Request, scope: Scope) -> LookBack:
        """What Always, saved for this request with this scope, would have meant in the last 30 days."""
        keys = self._judge.rememberable(request.event)
        if not keys:
            return LookBack(0, ())
        session = request.session if scope.session else ""
        cwd = request.cwd if scope.directory else ""
        rule = rules.Rule("", keys[0], "", 0.0, "", request.id, session, cwd)
        return await look_back(self._store, keys, rule, self._clock())

    def offers(self, request: Request) -> Offers:
        """What a person can answer to a pending request beside yes and no."""
        event = replace(request.event, rewritable=request.rewritable)
        alone = request.quorum <= 1
        return Offers(
            keys=self._judge.rememberable(event) if alone else (),
            caged=rules.runs_caged(event),
            cage=alone and self._judge.cages and self._released.caged(event) is not None,
            edit=alone and request.rewritable and request.command is not None,
            more=request.latest_at > request.expires_at,
        )

    async def release_covered(self) -> None:
        """A rule was saved, here or by another daemon: what waits here and is covered by it waits no longer."""
        if not (waiting := await self._store.pending(self._house.home)):
            return
        saved, now = await self._store.rules(), self._clock()
        for request in waiting:
            event = replace(request.event, rewritable=request.rewritable)
            if request.quorum > 1 or not self._judge.rememberable(event):
                continue
            if (coverage := self._released.remembered(event, saved, now, request.caged)) is not None:
                ended = await self._store.remembered(request.id, request.digest, coverage.rules, now)
                self.ended([ended] if ended else [])

    def _is_approver(self, decision: Decision) -> bool:
        if decision.by != BY_SLACK:  # who may use the page or the terminal is seen to there
            return decision.by in self._doors
        return decision.user in self._house.approvers and decision.team == self._house.team

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

    # cancel, expire

    async def cancel(self, request: str) -> None:
        """The client says that it will not wait any longer."""
        if (ended := await self._store.cancelled(request, "caller", self._clock())) is not None:
            self.ended([ended])

    async def undeliverable(self, request: str, reason: str) -> None:
        """No approver could be asked in Slack. It ends, unless somebody can see it elsewhere now."""
        if self._viewers or self._house.terminal:
            await self._store.answered(Entry("undelivered", "gate", request=request, reason=reason))
            return
        if self._house.page:
            reason = f"{reason} It can be approved on {self._house.page}: have that page opened, then ask again."
        if (ended := await self._store.undeliverable(request, reason, self._clock())) is not None:
            self.ended([ended])

    async def expire(self) -> None:
        """Ends what is over: requests past their time, and those whose client has been gone for the whole grace."""
        now = self._clock()
        self._released.tidy(now)
        if not (self._callers or self._left or self._questions):
            return
        self.ended(await self._store.expired(self._house.home, now))
        for request, left_at in list(self._left.items()):
            if now - left_at >= GRACE_S:
                self._left.pop(request, None)  # gone already, if another call was here meanwhile
                await self.cancel(request)

    @contextmanager
    def viewed(self) -> Iterator[None]:
        """While somebody looks at the page."""
        self._viewers += 1
        try:
            yield
        finally:
            self._viewers -= 1

    def ended(self, requests: Sequence[Request]) -> None:
        """These have changed: whoever waits and every card hears of it."""
        for request in requests:
            self._waiting.wake(request.id)
            self._questions.discard(request.id)
            if self._files is not None and request.state is not State.PENDING:
                self._files.forget(request.id)
                self._shown_files.discard(request.id)
        if requests:
            self._changed()


_KEPT = frozenset({Verdict.COUNTED, Verdict.EXTENDED, Verdict.LIFTED})  # on file, and nothing ended


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
