"""What runs unasked is the trusted file, whatever the agent's PATH holds under that name."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slack_gate.daemon.programs import Programs, trusted_programs
from tests.daemon.house import House, house


def program(path: Path, text: str = "", first: str = "#!/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\n{text}\n")
    path.chmod(0o755)
    return path


async def remembered(h: House, shown: str, later: str) -> str:
    """What runs of a command after Always was pressed for another."""
    hook, card = await h.asked(shown)
    await h.ana.click(card, "Always")
    await h.ended(hook)
    return str((await h.bash(later)).output["updatedInput"]["command"])


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
        words = shlex.split(again.output["updatedInput"]["command"])
        assert words[2:] == [trusted_programs(Path.home())["git"], "push", "origin", "main"]


async def test_a_remembered_program_is_not_one_that_caged_code_has_planted(tmp_path: Path) -> None:
    """As a project's environment that the agent was started in, which comes first in its PATH."""
    program(tmp_path / "venv/touch", f"echo stolen >{tmp_path}/stolen")
    async with house(tmp_path) as h:
        command = await remembered(h, "touch a", f"touch {tmp_path}/made")
    subprocess.run(["/bin/bash", "-c", command], env={"PATH": f"{tmp_path}/venv:/usr/bin:/bin"}, check=True)
    assert (tmp_path / "made").exists() and not (tmp_path / "stolen").exists()


async def test_a_program_that_is_nowhere_else_is_remembered_for_the_cage(tmp_path: Path) -> None:
    sbox = trusted_programs(Path.home())["sbox"]
    async with house(tmp_path) as h:
        hook, card = await h.asked("of-the-project now")
        assert "runs in the cage" in (await h.ana.click(card, "Always")).confirm
        await h.ended(hook)
        again = await h.bash("of-the-project now")
        assert shlex.split(again.output["updatedInput"]["command"]) == [sbox, "bash", "-c", "of-the-project now"]


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory that no cage can write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


def known(outside: Path, path: str) -> Programs:
    return Programs({"git": "/opt/git", "sbox": "/opt/sbox"}, outside, path)


def test_where_a_program_is_looked_for(tmp_path: Path, outside: Path) -> None:
    program(tmp_path / "tool")
    real = program(outside / "tool", first="#!/usr/bin/python3 -I")
    (outside / "a:b").mkdir()
    found = known(outside, f"relative:{tmp_path}:{outside / 'later'}:{outside}:/usr/bin:{outside / 'a:b'}:")
    env, path, file = found.words_of(str(real)) or ("", "", "")
    assert (env, file) == ("/usr/bin/env", str(real))
    places = [str(outside), "/usr/bin", "/usr/local/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"]
    assert path == "PATH=" + ":".join(place for place in places if Path(place).is_dir())
    assert found.words_of("git") == (env, path, "/opt/git") and found.words_of("touch") == (env, path, "/usr/bin/touch")
    assert found.words_of("sbox") == ("/opt/sbox",)
    for name in ("python3", "no-such-tool", "./tool", "dir/tool", str(tmp_path / "tool"), str(outside / "tool2")):
        assert found.words_of(name) is None
    assert found.words_of("tool") is None  # there the daemon itself finds that of the zone
    assert Programs({}, outside, "").words_of("sbox") is None


@pytest.mark.parametrize(
    ("first", "sound"),
    [
        ("#!/bin/sh", True),
        ("#! /usr/bin/env touch", True),
        ("#!/usr/bin/env -S touch -c", True),
        ("#!/usr/bin/env", True),
        ("echo", True),
        ("#!/usr/bin/env -i touch", False),
        ("#!/usr/bin/env of-the-project", False),
        ("#!{zone}/venv/bin/python", False),
        ("#!{outside}/link", False),
        ("#!relative/python", False),
        ("#!{outside}/first", False),  # whose interpreter is of the zone
        ("#!{outside}/circle", False),
    ],
)
def test_a_script_is_as_sound_as_what_starts_it(tmp_path: Path, outside: Path, first: str, sound: bool) -> None:
    program(tmp_path / "venv/bin/python")
    program(tmp_path / "bin/of-the-project")
    (outside / "link").symlink_to(tmp_path / "venv/bin/python")
    program(outside / "first", first=f"#!{tmp_path}/venv/bin/python")
    program(outside / "circle", first=f"#!{outside}/round")
    program(outside / "round", first=f"#!{outside}/circle")
    program(outside / "tool", first=first.format(zone=tmp_path, outside=outside))
    assert (known(outside, f"{outside}:{tmp_path}/bin:/usr/bin").words_of("tool") is not None) == sound


async def test_what_a_remembered_program_starts_is_not_of_the_project_either(tmp_path: Path, outside: Path) -> None:
    tool = program(outside / "tool", f"touch {outside}/made")
    program(tmp_path / "venv/touch", f"echo stolen >{tmp_path}/stolen")
    async with house(tmp_path) as h:
        command = await remembered(h, f"{tool} now", f"{tool} now")
    subprocess.run(["/bin/bash", "-c", command], env={"PATH": f"{tmp_path}/venv:/usr/bin:/bin"}, check=True)
    assert (outside / "made").exists() and not (tmp_path / "stolen").exists()


@pytest.mark.parametrize("make", [lambda at: at.mkdir(), lambda at: at.symlink_to("/proc/self/exe"), os.mkfifo])
def test_what_is_no_plain_file_is_none(outside: Path, make: Callable[[Path], None]) -> None:
    make(outside / "tool")
    assert known(outside, str(outside)).words_of("tool") is None


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
