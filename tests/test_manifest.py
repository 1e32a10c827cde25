"""The manifest people paste into Slack: valid by Slack's public schema, and asking for what is used, no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from slack_gate.local_slack.web_api import APP_LEVEL, SCOPES

ROOT = Path(__file__).parents[1]
MANIFEST: dict[str, Any] = yaml.safe_load((ROOT / "manifests/slack-app.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((ROOT / "tests/data/manifest.schema.json").read_text(encoding="utf-8"))


def methods_in_use() -> set[str]:
    """Web API methods called in the product: `client.chat_postMessage(` is chat.postMessage."""
    called = {method.replace(".", "_"): method for method in [*SCOPES, APP_LEVEL]}
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "slack_gate" / "slack").glob("*.py")]
    names = {name for source in sources for name in re.findall(r"\.([a-z]+(?:_[A-Za-z]+)+)\(", source)}
    return {called[name] for name in names & set(called)}


def test_it_passes_slacks_schema() -> None:
    jsonschema.validate(MANIFEST, SCHEMA)


def test_the_schema_refuses_a_wrong_manifest() -> None:
    errors = list(jsonschema.validators.validator_for(SCHEMA)(SCHEMA).iter_errors({**MANIFEST, "scopes": []}))
    assert errors


def test_the_scopes_are_those_of_the_methods_in_use() -> None:
    used = methods_in_use()
    assert {"auth.test", "chat.postMessage", "chat.update", "users.info"} <= used
    needed = {scope for method in used - {APP_LEVEL} if (scope := SCOPES[method])}
    assert set(MANIFEST["oauth_config"]["scopes"]["bot"]) == needed
    assert set(MANIFEST["oauth_config"]["scopes"]) == {"bot"}


def test_buttons_and_direct_messages_work_over_socket_mode() -> None:
    settings = MANIFEST["settings"]
    assert settings["socket_mode_enabled"] and settings["interactivity"]["is_enabled"]
    assert not settings["token_rotation_enabled"] and "event_subscriptions" not in settings
    assert MANIFEST["features"]["app_home"]["messages_tab_enabled"]
