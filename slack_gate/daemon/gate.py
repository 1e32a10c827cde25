"""The only place that joins things. Doors translate and call: submit, wait, decide, cancel, expire.

submit   a call comes in: answered at once (green, ungated, remembered, refused) or filed as a pending request
wait     the answer of a pending request, when it has ended and its log line is on disk
decide   a person's click
cancel   the caller is gone
expire   time is over
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cage import cage_policy
from slack_gate.core import cage_first, rules
from slack_gate.core.allowlist import Allowlist
from slack_gate.core.answer import Answer, Ruling, deny, settled
from slack_gate.core.caged import caged_git
from slack_gate.core.event import APPROVAL, RUNS, NoDecision, ToolEvent
from slack_gate.core.inside import wrapped
from slack_gate.core.ports import Click, Clock, Entry, Judgement, Policy, Store, Verdict, Waiting
from slack_gate.core.request import BY_PAGE, BY_SLACK, BY_TERMINAL, Choice, Decision, Request, State, digest
from slack_gate.core.respell import pinned
from slack_gate.core.run import MAX_TIMEOUT_S
from slack_gate.core.secrets import mask
from slack_gate.daemon.apart import apart, in_thread
from slack_gate.daemon.own_files import OwnFiles
from slack_gate.daemon.scripts import scripts_of
from slack_gate.errors import GateError

GRACE_S = 30.0  # how long a hook that vanished without a word may come back
REPEAT_S = 30.0  # how long an answered call may be answered again to another client of the same call
HELD_S = 600.0  # how long an approved command waits to be fetched by the agent that was told to
MIN_S = 0.5  # a client may say that it cannot wait at all
MARGIN_S = 5.0  # the request ends this long before its client gives up

_UNRECORDED = "The answer to it could not be recorded, and the person was told so; it did not run."
_CHANGED = (
    "It was approved, but a script that it names has changed since it was asked, so it did not run. "
    "Ask again with the script as it is now."
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
    cages: bool = False  # a cage starts on this machine, so that calls can be released into it
    cage_first: bool = False  # gated ones too
    executors: Sequence[str] = ()  # what this daemon can run commands with, by name
    hook_executor: str = "agent"  # what runs a hook's allowed command; `agent`: the agent itself
    launcher: Sequence[str] = ()  # the words that start this program
    page: str = ""  # address of the page, empty without one
    terminal: bool = False  # a person can answer in the daemon's own terminal


class Gate:
    """`programs` are the trusted files by name; `unshowable` says why a request cannot be shown whole (None: it can);
    `changed` is called when a card may need to be drawn."""

    def __init__(
        self,
        store: Store,
        waiting: Waiting,
        policy: Policy,
        own_files: OwnFiles,
        programs: Mapping[str, str],
        house: House,
        clock: Clock,
        unshowable: Callable[[Request], str | None],
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._waiting = waiting
        self._policy = policy
        self._own_files = own_files
        self._programs = programs
        self._house = house
        self._clock = clock
        self._unshowable = unshowable
        self._changed = changed
        self._allowlist = Allowlist()
        self._viewers = 0  # people who look at the page now
        doors = {BY_PAGE: bool(house.page), BY_TERMINAL: house.terminal}
        self._doors = {by for by, is_open in doors.items() if is_open}
        self._callers: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._questions: set[str] = set()  # pending ones: whoever asked comes back for the answer, or not
        self._unrecorded: set[str] = set()
        self._held: dict[str, tuple[ToolEvent, float]] = {}

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
        """An Answer at once, or the Request to `wait` for. Raises StoreError: then nothing may run."""
        refusal, judged, reached = await apart(lambda: self._judge(event), caller.size)
        if refusal is not None:
            return await self._refused(event, refusal)
        if event.tool == APPROVAL:
            return await self._ask(event, caller, "it is a question to a person")
        if event.executor is not None:
            return await self._submit_run(event, caller, judged, reached)
        if (caged := await apart(lambda: self._caged_git(event), caller.size)) is not None:
            await self._store.answered(self._entry(event, "green", "policy", "in the cage"))
            return Answer(Ruling.ALLOW, "Green: local git, run in the cage.", caged)
        if judged.verdict == "green" and event.command is not None and _brings_files(event.command):
            return await self._ask(event, caller, "git would write files of another commit outside the cage")
        if judged.verdict == "green":
            if (text := self._pinned(event.command)) is None:
                return await self._ask(event, caller, "its programs cannot be pinned to files the agent cannot change")
            await self._store.answered(self._entry(event, "green", "policy"))
            return Answer(Ruling.ALLOW, f"Green: {judged.rule}.", _changed(text, event.command))
        if reached:  # remembered or not
            return await self._ask(event, caller, f"{_why(judged)}; it could reach what slack-gate rests on")
        if judged.verdict == "ungated":
            await self._store.answered(self._entry(event, "ungated", "policy"))
            return Answer(Ruling.SILENT)
        if event.command is not None and (why := self._not_handed_over(event)) is not None:
            return await self._refused(event, why)
        coverage = await self._coverage(event)
        text = self._pinned(coverage.command or event.command) if coverage is not None else None
        if coverage is not None and text is not None:
            saved = ", ".join(coverage.rules)
            await self._store.answered(self._entry(event, "remembered", "always", saved))
            return Answer(Ruling.ALLOW, f"Remembered by Always ({saved}).", _changed(text, event.command))
        if (caged := self._caged_first(event)) is not None:
            await self._store.answered(self._entry(event, "caged", "policy", _why(judged)))
            return Answer(Ruling.ALLOW, f"In the cage, not asked: {judged.rule}.", caged, cage_first.ADVICE)
        return await self._ask(event, caller, _why(judged))

    async def _submit_run(self, event: ToolEvent, caller: Caller, judged: Judgement, reached: bool) -> Answer | Request:
        """A command that the gate runs itself: the Request is running already when nobody needs to be asked."""
        if (executor := event.executor) is None or executor not in self._house.executors:
            return await self._refused(event, f"This slack-gate has no {executor} executor set up.")
        why = _why(judged)
        if reached:
            return await self._ask(event, caller, f"{why}; it could reach what slack-gate rests on")
        if (via := await self._unasked(event, judged)) is None:
            return await self._ask(event, caller, f"it is not on the allowlist: {why}")
        request = replace(self._new(event, caller, why), via=via[0], reason=via[1])
        request = replace(request, digest=await self._digest(event, request.key))
        filed = await self._store.admitted(request, caller.nonce, executor)
        if filed.id != request.id:
            return await self._refused(event, "This call was answered before; an approval counts once.")
        return filed

    async def _unasked(self, event: ToolEvent, judged: Judgement) -> tuple[str, str] | None:
        """What lets a run through without asking, as the log names it, and the rules of Always; None to ask."""
        if event.command is not None and self._allowlist.allows(event.command):
            return "allowlist", ""
        if event.executor == "cage" and judged.verdict == "green":
            return "green", ""
        coverage = await self._coverage(event)
        return None if coverage is None else ("always", ", ".join(coverage.rules))

    async def _coverage(self, event: ToolEvent) -> rules.Coverage | None:
        if event.executor is None and self._house.hook_executor == "sandboxer":
            return None  # what is handed over is held for one approval each
        coverage = rules.covered(event, await self._store.rules())
        if coverage is None or coverage.command is not None or self._house.hook_executor != "cage":
            return coverage
        return replace(coverage, command=wrapped(event)) if event.command is not None else coverage

    def _not_handed_over(self, event: ToolEvent) -> str | None:
        """Why an approved command could not be handed to the executor that the settings name."""
        if self._house.hook_executor == "agent":
            return None
        if wrapped(event) is None or (self._house.hook_executor == "cage" and not self._house.cages):
            return f"It cannot be run by the {self._house.hook_executor} executor here, as the settings say it must be."
        return None

    def _judge(self, event: ToolEvent) -> tuple[str | None, Judgement, bool]:
        """Why it is refused outright; the policy's verdict; whether, not green, it reaches what the gate rests on."""
        judged = self._explained(event)
        reached = judged.verdict != "green" and self._own_files.reached_by(event)
        return self._own_files.refusal(event), judged, reached

    def _pinned(self, command: str | None) -> str | None:
        """What runs unasked; None when it cannot be made sure. A call without a shell text needs no pin: then ""."""
        return "" if command is None else pinned(command, self._programs)

    def _caged_git(self, event: ToolEvent) -> str | None:
        """What runs instead of local git that the cage is no loss to; None leaves the call to the rest of `submit`."""
        git = self._programs.get("git")
        if not self._house.cages or git is None or (caged := caged_git(event, git)) is None:
            return None
        return self._pinned(caged)

    def _caged_first(self, event: ToolEvent) -> str | None:
        """What runs instead of a gated command that is tried in the cage; None when it is asked."""
        if not (self._house.cages and self._house.cage_first) or (caged := cage_first.caged_first(event)) is None:
            return None
        return self._pinned(caged)

    async def malformed(self, agent: str, sentence: str) -> Answer:
        """An event that could not be read."""
        await self._store.answered(Entry("malformed", "gate", agent=agent, reason=sentence))
        return deny(f"{sentence} slack-gate cannot show what would run, so it does not run.")

    async def _refused(self, event: ToolEvent, sentence: str, request: str | None = None) -> Answer:
        await self._store.answered(self._entry(event, "refused", "gate", sentence, request))
        return deny(sentence)

    async def _ask(self, event: ToolEvent, caller: Caller, why: str) -> Answer | Request:
        if event.command is not None and event.executor is None and self._house.hook_executor != "agent":
            why = f"{why}; approved, it will {RUNS[self._house.hook_executor]}"
        request = self._new(event, caller, why)
        if (too_long := await apart(lambda: self._unshowable(request), caller.size)) is not None:
            return await self._refused(event, too_long)
        request = replace(request, digest=await self._digest(event, request.key))
        self._unattended(request)
        filed = await self._store.submitted(request, self._house.approvers, self._house.surface)
        if filed.id != request.id:
            self._left.pop(request.id, None)
            self._questions.discard(request.id)
        if filed.digest != request.digest:
            return await self._refused(event, "This call was asked before with other content, or its script changed.")
        if filed.state is not State.PENDING and not self._may_repeat(filed, caller):
            return await self._refused(event, "This call was answered before; an approval counts once.")
        self._changed()
        return filed

    def _unattended(self, request: Request) -> None:
        """Nobody waits for it yet, and perhaps never will: the grace begins. A question stands until it expires."""
        if request.tool == APPROVAL:
            self._questions.add(request.id)
        else:
            self._left[request.id] = self._clock()

    def _new(self, event: ToolEvent, caller: Caller, why: str) -> Request:
        now = self._clock()
        key = event.call or caller.nonce
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
            expires_at=now + min(self._house.wait, max(caller.limit - MARGIN_S, caller.limit / 2, MIN_S)),
        )

    def _may_repeat(self, filed: Request, caller: Caller) -> bool:
        """The same hook process sending again, or a second hook of the same call, gets the same answer once more."""
        recent = filed.decided_at is not None and self._clock() - filed.decided_at <= REPEAT_S
        return filed.nonce == caller.nonce or recent or filed.state is not State.APPROVED

    async def _digest(self, event: ToolEvent, key: str) -> str:
        return await in_thread(lambda: digest(event, key, self._house.host, scripts_of(event)))

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
        if row.state is State.APPROVED and await self._digest(event, row.key) != row.digest:
            return await self._refused(event, _CHANGED, request)
        await self._store.recorded()
        if request in self._unrecorded:  # the log may have failed, and been mended, while this waited
            return await self._refused(event, _UNRECORDED, request)
        hint = self._explained(event).hint if row.state is State.EXPIRED else ""
        answer = settled(row, hint)
        if answer.ruling is Ruling.ALLOW and event.command is not None and event.executor is None:
            return replace(answer, command=self._handed_over(row, event))
        return answer

    def _handed_over(self, request: Request, event: ToolEvent) -> str | None:
        """What the agent runs instead of an approved command, where the settings name an executor; else None."""
        if self._house.hook_executor == "cage":
            return self._pinned(wrapped(event))
        if self._house.hook_executor == "sandboxer":
            fields = {"command": event.command, "timeoutSeconds": MAX_TIMEOUT_S}
            self._held[request.id] = replace(event, tool=RUNS["sandboxer"], tool_input=fields), self._clock()
            return shlex.join([*self._house.launcher, "run", "--approved", request.id])
        return None

    def held(self, request: str) -> ToolEvent | None:
        """The call that was handed over for this approved request, once; None when it is not there any more."""
        event, _ = self._held.pop(request, (None, 0.0))
        return event

    def _explained(self, event: ToolEvent) -> Judgement:
        if event.executor is not None:
            return self._policy.explain("Bash", {"command": event.command}, event.cwd)
        return self._policy.explain(event.tool, dict(event.tool_input), event.cwd)

    async def _end_of(self, request: str) -> Request | None:
        with self._waiting.listening(request) as ended:
            while True:
                row = await self._store.request(request)
                if row is None or row.state is not State.PENDING:
                    return row
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
        request = await self._store.request(decision.request)
        try:
            click = await self._decide(decision, request)
        except GateError:
            self._unrecorded.add(decision.request)  # committed perhaps; the person is told no, and so is the agent
            self._waiting.wake(decision.request)
            raise
        if click.verdict is Verdict.DECIDED:
            self._unrecorded.discard(decision.request)
            self.ended([click.request] if click.request else [])
        else:
            await self._store.answered(_late(decision, click))
            await self.expire()
        return click

    async def _decide(self, decision: Decision, request: Request | None) -> Click:
        if not self._is_approver(decision):
            return Click(Verdict.FOREIGN, request)
        keys: Sequence[rules.Key] = ()
        if decision.choice is Choice.ALWAYS and request is not None and request.state is State.PENDING:
            keys = rules.keys_to_remember(request.event)
            if not keys or self._own_files.reached_by(request.event):
                return Click(Verdict.UNREMEMBERABLE, request)
        return await self._store.decided(decision, keys, [str(key) for key in keys], self._clock())

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
        if not (self._callers or self._left or self._held or self._questions):
            return
        now = self._clock()
        self._held = {request: held for request, held in self._held.items() if now - held[1] < HELD_S}
        self.ended(await self._store.expired(self._house.home, now))
        for request, left_at in list(self._left.items()):
            if now - left_at >= GRACE_S:
                del self._left[request]
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
        if requests:
            self._changed()


def _brings_files(command: str) -> bool:
    """What the host's git writes, no cage holds back: settings of the agent among it. Caged git never comes here."""
    return cage_policy.brings_files(segment.argv for segment in cage_policy.read(command) or [])


def _changed(pinned: str, command: str | None) -> str | None:
    return pinned if pinned and pinned != command else None


def _why(judged: Judgement) -> str:
    """One masked line: the rule, and the part of the call it stopped at."""
    where = f" ({mask(judged.segment)[:200]})" if judged.segment else ""
    return f"{mask(judged.rule)[:300]}{where}"


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
