"""The calls that draw cards. Nothing is tried again here: the outbox knows what is due."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.core.change import FileNow
from slack_gate.core.fields import length
from slack_gate.core.notes import Note
from slack_gate.core.offers import NOTHING, Offers
from slack_gate.core.ports import Undelivered
from slack_gate.core.request import Request, State
from slack_gate.core.rules import keys_to_remember, runs_caged
from slack_gate.slack.cards import Picture, card, ending, files_of
from slack_gate.slack.faults import FAILED, fault_of
from slack_gate.slack.files import share
from slack_gate.slack.lists import bare, fitting, listable, listing
from slack_gate.slack.people import People
from slack_gate.slack.remedies import remedy
from slack_gate.slack.threads import drawn

Answer = TypeVar("Answer")

EVENT = "slack_gate_request"  # marks a card: metadata that people do not see, with the request's id
SMALL = 8000  # characters of a text that is drawn at once
PAGE = 200  # messages of a channel's history in one call
PAGES = 10
SKEW_S = 600.0  # how far Slack's clock may be from ours
RETRY_S = 1.0  # after a fault that may pass: a reset, a 5xx
# Refusals of a redraw after which no button is left to take away; any other one may pass (a new token, a new scope).
GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "channel_not_found"})
# Refusals of the picture itself: a smaller one may be taken.
CONTENT = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "invalid_arguments", "msg_too_long", "msg_blocks_too_long"}
)


class Messenger:
    """`client` must not retry by itself: its retry after a reset posts twice. `offers` says what a pending request can
    be answered with, `file` what stands now in the file that a call would change."""

    def __init__(
        self,
        client: AsyncWebClient,
        offers: Callable[[Request], Offers] | None = None,
        file: Callable[[Request], FileNow | None] = lambda request: None,
    ) -> None:
        self._client = client
        self._offers = offers or usual_offers
        self._file = file
        self._people = People(client)
        self._looks: dict[str, _Look] = {}  # by channel
        self._whole: set[str] = set()  # requests just posted that their card shows whole
        self._shared: dict[str, int] = {}  # messages of waiting requests: what their threads hold

    async def post(self, request: Request, approver: str) -> tuple[str, str]:
        """Channel and ts of the new message in the approver's DM. Raises Undelivered, also if nobody would read it."""
        if (why := await self._people.inactive(approver)) is not None:
            raise Undelivered(f"approver_inactive ({why})", None)
        file = self._file(request)
        whole = not await _apart(request, lambda: files_of(request, file))
        place = await self._post(await self._picture(request, complete=False), approver, [request])
        if whole:
            self._whole.add(request.id)
        return place

    def fitting(self, requests: Sequence[Request]) -> int:
        """How many of the first of these may stand on one message, each whole: 0 when the first needs its own."""
        able = list(takewhile(listable, requests))
        return fitting(able, self._offers) if able else 0

    async def post_all(self, requests: Sequence[Request], approver: str) -> tuple[str, str]:
        """As `post`, one message for all of them."""
        if (why := await self._people.inactive(approver)) is not None:
            raise Undelivered(f"approver_inactive ({why})", None)
        return await self._post(listing(requests, self._offers), approver, requests)

    async def _post(self, picture: Picture, approver: str, requests: Sequence[Request]) -> tuple[str, str]:
        about = " ".join(request.id for request in requests)
        reply = await self._call(
            self._client.chat_postMessage(
                channel=approver,
                text=picture.text,
                blocks=picture.blocks,
                mrkdwn=False,
                unfurl_links=False,
                unfurl_media=False,
                metadata={"event_type": EVENT, "event_payload": {"request": about}},
            )
        )
        channel, message = reply.get("channel"), reply.get("ts")
        if not isinstance(channel, str) or not isinstance(message, str):
            raise Undelivered("an answer without a message id", RETRY_S)
        return channel, message

    async def complete(self, request: Request, channel: str, message: str) -> None:
        """What the card does not show, into its thread, and then the buttons that approve. Raises Undelivered."""
        if request.id in self._whole:  # known before it was posted, so that nothing keeps its place from the file
            self._whole.discard(request.id)
        elif await self._share_whole(request, channel, message):
            await self._update(await self._picture(request), channel, message)

    async def _share_whole(self, request: Request, channel: str, message: str) -> bool:
        """Whether there is more than the card shows; it is in the thread then."""
        file = self._file(request)
        files = await _apart(request, lambda: files_of(request, file))
        if files and self._shared.get(message) != (texts := hash(tuple(file.text for file in files))):
            await self._call(share(self._client, files, channel, message))
            self._shared[message] = texts
        return bool(files)

    async def find(self, request: Request, channel: str) -> dict[str, tuple[str, ...]] | None:
        """By ts, newest first, every message in the channel that shows the request, with the ids of all that it shows;
        None without the right to look.

        Raises Undelivered. Those who ask while one look is under way share the next one: Slack counts the calls.
        """
        look = self._looks.get(channel)
        if look is None or look.begun:
            look = self._looks[channel] = _Look(asyncio.ensure_future(self._after(look, channel)))
            look.result.add_done_callback(lambda done: done.cancelled() or done.exception())  # all may have gone
        look.oldest = min(look.oldest, request.created_at - SKEW_S)
        try:
            found = await asyncio.shield(look.result)
        finally:
            if look.result.done() and self._looks.get(channel) is look:
                del self._looks[channel]
        return None if found is None else {message: ids for message, ids in found.items() if request.id in ids}

    async def _after(self, earlier: _Look | None, channel: str) -> dict[str, tuple[str, ...]] | None:
        if earlier is not None:
            await asyncio.wait([earlier.result])
        look = self._looks[channel]
        look.begun = True
        try:
            return await self._cards_in(channel, look.oldest)
        except Undelivered as fault:
            if fault.error.startswith("missing_scope"):
                return None
            raise

    async def _cards_in(self, channel: str, oldest: float) -> dict[str, tuple[str, ...]]:
        """This app's cards since then, newest first: by ts, the ids of the requests."""
        cards: dict[str, tuple[str, ...]] = {}
        cursor: str | None = None
        for _ in range(PAGES):
            reply = await self._call(
                self._client.conversations_history(
                    channel=channel, oldest=f"{oldest:.6f}", limit=PAGE, cursor=cursor, include_all_metadata=True
                )
            )
            for message in reply.get("messages") or []:
                about = message.get("metadata") or {}
                if about.get("event_type") == EVENT:
                    cards[message["ts"]] = tuple(str(about.get("event_payload", {}).get("request", "")).split(" "))
            cursor = (reply.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
        return cards

    async def say(self, note: Note, others: int) -> None:
        """A note in the thread of its message, with the files that belong to it. Raises Undelivered."""
        picture, files = drawn(note, others)
        await self._call(
            self._client.chat_postMessage(
                channel=note.channel,
                thread_ts=note.message,
                text=picture.text,
                blocks=picture.blocks,
                mrkdwn=False,
                unfurl_links=False,
                unfurl_media=False,
            )
        )
        if files:
            await self._call(share(self._client, files, note.channel, note.message))

    def remedy(self, error: str) -> str:
        """What a person can do about an error; empty when nothing is known."""
        return remedy(error)

    async def redraw(self, request: Request, channel: str, message: str) -> None:
        """The card as the request stands now. Raises Undelivered, without a time only if there is nothing to redraw."""
        if request.state is not State.PENDING:
            self._shared.pop(message, None)
        try:
            if request.state is State.PENDING:
                await self._share_whole(request, channel, message)
            await self._update(await self._picture(request), channel, message)
        except Undelivered as fault:
            if fault.error in CONTENT and request.state is not State.PENDING:
                await self._update(ending(request), channel, message)
            elif fault.error in GONE or fault.retry_after is not None:
                raise
            else:
                raise Undelivered(fault.error, RETRY_S) from fault

    async def redraw_all(self, requests: Sequence[Request], channel: str, message: str) -> None:
        """As `redraw`, of a message that shows all of these."""
        try:
            await self._update(listing(requests, self._offers), channel, message)
        except Undelivered as fault:
            if fault.error in CONTENT and not any(request.state is State.PENDING for request in requests):
                await self._update(bare(requests), channel, message)
            elif fault.error in GONE or fault.retry_after is not None:
                raise
            else:
                raise Undelivered(fault.error, RETRY_S) from fault

    async def _picture(self, request: Request, complete: bool = True) -> Picture:
        if request.state is not State.PENDING:
            return await _apart(request, lambda: picture_of(request, NOTHING))
        file = self._file(request)
        return await _apart(request, lambda: picture_of(request, self._offers(request), complete, file))

    async def _update(self, picture: Picture, channel: str, message: str) -> None:
        await self._call(
            self._client.chat_update(channel=channel, ts=message, text=picture.text, blocks=picture.blocks)
        )

    async def _call(self, call: Awaitable[Answer]) -> Answer:
        try:
            return await call
        except FAILED as error:
            fault = fault_of(error)
            raise Undelivered(fault.words, (fault.wait or RETRY_S) if fault.passes else None) from error


@dataclass(eq=False, slots=True)
class _Look:
    """One reading of a channel, for all who wait for it."""

    result: asyncio.Future[dict[str, tuple[str, ...]] | None]
    oldest: float = math.inf
    begun: bool = False


async def _apart(request: Request, draw: Callable[[], Answer]) -> Answer:
    """A long text is drawn in a thread: everybody else waits for the loop."""
    return await asyncio.to_thread(draw) if length(dict(request.tool_input)) > SMALL else draw()


def picture_of(
    request: Request, offers: Offers | None = None, complete: bool = False, file: FileNow | None = None
) -> Picture:
    """`complete`: what the card does not show is in its thread; only then can it be approved."""
    return card(request, usual_offers(request) if offers is None else offers, file, complete)


def usual_offers(request: Request) -> Offers:
    """By the request alone, where nobody asks the gate."""
    return Offers(keys_to_remember(request.event), runs_caged(request.event))
