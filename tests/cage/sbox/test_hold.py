"""A file below .claude can switch the gate off in the middle of a session: the cage can neither make nor change one.

Where there is none, an empty directory is held in its place while a cage runs. These are the attacks on that, and what it
must not cost: no litter, and nothing seen by git.
"""
# ruff: noqa: E501  a row of a table is one line

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cage.sbox.test_attacks import git_outside, py, refused
from tests.cage.sbox.world import World, listening

# $1 is the directory that gets a .claude/settings.json.
PLANTS = {
    "make it": 'mkdir -p "$1/.claude"; echo x >"$1/.claude/settings.json"',
    "make it after removal": 'rm -rf "$1/.claude"; mkdir "$1/.claude"; echo x >"$1/.claude/settings.local.json"',
    "make it after a change of modes": 'chmod 755 "$1" "$1/.claude"; mkdir -p "$1/.claude"; echo x >"$1/.claude/settings.json"',
    "rename one to it": 'mkdir "$1/x"; echo x >"$1/x/settings.json"; mv -T "$1/x" "$1/.claude"',
    "exchange it": 'mkdir -p "$1/x" "$1/.claude"; echo x >"$1/x/settings.json"; ' + py("import ctypes,sys; a=sys.argv[1].encode(); sys.exit(ctypes.CDLL(None).renameat2(-100,a+b'/x',-100,a+b'/.claude',2)!=0)"),
    "link to one": 'mkdir "$1/y"; echo x >"$1/y/settings.json"; mv "$1/.claude" "$1/z" 2>/dev/null; ln -sT y "$1/.claude"',
    "rename what is above": 'mv "$1" "$1.old" && mkdir -p "$1/.claude" && echo x >"$1/.claude/settings.json"',
}  # fmt: skip
# Where the cage runs, and which directory is attacked; `repo` holds a repository, `top` lies in /tmp outside the home.
PLACES = {
    "the working directory": ("projects/plain", "projects/plain"),
    "one above it": ("projects/plain/a/b/c/d/e", "projects/plain/a"),
    "the project of a deep one": ("projects/plain/a/b/c/d/e", "projects/plain"),
    "another project": ("projects/other", "projects/plain"),
    "another project, from /tmp": ("../common", "projects/plain"),
    "a hidden project": ("projects/other", "projects/.plain"),
    "a repository": ("projects/other", "projects/repo"),
    "a repository deeper down": ("projects/other", "projects/plain/repo"),
    "a directory in /tmp": ("../common/deep", "../common"),
}  # fmt: skip


@pytest.fixture
def places(world: World) -> Iterator[World]:
    for name in ("plain/a/b/c/d/e", ".plain", "other", "repo/.git/hooks", "plain/repo/.git/hooks", "../../common/deep"):
        (world.projects / name).mkdir(parents=True)
    for name in ("repo", "plain/repo"):
        subprocess.run(["git", "init", "-q", world.projects / name], check=True)
    (world.projects / "plain/file").write_text("x")
    world.give(world.projects)
    world.give(world.top / "common")
    yield world
    for left in world.top.glob("common*"):
        shutil.rmtree(left)
    (world.top / "common").mkdir()
    world.give(world.top / "common")


def unplanted(world: World, plant: str, directory: Path, where: Path) -> None:
    """What counts is what programs outside see: nothing after the cage, the settings after the same without a cage."""
    argv = ["/bin/bash", "-c", plant, "plant", str(directory)]
    assert world.caged(*argv, cwd=where).returncode != 125
    assert not list(directory.glob(".claude/settings*"))
    if world.sbox.name == "script":
        world.bare(*argv, cwd=where)
        assert list(directory.glob(".claude/settings*")), "this plant proves nothing"


def placeholders(world: World) -> list[Path]:
    return [
        path
        for place in (world.projects, world.top / "common", world.top)
        for path in ([place / ".claude"] if place == world.top else place.rglob(".claude"))
        if path.exists()
    ]


EVERYWHERE = ("make it", "rename what is above")
CASES = [
    (plant, place)
    for plant in PLANTS
    for place in PLACES
    if plant in EVERYWHERE or place in ("the working directory", "a repository deeper down")
]


@pytest.mark.parametrize("plant,place", CASES)
def test_no_settings_of_an_agent_are_made(places: World, plant: str, place: str) -> None:
    where, victim = PLACES[place]
    unplanted(places, PLANTS[plant], (places.home / victim).resolve(), places.home / where)


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_the_zone_itself_gets_no_settings(world: World, name: str) -> None:
    refused(world, 'mkdir -p .claude; echo x >".claude/$1"', name)


def test_tmp_itself_gets_no_settings_while_one_works_in_it(world: World) -> None:
    """A session may have been started in /tmp. Not tried without a cage: /tmp is everyone's."""
    settings = Path("/tmp/.claude/settings.json")
    if settings.parent.exists():
        pytest.skip("somebody has a /tmp/.claude")
    try:
        code = 'mkdir -p "${1%/*}"; echo x >"$1"'
        assert world.caged("bash", "-c", code, "-", str(settings), cwd=world.top / "common").returncode == 1
        assert not settings.exists()
    finally:
        shutil.rmtree(settings.parent, ignore_errors=True)


