"""How Slack says no."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A Web API call Slack refuses: an error code, and what else stands in the reply.

    `messages` become `response_metadata.messages` (each with Slack's `[ERROR] ` before it), `errors` the JSON list of
    the same name; `retry_after` (seconds) makes it HTTP 429.
    """

    def __init__(
        self,
        error: str,
        *,
        messages: list[str] | None = None,
        errors: list[str] | None = None,
        retry_after: float | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(error)
        self.error = error
        self.retry_after = retry_after
        self.body: dict[str, Any] = {"ok": False, "error": error, **extra}
        if errors:
            self.body["errors"] = errors
        if messages:
            self.body["response_metadata"] = {"messages": [f"[ERROR] {message}" for message in messages]}


def invalid_arguments(*messages: str) -> Refused:
    return Refused("invalid_arguments", messages=list(messages))
