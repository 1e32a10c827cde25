"""What runs unasked is the trusted file, whatever the agent's PATH holds under that name."""

import shlex
from pathlib import Path

from slack_gate.daemon.programs import trusted_programs
from tests.daemon.house import house


async def test_a_green_call_runs_the_trusted_sbox(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ended = await h.bash("sbox ls -l 2>/dev/null", description="look")
        sbox = shlex.quote(trusted_programs(Path.home())["sbox"])
        assert ended.decision == "allow"
        assert ended.output["updatedInput"] == {"command": f"{sbox} ls -l 2>/dev/null", "description": "look"}
        assert h.log()[-1]["command"] == "sbox ls -l 2>/dev/null"


async def test_without_a_trusted_sbox_it_is_asked(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        h.running.gate._released._programs = {}
        hook, card = await h.asked("sbox ls")
        assert "pinned" in card.plain()
        await h.ana.click(card, "Approve")
        ended = await h.ended(hook)
        assert ended.decision == "allow"
        assert "updatedInput" not in ended.output


async def test_remembered_git_is_the_systems_git(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook, card = await h.asked("git push origin main")
        await h.ana.click(card, "Always")
        assert "updatedInput" not in (await h.ended(hook)).output
        again = await h.bash("git push origin main")
        assert again.output["updatedInput"]["command"] == f"{trusted_programs(Path.home())['git']} push origin main"


async def test_a_green_write_has_no_command_to_change(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        ended = await h.ask(h.event("Write", file_path="/tmp/x/y.txt", content="x"))
        assert ended.decision == "allow"
        assert "updatedInput" not in ended.output


def test_an_installed_sbox_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = home / ".local" / "bin"
    place.mkdir(parents=True)
    (place / "sbox").write_text("#!/bin/sh\n")
    (place / "sbox").chmod(0o755)
    packaged = tmp_path / "packaged"
    packaged.write_text("#!/bin/sh\n")
    packaged.chmod(0o755)
    assert trusted_programs(home, packaged)["sbox"] == str(packaged)  # the home lies in /tmp
    packaged.chmod(0o644)
    assert "sbox" not in trusted_programs(home, packaged)
