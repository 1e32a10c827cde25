"""The HTTP side of the Web API: tokens, scopes, bodies, limits of posting, and a record of every call."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from slack_gate.local_slack.faults import Faults, reset
from slack_gate.local_slack.limits import TierLimits
from slack_gate.local_slack.methods import Args, Methods, Reply
from slack_gate.local_slack.refusal import Refused

SCOPES: dict[str, str | None] = {
    "auth.test": None,
    "chat.delete": "chat:write",
    "chat.postEphemeral": "chat:write",
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "conversations.history": "im:history",
    "conversations.open": "im:write",
    "files.completeUploadExternal": "files:write",
    "files.getUploadURLExternal": "files:write",
    "users.info": "users:read",
    "views.open": None,
    "views.publish": None,
    "views.update": None,
}
"""The bot scope each method needs."""
APP_LEVEL = "apps.connections.open"
"""The one method that takes the app-level token, always with the scope `connections:write`."""


@dataclass
class Call:
    """A call that arrived: its arguments without the token, and the error it was answered with."""

    method: str
    args: Args
    error: str | None = None


class WebApi:
    """Answers `POST /api/METHOD`."""

    def __init__(
        self,
        methods: Methods,
        faults: Faults,
        manifest: dict[str, Any],
        open_connection: Callable[[], str],
    ) -> None:
        self.bot_token = f"xoxb-{secrets.token_hex(16)}"
        self.app_token = f"xapp-1-{secrets.token_hex(24)}"
        self.scopes: list[str] = manifest.get("oauth_config", {}).get("scopes", {}).get("bot", [])
        self.revoked: dict[str, str] = {}
        """Tokens that are worth nothing any more, with the error they get."""
        self.calls: list[Call] = []
        self._faults = faults
        self._changed = methods.workspace.changed  # those who wait for something may wait for a call
        self.tiers: TierLimits | None = None
        """Limits of the methods' calls."""
        self._open_connection = open_connection
        self._handlers: dict[str, Callable[[Args], Reply]] = {
            "auth.test": methods.auth_test,
            "chat.delete": methods.chat_delete,
            "chat.postEphemeral": methods.chat_post_ephemeral,
            "chat.postMessage": methods.chat_post_message,
            "chat.update": methods.chat_update,
            "conversations.history": methods.conversations_history,
            "conversations.open": methods.conversations_open,
            "files.completeUploadExternal": methods.files_complete_upload_external,
            "files.getUploadURLExternal": methods.files_get_upload_url_external,
            "users.info": methods.users_info,
            "views.open": methods.views_open,
            "views.publish": methods.views_publish,
            "views.update": methods.views_update,
        }

    async def answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        try:
            args, token = await arguments(request)
        except Refused as refused:
            return self._refusal(refused)
        call = Call(method, args)
        self.calls.append(call)
        self._changed()
        fault = self._faults.take(method)
        if (failed := await fault.before(request)) is not None and not fault.performed:
            call.error = fault.name
            return failed
        try:
            reply = {"ok": True, **self._perform(request, method, args, token)}
        except Refused as refused:
            call.error = refused.error
            return self._refusal(refused)
        if failed is not None:
            call.error = f"{fault.name}, performed"
            return failed
        return reset(request) if fault.reset_after else self._json(reply)

    def _perform(self, request: web.Request, method: str, args: Args, token: str | None) -> Reply:
        if self.tiers is not None:
            self.tiers.take(method)
        if method == APP_LEVEL:
            # The app token counts in the header only.
            self._check_token(header_token(request), self.app_token)
            if request.method != "POST":
                raise Refused("insecure_request")
            return {"url": self._open_connection()}
        if method not in SCOPES:
            raise Refused("unknown_method", req_method=method)
        self._check_token(header_token(request) or token, self.bot_token)
        needed = SCOPES[method]
        if needed is not None and needed not in self.scopes:
            raise Refused("missing_scope", needed=needed, provided=",".join(self.scopes))
        return self._handlers[method](args)

    def _check_token(self, given: str | None, wanted: str) -> None:
        if not given:
            raise Refused("not_authed")
        if given not in (self.bot_token, self.app_token):
            raise Refused("invalid_auth")
        if given in self.revoked:
            raise Refused(self.revoked[given])
        if given != wanted:
            raise Refused("not_allowed_token_type")

    def _refusal(self, refused: Refused) -> web.Response:
        if refused.retry_after is None:
            return self._json(refused.body)
        headers = {"Retry-After": str(refused.retry_after)}
        return web.json_response(refused.body, status=429, headers=headers)

    def _json(self, body: Reply) -> web.Response:
        return web.json_response(body, headers={"X-OAuth-Scopes": ",".join(self.scopes)})


def header_token(request: web.Request) -> str | None:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token else None


async def arguments(request: web.Request) -> tuple[Args, str | None]:
    """The arguments of a call, and the token where it was sent among them.

    Raises:
        Refused: a JSON body that is not an object.
    """
    args: Args = dict(request.query)
    token = args.pop("token", None)
    if request.content_type == "application/json":
        try:
            body = json.loads(await request.text() or "{}")
        except ValueError:
            raise Refused("invalid_json") from None
        if not isinstance(body, dict):
            raise Refused("json_not_object")
        body.pop("token", None)  # a token inside JSON does not count
        args.update(body)
    else:
        form = dict(await request.post())
        token = form.pop("token", token)
        args.update(form)
    return args, token if isinstance(token, str) else None
