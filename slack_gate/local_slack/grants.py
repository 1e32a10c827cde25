"""Short-lived permissions that a click carries: a trigger to open one modal, a URL to answer with a few messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from slack_gate.local_slack.workspace import Message

TRIGGER_SECONDS = 3.0
RESPONSE_SECONDS = 30 * 60.0
RESPONSE_USES = 5

Clock = Callable[[], float]


@dataclass
class Trigger:
    user: str
    expires: float
    used: bool = False


@dataclass
class ResponseUrl:
    """Where an app answers one click; `posted` are the new messages that came this way."""

    user: str
    channel: str
    original: Message | None
    expires: float
    uses_left: int = RESPONSE_USES
    posted: list[Message] = field(default_factory=list)


class Grants:
    """All permissions given out, by the secret in them. `clock` counts seconds."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.triggers: dict[str, Trigger] = {}
        self.response_urls: dict[str, ResponseUrl] = {}

    def trigger(self, user: str) -> str:
        name = f"{secrets.randbelow(10**13)}.{secrets.randbelow(10**11)}.{secrets.token_hex(16)}"
        self.triggers[name] = Trigger(user, self.clock() + TRIGGER_SECONDS)
        return name

    def response_url(self, user: str, channel: str, original: Message | None) -> tuple[str, ResponseUrl]:
        secret = secrets.token_urlsafe(18)
        grant = ResponseUrl(user, channel, original, self.clock() + RESPONSE_SECONDS)
        self.response_urls[secret] = grant
        return secret, grant

    def expired(self, grant: Trigger | ResponseUrl) -> bool:
        return self.clock() >= grant.expires
