"""Addresses of messages, for a button that leads to a card."""

from __future__ import annotations

from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.slack.faults import FAILED


class Permalinks:
    """The workspace's address is asked for once, and again only while Slack does not say it."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._root = ""

    async def look_up(self) -> None:
        if self._root:
            return
        try:
            url = (await self._client.auth_test()).get("url")
        except FAILED:
            return  # the links are left out until it is known
        self._root = url if isinstance(url, str) and url.startswith("https://") else ""

    def of(self, channel: str, message: str) -> str:
        """Empty while the workspace's address or the message is not known."""
        if not (self._root and channel and message):
            return ""
        return f"{self._root.rstrip('/')}/archives/{channel}/p{message.replace('.', '')}"
