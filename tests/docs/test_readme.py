"""The README says what the program says, and every page leads somewhere."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from cage import cage_policy
from slack_gate.cli import COMMANDS
from slack_gate.config import Settings
from tests.docs.generated import HELP, HELP_BLOCK, README, ROOT, TABLE, current, names_of

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")


@pytest.mark.parametrize("page", [README, HELP], ids=lambda page: page.name)
def test_what_the_program_says_is_current(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == current(text), "run: .venv/bin/python -m tests.docs.generated"


def test_every_command_shows_its_help() -> None:
    assert "$ slack-gate --help" in README.read_text("utf-8")
    shown = {block[1] for block in HELP_BLOCK.finditer(HELP.read_text("utf-8"))}
    expected = {*(f"{name} --help" for name in COMMANDS)} - {"hook --help"}  # an agent's line, not a person's
    assert shown >= expected


def test_every_setting_is_in_the_table() -> None:
    table = TABLE.search(README.read_text("utf-8"))
    assert table is not None
    for field, info in Settings.model_fields.items():
        for name in names_of(field, info):
            assert f"`{name}`" in table[0]


def test_the_two_commands_come_first() -> None:
    blocks = re.findall(r"```\w*\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert blocks[0].split("\n")[0].startswith("sh scripts/demo")
    assert blocks[1].split("\n")[0].startswith("sh scripts/test")
    for name in ("demo", "test", "setup"):
        assert (ROOT / "scripts" / name).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if "://" not in target:
            place = page.parent / target if target else page
            assert place.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor[1:] in anchors_of(place), f"{page.name} links to {target}{anchor}"


def anchors_of(page: Path) -> set[str]:
    """Its headings as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[\[><=; ]", line)[0] for line in project["dependencies"]}
    reasons = "".join(page.read_text("utf-8") for page in ROOT.glob("docs/decisions/*.md"))
    assert not {name for name in names if f"`{name}`" not in reasons}


@pytest.mark.parametrize("verdict", ["green", "gated"])
def test_the_examples_are_judged_as_told(verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    row = next(line for line in README.read_text("utf-8").splitlines() if line.startswith(f"| **{verdict}**"))
    commands = [word for word in re.findall(r"`([a-z][^`]*)`", row.split("|")[3])]
    assert len(commands) >= 2
    for command in commands:
        assert cage_policy.classify("Bash", {"command": command}) == verdict, command
