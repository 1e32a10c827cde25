"""A program that the agent's PATH finds where caged code can write is shown, and an approval is for what it held."""

import json
from pathlib import Path

import pytest

from slack_gate.core.event import ToolEvent
from slack_gate.daemon.planted import planted_words
from slack_gate.daemon.scripts import scripts_of
from tests.daemon.house import house
from tests.daemon.serving import Wire, nonce
from tests.daemon.test_pinning import outside, program

__all__ = ["outside"]
SYSTEM = "/usr/bin:/bin"


def call(command: str, search_path: str, cwd: str = "/") -> ToolEvent:
    return ToolEvent("claude-code", "s", "toolu_1", "Bash", {"command": command}, cwd, search_path=search_path)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    return program(tmp_path / "venv/gh", "echo of the project").parent


async def test_the_card_says_which_program_it_is(tmp_path: Path, venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{venv}:{SYSTEM}")
    async with house(tmp_path) as h:
        hook, card = await h.asked("gh pr create")
        assert f"gh is {venv}/gh, which caged code can change" in card.plain()
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


@pytest.mark.parametrize("planted", [True, False])
async def test_what_was_approved_is_that_program(
    tmp_path: Path, venv: Path, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """Changed while a person reads, or put there only then."""
    monkeypatch.setenv("PATH", f"{venv}:{SYSTEM}")
    if not planted:
        (venv / "gh").unlink()
    async with house(tmp_path) as h:
        hook, card = await h.asked("gh pr create")
        assert ("caged code" in card.plain()) == planted
        program(venv / "gh", "echo stolen")
        await h.ana.click(card, "Approve")
        ended = await h.ended(hook)
        assert ended.decision == "deny"
        assert "a program or script that it names" in ended.reason


@pytest.mark.parametrize("changed", [True, False])
async def test_always_is_for_that_program_too(tmp_path: Path, venv: Path, changed: bool) -> None:
    """What was asked is read from its row, which knows the PATH."""
    program(venv / "gone")
    async with house(tmp_path) as h:
        wire = await Wire.open(h.settings.socket_path)
        await wire.ask(h.event(command="gone a"), search_path=f"{venv}:{SYSTEM}")
        card = await h.card("gone a")
        if changed:
            program(venv / "gone", "echo stolen")
        await h.ana.click(card, "Always")
        if changed:  # nothing was decided yet
            await h.ana.click(card, "Deny")
        assert await wire.decision() == ("deny" if changed else "allow")
        assert len(await h.running.store.rules()) == (not changed)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("gh x", "gh is {venv}/gh"),
        ("gh x && gh y | tool", "gh is {venv}/gh, tool is {venv}/tool"),
        ("env gh x", "gh is {venv}/gh"),
        ("for i in 1; do gh x; done", "gh is {venv}/gh"),
        ("ls gh", ""),  # as an argument
        ("ls", ""),  # the system's comes first
        ("echo x", ""),  # of the shell
        ("{venv}/gh x", ""),  # it says so itself
        ("a b c d e; $X", "a is {venv}/a, b is {venv}/b, c is {venv}/c and 2 more"),
        ("led", "led is {outside}/led"),
        ("relative", "relative is {place}/./relative"),
        ("nowhere", ""),
        ("data", ""),
    ],
)
def test_which_programs_these_are(tmp_path: Path, venv: Path, outside: Path, command: str, said: str) -> None:
    for name in ("tool", "ls", "echo", *"abcde"):
        program(venv / name)
    (venv / "data").write_text("")
    (outside / "led").symlink_to(venv / "tool")
    program(tmp_path / "relative")
    found = planted_words(call(command.format(venv=venv), f"{SYSTEM}:{outside}:{venv}:.", str(tmp_path)))
    text = said.format(venv=venv, outside=outside, place=tmp_path)
    assert found == (f"{text}, which caged code can change" if said else "")


def test_without_a_path_nothing_is_said_and_nothing_bound(venv: Path) -> None:
    event = call("gh x", "", str(venv))
    assert planted_words(event) == "" and scripts_of(event) == {str(venv / "gh"): scripts_of(event)[str(venv / "gh")]}
    assert scripts_of(call("gh x", "", "/")) == {}
    assert planted_words(ToolEvent("claude-code", "s", None, "Write", {"file_path": "/x"}, "/", search_path="x")) == ""


@pytest.mark.parametrize("command", ["gh x", "cd /var && env gh x", "bash -c 'gh x'"])
def test_its_content_is_bound(venv: Path, command: str) -> None:
    event = call(command, f"{venv}:{SYSTEM}")
    before = scripts_of(event)
    assert str(venv / "gh") in before
    program(venv / "gh", "echo other")
    assert scripts_of(event) != before


def test_a_link_to_the_system_is_bound_by_where_it_leads(venv: Path) -> None:
    """As a virtual environment's python is."""
    (venv / "python").symlink_to("/usr/bin/python3")
    event = call("python x", f"{venv}:{SYSTEM}")
    before = scripts_of(event)
    assert before == {str(venv / "python"): str(Path("/usr/bin/python3").resolve())}
    (venv / "python").unlink()
    (venv / "python").symlink_to("/usr/bin/env")
    assert scripts_of(event) != before


@pytest.mark.parametrize(
    ("field", "search_path"),
    [(b"", ""), (b" -", ""), (b" 2f61", "/a"), (b" 2f61ff00", "/a\ufffd")],
)
async def test_what_a_hook_tells_of_its_path(tmp_path: Path, field: bytes, search_path: str) -> None:
    async with house(tmp_path) as h:
        wire = await Wire.open(h.settings.socket_path)
        body = json.dumps(h.event(command="touch a")).encode()
        await wire.send(b"slack-gate/1 claude-code %d %s 300 -%s\n" % (len(body), nonce(), field) + body)
        await h.card("touch a")
        (request,) = await h.running.store.pending(h.running.gate._house.home)
        assert request.search_path == search_path
        assert request.event.search_path == search_path
