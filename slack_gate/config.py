"""Settings: one frozen tree. The environment wins over secret files, those over `config.toml` in the home."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from slack_gate.core.secrets import mask
from slack_gate.errors import ConfigError

MAX_WAIT_S = 24 * 3600
SECRETS = {  # field to the environment's name; each can also come from the file that NAME_FILE names
    "slack_bot_token": "SLACK_BOT_TOKEN",
    "slack_app_token": "SLACK_APP_TOKEN",
    "sbx_gate_key": "SBX_GATE_KEY",
    "database_url": "SLACK_GATE_DATABASE_URL",  # it may hold a password
}


def default_home() -> Path:
    return Path(os.environ.get("SLACK_GATE_HOME") or Path.home() / ".config" / "slack-gate")


class Settings(BaseSettings):
    """Every setting with its environment name; see the table in README.md."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_ignore_empty=True,
        hide_input_in_errors=True,
        populate_by_name=True,
        env_prefix="SLACK_GATE_",  # without it $HOME, $WAIT and $SOCKET would be taken for settings
    )

    slack_bot_token: SecretStr = Field(SecretStr(""), alias="SLACK_BOT_TOKEN", description="Bot token, `xoxb-…`.")
    slack_app_token: SecretStr = Field(SecretStr(""), alias="SLACK_APP_TOKEN", description="App-level token, `xapp-…`.")
    slack_api_url: str = Field("https://slack.com/api/", alias="SLACK_API_URL", description="Root of the Web API.")
    approvers: Annotated[tuple[str, ...], NoDecode] = Field(
        (), alias="SLACK_GATE_APPROVERS", description="Slack user ids who may decide, separated by commas."
    )
    team: str = Field("", alias="SLACK_GATE_TEAM", description="Team that clicks must come from; default: the bot's.")
    home: Path = Field(
        default_factory=default_home,
        alias="SLACK_GATE_HOME",
        description="State and settings, mode 0700; default `~/.config/slack-gate`.",
    )
    socket: Path | None = Field(
        None,
        alias="SLACK_GATE_SOCKET",
        description="Hook socket; default `$XDG_RUNTIME_DIR/slack-gate/gate.sock`, else `run/gate.sock` in the home.",
    )
    database_url: str = Field(
        "",
        alias="SLACK_GATE_DATABASE_URL",
        repr=False,
        description="Default: SQLite, `gate.db` in the home; `postgresql+psycopg://…`: a fleet (docs/operations.md). "
        "With a password in it, rather `SLACK_GATE_DATABASE_URL_FILE`: the path of a file that holds it.",
    )
    wait: int = Field(
        300,
        validation_alias=AliasChoices("SLACK_GATE_WAIT", "GATE_WAIT"),
        ge=1,
        le=MAX_WAIT_S,
        description="Seconds before an unanswered request is denied.",
    )
    escalate: int = Field(
        0,
        alias="SLACK_GATE_ESCALATE",
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds from asking one approver to asking the next as well; 0 asks all at once.",
    )
    cage_first: bool = Field(
        False,
        alias="SLACK_GATE_CAGE_FIRST",
        description="Run a gated shell command in the cage first, instead of asking, where its work fits in there.",
    )
    reactions: bool = Field(
        False,
        alias="SLACK_GATE_REACTIONS",
        description="Emoji that an approver puts on a card (👍 ✅ or ❌ 👎) decide like its buttons.",
    )
    executor: Literal["cage", "sandboxer"] = Field(
        "cage", alias="SLACK_GATE_EXECUTOR", description="What runs the commands that the gate itself carries out."
    )
    hook_executor: Literal["agent", "cage", "sandboxer"] = Field(
        "agent",
        alias="SLACK_GATE_HOOK_EXECUTOR",
        description="What runs a hook's approved shell command: the agent, or the cage or the Sandboxer for it.",
    )
    sandboxer_api_url: str = Field(
        "https://sandboxer.com/api/v1", alias="SANDBOXER_API_URL", description="Root of the Sandboxer API."
    )
    sbx_gate_key: SecretStr = Field(
        SecretStr(""), alias="SBX_GATE_KEY", description="Sandboxer key, scoped to the one sandbox."
    )
    sandbox_id: str = Field("", alias="SANDBOX_ID", description="The sandbox that the Sandboxer runs commands in.")
    agent_port: int = Field(
        8765,
        alias="SLACK_GATE_AGENT_PORT",
        ge=0,
        le=65535,
        description="Port of the agent endpoint `/run` on 127.0.0.1; 0 turns it off.",
    )
    page_port: int = Field(
        8766,
        alias="SLACK_GATE_PAGE_PORT",
        ge=0,
        le=65535,
        description="Port of the approval page on 127.0.0.1, with `--approver web`; 0 turns it off.",
    )
    log_format: Literal["text", "json"] = Field(
        "text", alias="SLACK_GATE_LOG_FORMAT", description="Form of the daemon's own messages on stderr."
    )

    @field_validator("approvers", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        return value

    @field_validator("approvers")
    @classmethod
    def _user_ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for user in value:
            if not (user[:1] in ("U", "W") and user.isalnum() and user.isascii()):
                raise ValueError(f"{mask(user)!r} is not a Slack user id such as U012AB3CD")
        return value

    @field_validator("sandbox_id")
    @classmethod
    def _sandbox(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,64}", value):
            raise ValueError("it is not a sandbox id such as sb_1a2b3c")
        return value

    @field_validator("slack_api_url", "sandboxer_api_url")
    @classmethod
    def _web_url(cls, value: str) -> str:
        url = urlsplit(value)
        here = url.hostname in ("127.0.0.1", "::1", "localhost")
        if not url.hostname or not (url.scheme == "https" or (url.scheme == "http" and here)):
            raise ValueError("tokens travel only over https, or http on this machine")
        return value if value.endswith("/") else value + "/"

    @field_validator("home", "socket")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError(f"{value} is not an absolute path")
        return value

    @field_validator("wait", "escalate", "agent_port", "page_port", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        if isinstance(value, bool):  # TOML's true would count as 1
            raise ValueError("it is not a number")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        home = Path(init_settings().get("SLACK_GATE_HOME") or default_home())
        secrets = InitSettingsSource(settings_cls, _secrets())
        return init_settings, env_settings, secrets, InitSettingsSource(settings_cls, _from_file(home / "config.toml"))

    @property
    def socket_path(self) -> Path:
        if self.socket is not None:
            return self.socket
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        return Path(runtime) / "slack-gate" / "gate.sock" if runtime else self.home / "run" / "gate.sock"

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'gate.db'}"

    @property
    def log_path(self) -> Path:
        return self.home / "gate-log.jsonl"


def load(**overrides: Any) -> Settings:
    """The settings in force. Raises ConfigError naming the setting, never its secret value."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"The setting {name} is wrong: {first['msg'].removeprefix('Value error, ')}.") from None


def _from_file(path: Path) -> dict[str, Any]:
    """`config.toml`, keys by the environment's names in lower case, with or without `slack_gate_`."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None
    return {_field_of(name, path): value for name, value in values.items()}


def _field_of(name: str, path: Path) -> str:
    field = "wait" if name == "gate_wait" else name.removeprefix("slack_gate_")
    if field not in Settings.model_fields or field == "home":
        raise ConfigError(f"{path} holds the unknown setting {name}.", "README.md lists the settings.")
    return field


def secret_files() -> dict[str, Path]:
    """Field to file: `SLACK_BOT_TOKEN_FILE` and the like, also where the token itself is set and wins."""
    named = {field: os.environ.get(f"{name}_FILE") for field, name in SECRETS.items()}
    return {field: Path(path) for field, path in named.items() if path}


def _secrets() -> dict[str, str | SecretStr]:
    """From files, but for what the environment itself holds."""
    found = {field: _secret(path) for field, path in secret_files().items() if not os.environ.get(SECRETS[field])}
    return {field: text if field == "database_url" else SecretStr(text) for field, text in found.items()}


def _secret(path: Path) -> str:
    """The content of a file that its owner alone can read."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise ConfigError(f"Others can read the secret file {path}.", f"Run `chmod 600 {path}`.")
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The secret file {path} cannot be read: {error}.") from None
    if not text:  # else the default would stand in its place, another database for one
        raise ConfigError(f"The secret file {path} is empty.")
    return text
