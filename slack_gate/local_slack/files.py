"""Files: an address to send bytes to, then one call that shares them in a conversation or a thread."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from slack_gate.local_slack.faults import Faults, reset
from slack_gate.local_slack.refusal import Refused, invalid_arguments
from slack_gate.local_slack.workspace import SharedFile, Workspace

NAME = "upload_url"
"""What faults and records of calls call it."""
MAX_SNIPPET = 1024 * 1024
"""Bytes of a text that is shown as a snippet; a larger one is a file to fetch."""


@dataclass
class Upload:
    """A file whose bytes are expected, or here."""

    id: str
    name: str
    length: int
    data: bytes | None = None


class Files:
    """What has been promised and sent; `root` is this server's address."""

    def __init__(self, workspace: Workspace, faults: Faults) -> None:
        self.workspace = workspace
        self.root = ""
        self._faults = faults
        self._by_secret: dict[str, Upload] = {}
        self._by_id: dict[str, Upload] = {}

    def promised(self, name: str, length: int) -> dict[str, Any]:
        if length < 1:
            raise invalid_arguments("must be greater than 0 [json-pointer:/length]")
        upload = Upload("F" + secrets.token_hex(5).upper(), name, length)
        secret = secrets.token_urlsafe(18)
        self._by_secret[secret] = self._by_id[upload.id] = upload
        return {"upload_url": f"{self.root}/upload/v1/{secret}", "file_id": upload.id}

    async def receive(self, request: web.Request) -> web.Response:
        """Takes the bytes, raw or as the one part of a form; 200 means that they are stored."""
        fault = self._faults.take(NAME)
        if (failed := await fault.before(request)) is not None:
            return failed
        upload = self._by_secret.get(request.match_info["secret"])
        if upload is None:
            return web.Response(status=404, text="no such upload")
        if request.content_type.startswith("multipart/"):
            parts = [part.file.read() for part in (await request.post()).values() if isinstance(part, web.FileField)]
            data = parts[0] if parts else b""
        else:
            data = await request.read()
        if len(data) != upload.length:
            return web.Response(status=400, text="the length is not the one that was promised")
        upload.data = data
        return reset(request) if fault.reset_after else web.Response(text=f"OK - {len(data)}")

    def complete(self, wanted: Any, channel: str, thread: str | None, comment: str) -> dict[str, Any]:
        """One message with all of the files."""
        if not isinstance(wanted, list) or not wanted:
            raise invalid_arguments("must be a list of files [json-pointer:/files]")
        shared = []
        for each in wanted:
            upload = self._by_id.get(str(each.get("id"))) if isinstance(each, dict) else None
            if upload is None or upload.data is None:
                raise Refused("file_not_found")
            shared.append(SharedFile(upload.id, upload.name, str(each.get("title") or upload.name), upload.data))
        if thread is not None and not self.workspace.find(channel, thread):
            raise Refused("invalid_thread_ts")
        self.workspace.post(channel, comment, [], thread_ts=thread, files=shared)
        return {"files": [{"id": file.id, "title": file.title, "name": file.name} for file in shared]}