def test_settings_that_are_there_stay_and_are_readable(places: World) -> None:
    path = places.projects / "plain/.claude/settings.json"
    path.parent.mkdir()
    path.write_text("mine\n")
    places.give(path.parent)
    assert places.caged("cat", str(path)).stdout == "mine\n"
    assert places.caged("bash", "-c", f"echo x >{path}; rm {path}; mv {path.parent} {path.parent}2").returncode
    assert path.read_text() == "mine\n"


def test_a_linked_settings_file_cannot_be_changed_where_it_lies(places: World) -> None:
    target = places.projects / "other/common.json"
    target.write_text("mine\n")
    (places.projects / "plain/.claude").mkdir()
    (places.projects / "plain/.claude/settings.json").symlink_to("../../other/common.json")
    places.give(places.projects)
    refused(places, 'echo x >"$1" || { rm "$1" && echo x >"$1"; }', str(target))


def test_a_link_as_settings_directory_holds_or_stops_the_cage(places: World) -> None:
    (places.projects / "other/dot").mkdir()
    link = places.projects / "plain/.claude"
    link.symlink_to("../other/dot")
    places.give(places.projects / "other")
    attacks = (
        'echo x >"$1/settings.json"', 'rm "$1" && mkdir "$1"', 'mv "$1" "$1.old"', 'ln -sfn /etc "$1"',
        'mv "$2/dot" "$2/dot2"', 'mv "$2" "$2.old"',
    )  # fmt: skip
    for attack in attacks:
        done = places.caged("bash", "-c", attack, "x", str(link), str(places.projects / "other"))
        if places.sbox.name == "script":
            assert done.returncode == 125 and "is a link" in done.stderr
        assert done.returncode != 0, attack
    assert os.readlink(link) == "../other/dot" and not list((places.projects / "other/dot").iterdir())


def test_a_link_to_nowhere_stops_the_cage(places: World) -> None:
    (places.projects / "plain/.claude").symlink_to("later")
    done = places.caged("touch", "marker")
    assert done.returncode == 125 and "is a link" in done.stderr and not (places.projects / "marker").exists()
    assert not placeholders(places)


def test_a_directory_that_its_owner_closed(places: World) -> None:
    directory = places.projects / "plain"
    directory.chmod(0o555)
    try:
        unplanted(places, f'chmod 755 "$1" && {PLANTS["make it"]}', directory, directory)
        assert places.sbox.name == "script" or not placeholders(places)
    finally:
        directory.chmod(0o755)


def test_git_does_not_see_what_is_held(world: World) -> None:
    repository = world.repository("seen")
    assert world.caged("git", "status", "--porcelain", cwd=repository).stdout == ""
    with running(world, repository, "true") as cage:
        assert (repository / ".claude").is_dir()
        assert world.bare("git", "status", "--porcelain", "--ignored", cwd=repository).stdout == ""
        finish(cage)


def running(world: World, where: Path, code: str) -> subprocess.Popen[str]:
    """A cage that has started, says `up`, waits for a line and then runs `code`."""
    process = world.start(
        [str(world.sbox), "bash", "-c", f"echo up; read -r line; {code}"], cwd=where, stdin=subprocess.PIPE
    )
    assert process.stdout and process.stdout.readline() == "up\n", process.stderr and process.stderr.read()
    return process


def finish(cage: subprocess.Popen[str]) -> tuple[str, str]:
    return cage.communicate("go\n", 100)


def test_no_descriptor_of_a_placeholder_leads_in(places: World) -> None:
    shown = places.caged("bash", "-c", "echo /proc/self/fd/* /proc/1/fd/*").stdout.split()
    leading = [fd for fd in shown if fd.startswith("/proc/self")]
    assert len(leading) <= 4, shown  # three streams, and the directory that the shell reads
    links = places.caged("bash", "-c", "readlink /proc/*/fd/*").stdout
    assert ".claude" not in links


@pytest.mark.parametrize("command", [["true"], ["false"], ["no-such-program"], ["/etc"], ["sh", "-c", "kill -KILL $$"]])
def test_nothing_is_left(places: World, command: list[str]) -> None:
    places.caged(*command, cwd=places.projects / "plain/a/b")
    assert not placeholders(places)


def by_another_bubblewrap(places: World, text: str) -> subprocess.CompletedProcess[str]:
    fake = places.outside / "bwrap"
    fake.write_text(f"#!/bin/sh\n{text}\n")
    fake.chmod(0o755)
    place = ["bwrap", "--dev-bind", "/", "/", "--bind", str(fake), "/usr/bin/bwrap", "--"]
    return places.bare(*place, str(places.sbox), "true")


def test_nothing_is_left_where_no_cage_starts(places: World) -> None:
    assert by_another_bubblewrap(places, "exit 1").returncode == 125
    assert not placeholders(places)


def test_nothing_is_left_where_bubblewrap_is_killed_before_it_names_its_child(places: World) -> None:
    """A signal to the whole process group may come in that instant; the child waits for a word from bubblewrap."""
    assert by_another_bubblewrap(places, "/bin/sleep 86413 &\nkill -KILL $$").returncode == 125
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"86413" in said(path)]
    assert not placeholders(places)


