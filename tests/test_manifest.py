"""The manifest people paste into Slack: valid by Slack's public schema, and asking for what is used, no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from slack_gate.local_slack.events import NEEDS
from slack_gate.local_slack.web_api import APP_LEVEL, SCOPES
from slack_gate.slack.commands import COMMAND, WORDS

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
    needed |= {scope for event in listened("event") if (scope := NEEDS[event])}
    needed |= {"commands"} if listened("command") else set()
    assert set(MANIFEST["oauth_config"]["scopes"]["bot"]) == needed
    assert set(MANIFEST["oauth_config"]["scopes"]) == {"bot"}


def listened(kind: str) -> set[str]:
    """What the product listens to, as Slack's manifest names it: `app.event("message")` is message.im here."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "slack_gate" / "slack").glob("*.py"))
    found = set(re.findall(rf"app\.{kind}\((\w+|\"[^\"]+\")\)", sources))
    names = {"COMMAND": COMMAND, '"message"': "message.im"}
    return {names.get(name, name.strip('"')) for name in found}


def test_the_events_and_commands_are_those_that_are_listened_to() -> None:
    subscribed = MANIFEST["settings"]["event_subscriptions"]["bot_events"]
    assert set(subscribed) == listened("event") == {"app_home_opened", "message.im", "reaction_added"}
    commands = MANIFEST["features"]["slash_commands"]
    assert {command["command"] for command in commands} == listened("command") == {"/gate"}
    assert all(f" {word} " in f" {commands[0]['usage_hint']} " for word in WORDS - {"help"})


def test_buttons_and_direct_messages_work_over_socket_mode() -> None:
    settings = MANIFEST["settings"]
    assert settings["socket_mode_enabled"] and settings["interactivity"]["is_enabled"]
    assert not settings["token_rotation_enabled"]
    home = MANIFEST["features"]["app_home"]
    assert home["messages_tab_enabled"] and home["home_tab_enabled"] and not home["messages_tab_read_only_enabled"]
