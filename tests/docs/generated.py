"""The parts of README.md and docs/commands.md that the program itself determines: --help texts and settings.

python -m tests.docs.generated      writes them anew
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner
from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo

from slack_gate.cli import group
from slack_gate.config import Settings

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
HELP = ROOT / "docs" / "commands.md"
HELP_BLOCK = re.compile(r"(?<=```console\n)\$ slack-gate ([^\n]*--help)\n.*?(?=```)", re.DOTALL)
TABLE = re.compile(r"(?<=<!-- settings -->\n).*?(?=<!-- end of settings -->)", re.DOTALL)


def current(text: str) -> str:
    """`text` with every help block and the settings table as the program says them now."""
    text = HELP_BLOCK.sub(lambda block: f"$ slack-gate {block[1]}\n{help_of(block[1])}", text)
    return TABLE.sub(lambda _: settings_table(), text)


def help_of(arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(group, arguments.split(), prog_name="slack-gate")
    assert result.exit_code == 0, result.output
    return result.output


def settings_table() -> str:
    rows = "".join(
        f"| {' or '.join(f'`{name}`' for name in names_of(field, info))} | {default_of(info)} | {info.description} |\n"
        for field, info in Settings.model_fields.items()
    )
    return f"| setting | default | what it is |\n| --- | --- | --- |\n{rows}"


def names_of(field: str, info: FieldInfo) -> Iterator[str]:
    """The environment's names of a setting, the preferred one first."""
    alias = info.validation_alias or info.alias or field.upper()
    names = alias.choices if isinstance(alias, AliasChoices) else [alias]
    for name in names:
        if isinstance(name, str) and name.isupper():
            yield name


def default_of(info: FieldInfo) -> str:
    """The default where it is a value; what is worked out is told by the description."""
    value = info.default.get_secret_value() if isinstance(info.default, SecretStr) else info.default
    plain = info.default_factory is None and value not in ("", None, ())
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if plain else ""


if __name__ == "__main__":
    for page in (README, HELP):
        page.write_text(current(page.read_text("utf-8")), "utf-8")
