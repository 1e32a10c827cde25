"""The Web API methods: each takes the arguments of a call and returns Slack's reply, or raises `Refused`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from slack_gate.local_slack.blocks import (
    MESSAGE_TOTAL,
    POST_TEXT,
    UPDATE_TEXT,
    VIEW_BYTES,
    Blocks,
    home_faults,
    message_faults,
    total,
    view_faults,
)
from slack_gate.local_slack.files import Files
from slack_gate.local_slack.grants import Grants
from slack_gate.local_slack.limits import Limit
from slack_gate.local_slack.refusal import Refused, invalid_arguments
from slack_gate.local_slack.schema import length
from slack_gate.local_slack.visible import Version
from slack_gate.local_slack.workspace import Home, Message, Modal, User, Workspace

MOST_HISTORY = 999
"""Messages on one page of history."""

Args = dict[str, Any]
Reply = dict[str, Any]


def text_argument(args: Args, name: str) -> str:
    """A required string argument."""
    value = args.get(name)
    if value is None or value == "":
        raise invalid_arguments(f"missing required field: {name}")
    if not isinstance(value, str):
        raise invalid_arguments(f"must be a string [json-pointer:/{name}]")
    return value


def json_argument(args: Args, name: str, error: str) -> Any:
    """An argument that is JSON, sent as such or as a string of it."""
    value = args.get(name)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refused(error) from None


def whole_argument(args: Args, name: str, default: int) -> int:
    try:
        return int(args.get(name) or default)
    except (TypeError, ValueError):
        raise invalid_arguments(f"must be an integer [json-pointer:/{name}]") from None


def checked_content(args: Args) -> tuple[str | None, Blocks | None]:
    """The `text` and `blocks` of a message; None for one that was not given."""
    text = args.get("text")
    if text is not None and not isinstance(text, str):
        raise invalid_arguments("must be a string [json-pointer:/text]")
    blocks = json_argument(args, "blocks", "invalid_blocks_format")
    if blocks is not None:
        if faults := message_faults(blocks):
            raise Refused("invalid_blocks", messages=faults, errors=faults)
        if total(blocks) > MESSAGE_TOTAL:
            raise Refused("msg_blocks_too_long")
    if not text and not blocks:
        raise Refused("no_text")
    return text, blocks


class Methods:
    """The methods over one workspace; `manifest` is the app's."""

    def __init__(self, workspace: Workspace, grants: Grants, manifest: dict[str, Any], files: Files) -> None:
        self.workspace = workspace
        self.files = files
        self.grants = grants
        self.limit: Limit | None = None
        """Of the messages in each channel."""
        tabs = manifest.get("features", {}).get("app_home", {})
        self.messages_tab = bool(tabs.get("messages_tab_enabled"))
        self.home_tab = bool(tabs.get("home_tab_enabled"))

    def auth_test(self, args: Args) -> Reply:
        place = self.workspace
        return {
            "url": f"https://{place.domain}.slack.com/",
            "team": place.domain,
            "user": place.bot.name,
            "team_id": place.team_id,
            "user_id": place.bot.id,
            "bot_id": place.bot_id,
            "is_enterprise_install": False,
        }

    def users_info(self, args: Args) -> Reply:
        user = self.workspace.users.get(text_argument(args, "user"))
        if user is None:
            raise Refused("user_not_found")
        names = {"real_name": user.name, "display_name": user.name}
        flags = {
            name: getattr(user, name) for name in ("deleted", "is_bot", "is_restricted", "is_ultra_restricted")
        } | {"is_admin": False, "is_owner": False, "is_app_user": False}
        if user.team_id != self.workspace.team_id:
            flags["is_stranger"] = True
        return {
            "user": {
                "id": user.id,
                "team_id": user.team_id,
                "name": user.name.lower(),
                "real_name": user.name,
                "tz": "UTC",
                "tz_offset": 0,
                "profile": names,
                "updated": 0,
                **flags,
            }
        }

    def conversations_open(self, args: Args) -> Reply:
        user = self.workspace.users.get(text_argument(args, "users"))
        if user is None:
            raise Refused("user_not_found")
        return {"channel": {"id": self._dm(user)}}

    def conversations_history(self, args: Args) -> Reply:
        """The channel's messages, newest first; threads' replies and ephemeral ones never stand in it."""
        channel = text_argument(args, "channel")
        if self.workspace.user_in(channel) is None:
            raise Refused("channel_not_found")
        limit = whole_argument(args, "limit", 100)
        if not 1 <= limit <= MOST_HISTORY:
            raise Refused("invalid_limit")
        oldest, latest = str(args.get("oldest") or "0"), str(args.get("cursor") or args.get("latest") or "9" * 10)
        between = [
            message
            for message in reversed(self.workspace.messages)
            if message.channel == channel
            and message.only_for is None
            and not message.deleted
            and message.thread_ts is None
            and float(oldest) < float(message.ts) < float(latest)
        ]
        page, more = between[:limit], len(between) > limit
        with_metadata = str(args.get("include_all_metadata", "")).lower() in ("1", "true")
        return {
            "messages": [message_object(message, with_metadata=with_metadata) for message in page],
            "has_more": more,
            "response_metadata": {"next_cursor": page[-1].ts if more else ""},
        }

    def chat_post_message(self, args: Args) -> Reply:
        channel = self._channel(text_argument(args, "channel"), users_too=True)
        if self.limit is not None:
            self.limit.take(channel)
        text, blocks = checked_content(args)
        metadata = json_argument(args, "metadata", "invalid_metadata_format")
        if metadata is not None and (
            not isinstance(metadata, dict) or set(metadata) != {"event_type", "event_payload"}
        ):
            raise Refused("invalid_metadata_format")
        thread = args.get("thread_ts")
        if thread is not None and not self.workspace.find(channel, str(thread)):
            raise Refused("thread_not_found")
        message = self.workspace.post(
            channel, (text or "")[:POST_TEXT], blocks or [], thread_ts=thread, metadata=metadata
        )
        return {"channel": channel, "ts": message.ts, "message": message_object(message)}

    def chat_update(self, args: Args) -> Reply:
        message = self._own_message(args)
        text, blocks = checked_content(args)
        if text is not None and length(text) > UPDATE_TEXT:
            raise Refused("msg_too_long")
        if text is not None and blocks is None:
            blocks = []  # text alone takes the old blocks away
        self.workspace.update(
            message, message.text if text is None else text, message.blocks if blocks is None else blocks
        )
        return {
            "channel": message.channel,
            "ts": message.ts,
            "text": message.text,
            "message": message_object(message),
        }

    def chat_delete(self, args: Args) -> Reply:
        message = self._own_message(args)
        self.workspace.delete(message)
        return {"channel": message.channel, "ts": message.ts}

    def chat_post_ephemeral(self, args: Args) -> Reply:
        channel = self._channel(text_argument(args, "channel"), users_too=False)
        user = self.workspace.users.get(text_argument(args, "user"))
        if user is None or user.channel != channel:
            raise Refused("user_not_in_channel")
        text, blocks = checked_content(args)
        thread = args.get("thread_ts")
        if thread is not None and not self.workspace.find(channel, str(thread)):
            raise Refused("thread_not_found")
        message = self.workspace.post(
            channel, (text or "")[:POST_TEXT], blocks or [], only_for=user.id, thread_ts=thread
        )
        return {"message_ts": message.ts}

    def files_get_upload_url_external(self, args: Args) -> Reply:
        if args.get("length") in (None, ""):
            raise invalid_arguments("missing required field: length")
        return self.files.promised(text_argument(args, "filename"), whole_argument(args, "length", 0))

    def files_complete_upload_external(self, args: Args) -> Reply:
        wanted = json_argument(args, "files", "invalid_arguments")
        channel = self._channel(text_argument(args, "channel_id"), users_too=False)
        thread = args.get("thread_ts")
        return self.files.complete(
            wanted, channel, None if thread is None else str(thread), str(args.get("initial_comment") or "")
        )

    def views_open(self, args: Args) -> Reply:
        view = self._view(args)
        trigger = self.grants.triggers.get(text_argument(args, "trigger_id"))
        if trigger is None:
            raise Refused("invalid_trigger_id")
        if trigger.used:
            raise Refused("exchanged_trigger_id")
        if self.grants.expired(trigger):
            raise Refused("expired_trigger_id")
        trigger.used = True
        return {"view": view_object(self.workspace, self.workspace.open_modal(trigger.user, view))}

    def views_update(self, args: Args) -> Reply:
        view = self._view(args)
        key, name = ("view_id", "id") if args.get("view_id") else ("external_id", "external_id")
        wanted = text_argument(args, key)
        modal = next(
            (m for m in self.workspace.modals if (m.id if name == "id" else m.view.get(name)) == wanted),
            None,
        )
        if modal is None:
            raise Refused("not_found")
        if args.get("hash") not in (None, modal.hash):
            raise Refused("hash_conflict")
        self.workspace.update_modal(modal, view)
        return {"view": view_object(self.workspace, modal)}

    def views_publish(self, args: Args) -> Reply:
        view = self._view(args, home_faults)
        user = self.workspace.users.get(text_argument(args, "user_id"))
        if user is None or user.deleted or user.is_bot:
            raise invalid_arguments("invalid user [json-pointer:/user_id]")
        if not self.home_tab:
            raise Refused("not_enabled")
        old = self.workspace.homes.get(user.id)
        if args.get("hash") and (old is None or args["hash"] != old.hash):
            raise Refused("hash_conflict")
        return {"view": view_object(self.workspace, self.workspace.publish_home(user.id, view))}

    def _view(self, args: Args, faults_of: Callable[[object], list[str]] = view_faults) -> dict[str, Any]:
        view = json_argument(args, "view", "invalid_arguments")
        if view is None:
            raise invalid_arguments("missing required field: view")
        if faults := faults_of(view):
            raise invalid_arguments(*faults)
        if len(json.dumps(view, ensure_ascii=False).encode()) > VIEW_BYTES:
            raise Refused("view_too_large")
        checked: dict[str, Any] = view
        return checked

    def _channel(self, name: str, *, users_too: bool) -> str:
        user = self.workspace.users.get(name) if users_too else None
        user = user or self.workspace.user_in(name)
        if user is None or user.team_id != self.workspace.team_id:
            raise Refused("channel_not_found")
        return self._dm(user)

    def _dm(self, user: User) -> str:
        if not self.messages_tab:
            raise Refused("messages_tab_disabled")
        if user.is_bot:
            raise Refused("cannot_dm_bot")
        if user.deleted:
            raise Refused("user_disabled")
        return user.channel

    def _own_message(self, args: Args) -> Message:
        channel = text_argument(args, "channel")
        ts = text_argument(args, "ts")
        if self.workspace.user_in(channel) is None:
            raise Refused("channel_not_found")
        message = self.workspace.find(channel, ts)
        if message is not None and message.author is not None:
            raise Refused("cant_update_message")
        if message is None or message.only_for is not None:
            raise Refused("message_not_found")
        return message