def said(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "KILL", "ALRM", "USR1", "XCPU"])
@pytest.mark.parametrize("end", [os.kill, os.killpg])
def test_nothing_is_left_by_a_signal(places: World, name: str, end: Callable[[int, int], None]) -> None:
    """Neither what was held nor what the cage planted; the output ends when all that is done."""
    git = places.projects / "repo/.git"
    plant = "cp -r .git evil && touch .git/config.worktree && mkdir -p .git/remotes && echo URL: ../evil >.git/remotes/origin"
    undo = "rm -r .git/config.worktree .git/remotes"
    assert places.bare("bash", "-ec", f"{plant}; {undo}", cwd=git.parent).returncode == 0
    code = f"trap '' TERM HUP INT USR1 ALRM; rm -rf evil; {plant} && echo up; exec sleep 60"
    with places.start([str(places.sbox), "bash", "-c", code], cwd=git.parent) as cage:
        assert cage.stdout and cage.stdout.readline() == "up\n"
        assert len(placeholders(places)) > 4 and (git / "config.worktree").exists()
        end(cage.pid, signal.Signals[f"SIG{name}"])
        if name not in ("KILL", "XCPU") and places.sbox.name == "program":  # passed on to a command that ignores it
            end(cage.pid, signal.SIGKILL)
        cage.communicate(timeout=100)
    assert not placeholders(places)
    assert not (git / "config.worktree").exists() and not list(git.glob("remotes/*"))


def test_nothing_is_left_by_a_signal_as_soon_as_something_is_held(places: World) -> None:
    for _ in range(10):
        with places.start([str(places.sbox), "true"], cwd=places.projects / "plain") as cage:
            while not (places.projects / "plain/.claude").exists() and cage.poll() is None:
                pass
            cage.send_signal(signal.SIGTERM)
            cage.communicate(timeout=100)
        assert not placeholders(places)


def test_a_reader_of_errors_that_goes_away_leaves_nothing(places: World) -> None:
    code = """out=$("$0" bash -c 'trap "" PIPE; echo go; read -r; echo x >&2; echo x >&2; echo on' 2> >(exec true) < <(sleep 1; echo))
    echo "$out"; exec 3>&1"""
    assert places.bare("bash", "-c", code, str(places.sbox)).stdout.split() == ["go", "on"]
    assert not placeholders(places)


def test_nothing_is_left_where_no_file_may_be_written(places: World) -> None:
    places.bare("bash", "-c", 'ulimit -f 0; "$0" true', str(places.sbox))
    assert not placeholders(places)


def test_nothing_is_removed_where_an_older_cage_put_a_link(places: World) -> None:
    """It may do what it likes to a repository that it made itself; a later cage guards this one, and clears up after the end."""
    names = ("config", "commondir", "config.worktree", "remotes", "branches")
    victim = places.home / ".victim"
    victim.mkdir(exist_ok=True)
    for name in names:
        if name.startswith("co"):
            (victim / name).write_text("mine\n")
        else:
            (victim / name / "x").mkdir(parents=True, exist_ok=True)
    places.give(victim)
    make = "git init -q t && rm t/.git/config && echo made; read -r"
    make += '; mv t/.git t/g; ln -s "$1" t/.git; echo done; read -r'
    with places.start([str(places.sbox), "bash", "-c", make, "-", str(victim)], stdin=subprocess.PIPE) as older:
        assert older.stdin and older.stdout and older.stdout.readline() == "made\n"
        with places.start([str(places.sbox), "bash", "-c", "echo up; read -r"], stdin=subprocess.PIPE) as later:
            assert later.stdin and later.stdout and later.stdout.readline() == "up\n"
            older.stdin.write("\n")
            older.stdin.flush()
            assert older.stdout.readline() == "done\n"
            later.communicate("\n", timeout=100)
        older.communicate("\n", timeout=100)
    assert sorted(path.name for path in victim.iterdir()) == sorted(names) and len(list(victim.glob("*/x"))) == 2


def test_nothing_is_made_where_a_link_leads(world: World) -> None:
    """A cage has put a link where a git directory is looked for that has no hooks yet."""
    repository = world.repository("leading")
    victim = world.outside / "victim"
    assert world.bare("bash", "-ec", 'git init -q --bare "$0"; rm -r "$0/hooks"', str(victim)).returncode == 0
    assert (
        world.caged(
            "bash", "-c", 'mkdir -p .git/modules; ln -s "$0" .git/modules/x', str(victim), cwd=repository
        ).returncode
        == 0
    )
    before = sorted(victim.iterdir())
    done = world.caged("true", cwd=repository)
    assert done.returncode == 0 and sorted(victim.iterdir()) == before, done
    shutil.rmtree(victim)


def test_a_cache_of_its_own_is_removed_whatever_is_in_it(world: World) -> None:
    if world.sbox.name == "script":
        pytest.skip("the script has one for all cages")
    deep = "import os; os.chdir(os.environ['HOME'] + '/.cache')\n"
    deep += "for _ in range(1500): os.mkdir('deep'); os.chdir('deep')\n"
    with running(world, world.projects, "true") as first:
        done = world.caged(
            "bash", "-c", py(deep).replace("exec ", "") + "; cd; mkdir -p .cache/a/b && chmod 000 .cache/a"
        )
        assert done.returncode == 0, done
        finish(first)
    assert not list((world.home / ".local/state/sbox").glob("run.*"))


