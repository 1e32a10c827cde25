"""What calls, answers and clicks stand on: all that the gate was given, and the steps that each of them takes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from cage import cage_policy
from slack_gate.core import network_git
from slack_gate.core.answer import Answer, deny
from slack_gate.core.event import ToolEvent
from slack_gate.core.ports import Clock, Entry, Files, Store, Waiting
from slack_gate.core.request import BY_PAGE, BY_TERMINAL, Decision, Request, State, digest
from slack_gate.daemon.apart import in_thread
from slack_gate.daemon.attendance import Attendance
from slack_gate.daemon.house import House
from slack_gate.daemon.judge import Judge
from slack_gate.daemon.leads import leads_of
from slack_gate.daemon.released import Released
from slack_gate.daemon.scripts import scripts_of


class Ground:
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
        self._viewed_at = -math.inf  # when the last one left
        self._undelivered: set[str] = set()  # not to be decided in Slack, and the log says so
        doors = {BY_PAGE: bool(house.page), BY_TERMINAL: house.terminal}
        self._doors = {by for by, is_open in doors.items() if is_open}
        self._attendance = Attendance()
        self._shown_files: set[str] = set()  # pending ones whose card shows a file as it was
        self._rules_seen: set[tuple[str, float | None]] = set()  # what waits was held against these: id and end
        self._gone: dict[str, str] = {}  # approved, and not released: why, for whoever asks again
        self._unrecorded: dict[str, float] = {}  # whose answer could not be recorded: when that was
        self._told_no: dict[Decision, float] = {}  # such approvals, which may be on file: as of when
        self._editing = asyncio.Lock()

    def ended(self, requests: Sequence[Request]) -> None:
        """These have changed: whoever waits and every card hears of it."""
        for request in requests:
            self._waiting.wake(request.id)
            self._attendance.ended(request.id)
            if request.state is not State.PENDING:
                self._unshown(request.id)
        if requests:
            self._changed()

    async def _look(self, request: Request) -> None:
        """At the file that this call would change: its card shows it, and is decided on no other one."""
        if (files := self._files) is not None and request.tool in cage_policy.FILE_TOOLS:
            self._shown_files.add(request.id)
            if not await in_thread(lambda: files.look(request)):
                self._shown_files.discard(request.id)

    def _unshown(self, request: str) -> None:
        """It has ended: the file that its card shows is of no use any more."""
        if self._files is not None:
            self._files.forget(request)
        self._shown_files.discard(request)

    async def _refused(self, event: ToolEvent, sentence: str, request: str | None = None) -> Answer:
        await self._store.answered(self._entry(event, "refused", "gate", sentence, request))
        return deny(sentence)

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

    async def _digest(self, event: ToolEvent, key: str, remotes: Sequence[tuple[str, ...]] | None = None) -> str:
        return await in_thread(lambda: self._digest_now(event, key, remotes))

    def _digest_now(self, event: ToolEvent, key: str, remotes: Sequence[tuple[str, ...]] | None = None) -> str:
        """What an approval of it is bound to; reads files, so it may take a moment. `remotes`, where they are known."""
        remotes = network_git.remotes(event) if remotes is None else remotes
        bound = {**scripts_of(event), **leads_of(event), **network_git.bound(remotes)}
        return digest(event, key, self._house.host, bound)

    async def _unfit_text(self, request: Request, event: ToolEvent) -> str | None:
        """Why the call with another text cannot be put in place of the one that `request` asks for."""
        anew = replace(request, command=event.command, tool_input=event.tool_input)
        return await in_thread(lambda: self._judge.unfit(event, request.caged) or self._unshowable(anew))
