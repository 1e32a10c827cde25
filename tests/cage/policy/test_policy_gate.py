"""Local git by the gate's own route, with a real sbox and real git: nothing planted gets out, daily work goes on."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from slack_gate.core.answer import Answer
from slack_gate.core.cage_first import UNCAGED
from slack_gate.core.event import ToolEvent
from slack_gate.core.request import Choice, Request
from slack_gate.daemon.programs import PACKAGED, cage_starts
from tests.daemon.desk import SECOND, Desk, desk
from tests.daemon.house import house as running_house

from .conftest import CAGE, SYSTEM_PATH, House, entries, evil_fsmonitor, git, make_repository
from .test_policy_planted import PLANTS, other_branch

SBOX = str(PACKAGED)
QUOTED = shlex.quote(SBOX)  # as a shell text names it
OUTSIDE = "/usr/bin/env PATH=/usr/bin:/bin:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin /usr/bin/git"
pytestmark = pytest.mark.skipif(not CAGE, reason="bubblewrap cannot make namespaces here")

DAILY = [
    "git status",
    "git status -s -uall",
    "git diff HEAD",
    "git log -p -3",
    "git log --oneline --all --graph",
    "git show HEAD",
    "git add -A",
    "git add a.txt && git commit -m 'a  \"b\"' && git log --format='%an %s' -1",
    "git commit -a -m x",
    "git commit --amend --no-edit",
    "git checkout other",
    "git checkout -b new",
    "git checkout -- .",
    "git stash",
    "git branch new",
    "git tag v1",
    "git merge other -m x",
    "git -C d status",
]
EVERY_KIND = [
    "git status",
    "git diff HEAD",
    "git log -p -2",
    "git add -A",
    "git add -A && git commit -m x && git status",
    "git checkout other",
]
# The repository itself is odd, or its configuration is not wholly read: asked, as without a cage.
ASKED = entries(
    """.git link; .git file; commondir; include.path; includeIf; carriage returns; key behind a header
    value over two lines"""
)


@asynccontextmanager
async def gate(place: Path) -> AsyncIterator[Desk]:
    async with desk(place, sbox=SBOX, cages=True) as one:
        yield one


async def answer(one: Desk, command: str, cwd: Path, **changes: object) -> Answer | None:
    """What the gate says at once; None when it asks."""
    event: ToolEvent = one.event(command, str(cwd), **{"rewritable": True, **changes})
    said = await one.gate.submit(event, SECOND)
    return said if isinstance(said, Answer) else None


def run(command: str, cwd: Path, house: House) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(house.home), "PATH": SYSTEM_PATH, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["/bin/bash", "-c", command],
        **{"cwd": cwd, "env": env, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60},
    )


@pytest.fixture(autouse=True)
def person(house: House) -> None:
    other_branch(house.repo)
    (house.home / ".gitconfig").write_text("[user]\n\tname = Dev\n\temail = dev@example.com\n[alias]\n\tst = status\n")


@pytest.mark.parametrize("name", PLANTS)
async def test_nothing_planted_gets_out(name: str, house: House, tmp_path: Path) -> None:
    plant = PLANTS[name]
    plant.plant(house)
    (house.home / "mark").unlink(missing_ok=True)
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    caged = 0
    async with gate(tmp_path) as one:
        for command in dict.fromkeys([plant.trigger, *EVERY_KIND]):
            for where in {".", plant.where}:
                said = await answer(one, command, house.repo / where)
                if said is None:
                    continue
                assert said.command is not None
                caged += said.command.startswith(QUOTED)
                run(said.command, house.repo / where, house)
                assert not (house.home / "mark").exists(), said.command
                shutil.rmtree(house.projects)
                shutil.copytree(kept, house.projects, symlinks=True)
    assert caged or name in ASKED


@pytest.mark.parametrize("command", DAILY)
async def test_daily_work_is_the_same_in_the_cage(command: str, house: House, tmp_path: Path) -> None:
    if command not in ("git checkout other", "git merge other -m x"):
        (house.repo / "a.txt").write_text("changed\n")
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    outside = run(command, house.repo, house)
    left = state(house)
    shutil.rmtree(house.projects)
    kept.rename(house.projects)
    async with gate(tmp_path) as one:
        said = await answer(one, command, house.repo)
        assert one.log()[-1]["command"] == command
        assert (one.log()[-1]["decision"], one.log()[-1]["by"]) == ("green", "policy")
    assert said is not None
    assert unasked(said.command) == command.replace("git ", f"{QUOTED} /usr/bin/git ")
    caged = run(said.command, house.repo, house)
    assert outside.returncode == 0, outside.stderr
    assert (caged.returncode, told(caged)) == (outside.returncode, told(outside))
    assert state(house) == left


def unasked(command: str | None) -> str:
    """Without the questions that git is asked before it moves files."""
    return re.sub(r"\S+ -I -S \S+/whole_git\.py ('[^']*' )+-- ", "", command or "")


def told(done: subprocess.CompletedProcess[str]) -> str:
    """Output without what the time of a commit makes different."""
    return re.sub(r"\b[0-9a-f]{7,40}\b|Date: .*", "", done.stdout + done.stderr)


def state(house: House) -> list[list[str]]:
    """What is the same after the same work; sorted, for the order within a second is not."""
    asked = ("status --porcelain -b", "log --all --format=%an%ae%s", "diff HEAD", "branch -a", "tag", "stash list")
    return [sorted(git(house.repo, *words.split()).splitlines()) for words in asked]


async def test_an_exit_code_is_the_same(house: House, tmp_path: Path) -> None:
    async with gate(tmp_path) as one:
        for command in ("git show nothing", "git diff --exit-code HEAD~0 other", "git commit -m x"):
            said = await answer(one, command, house.repo)
            assert said is not None and said.command is not None and said.command.startswith(QUOTED)
            outside, caged = run(command, house.repo, house), run(said.command, house.repo, house)
            assert outside.returncode != 0
            assert (caged.returncode, caged.stdout, caged.stderr) == (
                outside.returncode,
                outside.stdout,
                outside.stderr,
            )


async def test_what_the_cage_is_a_loss_to_runs_as_before(house: House, tmp_path: Path) -> None:
    async with gate(tmp_path) as one:
        assert await answer(one, "git checkout -b x origin/main", house.repo) is None  # it brings files, uncaged
        assert await answer(one, "git push origin main", house.repo) is None  # nobody has allowed its address yet
        command = "git branch -m main trunk"
        said = await answer(one, command, house.repo)
        assert said is not None
        assert said.command == command.replace("git", OUTSIDE, 1)
        (house.home / ".gitconfig").write_text("[commit]\n\tgpgsign = true\n")
        assert await answer(one, "git commit -m x", house.repo) is None


async def test_git_outside_starts_nothing_by_the_agents_path(house: House, tmp_path: Path) -> None:
    """The person's own filter is named without its place: an active environment of the project would give one."""
    lfs = '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n'
    (house.home / ".gitconfig").write_text(f"[core]\n\texcludesfile = ~/.mine/ignore\n{lfs}")
    (house.home / ".mine").mkdir()
    (house.home / ".mine" / "ignore").write_text("")  # out of the cage's sight: git stays outside
    place = house.repo / "venv" / "bin"
    place.mkdir(parents=True)
    (place / "git-lfs").write_text(f"#!/bin/sh\ntouch {house.home}/mark\n")
    (place / "git-lfs").chmod(0o755)
    (house.repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    (house.repo / "x.bin").write_text("x")
    env = {"HOME": str(house.home), "PATH": f"{place}:{SYSTEM_PATH}", "GIT_CONFIG_NOSYSTEM": "1"}
    async with gate(tmp_path) as one:
        said = await answer(one, "git add -A", house.repo, search_path=env["PATH"])
    assert said is not None and said.command == f"{OUTSIDE} add -A"
    for command, ran in ((said.command, False), ("/usr/bin/git add -A", True)):
        (house.repo / "x.bin").write_text(command)  # what git has seen already it does not filter again
        subprocess.run(["/bin/bash", "-c", command], cwd=house.repo, env=env, capture_output=True)
        assert (house.home / "mark").exists() == ran, command


async def test_planted_and_a_loss_in_the_cage_is_asked(house: House, tmp_path: Path) -> None:
    git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
    async with gate(tmp_path) as one:
        for command in ("git branch -m main trunk", "git checkout -b x origin/main", "git push origin main"):
            assert await answer(one, command, house.repo) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"rewritable": False},
        {"tool_input": {"command": "git status", "sudo": True}},
        {"tool_input": {"command": "git status", "dangerouslyDisableSandbox": True}},
        {"tool": "Shell"},
    ],
)
async def test_odd_calls_are_asked(changes: dict[str, object], house: House, tmp_path: Path) -> None:
    git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
    async with gate(tmp_path) as one:
        assert await answer(one, "git status", house.repo, **changes) is None
        assert await answer(one, "'git' status", house.repo) is None
        assert await answer(one, "git status; git log", house.repo) is None