def test_hooks_that_another_cage_holds_are_held_on(world: World) -> None:
    """The other one would remove what this one lies on."""
    repository = world.repository("bare-of-hooks")
    shutil.rmtree(repository / ".git/hooks")
    plant = "mkdir .git/hooks; echo x >.git/hooks/post-commit && echo planted"
    with running(world, repository, "true") as first, running(world, repository, plant) as second:
        finish(first)
        assert finish(second)[0] == ""
    assert not (repository / ".git/hooks").exists()


def test_hooks_that_a_killed_run_left_are_taken_over(world: World) -> None:
    repository = world.repository("bare-of-hooks")
    shutil.rmtree(repository / ".git/hooks")
    (repository / ".git/hooks").mkdir()
    (repository / ".git/hooks").chmod(0o1755)
    world.give(repository)
    assert world.caged("bash", "-c", "echo x >.git/hooks/post-commit", cwd=repository).returncode == 1
    assert not (repository / ".git/hooks").exists()


REPLACED = {
    "a configuration": (".git/config", "git config user.name Other"),
    "a file of an editor": (".mcp.json", "echo new >new; mv new .mcp.json"),
    "one made again at once": (".envrc", "rm .envrc; echo new >.envrc"),
}


@pytest.mark.parametrize("name,replace", REPLACED.values(), ids=REPLACED.keys())
def test_what_is_replaced_outside_meanwhile_is_said(world: World, name: str, replace: str) -> None:
    """The mount goes with the file that it lies on."""
    repository = world.repository("replacing")
    for path in (repository / ".mcp.json", repository / ".envrc"):
        path.write_text("{}")
        world.give(path)
    with running(world, repository, f"echo x >>{name} && echo wrote") as cage:
        assert world.bare("bash", "-ec", replace, cwd=repository).returncode == 0
        out, err = finish(cage)
    said = "was changed in the cage" if world.sbox.name == "script" else "was replaced while the cage ran"
    assert out == "wrote\n" and f"{repository}/{name} {said}" in err, (out, err)
    assert world.caged("true", cwd=repository).stderr == ""


def test_a_commondir_is_not_made_by_two_cages(world: World) -> None:
    repository = world.repository("shared")
    commondir = repository / ".git/commondir"
    commondir.write_text(".\n")
    world.give(commondir)
    with running(world, repository, "echo ../evil >.git/commondir && echo wrote") as second:
        commondir.unlink()  # as the first one's end does
        finish(second)
    assert not commondir.exists()


@pytest.mark.parametrize("make", ["touch x; mv x .git/commondir", "ln -s x .git/commondir", "mkdir .git/commondir"])
def test_a_run_that_misleads_git_outside_is_ended(world: World, make: str) -> None:
    """An editor, or a prompt, may ask git at any time. The script cannot see it before the end."""
    repository = world.repository("shared")
    code = f"echo up; {make}; read -r line; echo went on"
    with world.start([str(world.sbox), "bash", "-c", code], cwd=repository, stdin=subprocess.PIPE) as cage:
        if world.sbox.name == "program":
            assert cage.wait(100) == 128 + signal.SIGKILL
        out, err = finish(cage) if world.sbox.name == "script" else cage.communicate(timeout=100)
    ended = f"the run was ended: {repository}/.git/commondir was made" in err
    assert (out, ended) == (("up\n", True) if world.sbox.name == "program" else ("up\nwent on\n", False)), err
    assert "/.git/commondir appeared in the cage and was removed" in err
    assert not (repository / ".git/commondir").exists()


def test_a_commondir_that_is_gone_again_ends_the_run_too(world: World) -> None:
    if world.sbox.name == "script":
        pytest.skip("the script cannot see it before the end")
    repository = world.repository("shared")
    make = "import os; os.rename('x', '.git/commondir'); os.rename('.git/commondir', 'x'); print('made')"
    code = f'touch x; echo up; read -r line; python3 -c "{make}"; sleep 100'
    with world.start([str(world.sbox), "bash", "-c", code], cwd=repository, stdin=subprocess.PIPE) as cage:
        assert cage.stdin and cage.stdout and cage.stdout.readline() == "up\n"
        cage.send_signal(signal.SIGSTOP)
        cage.stdin.write("go\n")
        cage.stdin.flush()
        assert cage.stdout.readline() == "made\n"
        cage.send_signal(signal.SIGCONT)
        assert cage.wait(60) == 128 + signal.SIGKILL
        assert "the run was ended: a commondir was made" in cage.communicate()[1]


