"""Approvers as Slack knows them: their names, and whether a message can still reach them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from slack_gate.errors import SlackError
from slack_gate.slack.faults import FAILED, fault_of
from slack_gate.slack.link import answered
from slack_gate.slack.remedies import remedy

FRESH_S = 60.0  # how long an answer about a person is good for


class People:
    """Looks people up; a name is for reading only and never decides. `clock` counts seconds."""

    def __init__(self, client: AsyncWebClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._names: dict[str, str] = {}
        self._active_at: dict[str, float] = {}

    async def check(self, user: str) -> None:
        """Raises SlackError when nobody would read a message to `user`."""

        def refused(code: str) -> SlackError:
            does_not = "know" if code.startswith("user") else "let the app look up"
            return SlackError(f"Slack does not {does_not} the approver {user} ({code}).", remedy(code))

        found = self._known(user, await answered(self._client, partial(self._client.users_info, user=user), refused))
        if (why := _fault(found)) is not None:
            raise SlackError(f"The approver {user} {why}.", "Name another one in SLACK_GATE_APPROVERS.")

    async def inactive(self, user: str) -> str | None:
        """Why nobody would read a message to `user`, None when somebody would or Slack does not say just now."""
        if self._clock() - self._active_at.get(user, float("-inf")) < FRESH_S:
            return None
        try:
            why = _fault(self._known(user, await self._client.users_info(user=user)))
        except FAILED as error:  # any other fault the post that follows meets too, and tells it
            why = "is not known to Slack" if fault_of(error).code == "user_not_found" else None
        return None if why is None else f"{user} {why}"

    def _known(self, user: str, answer: AsyncSlackResponse) -> dict[str, Any]:
        found: dict[str, Any] = answer["user"]
        profile = found.get("profile") or {}
        self._names[user] = profile.get("display_name") or found.get("real_name") or found.get("name") or user
        if _fault(found) is None:
            self._active_at[user] = self._clock()
        return found

    def name(self, user: str) -> str:
        return self._names.get(user, user)


def _fault(found: dict[str, Any]) -> str | None:
    if found.get("deleted"):
        return "is deactivated"
    return "is a bot" if found.get("is_bot") else None