async def test_where_no_cage_starts_git_goes_on_uncaged(house: House, tmp_path: Path) -> None:
    async with desk(tmp_path, sbox=SBOX) as one:
        said = await answer(one, "git status", house.repo)
        assert said is not None and said.command == f"{OUTSIDE} status"
    async with desk(tmp_path, sbox=SBOX, cages=True) as one:
        one.gate._released._programs = {"git": "/usr/bin/git"}
        said = await answer(one, "git status", house.repo)
        assert said is not None and said.command == f"{OUTSIDE} status"
        git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
        assert await answer(one, "git status", house.repo) is None


async def remembered(one: Desk, line: str, house: House) -> str:
    """What the gate has run for it once Always was pressed."""
    await one.click(await one.asked(one.event(line, str(house.repo), rewritable=True)), Choice.ALWAYS)
    await one.answer()
    said = await answer(one, line, house.repo)
    assert said is not None and said.command is not None
    return said.command


async def test_git_of_a_remembered_line_runs_nothing_planted_after_the_look(house: House, tmp_path: Path) -> None:
    line = "git add -A && ls"
    async with gate(tmp_path) as one:
        command = await remembered(one, line, house)
        PLANTS["fsmonitor"].plant(house)
        assert run(command, house.repo, house).returncode == 0
        assert not (house.home / "mark").exists(), command
        run(line, house.repo, house)
        assert (house.home / "mark").exists()