def test_a_commondir_goes_before_the_cage_has_ended(world: World) -> None:
    """Much memory takes long to be given back; here bubblewrap is stopped."""
    if world.sbox.name == "script":
        pytest.skip("the script cannot see it before the end")
    repository = world.repository("shared")
    code = "echo up; read -r line; echo . >.git/commondir; sleep 100"
    with world.start([str(world.sbox), "bash", "-c", code], cwd=repository, stdin=subprocess.PIPE) as cage:
        assert cage.stdin and cage.stdout and cage.stderr and cage.stdout.readline() == "up\n"
        children = Path(f"/proc/{cage.pid}/task/{cage.pid}/children").read_text().split()
        (bubblewrap,) = (int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text() == "bwrap\n")
        os.kill(bubblewrap, signal.SIGSTOP)
        try:
            cage.stdin.write("go\n")
            cage.stdin.flush()
            said = ""
            while "/.git/commondir appeared in the cage and was removed" not in said:
                assert select.select([cage.stderr], [], [], 60)[0], said
                said += os.read(cage.stderr.fileno(), 4096).decode()
            assert not (repository / ".git/commondir").exists() and cage.poll() is None
        finally:
            os.kill(bubblewrap, signal.SIGCONT)
        assert cage.wait(60) == 128 + signal.SIGKILL


def test_a_signal_from_before_is_not_what_ended_the_run(world: World) -> None:
    if world.sbox.name == "script":
        pytest.skip("the script cannot see it before the end")
    repository = world.repository("shared")
    wait = py(
        "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True))\n"
        "print('up', file=sys.stderr, flush=True); sys.stdin.readline(); open('.git/commondir', 'w'); signal.pause()"
    )
    with world.start([str(world.sbox), "bash", "-c", wait], cwd=repository, stdin=subprocess.PIPE) as cage:
        assert cage.stdout and cage.stderr
        assert cage.stderr.readline() == "up\n"  # passed on by sbox, which by then knows whom a signal is for
        cage.send_signal(signal.SIGUSR1)
        assert cage.stdout.readline() == "heard\n"
        cage.communicate("go\n", 60)
        assert cage.returncode == 128 + signal.SIGKILL


# What git outside writes through, each with what a person then runs; the last goes wherever the branch's name says.
WRITTEN_THROUGH = {
    "COMMIT_EDITMSG": "git commit -q --allow-empty -m x",
    "logs/HEAD": "git commit -q --allow-empty -m x",
    "index": "git add file",
    "FETCH_HEAD": "git fetch -q .",
    "logs/refs/heads/a/b": "git checkout -q -B a/b; git commit -q --allow-empty -m x",
}


@pytest.mark.parametrize("name", WRITTEN_THROUGH)
def test_a_link_in_a_git_directory_is_not_written_through(world: World, name: str) -> None:
    repository = world.repository("shared")
    target = world.home / "target"
    world.bare("bash", "-ec", f"echo x >file; git commit -q --allow-empty -m 1; cp .git/index {target}", cwd=repository)
    before = target.read_bytes()
    link = f'mkdir -p ".git/{Path(name).parent}"; ln -s "{target}" x; mv -f x ".git/{name}"'
    done = world.caged("bash", "-c", f"{link}; sleep 1; echo went on", cwd=repository)
    at_once = world.sbox.name == "program" and "/" not in name
    assert (done.stdout == "") == at_once, done
    assert f"{repository}/.git/{name} became a link in the cage and was removed" in done.stderr
    assert not (repository / ".git" / name).is_symlink()
    world.bare("bash", "-c", WRITTEN_THROUGH[name], cwd=repository)
    assert target.read_bytes() == before
    world.bare("bash", "-c", f"git rm -q --cached file; {link}; {WRITTEN_THROUGH[name]}", cwd=repository)
    assert target.read_bytes() != before, "this link proves nothing"


def test_links_of_before_stay_in_a_git_directory(world: World) -> None:
    """Working copies that share a history are made of them."""
    repository = world.repository("shared")
    assert (
        world.bare(
            "bash", "-ec", "mv .git/logs logs; ln -s ../logs .git/logs; ln -s x .git/y", cwd=repository
        ).returncode
        == 0
    )
    for name in ("a", "b", "c", "d"):  # also those made an instant before
        (repository / ".git" / name).symlink_to("x")
        assert not world.caged("true", cwd=repository).stderr
    done = world.caged("git", "commit", "-q", "--allow-empty", "-m", "x", cwd=repository)
    assert done.returncode == 0 and not done.stderr
    assert (repository / ".git/logs").is_symlink() and (repository / ".git/y").is_symlink()


def test_a_link_that_is_moved_there_with_its_directory_is_taken_away(world: World) -> None:
    repository = world.repository("shared")
    assert world.caged("bash", "-ec", "mkdir -p x/y/z; ln -s ~/target x/y/z/HEAD", cwd=repository).returncode == 0
    made = (repository / "x/y/z/HEAD").lstat().st_ctime_ns
    while (repository / "file").stat().st_ctime_ns <= made:
        (repository / "file").touch()
    assert (
        world.caged("bash", "-ec", "rm -r .git/logs; mv x/y/z .git/logs; mv x .git/x", cwd=repository).returncode == 0
    )
    assert (repository / ".git/logs").is_dir() and not (repository / ".git/logs/HEAD").is_symlink()