def message_object(message: Message, version: Version | None = None, *, with_metadata: bool = False) -> dict[str, Any]:
    """The message as it stands in replies and payloads, in its newest version or the given one."""
    place = message.workspace
    shown = version or message.latest
    found: dict[str, Any] = {
        "type": "message",
        "user": place.bot.id,
        "ts": message.ts,
        "bot_id": place.bot_id,
        "app_id": place.app_id,
        "team": place.team_id,
        "text": shown.text,
        "blocks": shown.blocks,
    }
    if message.author is not None:
        found = {name: found[name] for name in ("type", "ts", "team", "text", "blocks")} | {"user": message.author}
    if message.reactions:
        counted = message.reactions.items()
        found["reactions"] = [{"name": name, "users": users, "count": len(users)} for name, users in counted]
    if message.thread_ts:
        found["thread_ts"] = message.thread_ts
    if message.files:
        found["files"] = [{"id": file.id, "name": file.name, "title": file.title} for file in message.files]
    if with_metadata and message.metadata:
        found["metadata"] = message.metadata
    return found


def view_object(workspace: Workspace, modal: Modal | Home, values: dict[str, Any] | None = None) -> dict[str, Any]:
    """The modal or Home tab as it stands in replies and payloads; `values` by block and action id."""
    return {
        "callback_id": "",
        "private_metadata": "",
        "external_id": "",
        "clear_on_close": False,
        "notify_on_close": False,
        "submit": None,
        "close": None,
        **modal.view,
        "id": modal.id,
        "team_id": workspace.team_id,
        "hash": modal.hash,
        "state": {"values": values or {}},
        "root_view_id": modal.id,
        "previous_view_id": None,
        "app_id": workspace.app_id,
        "app_installed_team_id": workspace.team_id,
        "bot_id": workspace.bot_id,
    }
