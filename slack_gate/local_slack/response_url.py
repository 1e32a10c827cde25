"""Where an app answers a click: new messages, or the original replaced or taken away."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from slack_gate.local_slack.faults import Faults, reset
from slack_gate.local_slack.grants import Grants, ResponseUrl
from slack_gate.local_slack.methods import checked_content
from slack_gate.local_slack.refusal import Refused
from slack_gate.local_slack.workspace import Workspace

NAME = "response_url"
"""What faults and records of calls call it."""


class ResponseUrls:
    """Answers `POST /actions/TEAM/SECRET`: 200 `ok`, or an error code as JSON with 404 (gone) or 400 (bad content)."""

    def __init__(self, workspace: Workspace, grants: Grants, faults: Faults) -> None:
        self.workspace = workspace
        self.grants = grants
        self.faults = faults

    async def answer(self, request: web.Request) -> web.Response:
        fault = self.faults.take(NAME)
        if (failed := await fault.before(request)) is not None and not fault.performed:
            return failed
        grant = self.grants.response_urls.get(request.match_info["secret"])
        if grant is None or self.grants.expired(grant):
            return web.json_response({"ok": False, "error": "expired_url"}, status=404)
        if grant.uses_left == 0:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        try:
            self._perform(grant, await json_object(request))
        except Refused as refused:
            return web.json_response(refused.body, status=400)
        grant.uses_left -= 1
        if failed is not None:
            return failed
        return reset(request) if fault.reset_after else web.Response(text="ok")

    def _perform(self, grant: ResponseUrl, body: dict[str, Any]) -> None:
        original = grant.original
        if body.get("delete_original"):
            if original is not None:
                self.workspace.delete(original)
            return
        text, blocks = checked_content(body)
        if body.get("replace_original"):
            if original is None:
                raise Refused("message_not_found")
            self.workspace.update(original, text or "", blocks or [])
            return
        only_for = None if body.get("response_type") == "in_channel" else grant.user
        grant.posted.append(self.workspace.post(grant.channel, text or "", blocks or [], only_for=only_for))


async def json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError:
        raise Refused("invalid_payload") from None
    if not isinstance(body, dict):
        raise Refused("invalid_payload")
    return body
