"""Answers to calls that wait: once the request has ended and its log line is on disk, what was approved, no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slack_gate.core import network_git
from slack_gate.core.answer import Answer, changed, deny, settled
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import BY_RULES, Request, State
from slack_gate.daemon.apart import in_thread
from slack_gate.daemon.ground import Ground
from slack_gate.daemon.released import Gone

_UNRECORDED = "The answer to it could not be recorded, and the person was told so; it did not run."
_CHANGED = (
    "It was approved, but a program or script that it names, or where its directory or file leads, has changed since "
    "it was asked, so it did not run. Ask again as it is now."
)
_OTHER_FILE = "It was approved, but the file has changed since it was shown, so nothing was written. Ask again."


class Answers(Ground):
    """An approval is released once, as it was approved, or not at all."""

    async def wait(self, request: str, event: ToolEvent) -> Answer:
        """The answer to `event` once its request has ended. Cancelling this coroutine means the client went away."""
        self._attendance.came(request)
        try:
            row = await self._end_of(request)
        except BaseException:
            self._attendance.went(request, self._clock())
            raise
        self._attendance.went(request, None)
        if row is None:
            return deny(f"The request {request} is not on file any more, so it does not run.")
        if self._is_unrecorded(row):
            return await self._refused(event, _UNRECORDED, request)
        if row.state is not State.APPROVED:
            self._unshown(request)
            hint = self._judge.explained(event).hint if row.state is State.EXPIRED else ""
            return settled(row, hint)
        try:
            if request in self._gone:
                raise Gone(self._gone[request])
            return await self._allowed(row, event)
        except Gone as gone:
            self._gone[request] = str(gone)
            return await self._refused(event, str(gone), request)
        finally:
            self._unshown(request)

    def _is_unrecorded(self, row: Request) -> bool:
        """Whether a person was told that this decision was none: the log may have failed, and been mended, while this
        waited. One that came later, here or on another daemon, is not that one."""
        failed_at = self._unrecorded.get(row.id)
        if failed_at is None:
            return False
        return row.state is not State.APPROVED or row.decided_at is None or row.decided_at <= failed_at

    async def _end_of(self, request: str) -> Request | None:
        with self._waiting.listening(request) as ended:
            while True:
                row = await self._store.settled(request)  # the answer leaves after its log line
                if row is None or row.state is not State.PENDING:
                    return row
                del row  # a thousand may wait here
                await ended.wait()
                ended.clear()

    async def _allowed(self, row: Request, event: ToolEvent) -> Answer:
        """What a person approved, as it was approved. Raises Gone."""
        approved, bound = (event, row.digest) if row.edited is None else await self._edited(row, event)
        changed_since, remotes = await in_thread(lambda: self._changed_since(row, event, approved, bound))
        if changed_since is not None:
            raise Gone(changed_since)
        answer = settled(row)
        if row.edited is not None:
            answer = replace(answer, advice=changed(row, approved.command or ""))
        if row.via == BY_RULES:
            coverage = self._judge.covered(event, await self._store.rules(), self._clock(), row.caged)
            if coverage is None:
                raise Gone("The rule that it was allowed by does not cover it any more. Ask again.")
            return replace(answer, command=coverage.command if coverage.command != event.command else None)
        text = self._released.text(row, approved, event.command, self._clock())
        if text is None and self._judge.cages:
            text = await in_thread(lambda: self._released.network(approved, remotes))
        if text is None and row.edited is None and network_git.BY_WRAPPER in row.why:
            raise Gone("It was approved to run by slack-gate's own git, and cannot be run so now. Ask again.")
        self._released.forget(row.id)
        return replace(answer, command=text or None)

    def _changed_since(
        self, row: Request, event: ToolEvent, approved: ToolEvent, bound: str
    ) -> tuple[str | None, Sequence[tuple[str, ...]]]:
        """Why what was approved is not what would run now, and the remotes that this was found of; reads files, so it
        may take a moment."""
        remotes = network_git.remotes(approved)
        if self._digest_now(approved, row.key, remotes) != bound:
            return _CHANGED, remotes
        if row.edited is not None and self._digest_now(event, row.key) != row.digest:
            return _CHANGED, remotes  # a person changed the text, and had seen what it named as it was asked
        if (refused := self._judge.refused(approved)) is not None:
            return f"It was approved, and would be refused now. {refused}", remotes
        caged = row.caged or self._house.hook_executor == "cage"
        if (more := self._judge.outgrown(approved, row.quorum, caged)) is not None:
            return f"It was approved, but the policy {more} since. Ask again.", remotes
        if self._files is not None and row.id in self._shown_files and self._files.differs(row):
            return _OTHER_FILE, remotes  # a click on another daemon has not looked
        return None, remotes

    async def _edited(self, row: Request, event: ToolEvent) -> tuple[ToolEvent, str]:
        """The call as a person changed it, here or on another daemon, and the digest it must have. Raises Gone."""
        async with self._editing:  # a click on its way has kept its text, or will not
            here = self._released.edit(row.id)
        if here is not None:
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
