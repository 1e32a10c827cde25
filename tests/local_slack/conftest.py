from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack
from tests.local_slack.apps import client_of


@pytest.fixture
async def slack() -> AsyncIterator[LocalSlack]:
    async with LocalSlack() as server:
        yield server


@pytest.fixture
def client(slack: LocalSlack) -> AsyncWebClient:
    return client_of(slack)
