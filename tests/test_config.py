"""Every setting from the environment and from config.toml, which of them wins, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from slack_gate.config import Settings, load, secret_files
from slack_gate.errors import ConfigError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("SLACK_", "GATE_", "XDG_", "SBX_", "SANDBOX")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SLACK_GATE_HOME", str(tmp_path))
    return tmp_path


# field, name in the environment, value there, the same in config.toml, as the settings hold it
EACH = [
    ("slack_bot_token", "SLACK_BOT_TOKEN", "xoxb-1", '"xoxb-1"', SecretStr("xoxb-1")),
    ("slack_app_token", "SLACK_APP_TOKEN", "xapp-1", '"xapp-1"', SecretStr("xapp-1")),
    ("slack_api_url", "SLACK_API_URL", "http://127.0.0.1:1/api", '"http://127.0.0.1:1/api"', "http://127.0.0.1:1/api/"),
    ("approvers", "SLACK_GATE_APPROVERS", " U0ANA, W0BOB,U0ANA,", '["U0ANA", "W0BOB"]', ("U0ANA", "W0BOB")),
    ("approvers", "SLACK_GATE_APPROVERS", "U0ANA", '"U0ANA"', ("U0ANA",)),
    ("team", "SLACK_GATE_TEAM", "T1", '"T1"', "T1"),
    ("socket", "SLACK_GATE_SOCKET", "/run/x.sock", '"/run/x.sock"', Path("/run/x.sock")),
    ("database_url", "SLACK_GATE_DATABASE_URL", "sqlite:////x.db", '"sqlite:////x.db"', "sqlite:////x.db"),
    ("wait", "SLACK_GATE_WAIT", "7", "7", 7),
    ("wait", "GATE_WAIT", "7", "7", 7),
    ("escalate", "SLACK_GATE_ESCALATE", "60", "60", 60),
    ("cage_first", "SLACK_GATE_CAGE_FIRST", "true", "true", True),
    ("reactions", "SLACK_GATE_REACTIONS", "true", "true", True),
    ("executor", "SLACK_GATE_EXECUTOR", "sandboxer", '"sandboxer"', "sandboxer"),
    ("hook_executor", "SLACK_GATE_HOOK_EXECUTOR", "cage", '"cage"', "cage"),
    (
        "sandboxer_api_url",
        "SANDBOXER_API_URL",
        "http://127.0.0.1:1/v1",
        '"http://127.0.0.1:1/v1"',
        "http://127.0.0.1:1/v1/",
    ),
    ("sbx_gate_key", "SBX_GATE_KEY", "k-1", '"k-1"', SecretStr("k-1")),
    ("sandbox_id", "SANDBOX_ID", "sb_1", '"sb_1"', "sb_1"),
    ("agent_port", "SLACK_GATE_AGENT_PORT", "0", "0", 0),
    ("page_port", "SLACK_GATE_PAGE_PORT", "1", "1", 1),
    ("log_format", "SLACK_GATE_LOG_FORMAT", "json", '"json"', "json"),
]


@pytest.mark.parametrize(("field", "name", "value", "toml", "held"), EACH)
def test_each_setting_from_either_place(
    home: Path, monkeypatch: pytest.MonkeyPatch, field: str, name: str, value: str, toml: str, held: object
) -> None:
    default = getattr(load(), field)
    assert default != held
    monkeypatch.setenv(name, value)
    assert getattr(load(), field) == held
    monkeypatch.setenv(name, "")
    assert getattr(load(), field) == default
    monkeypatch.delenv(name)
    for key in {name.lower(), name.lower().removeprefix("slack_gate_")}:
        (home / "config.toml").write_text(f"{key} = {toml}\n")
        assert getattr(load(), field) == held


def test_no_setting_is_left_out_above() -> None:
    assert {field for field, *_ in EACH} | {"home"} == set(Settings.model_fields)


@pytest.mark.parametrize("name", ["SLACK_GATE_WAIT", "GATE_WAIT"])
@pytest.mark.parametrize("key", ["slack_gate_wait", "gate_wait", "wait"])
def test_the_environment_wins(home: Path, monkeypatch: pytest.MonkeyPatch, name: str, key: str) -> None:
    (home / "config.toml").write_text(f"{key} = 20\nteam = 'T1'\n")
    monkeypatch.setenv(name, "7")
    assert (load().wait, load().team) == (7, "T1")
    assert load(wait=3).wait == 3


def test_the_longer_name_of_the_wait_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_WAIT", "7")
    monkeypatch.setenv("SLACK_GATE_WAIT", "8")
    assert load().wait == 8


def test_defaults(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load()
    assert (settings.wait, settings.approvers, settings.slack_api_url) == (300, (), "https://slack.com/api/")
    assert settings.socket_path == home / "run" / "gate.sock"
    assert settings.database == f"sqlite:///{home}/gate.db"
    assert settings.log_path == home / "gate-log.jsonl"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    assert load().socket_path == Path("/run/user/1/slack-gate/gate.sock")
    monkeypatch.delenv("SLACK_GATE_HOME")
    monkeypatch.setenv("HOME", "/nonexistent")
    assert load().home == Path("/nonexistent/.config/slack-gate")
    assert load(database_url="sqlite:////x").database == "sqlite:////x"


def test_what_others_mean_by_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("WAIT", "1"),
        ("SOCKET", "/x"),
        ("TEAM", "T9"),
        ("APPROVERS", "U0EVE"),
        ("LOG_FORMAT", "json"),
    ):
        monkeypatch.setenv(name, value)
    assert (load().wait, load().socket, load().team, load().approvers, load().log_format) == (300, None, "", (), "text")


@pytest.mark.parametrize("value", ["", ",", " , ,"])
def test_no_approver_is_nobody(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SLACK_GATE_APPROVERS", value)
    assert load().approvers == ()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SLACK_GATE_WAIT", "soon", "integer"),
        ("GATE_WAIT", "1.5", "integer"),
        ("SLACK_GATE_WAIT", "0", "greater than or equal to 1"),
        ("SLACK_GATE_WAIT", "-5", "greater than or equal to 1"),
        ("SLACK_GATE_WAIT", "86401", "less than or equal to 86400"),
        ("SLACK_GATE_APPROVERS", "ana", "not a Slack user id"),
        ("SLACK_GATE_APPROVERS", "U0ANA;U0BOB", "not a Slack user id"),
        ("SLACK_GATE_APPROVERS", "xoxb-EXAMPLE-12345678", r"'\[masked 21\]' is not a Slack user id"),
        ("SLACK_GATE_APPROVERS", "u0ana", "not a Slack user id"),
        ("SLACK_GATE_APPROVERS", "U0ÄNA", "not a Slack user id"),
        ("SLACK_GATE_SOCKET", "gate.sock", "not an absolute path"),
        ("SLACK_GATE_SOCKET", "~/gate.sock", "not an absolute path"),
        ("SLACK_GATE_HOME", "home", "not an absolute path"),
        ("SLACK_GATE_CAGE_FIRST", "perhaps", "boolean"),
        ("SLACK_GATE_LOG_FORMAT", "xml", "'text' or 'json'"),
        ("SLACK_API_URL", "http://slack.example/api/", "only over https"),
        ("SLACK_API_URL", "http://127.0.0.1.evil.example/api/", "only over https"),
        ("SLACK_API_URL", "http://localhost.evil.example/", "only over https"),
        ("SLACK_API_URL", "http://127.0.0.1@evil.example/", "only over https"),
        ("SLACK_API_URL", "https:///api", "only over https"),
        ("SLACK_API_URL", "ftp://slack.com/api/", "only over https"),
        ("SLACK_API_URL", "slack.com", "only over https"),
    ],
)
def test_wrong_values(monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=words) as raised:
        load()
    assert raised.value.sentence.startswith("The setting SLACK_")
    assert name.removeprefix("SLACK_") in raised.value.sentence


@pytest.mark.parametrize(
    "url", ["http://[::1]:1/", "http://localhost:1/api/", "https://slack.example/api/", "HTTPS://x/"]
)
def test_urls_that_tokens_may_travel_to(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("SLACK_API_URL", url)
    assert load().slack_api_url == url


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("wiat = 5", "unknown setting wiat"),
        ("home = '/x'", "unknown setting home"),
        ("slack_gate_home = '/x'", "unknown setting slack_gate_home"),
        ("[slack]\nwait = 5", "unknown setting slack"),
        ("wait = true", "not a number"),
        ("wait = 'soon'", "integer"),
        ("wait = [1]", "integer"),
        ("approvers = 5", "tuple"),
        ("approvers = [5]", "string"),
        ("team = 5", "string"),
        ("slack_bot_token = 5", "string"),
        ("socket = 5", "path"),
        ("log_format = false", "'text' or 'json'"),
        ("wait = ", "cannot be read as TOML"),
        ("wait = 5\nwait = 6", "cannot be read as TOML"),
        ("\udcff", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file(home: Path, toml: str, words: str) -> None:
    (home / "config.toml").write_bytes(toml.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=words):
        load()


def test_a_file_that_cannot_be_read(home: Path) -> None:
    (home / "config.toml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load()


# Secrets


SECRETS = ("xoxb-EXAMPLE-1", "xapp-EXAMPLE-2", "EXAMPLEpw")


def test_no_secret_shows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", SECRETS[0])
    (home / "config.toml").write_text(f"slack_app_token = '{SECRETS[1]}'\n")
    monkeypatch.setenv("SLACK_GATE_DATABASE_URL", f"postgresql://u:{SECRETS[2]}@db.example/x")
    settings = load()
    assert settings.slack_bot_token.get_secret_value() == SECRETS[0]
    shown = f"{settings!r} {settings} {settings.slack_bot_token}"
    assert not [secret for secret in SECRETS if secret in shown]
    monkeypatch.setenv("SLACK_GATE_WAIT", "soon")
    with pytest.raises(ConfigError) as raised:
        load()
    chain: BaseException | None = raised.value
    while chain is not None:
        assert not [secret for secret in SECRETS if secret in f"{chain!r} {chain}"]
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


def test_no_secret_shows_in_a_bare_error() -> None:
    with pytest.raises(ValidationError) as raised:
        Settings(slack_bot_token=[SECRETS[0]])
    assert SECRETS[0] not in str(raised.value)


def _secret_file(home: Path, monkeypatch: pytest.MonkeyPatch, text: str, mode: int = 0o600) -> Path:
    path = home / "token"
    path.write_text(text)
    path.chmod(mode)
    monkeypatch.setenv("SLACK_BOT_TOKEN_FILE", str(path))
    return path


def test_a_secret_from_a_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _secret_file(home, monkeypatch, f"{SECRETS[0]}\n")
    (home / "config.toml").write_text("slack_bot_token = 'xoxb-other'\nslack_app_token = 'xapp-other'\n")
    assert load().slack_bot_token.get_secret_value() == SECRETS[0]
    assert load().slack_app_token.get_secret_value() == "xapp-other"
    assert secret_files() == {"slack_bot_token": path}
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-env")
    assert load().slack_bot_token.get_secret_value() == "xoxb-env"
    assert secret_files() == {"slack_bot_token": path}


SECRET_FILES = [
    ("SLACK_BOT_TOKEN", "slack_bot_token", "xoxb-1"),
    ("SLACK_APP_TOKEN", "slack_app_token", "xapp-1"),
    ("SBX_GATE_KEY", "sbx_gate_key", "k-1"),
    ("SLACK_GATE_DATABASE_URL", "database_url", f"postgresql+psycopg://gate:{SECRETS[2]}@db.example/gate"),
]


@pytest.mark.parametrize(("name", "field", "secret"), SECRET_FILES)
def test_each_secret_from_a_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, field: str, secret: str
) -> None:
    path = home / "secret"
    path.write_text(f"{secret}\n")
    path.chmod(0o600)
    monkeypatch.setenv(f"{name}_FILE", str(path))
    (home / "config.toml").write_text(f"{name.lower()} = 'sqlite:////x.db'\n")
    held = getattr(load(), field)
    assert (held.get_secret_value() if isinstance(held, SecretStr) else held) == secret
    assert secret not in f"{load()!r}"
    assert secret_files() == {field: path}
    for content, mode, said in ((secret, 0o640, "chmod 600"), (" \n", 0o600, "is empty")):
        path.write_text(content)
        path.chmod(mode)
        with pytest.raises(ConfigError, match=said) as raised:
            load()
        assert SECRETS[2] not in str(raised.value)
    monkeypatch.setenv(name, "the environment's")  # it wins, and the file is not even looked at
    held = getattr(load(), field)
    assert (held.get_secret_value() if isinstance(held, SecretStr) else held) == "the environment's"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_secret_file_that_others_can_open(home: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    path = _secret_file(home, monkeypatch, SECRETS[0], mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}") as raised:
        load()
    assert SECRETS[0] not in str(raised.value)


def test_a_secret_file_that_cannot_be_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _secret_file(home, monkeypatch, "")
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="secret file"):
        load()
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        load()