def test_a_link_below_a_closed_directory_is_found(world: World) -> None:
    repository = world.repository("shared")
    make = "mkdir -p .git/logs/a/b; ln -s x .git/logs/a/b/c; chmod 0 .git/logs/a/b .git/logs/a"
    assert world.caged("bash", "-ec", make, cwd=repository).returncode == 0
    assert not (repository / ".git/logs/a/b/c").is_symlink()


def test_a_repository_in_the_place_of_a_submodule_is_told(world: World) -> None:
    """That of a clone without its submodules is an empty directory, into which `git status` outside looks."""
    world.repository("lib")
    add = "git -c protocol.file.allow=always submodule -q add ../lib sub; git commit -qm sub; git clone -q . ../clone"
    assert world.bare("bash", "-ec", add, cwd=world.repository("main")).returncode == 0
    clone, fires = world.projects / "clone", world.home / "fired"
    make = (
        f"cd sub; git init -q; git config core.fsmonitor 'touch {fires}; false'; touch x; git add x; git commit -qm x"
    )
    done = world.caged("bash", "-ec", make, cwd=clone)
    assert f"{clone}/sub/.git appeared in the cage" in done.stderr, done
    world.bare("git", "status", cwd=clone)
    assert fires.exists(), "this proves nothing"


def test_a_worktree_made_anew_outside_meanwhile_stays_one(world: World) -> None:
    repository = world.repository("main")
    make = "git worktree add -q ../linked linked"
    assert world.bare("bash", "-ec", f"git branch linked; {make}", cwd=repository).returncode == 0
    with running(world, repository, "true") as cage:
        assert world.bare("bash", "-ec", f"git worktree remove ../linked; {make}", cwd=repository).returncode == 0
        err = finish(cage)[1]
    assert "removed" not in err and "/worktrees/linked/commondir was" in err
    assert world.bare("git", "status", cwd=world.projects / "linked").returncode == 0


def test_a_claude_directory_that_was_a_placeholder_is_left_alone(world: World) -> None:
    """Something was written to it from outside, so it stayed. It is not moved, nor what it is in opened."""
    for name in ("open", "read-only"):
        settings = world.projects / name / ".claude"
        settings.mkdir(parents=True)
        (settings / "settings.json").write_text("{}")
        settings.chmod(0o1755)
    world.give(world.projects)
    (world.projects / "read-only").chmod(0o555)
    before = (world.projects / "open/.claude").stat().st_ctime_ns
    done = world.caged("true")
    mode = (world.projects / "read-only").stat().st_mode & 0o777
    (world.projects / "read-only").chmod(0o755)
    assert (done.returncode, done.stderr, mode) == (0, "", 0o555)
    assert (world.projects / "open/.claude").stat().st_ctime_ns == before  # a rename changes it


def test_nothing_is_left_when_the_caller_is_killed(places: World) -> None:
    argv = ["bash", "-c", '"$0" bash -c "echo up; sleep 60" & wait', str(places.sbox)]
    with places.start(argv, cwd=places.projects / "plain") as caller:
        assert caller.stdout and caller.stdout.readline() == "up\n"
        assert placeholders(places)
        caller.kill()
        caller.communicate(timeout=100)  # ends when sbox, which holds its output, has ended
    assert not placeholders(places)


def test_what_a_killed_run_left_is_taken_over(places: World) -> None:
    left = places.projects / "plain/.claude"
    left.mkdir()
    left.chmod(0o1755)
    places.give(left)
    unplanted(places, PLANTS["make it"], places.projects / "plain", places.projects / "plain")
    if places.sbox.name == "script":
        shutil.rmtree(places.projects / "plain/.claude")  # what the attack made outside
    assert not placeholders(places)


def test_an_empty_directory_of_its_owner_stays(places: World) -> None:
    (places.projects / "plain/.claude").mkdir()
    places.give(places.projects / "plain/.claude")
    refused(
        places, 'echo x >"$1/.claude/settings.json" && rm "$1/.claude/settings.json"', str(places.projects / "plain")
    )
    assert placeholders(places) == [places.projects / "plain/.claude"]


def test_what_is_written_outside_meanwhile_stays(places: World) -> None:
    path = places.projects / "plain/.claude/settings.json"
    with running(places, places.projects / "plain", "echo x >.claude/settings.json") as cage:
        path.write_text("mine\n")
        finish(cage)
    assert cage.returncode and path.read_text() == "mine\n"


def test_a_placeholder_that_someone_holds_is_not_removed(places: World) -> None:
    """Removing it would undo the mount in the cage of whoever holds it."""
    path = places.projects / "plain/.claude"
    with running(places, places.projects / "plain", "true") as cage:
        holder = places.start(["flock", "-s", str(path), "sh", "-c", "echo up; read -r x"], stdin=subprocess.PIPE)
        assert holder.stdout and holder.stdout.readline() == "up\n"
        finish(cage)
    assert placeholders(places) == [path]
    holder.communicate("go\n", 100)
    places.caged("true")
    assert not placeholders(places)


def test_many_cages_at_once_hold_what_one_of_them_relies_on(places: World) -> None:
    directory = places.projects / "plain"
    with running(places, directory, PLANTS["make it"].replace("$1", ".")) as first:
        cages = [places.start([str(places.sbox), "true"], cwd=directory) for _ in range(50)]
        assert [(cage.communicate(timeout=100)[0], cage.returncode) for cage in cages] == [("", 0)] * 50
        assert finish(first)[0] == "" and first.returncode == 1
    assert not placeholders(places)