async def test_git_that_cannot_work_in_the_cage_is_remembered_as_before(house: House, tmp_path: Path) -> None:
    line = "git branch -d nowhere && ls"
    async with gate(tmp_path) as one:
        assert SBOX not in await remembered(one, line, house)


UNSURE = entries(
    """ls && git push origin main; git status && ls && git fetch; git push origin main | cat; cat x && git ls-remote
    cp a.txt .git/config && git branch -d x; cp a.txt .git/config && git push origin main
    ls && git pull"""
)
MOVES = ["ls && git checkout other", "git checkout other && git status && ls"]
SURE = ["git branch -d nowhere && ls", "git status | cat"]


@pytest.mark.parametrize("cages", [True, False])
async def test_what_rules_for_other_places_say_of_git_is_not_enough_where_caged_code_can_write(
    cages: bool, house: House, tmp_path: Path
) -> None:
    """Which remote, which files of a commit, what was copied there before: nobody said Always to that."""
    make_repository(house.outside / "app")
    async with desk(tmp_path, sbox=SBOX, cages=cages) as one:
        for line in [*UNSURE, *MOVES, *SURE]:
            said = await one.gate.submit(one.event(line, str(house.outside / "app"), rewritable=True), SECOND)
            if isinstance(said, Request):
                await one.click(said, Choice.ALWAYS)
        assert [line for line in UNSURE if await answer(one, line, house.outside / "app") is None] == []
        assert [line for line in UNSURE if await answer(one, line, house.repo)] == []
        assert [line for line in MOVES if await answer(one, line, house.repo)] == (MOVES if cages else [])
        assert [line for line in SURE if await answer(one, line, house.repo) is None] == []
        unsure = one.event(UNSURE[0], str(house.repo), rewritable=True)
        assert bool(one.gate._judge.rememberable(unsure)) == cages  # there its remote is what a rule would be for
        evil_fsmonitor(house.repo)
        planted = await answer(one, SURE[0], house.repo)
        assert planted is not None and (planted.command or "").startswith(f"{QUOTED} bash -c ")


async def test_a_clone_is_not_remembered_for_the_cage(house: House, tmp_path: Path) -> None:
    """It has no network."""
    async with gate(tmp_path) as one:
        event = one.event("git clone https://example.com/a/b", str(house.repo), rewritable=True)
        assert one.gate._judge.rememberable(event) == ()


