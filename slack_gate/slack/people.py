"""Approvers as Slack knows them: their names, and whether a message can still reach them."""

from __future__ import annotations

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.errors import SlackError


class People:
    """Looks people up once; a name is for reading only and never decides."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._names: dict[str, str] = {}

    async def check(self, user: str) -> None:
        """Raises SlackError when nobody would read a message to `user`."""
        try:
            found = (await self._client.users_info(user=user))["user"]
        except SlackApiError as error:
            raise SlackError(
                f"Slack does not know the approver {user} ({error.response['error']}).",
                "Check SLACK_GATE_APPROVERS; a person's profile page shows the member id.",
            ) from error
        if found.get("deleted") or found.get("is_bot"):
            what = "is deactivated" if found.get("deleted") else "is a bot"
            raise SlackError(f"The approver {user} {what}.", "Name another one in SLACK_GATE_APPROVERS.")
        profile = found.get("profile") or {}
        self._names[user] = profile.get("display_name") or found.get("real_name") or found.get("name") or user

    def name(self, user: str) -> str:
        return self._names.get(user, user)