@pytest.mark.parametrize("way", ["relative", "absolute"])
def test_a_repository_whose_git_directory_is_a_link(world: World, way: str) -> None:
    repository, mark = world.repository("linked"), world.top / "common/mark"
    real = world.projects / "elsewhere/git"
    real.parent.mkdir()
    world.give(real.parent)
    target = "../elsewhere/git" if way == "relative" else str(real)
    assert world.bare("bash", "-ec", 'mv .git "$0"; ln -s "$1" .git', str(real), target, cwd=repository).returncode == 0
    monitor = 'printf "[core]\\n\\tfsmonitor = \\"echo x >%s; true\\"\\n" "$1"'
    attacks = [
        f"{monitor} >>.git/config",
        f'{monitor} >>"$2/config"',
        f'mv "$2" "$2.old"; cp -r "$2.old" "$2"; {monitor} >>"$2/config"',
        f'cp -r "$2" evil; {monitor} >>evil/config; ln -sfn evil .git',
    ]
    for attack in attacks:
        for where in (repository, world.projects):
            code = f'cd "$3"; {attack}'
            done = world.caged("bash", "-c", code, "x", str(mark), str(real), str(repository), cwd=where)
            if world.sbox.name == "script" and "ln -sfn" in attack:  # the script cannot hold a link in place
                assert f"{repository}" in done.stderr and "look before" in done.stderr
                return
            git_outside(world, repository)
            assert not mark.exists(), attack


@pytest.mark.parametrize("way", ["relative", "absolute"])
def test_a_link_below_the_git_directory(world: World, way: str) -> None:
    repository = world.repository("hooked")
    target = "../tracked" if way == "relative" else str(repository / "tracked")
    prepare = 'rm -rf .git/hooks; mkdir tracked; ln -s "$0" .git/hooks'
    assert world.bare("bash", "-ec", prepare, target, cwd=repository).returncode == 0
    for attack in ("echo x >.git/hooks/post-commit", "echo x >tracked/post-commit", "mv tracked t2"):
        assert world.caged("bash", "-c", attack, cwd=repository).returncode == 1, attack
    done = world.caged("bash", "-c", "mkdir evil; rm .git/hooks; ln -s ../evil .git/hooks", cwd=repository)
    if world.sbox.name == "script":
        assert "hooks was changed in the cage" in done.stderr
    else:
        assert done.returncode == 1 and os.readlink(repository / ".git/hooks") == target


