"""Network git by its wrapper, with a real remote, a real cage and real git: the same as git alone, and nothing planted
runs, even where it is planted right after the check."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cage import cage_policy, net_git
from slack_gate.core import network_git
from slack_gate.core.event import ToolEvent
from slack_gate.core.respell import MANY
from slack_gate.daemon.programs import PACKAGED
from tests.ports import free_port

from .conftest import CAGE, SYSTEM_PATH, House, entries, git
from .test_policy_planted import PLANTS, payload

pytestmark = pytest.mark.skipif(not CAGE, reason="bubblewrap cannot make namespaces here")
SBOX, GIT, ROOT = str(PACKAGED), "/usr/bin/git", Path("/var/tmp")
PROGRAMS = {"sbox": SBOX, "git": GIT, "python3": sys.executable}


@pytest.fixture(scope="session")
def port() -> Iterator[int]:
    """A git daemon that serves, and takes, what lies below /var/tmp."""
    number = free_port()
    options = ["--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1", f"--port={number}"]
    env = {"PATH": SYSTEM_PATH, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    daemon = subprocess.Popen(["git", "daemon", *options, f"--base-path={ROOT}"], env=env, start_new_session=True)
    try:
        for _ in range(2000):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", number)) == 0:
                    break
            time.sleep(0.05)
        yield number
    finally:
        os.killpg(daemon.pid, 15)
        daemon.wait()


@pytest.fixture
def remote(house: House, port: int) -> Path:
    """`origin`: one commit ahead of the repository on main, with a branch and a tag of its own."""
    where = house.home / "remotes" / "app.git"
    where.parent.mkdir()
    git(house.home, "clone", "-q", "--bare", str(house.repo), str(where))
    other = house.home / "other"
    git(house.home, "clone", "-q", str(where), str(other))
    (other / "theirs.txt").write_text("theirs\n")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "theirs")
    git(other, "push", "-q", "origin", "HEAD:main", "HEAD:side", "HEAD:refs/tags/v9")
    git(house.repo, "config", "remote.origin.url", f"git://127.0.0.1:{port}/{where.relative_to(ROOT)}")
    (house.home / ".gitconfig").write_text("[user]\n\tname = Dev\n\temail = dev@example.com\n")
    return where


def event(house: House, command: str, cwd: Path | None = None, rewritable: bool = True) -> ToolEvent:
    where = str(cwd or house.repo)
    return ToolEvent("claude-code", "s", "c", "Bash", {"command": command}, where, rewritable=rewritable)


def run(command: str, house: House, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(house.home), "PATH": SYSTEM_PATH, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    return subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=cwd or house.repo,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )


def by_wrapper(command: str, house: House, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    text = network_git.wrapped(event(house, command, cwd), PROGRAMS)
    assert text is not None, command
    return run(text, house, cwd)


def state(house: House, remote: Path) -> list[str]:
    """What a call may change: refs on both sides, settings, what FETCH_HEAD names, files."""
    heads = house.repo / ".git" / "FETCH_HEAD"
    named = [line.split("\t")[0] for line in heads.read_text().splitlines()] if heads.exists() else []
    merged = re.compile("(?m)^Merge .* ")  # a pull in two steps names the branch of the first one
    subjects = [merged.sub("Merge ", git(house.repo, "log", "--all", "--format=%s %T"))]
    refs = [git(where, "for-each-ref", "--format=%(refname) %(tree) %(symref)") for where in (house.repo, remote)]
    return [*subjects, *refs, git(house.repo, "config", "--local", "--list"), git(house.repo, "status", "-sb"), *named]


def ahead(house: House) -> None:
    (house.repo / "ours.txt").write_text("ours\n")
    git(house.repo, "add", ".")
    git(house.repo, "commit", "-q", "-m", "ours")


DAILY = {
    "git fetch": None,
    "git fetch origin": None,
    "git fetch -p origin main": None,
    "git fetch --all --tags": None,
    "git fetch origin side:here": None,
    "git fetch origin nowhere": None,
    "git pull": None,
    "git pull origin side": None,
    "git pull --rebase": ahead,
    "git pull --no-rebase origin main": ahead,
    "git pull --ff-only": ahead,
    "git push": None,
    "git push origin main": ahead,
    "git push origin main:new": ahead,
    "git push -u origin HEAD:fresh": ahead,
    "git push --tags origin": lambda house: git(house.repo, "tag", "v1"),
    "git push --dry-run origin main:dry": ahead,
    "git -C d push origin HEAD:deep": ahead,
    "git push origin main:side": ahead,
    "git ls-remote origin": None,
    "git add -A && git commit -m more && git push origin HEAD:more": lambda house: (house.repo / "x").write_text(""),
}


@pytest.mark.parametrize("command", DAILY)
def test_daily_work_is_the_same_by_the_wrapper(command: str, house: House, remote: Path) -> None:
    before = DAILY[command]
    if before is not None:
        before(house)
    if "-u" in command:
        git(house.repo, "checkout", "-q", "-b", "topic")
    for name in ("projects", "remotes"):
        shutil.copytree(house.home / name, house.home / ("kept-" + name), symlinks=True)
    alone = run(command, house)
    wanted = state(house, remote)
    for name in ("projects", "remotes"):
        shutil.rmtree(house.home / name)
        (house.home / ("kept-" + name)).rename(house.home / name)
    done = by_wrapper(command, house)
    assert bool(done.returncode) == bool(alone.returncode), (done.stderr, alone.stderr)
    assert state(house, remote) == wanted
    if command == "git ls-remote origin":
        assert done.stdout == alone.stdout and "refs/heads/side" in done.stdout


@pytest.mark.parametrize("command", ["git fetch", "git push origin nowhere"])
def test_nothing_is_left_behind(command: str, house: House, remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = house.home.parent / "where"
    where.mkdir()
    monkeypatch.setattr(net_git, "WHERE", str(where))
    monkeypatch.chdir(house.repo)
    (words,) = network_git.remotes(event(house, command))
    assert bool(net_git.main([SBOX, GIT, " ".join(words[2:-2]), "--", *command.split()])) == ("nowhere" in command)
    assert list(where.iterdir()) == []


def test_what_is_pruned_goes(house: House, remote: Path) -> None:
    assert by_wrapper("git fetch", house).returncode == 0
    assert "origin/side" in git(house.repo, "branch", "-r")
    git(remote, "branch", "-D", "side")
    assert by_wrapper("git fetch --prune origin", house).returncode == 0
    assert "origin/side" not in git(house.repo, "branch", "-r")


def test_a_name_that_could_begin_a_comment(house: House, remote: Path) -> None:
    git(house.repo, "checkout", "-q", "-b", "a#1")
    done = by_wrapper("git push -u origin a#1", house)
    assert done.returncode == 0, done.stderr
    assert git(house.repo, "config", "branch.a#1.merge").strip() == "refs/heads/a#1"
    assert by_wrapper("git push", house).returncode == 0


def test_a_linked_worktree(house: House, remote: Path) -> None:
    linked = house.projects / "linked"
    git(house.repo, "worktree", "add", "-q", str(linked), "-b", "topic")
    (linked / "x").write_text("")
    command = "git add -A && git commit -m more && git push -u origin topic"
    done = by_wrapper(command, house, linked)
    assert done.returncode == 0, done.stderr
    assert "topic" in git(remote, "branch")
    assert git(house.repo, "config", "branch.topic.merge").strip() == "refs/heads/topic"
    assert by_wrapper("git push", house, linked).returncode == 0


ASKED = entries(
    """git push -u origin main:other; git push -u --all origin; git push -u origin v1:x; git push -u origin nowhere
    git push -u origin main:refs/tags/x; git pull --all; git pull --tags; git pull origin main side
    git pull origin a:b; git pull --depth=1; git fetch --depth=1; git fetch --unshallow; git status; sbox ls
    git push --force; git push origin +main; git push && git push origin :x; git fetch upstream"""
)
ASKED += ["git push origin" + " main" * net_git.MANY]


@pytest.mark.parametrize("command", ASKED)
def test_what_cannot_be_done_whole_is_asked(command: str, house: House, remote: Path) -> None:
    assert network_git.remotes(event(house, command)) == ()
    assert network_git.wrapped(event(house, command), PROGRAMS) is None


def setting(*words: str) -> Callable[[House], object]:
    return lambda house: git(house.repo, "config", *words)


@pytest.mark.parametrize(
    ("change", "command"),
    [
        (lambda house: (house.repo / ".git" / "shallow").write_text(""), "git fetch"),
        (setting("remote.origin.fetch", "+refs/heads/main:refs/remotes/origin/main"), "git pull"),
        (setting("--unset", "branch.main.merge"), "git pull"),
        (setting("push.default", "matching"), "git push -u origin main"),
        (setting("user.name", 'a "b"'), "git fetch"),
        (lambda house: git(house.repo, "checkout", "-q", "-b", 'x"]pushremote=/tmp/p#'), "git push -u origin HEAD"),
        (lambda house: git(house.repo, "checkout", "-q", "-b", "x\u200dy"), "git push origin HEAD"),
        (lambda house: (house.repo / ".git" / "lfs").mkdir(), "git pull"),
        (lambda house: (house.repo / ".git" / "HEAD").write_text("ref: refs/heads/new\n"), "git pull"),
    ],
)
def test_what_the_repository_makes_unclear_is_asked(
    change: Callable[[House], object], command: str, house: House, remote: Path
) -> None:
    assert network_git.wrapped(event(house, command), PROGRAMS) is not None
    change(house)
    assert house.bash(command) == "green"
    assert network_git.wrapped(event(house, command), PROGRAMS) is None


def test_a_repository_under_a_layer_is_asked(house: House, remote: Path) -> None:
    """What git in the cage writes to ~/.cache stays in the cage."""
    shutil.copytree(house.repo, house.cache / "app")
    assert house.bash("git fetch", house.cache / "app") == "green"
    assert network_git.remotes(event(house, "git fetch", house.cache / "app")) == ()


def test_the_remote_that_git_would_take(house: House, remote: Path) -> None:
    git(house.repo, "config", "remote.fork.url", "https://example.com/fork.git")
    git(house.repo, "config", "remote.fork.pushurl", "ssh://git@example.com/fork.git")

    def named(command: str) -> list[str]:
        return [words[2] for words in network_git.remotes(event(house, command))]

    assert (named("git push"), named("git push fork main"), named("git fetch --all")) == (
        ["origin"],
        ["fork"],
        ["fork", "origin"],
    )
    assert named("git fetch --multiple fork origin && git push") == ["fork", "origin"]
    git(house.repo, "config", "branch.main.pushRemote", "fork")
    assert (named("git push"), named("git fetch"), named("git pull")) == (["fork"], ["origin"], ["origin"])
    git(house.repo, "config", "branch.main.remote", "fork")
    assert (named("git push"), named("git fetch")) == (["fork"], ["fork"])
    assert network_git.remotes(event(house, "git fetch"))[0][3:5] == (
        "https://example.com/fork.git",
        "ssh://git@example.com/fork.git",
    )
    git(house.repo, "config", "branch.main.remote", ".")
    assert named("git fetch") == []


def test_a_long_line_has_no_repository_judged_for_each_of_its_commands(house: House, remote: Path) -> None:
    short, long = ("&&".join(["git push"] * many) for many in (MANY, MANY + 1))
    assert (house.bash(short), house.bash(long)) == ("green", "green")
    assert len(network_git.remotes(event(house, short))) == 1
    assert network_git.remotes(event(house, long)) == ()
    assert network_git.why(event(house, long), []) == (
        f"this use of a remote is asked each time: it speaks to a remote more than {MANY} times",
        (),
    )


def test_a_changed_address_shows_both(house: House, remote: Path) -> None:
    (first,) = network_git.remotes(event(house, "git push"))
    assert network_git.why(event(house, "git push"), [])[0] == (f"the remote origin of {house.repo} is {first[3]}")
    git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
    assert network_git.why(event(house, "git push"), [first, ("git", "push")])[0] == (
        f"the remote origin of {house.repo} is https://example.com/x.git; allowed before was {first[3]}"
    )
    (second,) = network_git.remotes(event(house, "git push"))
    assert network_git.why(event(house, "git push"), [second]) == ("the remote is known", (second,))
    told, _ = network_git.why(event(house, "git pull --all"), [])
    assert told == "this use of a remote is asked each time: this form of pull cannot be done in two steps"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://dev:secret@example.com/x.git", False),
        ("https://ghp_token@example.com/x.git", False),
        ("ssh://git:secret@example.com/x.git", False),
        ("ssh://git@example.com/x.git", True),
        ("git@example.com:acme/x.git", True),
        ("https://example.com/@acme/x.git", True),
    ],
)
def test_an_address_with_a_secret_is_neither_kept_nor_shown(url: str, kept: bool, house: House, remote: Path) -> None:
    git(house.repo, "config", "remote.origin.url", url)
    assert house.bash("git push") == "green"
    assert bool(network_git.remotes(event(house, "git push"))) == kept
    assert (url in network_git.why(event(house, "git push"), [])[0]) == kept


def test_the_wrapper_speaks_only_to_remotes_that_were_looked_at(house: House, remote: Path) -> None:
    push = event(house, "git push origin main")
    shown = network_git.remotes(push)
    assert network_git.is_remote(shown[0]) and not network_git.is_remote(("git", "remote", "add"))
    assert network_git.wrapped(push, PROGRAMS, shown) == network_git.wrapped(push, PROGRAMS) is not None
    git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
    assert network_git.wrapped(push, PROGRAMS, shown) is None
    assert network_git.wrapped(push, PROGRAMS) is not None


def test_an_approval_is_bound_to_the_addresses(house: House, remote: Path) -> None:
    address = git(house.repo, "config", "remote.origin.url").strip()
    push = event(house, "git push origin main && git status")
    assert network_git.bound(network_git.remotes(push)) == {f"git remote origin of {house.repo}": address}
    for other in ("git status", "git push --force"):
        assert network_git.remotes(event(house, other)) == ()
        assert network_git.may_use(event(house, other)) == (other != "git status")
    git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
    assert network_git.bound(network_git.remotes(push)) == {
        f"git remote origin of {house.repo}": "https://example.com/x.git"
    }
    (house.repo / ".git" / "hooks").mkdir(exist_ok=True)
    (house.repo / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\n")
    assert network_git.bound(network_git.remotes(push)) == {}


def test_which_calls_use_the_network(house: House, remote: Path) -> None:
    green = ["git push", "git add . && git push", "git ls-remote"]
    assert [network_git.uses_network(event(house, command)) for command in green] == [True] * 3
    others = ["git status", "sbox git push", "git push --force", "git -c a=b push", "ls", "$X"]
    assert [network_git.uses_network(event(house, command)) for command in others] == [False] * 6
    tool = ToolEvent("claude-code", "s", "c", "Read", {"command": "git push"}, str(house.repo), rewritable=True)
    assert not network_git.uses_network(tool) and network_git.wrapped(tool, PROGRAMS) is None


def test_what_cannot_be_rewritten_or_trusted(house: House, remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    push = event(house, "git push")
    assert network_git.wrapped(push, PROGRAMS) is not None
    assert network_git.wrapped(event(house, "git push", rewritable=False), PROGRAMS) is None
    assert network_git.wrapped(event(house, "'git' push"), PROGRAMS) is None
    for name in PROGRAMS:
        assert network_git.wrapped(push, {k: v for k, v in PROGRAMS.items() if k != name}) is None
    for where in (house.projects / "net_git.py", "/proc/self/cwd/net_git.py"):
        monkeypatch.setattr(network_git, "WRAPPER", str(where))
        assert network_git.wrapped(push, PROGRAMS) is None


def test_a_directory_called_like_a_subcommand_hides_no_pull(house: House, remote: Path) -> None:
    (house.repo / "pull").mkdir()
    assert network_git.wrapped(event(house, "git -C pull pull"), PROGRAMS) is not None


def test_local_git_that_is_not_for_the_cage_stays_outside(house: House, remote: Path) -> None:
    line = event(house, "git branch -D other && git push")
    assert network_git.wrapped(line, PROGRAMS) is None  # by the agent's PATH it never starts
    text = network_git.wrapped(line, PROGRAMS, None, lambda argv: (GIT,)) or ""
    assert text.startswith(f"{GIT} branch -D other && {PROGRAMS['python3']} -I -S ")


# ---------------------------------------------------------------- caged code races the check


@pytest.mark.parametrize("name", PLANTS)
def test_nothing_planted_after_the_check_runs(
    name: str, house: House, remote: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The worst timing there is: the plant lands after the check, and once more before each program."""
    plant, started = PLANTS[name], net_git._run

    def planting(*call: object) -> object:
        shutil.rmtree(house.projects)
        shutil.copytree(house.home / "planted", house.projects, symlinks=True)
        return started(*call)  # type: ignore[arg-type]

    ahead(house)
    monkeypatch.chdir(house.repo)
    made = [net_git.plan(tuple(c.split()), str(house.repo)) for c in ("git push origin main", "git pull")]
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    plant.plant(house)
    (house.home / "mark").unlink(missing_ok=True)
    house.projects.rename(house.home / "planted")
    monkeypatch.setattr(net_git, "_run", planting)
    for one in made:
        shutil.rmtree(house.projects, ignore_errors=True)
        shutil.copytree(kept, house.projects, symlinks=True)
        with tempfile.TemporaryDirectory(prefix="net-git-", dir=ROOT) as private:
            try:
                net_git.Run(SBOX, GIT, one, private).whole()
            except (cage_policy.Gated, OSError):
                capfd.readouterr()
        assert not (house.home / "mark").exists(), one.outside


