"""Network git in one line with other commands: what ran before it changes nothing of where it goes or what it runs."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from slack_gate.core.answer import Ruling
from slack_gate.core.network_git import BY_WRAPPER
from slack_gate.core.request import Choice
from tests.cage.policy.conftest import CAGE, House, git
from tests.cage.policy.conftest import house as house  # fixtures
from tests.cage.policy.conftest import template as template
from tests.cage.policy.test_policy_gate import answer, gate
from tests.cage.policy.test_policy_network import GIT, SBOX, ahead, run
from tests.cage.policy.test_policy_network import port as port
from tests.cage.policy.test_policy_network import remote as remote
from tests.cage.policy.test_policy_planted import PLANTS, payload
from tests.daemon.desk import Desk, desk
from tests.daemon.house import house as running_house

pytestmark = pytest.mark.skipif(not CAGE, reason="bubblewrap cannot make namespaces here")
CAGED_GIT = f"{shlex.quote(SBOX)} {GIT}"


async def remember(one: Desk, line: str, where: Path) -> None:
    click = await one.click(await one.asked(one.event(line, str(where), rewritable=True)), Choice.ALWAYS)
    assert click.rules, line
    await one.answer()


async def released(one: Desk, line: str, where: Path) -> str:
    """What is run, unasked."""
    said = await answer(one, line, where)
    assert said is not None and said.ruling is Ruling.ALLOW and said.command is not None, line
    return said.command


def elsewhere(house: House, remote: Path) -> Path:
    """A remote that nobody allowed."""
    other = remote.with_name("evil.git")
    git(house.home, "init", "-q", "--bare", str(other))
    return other


def configuration(house: House, url: str) -> Path:
    """A file that makes `origin` another one, wherever it is copied to."""
    text = (house.repo / ".git" / "config").read_text()
    made = house.projects / "planted-config"
    made.write_text(text.replace(git(house.repo, "config", "remote.origin.url").strip(), url))
    return made


LINES = [
    "git push origin HEAD:new 2>&1 | tail -3",
    "ls >/dev/null; git push origin HEAD:new",
    "git add -A && ls && git commit -m more && git push origin HEAD:new || true",
    "git rm -q a.txt && git commit -m less && git push origin HEAD:new",
    "git -C d push origin HEAD:new | cat",
    "git add -A && git commit -m \"$(cat <<'EOF'\nA 'subject'\n\nand $more\nEOF\n)\" && git push origin HEAD:new",
]


@pytest.mark.parametrize("line", LINES)
async def test_always_counts_for_it(line: str, house: House, remote: Path, tmp_path: Path) -> None:
    ahead(house)
    (house.repo / "more.txt").write_text("more\n")
    address = git(house.repo, "config", "remote.origin.url").strip()
    async with gate(tmp_path) as one:
        asked = await one.asked(one.event(line, str(house.repo), rewritable=True))
        assert f"the remote origin of {house.repo} is {address}" in asked.why
        assert asked.why.endswith("approved, it runs by slack-gate's own git") and "call of its own" not in asked.why
        click = await one.click(asked, Choice.ALWAYS)
        assert f"git remote origin {address} of {house.repo}" in [rule.shown for rule in click.rules]
        await one.answer()
        command = await released(one, line, house.repo)
    done = run(command, house)
    assert done.returncode == 0, done.stderr
    assert git(remote, "rev-parse", "new") == git(house.repo, "rev-parse", "HEAD")


async def test_by_the_hook(house: House, remote: Path, tmp_path: Path) -> None:
    """From the press on the card to the commit on the other side."""
    ahead(house)
    line = "git push origin HEAD:new 2>&1 | tail -3"
    async with running_house(tmp_path) as h:
        hook = await h.start(h.event(command=line, cwd=str(house.repo)))
        card = await h.card("git push origin HEAD:new")
        await h.ana.click(card, "Always")
        assert "net_git.py" in (await h.ended(hook)).output["updatedInput"]["command"]
        again = await h.ask(h.event(command=line, cwd=str(house.repo)))
        assert again.decision == "allow" and h.log()[-1]["decision"] == "remembered"
        assert "new" not in git(remote, "branch")
        assert run(again.output["updatedInput"]["command"], house).returncode == 0
        assert "new" in git(remote, "branch")


async def test_an_approval_runs_the_other_commands_as_they_were_shown(
    house: House, remote: Path, tmp_path: Path
) -> None:
    ahead(house)
    async with gate(tmp_path) as one:
        await one.click(await one.asked(one.event("ls; git push origin HEAD:new", str(house.repo), rewritable=True)))
        said = await one.answer()
        assert (said.command or "").startswith("ls; /usr/bin/python3 -I -S ")
        said = ": uncaged; ls; git push origin HEAD:new"  # as the wrapper tells an agent that it has refused
        await one.click(await one.asked(one.event(said, str(house.repo), rewritable=True)))
        assert (await one.answer()).command is None
        asked = await one.asked(one.event("ls; git push origin HEAD:other", str(house.repo), rewritable=True))
        git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
        await one.click(asked)
        assert (await one.answer()).ruling is Ruling.DENY


async def test_a_line_cannot_bring_an_address_of_its_own(house: House, remote: Path, tmp_path: Path) -> None:
    ahead(house)
    evil = elsewhere(house, remote)
    address = git(house.repo, "config", "remote.origin.url").strip()
    made = configuration(house, address.replace("app.git", "evil.git"))
    line = f"cp {made} .git/config && git push origin HEAD:new"
    async with gate(tmp_path) as one:
        await remember(one, line, house.repo)
        command = await released(one, line, house.repo)
        done = run(command, house)
        assert done.returncode == 125 and "has changed since it was approved" in done.stderr
        assert git(evil, "branch") == git(remote, "branch", "--list", "new") == ""
        assert await answer(one, line, house.repo) is None  # the address is another one by now
        run("git push origin HEAD:new", house)
        assert "new" in git(evil, "branch")  # git alone would have gone there


@pytest.mark.parametrize("local", ["", "git commit --allow-empty -m x && "])
async def test_a_line_cannot_plant_what_its_git_runs(local: str, house: House, remote: Path, tmp_path: Path) -> None:
    ahead(house)
    address = git(house.repo, "config", "remote.origin.url").strip()
    made = configuration(house, address)
    mark = house.home / "mark"
    with made.open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {payload(house)}\n\thooksPath = {house.projects}/hooks\n")
    (house.projects / "hooks").mkdir()
    for name in ("pre-push", "pre-commit"):
        shutil.copy(payload(house), house.projects / "hooks" / name)
    git_alone = f"{local}git push origin HEAD:new"
    line = f"cp {made} .git/config && {git_alone}"
    async with gate(tmp_path) as one:
        await remember(one, line, house.repo)
        command = await released(one, line, house.repo)
        assert run(command, house).returncode == 125
        assert not mark.exists() and "new" not in git(remote, "branch")
        run(git_alone, house)
        assert mark.exists()  # it was no empty threat


@pytest.mark.parametrize("name", ["fsmonitor", "hook pre-commit", "filter clean"])
async def test_local_git_beside_it_runs_nothing_planted_after_the_look(
    name: str, house: House, remote: Path, tmp_path: Path
) -> None:
    line = "git add -A && ls && git commit --allow-empty -m x && git ls-remote | cat"
    async with gate(tmp_path) as one:
        await remember(one, line, house.repo)
        command = await released(one, line, house.repo)
        assert command.startswith(f"{CAGED_GIT} add -A && ") and f" && {CAGED_GIT} commit " in command
        PLANTS[name].plant(house)
        (house.home / "mark").unlink(missing_ok=True)
        run(command, house)
        assert not (house.home / "mark").exists()
        (house.repo / "a.txt").write_text("changed again\n")
        run(line, house)
        assert (house.home / "mark").exists()  # git alone would have run it


@pytest.mark.parametrize(
    "line",
    [
        "make && git push origin main",  # the cage has no network, and outside nothing of the project runs
        "of-the-project now && git push origin main",
        "git branch -d nowhere && ls && git push origin main",  # local git that the cage is a loss to
        "gh pr create --fill && git push origin main",
        ": uncaged; git push origin main",
        "cd d && git push origin main",
        "sbox make && git push origin main",
        "rm a.txt && git push origin main",
        "ls && git push --force origin main",
        "ls && git push origin +main",
        "ls && git push origin :main",
        "ls && git push https://example.com/x.git main",
        "ls && git -c core.sshCommand=x push origin main",
        "ls && git fetch --upload-pack=x origin",
        "ls && git unknown && git push origin main",
        "ls && git clone https://example.com/x.git && git push origin main",
        "ls" + " && ls" * 15 + " && git push origin main",
    ],
)
async def test_what_is_asked_each_time_is_not_offered(line: str, house: House, remote: Path, tmp_path: Path) -> None:
    async with gate(tmp_path) as one:
        for part in ("git push origin main", "ls", "make"):
            await remember(one, part, house.repo)
        asked = await one.asked(one.event(line, str(house.repo), rewritable=True))
        assert one.gate.offers(asked).keys == ()
        assert ("for Always, git needs a call of its own" in asked.why) == line.startswith(("make", "of-the-", "gh"))
        event = one.event(line, str(house.repo), rewritable=True)
        assert one.gate._judge.covered(event, await one.store.rules(), one.clock(), False) is None


@pytest.mark.parametrize("changes", [{"rewritable": False}, {"run_in_background": True}, {"odd": 1}])
async def test_calls_that_cannot_go_by_the_wrapper(
    changes: dict[str, object], house: House, remote: Path, tmp_path: Path
) -> None:
    line = "ls; git push origin main"
    fields = {name: value for name, value in changes.items() if name != "rewritable"}
    how = {"tool_input": {"command": line, **fields}, "rewritable": "rewritable" not in changes}
    async with gate(tmp_path) as one:
        await remember(one, line, house.repo)
        assert await answer(one, line, house.repo) is not None
        assert await answer(one, line, house.repo, **how) is None


async def test_where_no_cage_starts(house: House, remote: Path, tmp_path: Path) -> None:
    line = "ls; git push origin main"
    async with desk(tmp_path, sbox=SBOX) as one:
        for part in ("git push origin main", "ls"):
            await remember(one, part, house.repo)
        assert await answer(one, "git push origin main", house.repo) is not None
        for there, where in (("", house.repo), (f" -C {house.repo}", house.outside)):
            assert await answer(one, f"ls; git{there} push origin main", where) is None
        assert one.gate.offers(await one.asked(one.event(line, str(house.repo), rewritable=True))).keys == ()


async def test_a_rule_for_another_remote_or_another_place_is_none_for_it(
    house: House, remote: Path, tmp_path: Path
) -> None:
    """Nor is one for git where caged code cannot write, whatever stands in the line."""
    for name in ("other", "outside"):
        shutil.copytree(house.repo, house.projects / name if name == "other" else house.outside / "app")
    async with gate(tmp_path) as one:
        for place in (house.projects / "other", house.outside / "app"):
            await remember(one, "ls; git push origin main", place)
        assert await answer(one, "ls; git push origin main", house.projects / "other") is not None
        assert await answer(one, "ls; git push origin main", house.repo) is None
        for line in ("ls; git -C {} push origin main", "ls; git -C {0} add -A; git -C {0} push origin main"):
            assert await answer(one, line.format(house.repo), house.outside / "app") is None


async def test_git_that_stays_outside_starts_nothing_by_the_agents_path(
    house: House, remote: Path, tmp_path: Path
) -> None:
    """In a green line it may, and finds the person's own filter by its PATH."""
    (house.home / ".mine").mkdir()
    (house.home / ".mine" / "ignore").write_text("")  # out of the cage's sight
    with (house.home / ".gitconfig").open("a") as file:
        file.write('[core]\n\texcludesfile = ~/.mine/ignore\n[filter "lfs"]\n\tclean = git-lfs clean -- %f\n')
    (house.repo / ".gitattributes").write_text("*.bin filter=lfs\n")
    (house.repo / "x.bin").write_text("x")
    (house.repo / "venv").mkdir()
    shutil.copy(payload(house), house.repo / "venv" / "git-lfs")
    line = "git add -A && git ls-remote"
    async with gate(tmp_path) as one:
        await one.click(await one.asked(one.event(line, str(house.repo), rewritable=True)), Choice.ALWAYS)
        approved = (await one.answer()).command or ""
        for command in (approved, await released(one, line, house.repo)):
            run(f"PATH={house.repo}/venv:$PATH; {command}", house)
            assert not (house.home / "mark").exists(), command
            (house.repo / ".git" / "index").unlink()
    run(f"PATH={house.repo}/venv:$PATH; {line}", house)
    assert (house.home / "mark").exists()


async def test_what_the_settings_have_run_in_the_cage_goes_there_whole(
    house: House, remote: Path, tmp_path: Path
) -> None:
    line = "ls; git push origin main"
    async with desk(tmp_path, sbox=SBOX, cages=True, executors=("cage",), hook_executor="cage") as one:
        asked = await one.asked(one.event(line, str(house.repo), rewritable=True))
        assert asked.why.endswith("approved, it will run in the cage") and BY_WRAPPER not in asked.why
        assert one.gate.offers(asked).keys == ()
        await one.click(asked)
        assert (await one.answer()).command == f"{shlex.quote(SBOX)} bash -c {shlex.quote(line)}"