async def test_whether_a_cage_starts(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await cage_starts(SBOX)
    assert not await cage_starts(None)
    assert not await cage_starts(str(tmp_path / "missing"))
    assert not await cage_starts("/bin/false")
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr("slack_gate.daemon.programs.START_S", 0.05)
    assert not await cage_starts(str(slow))
    assert os.path.isdir(house.projects)


# cage first


@asynccontextmanager
async def cage_first_gate(place: Path) -> AsyncIterator[Desk]:
    async with desk(place, sbox=SBOX, cages=True, cage_first=True) as one:
        yield one


async def test_a_gated_command_is_tried_in_the_cage(house: House, tmp_path: Path) -> None:
    command = f'echo "a\'b" | tee made.txt; touch {house.outside}/x || echo stopped'
    async with cage_first_gate(tmp_path) as one:
        said = await answer(one, command, house.repo)
        assert said is not None and said.command is not None
        assert said.command == f"{QUOTED} bash -c {shlex.quote(command)}"
        assert UNCAGED in said.advice
        line = one.log()[-1]
        assert (line["decision"], line["by"], line["command"]) == ("caged", "policy", command)
    done = run(said.command, house.repo, house)
    assert (done.returncode, done.stdout) == (0, "a'b\nstopped\n")
    assert (house.repo / "made.txt").read_text() == "a'b\n"
    assert list(house.outside.iterdir()) == []


async def test_it_is_off_unless_switched_on_and_a_cage_starts(house: House, tmp_path: Path) -> None:
    for place, changes in (("a", {"cages": True}), ("b", {"cage_first": True})):
        (tmp_path / place).mkdir()
        async with desk(tmp_path / place, sbox=SBOX, **changes) as one:
            assert await answer(one, "make test", house.repo) is None


async def test_the_daemon_has_it_from_its_settings(house: House, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with running_house(tmp_path, cage_first=True) as h:
        ended = await h.bash("echo $X > made.txt", cwd=str(work))
        assert ended.decision == "allow"
        assert UNCAGED in ended.output["additionalContext"]
        assert "no cage starts" not in ended.stderr.decode()
        run(ended.output["updatedInput"]["command"], work, house)
        assert (work / "made.txt").exists()
        assert [line["decision"] for line in h.log()] == ["caged"]


async def test_what_points_outside_and_what_asks_for_it_is_asked(house: House, tmp_path: Path) -> None:
    async with cage_first_gate(tmp_path) as one:
        for command in ("curl x", "git push --force origin main", f"{UNCAGED} make"):
            assert await answer(one, command, house.repo) is None
        assert await answer(one, "x", house.repo, tool="WebFetch") is None


@pytest.mark.parametrize("line", ["git remote -v | cat", "git log --grep push | cat", "git commit -m config; ls"])
async def test_a_word_of_git_does_not_point_outside_where_its_command_does_not(
    line: str, house: House, tmp_path: Path
) -> None:
    async with cage_first_gate(tmp_path) as one:
        said = await answer(one, line, house.repo)
        assert said is not None and said.command == f"{QUOTED} bash -c {shlex.quote(line)}"
        assert await answer(one, line.replace("git ", "git fetch; git ", 1), house.repo) is None


async def test_what_could_reach_the_gates_own_files_is_asked(house: House) -> None:
    place = house.projects / "gate"
    place.mkdir()
    async with cage_first_gate(place) as one:
        (place / "own").mkdir()
        assert await answer(one, "make test", house.repo) is not None
        assert await answer(one, f"grep -r x {house.projects}", house.repo) is None
        refused = await answer(one, f"cat {place}/own/x", house.repo)
        assert refused is not None and refused.ruling == "deny"


async def test_a_remembered_command_runs_as_remembered(house: House, tmp_path: Path) -> None:
    async with cage_first_gate(tmp_path) as one:
        asked = await one.asked(one.event(f"{UNCAGED} touch {house.outside}/x", str(house.repo)))
        await one.click(asked, Choice.ALWAYS)
        said = await answer(one, f"touch {house.outside}/y", house.repo)
        assert said is not None and said.advice == ""
        assert (said.command or "").endswith(f" /usr/bin/touch {house.outside}/y")
        assert one.decisions()[-1] == "remembered"


async def test_what_the_cage_has_stopped_is_not_remembered_for_the_cage(house: House, tmp_path: Path) -> None:
    """What runs code of the project is remembered for the cage only: asked for outside, that would stop it for good."""
    command = f"{UNCAGED} make test"
    async with gate(tmp_path) as one:
        plain = await one.asked(one.event("make test", str(house.repo), rewritable=True))
        await one.click(plain, Choice.ALWAYS)
        said = await answer(one, "make test", house.repo)
        assert said is not None and said.command == f"{QUOTED} make test"
        asked = await one.asked(one.event(command, str(house.repo), rewritable=True))
        assert one.gate.offers(asked).keys == ()
        await one.click(asked, Choice.APPROVE)
        assert await answer(one, command, house.repo) is None