def test_a_hook_that_is_planted_there_would_have_run(house: House, remote: Path) -> None:
    """The same plant, and git alone: so the test above shows something."""
    (house.repo / ".git" / "hooks").mkdir()
    shutil.copy(payload(house), house.repo / ".git" / "hooks" / "pre-push")
    ahead(house)
    assert network_git.wrapped(event(house, "git push origin main:new"), PROGRAMS) is None
    run("git push origin main:new", house)
    assert (house.home / "mark").exists()


def test_what_could_not_be_recorded_is_said(
    house: House, remote: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It was pushed, and the words say so; they never say that nothing was sent."""
    ahead(house)
    git(house.repo, "checkout", "-q", "-b", "topic")
    monkeypatch.chdir(house.repo)
    for command, broken in (("git push origin HEAD:one", "_bring"), ("git push -u origin HEAD:two", "append")):
        made = net_git.plan(tuple(command.split()), str(house.repo))

        def fails(*_: object) -> None:
            raise OSError("no way")

        with monkeypatch.context() as patch, tempfile.TemporaryDirectory(prefix="net-git-", dir=ROOT) as private:
            patch.setattr(net_git if broken == "append" else net_git.Run, broken, fails)
            assert net_git.Run(SBOX, GIT, made, private).whole() == net_git.REFUSED
        said = capfd.readouterr().err
        assert "git push ended with 0, but not all of it is in the repository: no way" in said
        assert command.rpartition(":")[2] in git(remote, "branch")


def test_a_branch_that_is_checked_out_is_not_fetched_into(house: House, remote: Path) -> None:
    head = git(house.repo, "rev-parse", "HEAD")
    done = by_wrapper("git fetch origin side:main", house)
    assert done.returncode != 0 and "in the cage it ended with" in done.stderr
    assert git(house.repo, "rev-parse", "HEAD") == head


def test_an_address_that_changed_is_refused(house: House, remote: Path) -> None:
    text = network_git.wrapped(event(house, "git push origin HEAD:new"), PROGRAMS)
    assert text is not None
    git(house.repo, "config", "remote.origin.url", "https://example.com/x.git")
    done = run(text, house)
    assert done.returncode == net_git.REFUSED and "has changed since it was approved" in done.stderr
    assert "new" not in git(remote, "branch")


@pytest.mark.parametrize(
    "change",
    [
        lambda house: (house.repo / ".git" / "hooks").mkdir() or (house.repo / ".git" / "hooks" / "x").write_text(""),
        lambda house: shutil.rmtree(house.repo / ".git"),
        lambda house: git(house.repo, "config", "core.fsmonitor", "/nowhere"),
        lambda house: (house.repo / ".git" / "HEAD").write_text("nonsense"),
        lambda house: (house.repo / ".git" / "packed-refs").write_text("nonsense\n"),
    ],
)
def test_a_repository_that_changed_is_refused(change: Callable[[House], object], house: House, remote: Path) -> None:
    text = network_git.wrapped(event(house, "git push origin main:new"), PROGRAMS)
    assert text is not None
    change(house)
    assert run(text, house).returncode != 0
    assert "new" not in git(remote, "branch")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--"],
        ["sbox", "git", "--"],
        ["sbox", "git", "origin x", "git", "push"],
        ["sbox", "git", "origin x", "--", "git", "status"],
        ["sbox", "git", "origin x", "--", "git", "push", "--force"],
        ["sbox", "git", "origin x", "--", "rm", "x"],
    ],
    ids=repr,
)
def test_odd_calls_of_the_wrapper_run_nothing(
    words: list[str], house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(house.repo)
    assert net_git.main(words) == net_git.REFUSED
    assert "nothing was sent" in capsys.readouterr().err


def test_a_place_that_the_cage_can_write_is_refused(
    house: House, remote: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(house.repo)
    monkeypatch.setattr(net_git, "WHERE", str(house.projects))
    (words,) = network_git.remotes(event(house, "git push"))
    agreed = " ".join(words[2:-2])
    assert net_git.main([SBOX, GIT, agreed, "--", "git", "push"]) == net_git.REFUSED
    assert "where caged code can write" in capsys.readouterr().err


@pytest.mark.parametrize("programs", [("/tmp/sbox", GIT), (SBOX, "/tmp/git"), ("sbox", GIT), (SBOX, "git")])
def test_programs_that_the_cage_can_write_are_refused(
    programs: tuple[str, str], house: House, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever remembers the wrapper as a script must not have remembered everything."""
    monkeypatch.chdir(house.repo)
    (words,) = network_git.remotes(event(house, "git push"))
    monkeypatch.setattr(net_git, "Run", None)
    assert net_git.main([*programs, " ".join(words[2:-2]), "--", "git", "push"]) == net_git.REFUSED


@pytest.mark.parametrize("words", ["fetch origin", "push origin HEAD:new"])
def test_git_outside_starts_none_in_the_repository(words: str, house: House, remote: Path, tmp_path: Path) -> None:
    """Not even to list the refs behind the objects that it borrows: it would read the repository's configuration."""
    ahead(house)
    made = net_git.plan(("git", *words.split()), str(house.repo))
    work = net_git.Run(SBOX, GIT, made, str(tmp_path / "private"))
    listed = git(house.repo, "for-each-ref", "--format=%(refname) %(objectname)")
    net_git.make(work.private, made.repository, dict(line.split(" ") for line in listed.splitlines()))
    trace = tmp_path / "trace"
    work.env["GIT_TRACE"] = str(trace)
    assert work._outside(*made.outside).returncode == 0
    started = [line for line in trace.read_text().splitlines() if "run_command" in line]
    assert started and not [line for line in started if f"--git-dir={house.repo}" in line]


@pytest.mark.parametrize("way", ["config", "directory", "pipe", "second name"])
def test_the_configuration_is_added_to_through_no_link(way: str, house: House) -> None:
    outside, gitdir = house.outside / "config", house.repo / ".git"
    outside.write_text("kept\n")
    if way == "config":
        (gitdir / "config").unlink()
        (gitdir / "config").symlink_to(outside)
    elif way == "directory":
        gitdir.rename(house.repo / "git")
        gitdir.symlink_to(house.outside)
    elif way == "pipe":
        (gitdir / "config").unlink()
        os.mkfifo(gitdir / "config")
    else:
        (gitdir / "config").unlink()
        os.link(outside, gitdir / "config")
    with pytest.raises((cage_policy.Gated, OSError)):
        net_git.append(str(gitdir), "[a]\n")
    assert outside.read_text() == "kept\n"


def test_what_is_added_begins_a_line(tmp_path: Path) -> None:
    for before, after in (("a", "a\nb\n"), ("a\n", "a\nb\n"), ("", "b\n")):
        (tmp_path / "config").write_text(before)
        net_git.append(str(tmp_path), "b\n")
        assert (tmp_path / "config").read_text() == after


def listed(text: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, text)


def test_refs_as_the_cage_tells_them() -> None:
    value = "0" * 40
    read = net_git._refs(listed(f"{value} refs/heads/a \n{value} refs/remotes/origin/HEAD refs/heads/a\n"))
    assert read == {"refs/heads/a": value}
    for text in (f"{value} HEAD ", "x refs/heads/a ", f"{value} refs/heads/\x01 ", value, f"{'g' * 40} refs/heads/a "):
        with pytest.raises((cage_policy.Gated, ValueError)):
            net_git._refs(listed(text + "\n"))
    with pytest.raises(cage_policy.Gated):
        net_git._refs(listed("", 128))


def test_settings_that_cross_the_network_are_written_anew(tmp_path: Path) -> None:
    repository = cage_policy.Repository("/x", str(tmp_path), str(tmp_path))
    (tmp_path / "HEAD").write_text("0" * 64 + "\n")
    repository.settings = [
        ("core", "filemode", "true"),
        ("extensions", "objectformat", "sha256"),
        ("remote.a b", "url", "x#y"),
        ("remote.a b", "url", "z"),
        ("user", "name", "Dev"),
    ]
    net_git.make(str(tmp_path / "new"), repository, {})
    assert git(tmp_path, "config", "--file", "new/config", "--list").splitlines() == [
        "core.bare=true",
        "core.repositoryformatversion=1",
        "extensions.objectformat=sha256",
        "remote.a b.url=x#y",
        "remote.a b.url=z",
    ]
    assert (tmp_path / "new" / "HEAD").read_text() == "0" * 64 + "\n"
    assert (tmp_path / "new" / "packed-refs").read_text() == ""
    assert (tmp_path / "new" / "objects" / "info" / "alternates").read_text() == f"{tmp_path}/objects\n"


@pytest.mark.parametrize(
    ("line", "fits"),
    [
        ("git checkout main && git pull", True),
        ("git -C d checkout -q main && git status && git -C d pull", True),
        ("git switch main && git checkout -- a.txt && git pull", True),
        ("git -C d checkout main && git pull", False),  # the same one, which is not looked up
        ("git switch -c new && git pull", False),
        ("git checkout - && git pull", False),
        ("git pull && git checkout main", False),
    ],
)
def test_the_branch_that_stands_by_then(line: str, fits: bool, house: House, remote: Path) -> None:
    """On this one there is nothing to pull."""
    git(house.repo, "checkout", "-q", "-b", "alone")
    assert (network_git.wrapped(event(house, line), PROGRAMS) is not None) == fits


def test_what_moves_files_beside_it_stays_in_the_cage(house: House, remote: Path) -> None:
    """Outside it would write what agents and editors trust."""
    line = "git checkout main && git push"
    assert network_git.wrapped(event(house, line), PROGRAMS) is not None
    (house.repo / ".git" / "lfs").mkdir()
    assert house.bash(line) == "green"
    assert network_git.wrapped(event(house, line), PROGRAMS, None, lambda argv: ("/usr/bin/git",)) is None
    assert network_git.wrapped(event(house, "git push && git status"), PROGRAMS) is not None
    assert network_git.wrapped(event(house, "git foo && git push"), PROGRAMS) is None