def meddled(world: World, meddle: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run sbox where `meddle` is run after it looked at what is there and before bubblewrap does."""
    real, fake = world.outside / "real-bwrap", world.outside / "bwrap"
    shutil.copy("/usr/bin/bwrap", real)
    fake.write_text(f'#!/bin/bash\n{meddle}\nexec "{real}" "$@"\n')
    for file in (real, fake):
        file.chmod(0o755)
    place = ["bwrap", "--dev-bind", "/", "/", "--bind", str(fake), "/usr/bin/bwrap", "--"]
    return world.bare(*place, str(world.sbox), *argv)


GONE = {
    "the socket": 'rm -f "$d/gate.sock"',
    "its directory": 'until rm -rf "$d" 2>/dev/null; do :; done',  # cages that start just now may put something there
    "a directory that is a file now": 'until rm -rf "$d" 2>/dev/null; do :; done; echo file >"$d"',
}


@pytest.mark.parametrize("place", ["top", "outside"])
@pytest.mark.parametrize("way", GONE)
def test_a_socket_that_goes_away_stops_nothing_and_leaves_nothing(world: World, way: str, place: str) -> None:
    """It is there when sbox looks, and gone when bubblewrap comes to cover it."""
    top = Path(tempfile.mkdtemp(dir=getattr(world, place)))
    (directory := top / "d").mkdir()
    world.give(top)
    with listening(world, directory / "gate.sock"):
        if world.uid != os.geteuid():
            os.chown(directory / "gate.sock", world.uid, world.uid)
        done = meddled(world, f'd="{directory}"; {GONE[way]}', "sh", "-c", "echo ran; echo said >&2")
        left = [entry.name for entry in top.rglob("*")]
        if directory.is_file():
            directory.unlink()
        directory.mkdir(exist_ok=True)
        (directory / "gate.sock").touch()  # `listening` removes it
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "said\n"), done
    assert left == ([] if way == "its directory" else ["d"])


@pytest.mark.parametrize("gone", ["going/.envrc", "going", "there/.git/config"])
def test_a_guarded_file_that_goes_away_stops_nothing(world: World, gone: str) -> None:
    world.repository("there")
    (world.projects / "going").mkdir()
    (world.projects / "going/.envrc").write_text("x\n")
    world.give(world.projects)
    remove = f'until rm -rf "{world.projects}/{gone}" 2>/dev/null; do :; done'
    done = meddled(world, remove, "sh", "-c", "echo ran; echo said >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, "ran\n"), done
    assert [line for line in done.stderr.splitlines() if "appeared" not in line] == ["said"], done


def test_sockets_in_directories_of_another_user_stop_nothing(world: World) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a directory of another user")
    directory = Path(tempfile.mkdtemp(dir="/tmp")) / "a/b/c"
    directory.mkdir(parents=True)
    try:
        with listening(world, directory / "s"):
            for path in (directory, directory.parent, directory.parent.parent, directory.parents[2]):
                os.chown(path, 1, 1)
                path.chmod(0o700)
            done = world.caged("echo", "ran")
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", ""), done
    finally:
        shutil.rmtree(directory.parents[2])


COMING_AND_GOING = """
import os, shutil, socket, sys
os.umask(0)
print("up", flush=True)
while os.getppid() == int(sys.argv[2]):
    for number in range(40):
        os.makedirs(path := f"{sys.argv[1]}/{number}/d", exist_ok=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path + "/s")
            server.listen()
            shutil.rmtree(f"{sys.argv[1]}/{number}")
"""


def test_sockets_that_come_and_go_stop_nothing_and_leave_nothing(world: World) -> None:
    top = Path(tempfile.mkdtemp(dir=world.top))
    world.give(top)
    with world.start(["/usr/bin/python3", "-c", COMING_AND_GOING, str(top), str(os.getpid())]) as busy:
        assert busy.stdout and busy.stdout.readline() == "up\n"
        done = [world.caged("echo", "ran", timeout=100) for _ in range(12)]
        busy.kill()
        busy.wait()
    assert [(one.returncode, one.stdout, one.stderr) for one in done] == [(0, "ran\n", "")] * 12
    assert len(list(top.iterdir())) <= 1  # the one that was just made


def test_a_parked_directory_that_holds_something_is_not_used(places: World) -> None:
    """An older cage, which could write there when it was in its place, may still have it open."""
    where = places.projects / "plain"
    assert places.caged("true", cwd=where).returncode == 0
    yard = places.home / ".local/state/sbox/yard"
    if places.sbox.name == "script":
        assert not yard.exists()
        return
    parked = list(yard.iterdir())
    assert parked
    for directory in parked:
        (directory / "settings.json").write_text("planted")
    try:
        shown = places.caged("bash", "-c", "cat .claude/settings.json; ls ../*/.claude", cwd=where)
        assert "planted" not in shown.stdout and "settings.json" not in shown.stdout
        with running(places, where, "true") as cage:
            assert len(placeholders(places)) > 4 and not list(places.projects.rglob("settings.json"))
            finish(cage)
        assert not placeholders(places)
    finally:
        for directory in parked:
            shutil.rmtree(directory)


def test_each_directory_is_parked_for_its_own_place(places: World) -> None:
    one, two = places.projects / "plain", places.projects / "other"
    seen = []
    for _ in range(2):
        with running(places, one, "true") as cage:
            seen.append(((one / ".claude").stat().st_ino, (two / ".claude").stat().st_ino))
            finish(cage)
        one.rename(places.projects / "x")
        two.rename(one)
        (places.projects / "x").rename(two)
    if places.sbox.name == "program":
        assert seen[0] == seen[1][::-1]
    assert seen[0][0] != seen[1][0] or places.sbox.name == "script"


def test_a_directory_with_the_number_of_one_that_is_gone_is_another(world: World) -> None:
    """What was parked for the one that is gone may be open in an older cage, which made it."""
    seen = []
    for name in ("gone", "new"):
        directory = world.projects / name
        directory.mkdir()
        world.give(directory)
        number = directory.stat().st_ino
        with running(world, world.projects, "true") as cage:
            seen.append((number, (directory / ".claude").stat().st_ino))
            finish(cage)
        directory.rmdir()
    if world.sbox.name == "script" or seen[0][0] != seen[1][0]:
        pytest.skip("nothing is parked, or the file system gives each number once")
    assert seen[0][1] != seen[1][1]


def test_more_projects_than_descriptors(world: World) -> None:
    if world.sbox.name == "script" and not os.environ.get("SLACK_GATE_LONG"):
        pytest.skip("the script takes long for it: shown in the long run")
    for number in range(300):
        (world.projects / str(number)).mkdir()
    world.give(world.projects)
    code = 'ulimit -Sn 256; exec "$0" bash -c "ulimit -Sn; echo x >299/.claude/settings.json"'
    done = world.bare("bash", "-c", code, str(world.sbox), timeout=100)
    assert (done.returncode, done.stdout) == (1, "256\n"), done
    assert not placeholders(world)


def test_a_cage_says_that_it_runs_and_since_when(world: World) -> None:
    """So that the gate knows what a cage that still runs may have made."""
    file = world.home / ".local/state/sbox/running"
    repository = world.repository("shared")
    assert world.caged("true", cwd=repository).returncode == 0

    def alone() -> bool:
        with file.open() as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    assert alone()
    os.utime(file, (1, 1))
    with running(world, repository, "true") as first:
        since = file.stat().st_mtime_ns
        assert not alone() and since > 10**18
        with running(world, repository, "true") as second:
            assert file.stat().st_mtime_ns == since
            finish(first)
            assert not alone()
            finish(second)
    assert alone()
