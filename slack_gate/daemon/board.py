"""A surface whose messages can be found again, as the outbox needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slack_gate.core.ports import Surface
from slack_gate.core.request import Request


class Board(Surface, Protocol):
    """All but `fitting` and `remedy` raise Undelivered."""

    async def complete(self, request: Request, channel: str, message: str) -> None:
        """Puts what a new message cannot hold below it, and then the buttons that approve; again if need be."""
        ...

    def fitting(self, requests: Sequence[Request]) -> int:
        """How many of the first of these may stand on one message, each whole: 0 when the first needs its own."""
        ...

    async def post_all(self, requests: Sequence[Request], approver: str) -> tuple[str, str]:
        """Channel and id of a new message that asks for all of them."""
        ...

    async def redraw_all(self, requests: Sequence[Request], channel: str, message: str) -> None:
        """As `redraw`, of a message that shows all of these."""
        ...

    async def find(self, request: Request, channel: str) -> dict[str, tuple[str, ...]] | None:
        """All messages in the channel that show the request, newest first, each with the ids of all requests that it
        shows; None when it lets nobody look.
        """
        ...

    def remedy(self, error: str) -> str:
        """What a person can do about an error, empty when it passes by itself or nothing is known."""
        ...
