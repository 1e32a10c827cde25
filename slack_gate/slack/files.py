"""Texts as files in a thread: an address for the bytes of each, then one call that shares them all."""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.slack.cards import File

UPLOAD_S = 10.0  # for the bytes of one file


async def share(client: AsyncWebClient, files: Sequence[File], channel: str, thread: str, comment: str = "") -> None:
    """Puts the files below a message. Raises SlackApiError, aiohttp.ClientError or TimeoutError."""
    named = []
    for number, file in enumerate(files, 1):
        data = file.text.encode("utf-8", "replace")
        name = "whole.txt" if len(files) == 1 else f"whole-{number}.txt"
        promised = await client.files_getUploadURLExternal(filename=name, length=len(data))
        await _send(client, str(promised["upload_url"]), data)
        named.append({"id": promised["file_id"], "title": file.title})
    await client.files_completeUploadExternal(
        files=named, channel_id=channel, thread_ts=thread, initial_comment=comment or None
    )


async def _send(client: AsyncWebClient, url: str, data: bytes) -> None:
    timeout = aiohttp.ClientTimeout(total=UPLOAD_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, data=data, proxy=client.proxy, ssl=client.ssl if client.ssl is not None else True) as answer,
    ):
        if answer.status != 200:
            raise aiohttp.ClientResponseError(answer.request_info, answer.history, status=answer.status)
