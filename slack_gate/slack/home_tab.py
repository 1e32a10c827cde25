"""The Home tab kept as things stand: published again after each change, at a bounded pace.

What is published is drawn at that moment, so the newest state wins however many changes there were. It is tried until
Slack takes it or refuses for good.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog
from slack_bolt.async_app import AsyncApp

from slack_gate.core.change import FileNow
from slack_gate.core.request import Request
from slack_gate.errors import GateError
from slack_gate.slack.app import Decider
from slack_gate.slack.blocks import Block
from slack_gate.slack.contact import Body, Contact
from slack_gate.slack.faults import FAILED, Fault, fault_of
from slack_gate.slack.home import bare, closed, drawing
from slack_gate.slack.messenger import CONTENT, picture_of
from slack_gate.slack.permalinks import Permalinks
from slack_gate.slack.remedies import remedy

BURST = 10  # publications at once, then one each PACE_S: below a hundred a minute, which Slack allows
PACE_S = 0.75
TICK_S = 30.0  # between looks at what changes without a word: the link's health, the last use of a rule
UNPLACED_S = 2.0  # the same while a card is on its way: then there is something to lead to
AGAIN_S = 2.0  # after a publication that failed; doubled each time, up to
MOST_S = 60.0
STRANGERS = 1000  # people who looked and are no approvers; of more, the earliest are drawn again

log = structlog.get_logger()


class HomeTab:
    """`run` publishes. `file` says what stands in the file that a call would change."""

    def __init__(
        self,
        contact: Contact,
        gate: Decider,
        links: Permalinks,
        file: Callable[[Request], FileNow | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contact = contact
        self._client = contact.client
        self._controls = contact.controls
        self._gate = gate
        self._links = links
        self._file = file
        self._pace = _Pace(clock)
        self._wanted: dict[str, bool] = {}  # who is to be drawn, in that order; True: even if nothing changed
        self._drawn: dict[str, _Drawn] = {}
        self._notes: dict[str, list[str]] = {}
        self._strangers: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._failures = 0
        self._unplaced = False  # something waits whose card Slack has not taken yet

    def listen(self, app: AsyncApp) -> None:
        app.event("app_home_opened")(self._opened)

    # Publishing

    def changed(self) -> None:
        """Something may look different now, to whoever has a tab of ours on the screen."""
        self._want(self._drawn)

    def shows(self, user: str, view: str) -> bool:
        """Whether this view can be the tab of this person: it is, or none was drawn since the start."""
        known = self._drawn.get(user)
        return known is None or known.view == view

    def redraw(self, user: str, *, force: bool) -> None:
        """Before anybody else's; with `force` even if nothing changed."""
        self._wanted = {user: force or self._wanted.pop(user, False), **self._wanted}
        self._wake.set()

    def note(self, user: str, told: str) -> None:
        """A sentence to this person, until the tab is drawn once more."""
        self._notes[user] = [told]
        self.redraw(user, force=True)

    async def run(self) -> None:
        """Publishes until cancelled. At first every approver's tab: one of an earlier run may show old buttons."""
        self._want(self._controls.approvers, force=True)
        while True:
            try:
                async with asyncio.timeout(UNPLACED_S if self._unplaced else TICK_S):
                    await self._wake.wait()
            except TimeoutError:
                self.changed()
            self._wake.clear()
            while self._wanted:
                await asyncio.sleep(self._pace.wait())
                user = next(iter(self._wanted))
                force = self._wanted.pop(user)
                if (pause := await self._publish(user, force)) is not None:
                    self._wanted.setdefault(user, force)
                    await asyncio.sleep(pause)

    def _want(self, users: Iterable[str], *, force: bool = False) -> None:
        for user in list(users):
            self._wanted[user] = force or self._wanted.get(user, False)
        if self._wanted:
            self._wake.set()

    async def _publish(self, user: str, force: bool) -> float | None:
        """None when the tab shows how things stand, else the seconds after which to try again."""
        try:
            blocks = await self._blocks(user)
        except GateError as error:
            return self._after(user, Fault("", str(error)))
        except Exception:  # a fault of ours: the cards still ask
            log.exception("a Home tab could not be drawn")
            blocks = bare()
        known = self._drawn.get(user)
        if known is not None and known.blocks == blocks and not force:
            return None
        fault = await self._put(user, blocks, known.hash if known else None)
        if fault is None:
            self._notes.pop(user, None)
            self._failures = 0
            return None
        return self._after(user, fault)

    async def _blocks(self, user: str) -> list[Block]:
        await self._links.look_up()
        seen = await self._controls.overview(user)
        self._unplaced = any(waiting.asked and not waiting.message for waiting in seen.waiting)
        return await asyncio.to_thread(  # there may be much of it, and others wait
            drawing,
            seen,
            lambda request, file: picture_of(request, self._gate.offers(request), file=file).blocks,
            lambda waiting: self._links.of(waiting.channel, waiting.message),
            self._contact.people.name,
            self._notes.get(user, ()),
            self._file,
        )

    async def _put(self, user: str, blocks: list[Block], known_hash: str | None) -> Fault | None:
        view = {"type": "home", "private_metadata": user, "blocks": blocks}
        try:
            reply = await self._client.views_publish(user_id=user, view=view, hash=known_hash)
            drawn = reply["view"]
            self._drawn[user] = _Drawn(str(drawn["id"]), str(drawn["hash"]), blocks)
            return None
        except FAILED as error:
            return fault_of(error)

    def _after(self, user: str, fault: Fault) -> float | None:
        if fault.code == "hash_conflict":  # somebody else drew it meanwhile; what stands now is drawn over that
            self._forget_hash(user)
            return 0.0
        self._failures += 1
        if self._failures == 1:
            fix = remedy(fault.code)
            log.warning("a Home tab cannot be published", error=fault.words, **({"fix": fix} if fix else {}))
        if fault.code in CONTENT:
            self._contact.later(self._draw_bare(user))
            return None
        if not fault.passes:
            self._drawn.pop(user, None)  # until it is opened again
            return None
        if fault.wait:
            return min(fault.wait, MOST_S)
        return min(AGAIN_S * 2.0 ** min(self._failures - 1, 10), MOST_S)

    def _forget_hash(self, user: str) -> None:
        if (known := self._drawn.get(user)) is not None:
            self._drawn[user] = _Drawn(known.view, None, [])

    async def _draw_bare(self, user: str) -> None:
        await asyncio.sleep(self._pace.wait())
        await self._put(user, bare(), None)

    # Opening

    async def _opened(self, event: Body, body: Body) -> None:
        if event.get("tab") != "home":
            return
        user = str(event.get("user", ""))
        if not self._controls.approves(user, str(body.get("team_id", ""))):
            await self._show_closed(user, event)
            return
        view = event.get("view") or {}
        known = self._drawn.get(user)
        same = known is not None and known.hash is not None and known.hash == view.get("hash")
        if not same and known is not None:
            self._forget_hash(user)
        self.redraw(user, force=not same)

    async def _show_closed(self, user: str, event: Body) -> None:
        """Once for each stranger: a tab keeps what was drawn."""
        if not user or (user in self._strangers and event.get("view")):
            return
        self._strangers[user] = None
        if len(self._strangers) > STRANGERS:
            del self._strangers[next(iter(self._strangers))]
        self._contact.later(self._put_closed(user))

    async def _put_closed(self, user: str) -> None:
        await asyncio.sleep(self._pace.wait())
        if (fault := await self._put(user, closed(), None)) is not None:
            self._strangers.pop(user, None)
            log.info("a stranger's Home tab could not be drawn", error=fault.words)
        self._drawn.pop(user, None)  # it does not change


class _Drawn:
    """What a person's tab shows; without a hash it is not known what it shows."""

    def __init__(self, view: str, hash: str | None, blocks: list[Block]) -> None:
        self.view = view
        self.hash = hash
        self.blocks = blocks


class _Pace:
    """BURST at once, then one each PACE_S."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._free_at = clock() - BURST * PACE_S

    def wait(self) -> float:
        """Seconds until the publication that is counted here may go out."""
        now = self._clock()
        self._free_at = max(self._free_at, now - BURST * PACE_S) + PACE_S
        return max(self._free_at - now, 0.0)
