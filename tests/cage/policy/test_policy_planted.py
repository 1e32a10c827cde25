"""Real git in planted repositories: what is green there runs nothing and writes nothing outside.

Each plant is first shown to work: its trigger, run by plain git, must leave a mark. Then every green command is run.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cage import cage_policy
from cage.cage_policy import Search

from .conftest import SYSTEM_PATH, House, git, make_repository

COMMANDS = [  # every kind of green git, with options that make it look at more
    "git status",
    "git status -s -uall --ignored",
    "git diff",
    "git diff HEAD",
    "git diff --cached --stat",
    "git diff main other",
    "git log -p -3",
    "git log --oneline --graph --all --stat",
    "git show HEAD",
    "git show other:a.txt",
    "git blame a.txt",
    "git grep -n a",
    "git ls-files -m -o --exclude-standard",
    "git describe --always --dirty",
    "git stash list",
    "git rev-parse HEAD",
    "git cat-file -p HEAD",
    "git for-each-ref",
    "git config --list",
    "git remote -v",
    "git reflog",
    "git check-ignore a.txt",
    "git merge-base main other",
    "git worktree list",
    "git diff-tree -p main other",
    "git diff-index -p HEAD",
    "git diff-files -p",
    "git cherry -v other",
    "git config user.name",
    "git add -A",
    "git add a.txt d",
    "git commit -m x",
    "git commit -a -m x",
    "git commit --amend --no-edit",
    "git commit",
    "git commit -m x --trailer a=1",
    "git branch",
    "git branch new",
    "git branch -D other",
    "git branch -m main trunk",
    "git tag v1",
    "git tag -a v2 -m x",
    "git checkout other",
    "git checkout -b new",
    "git checkout -- .",
    "git checkout other -- .",
    "git switch other",
    "git restore .",
    "git restore --staged .",
    "git reset",
    "git reset --hard",
    "git reset --hard other",
    "git stash",
    "git stash -u",
    "git stash && git stash pop",
    "git merge other -m x",
    "git rebase other",
    "git cherry-pick other",
    "git revert HEAD --no-edit",
    "git add -A && git commit -m x && git status",
    "git checkout other && git status && git diff",
    "git -C d status",
    "git -C . log -1",
    "git fetch",
    "git fetch origin",
    "git fetch --all",
    "git pull",
    "git pull --rebase origin main",
    "git push",
    "git push origin main",
    "git push -u origin HEAD",
    "git ls-remote origin",
    "git checkout other && git -C d status",
]


class Plant:
    """One way to make git do something: how it is planted, which command sets it off, and from which directory."""

    def __init__(self, plant: Callable[[House], None], trigger: str, where: str = ".") -> None:
        self.plant, self.trigger, self.where = plant, trigger, where


def payload(house: House) -> str:
    script = house.projects / "evil.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {house.home}/mark\ntimeout 0.2 cat\n')
    script.chmod(0o755)
    return str(script)


def config(*pairs: str, change: str = "", attributes: str = "") -> Callable[[House], None]:
    """Local configuration, EVIL standing for the payload; `change` goes to a.txt, `attributes` to .gitattributes."""

    def plant(house: House) -> None:
        evil = payload(house)
        for pair in pairs:
            name, _, value = pair.replace("EVIL", evil).partition("=")
            git(house.repo, "config", name, value)
        if attributes:
            (house.repo / ".gitattributes").write_text(attributes)
        if change:
            (house.repo / "a.txt").write_text(change)

    return plant


def hook(name: str) -> Callable[[House], None]:
    def plant(house: House) -> None:
        (house.repo / ".git" / "hooks").mkdir(exist_ok=True)
        shutil.copy(payload(house), house.repo / ".git" / "hooks" / name)

    return plant


def evil_repository(house: House, where: Path) -> Path:
    make_repository(where)
    git(where, "config", "core.fsmonitor", payload(house))
    return where


def include(house: House) -> None:
    (house.projects / "extra").write_text(f"[core]\n\tfsmonitor = {payload(house)}\n")
    git(house.repo, "config", "include.path", str(house.projects / "extra"))


def include_if(house: House) -> None:
    (house.projects / "extra").write_text(f"[core]\n\tfsmonitor = {payload(house)}\n")
    git(house.repo, "config", f"includeIf.gitdir:{house.repo}/.path", str(house.projects / "extra"))


def worktree_config(house: House) -> None:
    git(house.repo, "config", "extensions.worktreeConfig", "true")
    (house.repo / ".git" / "config.worktree").write_text(f"[core]\n\tfsmonitor = {payload(house)}\n")


def git_file(house: House) -> None:
    evil = evil_repository(house, house.projects / "elsewhere")
    shutil.rmtree(house.repo / ".git")
    (house.repo / ".git").write_text(f"gitdir: {evil}/.git\n")


def git_link(house: House) -> None:
    evil = evil_repository(house, house.projects / "elsewhere")
    shutil.rmtree(house.repo / ".git")
    (house.repo / ".git").symlink_to(evil / ".git")


def commondir(house: House) -> None:
    evil = evil_repository(house, house.projects / "elsewhere")
    (house.repo / ".git" / "commondir").write_text(f"{evil}/.git\n")


def linked_worktree(house: House) -> None:
    """The main repository is planted; the worktree's own files are clean."""
    git(house.repo, "worktree", "add", "-q", str(house.projects / "linked"), "-b", "side")
    git(house.repo, "config", "core.fsmonitor", payload(house))


def bare(house: House) -> None:
    """A bare repository as ordinary files in a directory of the tree."""
    inner = house.repo / "d"
    shutil.copytree(evil_repository(house, house.projects / "elsewhere") / ".git", inner, dirs_exist_ok=True)
    git(inner, "config", "--file", "config", "core.worktree", str(house.repo))
    git(inner, "config", "--file", "config", "core.bare", "false")


def bare_by_commondir(house: House) -> None:
    evil = evil_repository(house, house.projects / "elsewhere")
    (house.repo / "d" / "HEAD").write_text("ref: refs/heads/main\n")
    (house.repo / "d" / "commondir").write_text(f"{evil}/.git\n")
    (evil / ".git" / "hooks").mkdir(exist_ok=True)
    shutil.copy(payload(house), evil / ".git" / "hooks" / "reference-transaction")


def submodule_in_index(house: House) -> None:
    evil_repository(house, house.repo / "sub")
    git(house.repo, "add", "sub")


def submodule_in_index_4(house: House) -> None:
    submodule_in_index(house)
    git(house.repo, "update-index", "--index-version", "4")


def submodule_in_split_index(house: House) -> None:
    submodule_in_index(house)
    git(house.repo, "update-index", "--split-index")


def submodule_on_branch(house: House) -> None:
    """Nothing in the index; the branch `other` names the planted directory."""
    git(house.repo, "checkout", "-q", "-b", "carrier")
    submodule_in_index(house)
    git(house.repo, "commit", "-q", "-m", "sub")
    git(house.repo, "branch", "-f", "other")
    git(house.repo, "update-index", "--force-remove", "sub")
    git(house.repo, "symbolic-ref", "HEAD", "refs/heads/main")


def submodule_by_link(house: House) -> None:
    submodule_in_index(house)
    (house.repo / "sub").rename(house.projects / "elsewhere")
    (house.repo / "sub").symlink_to(house.projects / "elsewhere")


def module_not_checked_out(house: House) -> None:
    """What a fetch brings names a submodule whose git directory lies ready; here the remote is a planted directory."""
    up = house.projects / "up"
    make_repository(up)
    git(house.repo, "config", "remote.origin.url", str(up))
    git(house.repo, "fetch", "-q", "origin")
    git(house.repo, "reset", "-q", "--hard", "origin/main")
    module = house.repo / ".git" / "modules" / "deep" / "evil"
    inner = make_repository(house.projects / "elsewhere")
    (up / ".gitmodules").write_text('[submodule "deep/evil"]\n\tpath = sub\n\turl = ../elsewhere\n')
    shutil.copytree(inner, up / "sub")
    git(up, "add", ".")
    git(up, "commit", "-q", "-m", "sub")
    module.parent.mkdir(parents=True)
    (inner / ".git").rename(module)
    git(module, "update-ref", "-d", "HEAD")
    for file in (module / "objects").glob("??/*"):
        file.unlink()
    git(module, "config", "remote.origin.url", ".")
    git(module, "config", "remote.origin.uploadpack", payload(house))
    git(house.repo, "config", "submodule.deep/evil.active", "true")
    git(house.repo, "config", "submodule.deep/evil.url", "../elsewhere")


def submodule_in_a_block(house: House) -> None:
    """Git's threads read the entries where the extension IEOT says, here at an odd place behind the ordinary ones."""
    submodule_in_index(house)
    git(house.repo, "config", "index.threads", "4")
    header = b"DIRC\0\0\0\2\0\0\0\1"
    body = header + entry(house, b"a.txt")
    hidden = extension(b"YYYY", b"pad.." + entry(house, b"sub", mode=0o160000))
    blocks = b"\0\0\0\1" + block(len(body) + 8 + 5)
    listed = hidden + extension(b"IEOT", blocks)
    sizes = [(b"YYYY", len(hidden) - 8), (b"IEOT", len(blocks))]
    (house.repo / ".git" / "index").write_bytes(read_by_threads(body + listed, sizes, len(body)))


def in_the_index(house: House, name: str, text: str) -> None:
    """An executable file that is committed, and not there until git writes it."""
    (house.repo / name).parent.mkdir(parents=True, exist_ok=True)
    (house.repo / name).write_text(text)
    (house.repo / name).chmod(0o755)
    git(house.repo, "add", name)
    git(house.repo, "commit", "-q", "-m", name)
    (house.repo / name).unlink()


def tree_in_git_directory(house: House) -> None:
    """What git writes to its working tree are its own hooks."""
    in_the_index(house, "hooks/post-checkout", Path(payload(house)).read_text())
    git(house.repo, "config", "core.worktree", ".")


def git_directory_in_tree(house: House) -> None:
    in_the_index(house, "meta/hooks/post-checkout", Path(payload(house)).read_text())
    shutil.rmtree(house.repo / "meta")
    (house.repo / ".git").rename(house.repo / "meta")
    (house.repo / ".git").write_text("gitdir: meta\n")


def git_directory_of_submodule_in_tree(house: House) -> None:
    """A first command writes the submodule's settings, a second one enters it."""
    inner = make_repository(house.repo / "sub")
    clean = (inner / ".git" / "config").read_text()
    git(house.repo, "add", "sub")
    in_the_index(house, "meta/config", clean + f"[core]\n\tfsmonitor = {payload(house)}\n")
    (house.repo / "meta").rmdir()
    (inner / ".git").rename(house.repo / "meta")
    (inner / ".git").write_text("gitdir: ../meta\n")


def untracked_repository(house: House) -> None:
    evil_repository(house, house.repo / "sub")


def not_taken(name: str, text: str) -> Callable[[House], None]:
    """A harmless `.git` that git does not take for one: it goes on to the next above, which is planted."""

    def plant(house: House) -> None:
        inner = make_repository(house.repo / "inner")
        evil_repository(house, house.projects / "planted")
        shutil.rmtree(house.repo / ".git")
        shutil.move(house.projects / "planted" / ".git", house.repo / ".git")
        place = inner / ".git" / name
        place.unlink() if place.is_file() else shutil.rmtree(place)
        place.write_text(text)

    return plant


def remote_in_zone(house: House) -> None:
    other = house.projects / "remote.git"
    git(house.projects, "clone", "-q", "--bare", str(house.repo), str(other))
    (other / "hooks").mkdir(exist_ok=True)
    shutil.copy(payload(house), other / "hooks" / "update")
    git(house.repo, "config", "remote.origin.url", str(other))
    git(house.repo, "commit", "-q", "--allow-empty", "-m", "more")


def old_remote(house: House) -> None:
    remote_in_zone(house)
    url = git(house.repo, "config", "remote.origin.url")
    git(house.repo, "config", "--unset", "remote.origin.url")
    (house.repo / ".git" / "remotes").mkdir()
    (house.repo / ".git" / "remotes" / "origin").write_text(f"URL: {url}\nPush: main:main\n")


def branch_follows_path(house: House) -> None:
    remote_in_zone(house)
    url = git(house.repo, "config", "remote.origin.url").strip()
    git(house.repo, "config", "remote.origin.url", "https://127.0.0.1:9/acme/app.git")
    git(house.repo, "config", "branch.main.remote", url)


def odd_config(text: str) -> Callable[[House], None]:
    def plant(house: House) -> None:
        evil = payload(house)
        with (house.repo / ".git" / "config").open("a") as file:
            file.write(text.replace("EVIL", evil))

    return plant


SSH = "remote.origin.url=ssh://git@127.0.0.1/x.git"
PLANTS = {
    **{
        f"hook {name}": Plant(hook(name), trigger)
        for name, trigger in {
            "pre-commit": "git commit --allow-empty -m x",
            "commit-msg": "git commit --allow-empty -m x",
            "prepare-commit-msg": "git commit --allow-empty -m x",
            "post-commit": "git commit --allow-empty -m x",
            "post-checkout": "git checkout -b new",
            "post-merge": "git merge other",
            "reference-transaction": "git branch new",
            "post-index-change": "git add a.txt",
            "pre-rebase": "git rebase other",
            "post-rewrite": "git commit --amend --no-edit",
        }.items()
    },
    "fsmonitor": Plant(config("core.fsmonitor=EVIL"), "git status"),
    "hooksPath": Plant(
        lambda house: (
            hook("pre-commit")(house),
            (house.repo / ".git" / "hooks").rename(house.repo / ".husky"),
            git(house.repo, "config", "core.hooksPath", ".husky"),
        )[0],
        "git commit --allow-empty -m x",
    ),
    "diff.external": Plant(config("diff.external=EVIL", change="z\n"), "git diff"),
    "diff driver": Plant(config("diff.x.command=EVIL", change="z\n", attributes="*.txt diff=x\n"), "git diff"),
    "textconv": Plant(config("diff.x.textconv=EVIL", change="z\n", attributes="*.txt diff=x\n"), "git diff"),
    "filter clean": Plant(config("filter.x.clean=EVIL", change="z\n", attributes="*.txt filter=x\n"), "git add a.txt"),
    "filter smudge": Plant(
        config("filter.x.smudge=EVIL", change="z\n", attributes="*.txt filter=x\n"), "git checkout -- a.txt"
    ),
    "filter named lfs": Plant(
        config("filter.lfs.clean=EVIL", change="z\n", attributes="*.txt filter=lfs\n"), "git add a.txt"
    ),
    "filter process": Plant(
        config("filter.x.process=EVIL", change="z\n", attributes="*.txt filter=x\n"), "git add a.txt"
    ),
    "sshCommand": Plant(config(SSH, "core.sshCommand=EVIL"), "git fetch origin"),
    "uploadpack": Plant(config("remote.origin.url=.", "remote.origin.uploadpack=EVIL"), "git fetch origin"),
    "receivepack": Plant(config("remote.origin.url=.", "remote.origin.receivepack=EVIL"), "git push origin main"),
    "ext transport": Plant(config("remote.origin.url=ext::EVIL", "protocol.ext.allow=always"), "git fetch origin"),
    "insteadOf": Plant(config("url.ext::EVIL .insteadOf=https:", "protocol.ext.allow=always"), "git fetch origin"),
    "gpg.program": Plant(config("gpg.program=EVIL", "commit.gpgsign=true"), "git commit --allow-empty -m x"),
    "editor": Plant(config("core.editor=EVIL", change="z\n"), "git commit -a"),
    "trailer": Plant(config("trailer.a.cmd=EVIL"), "git commit --allow-empty -m x --trailer a=1"),
    "credential helper": Plant(
        config("remote.origin.url=https://127.0.0.1:9/x", "credential.helper=!EVIL"), "git credential fill"
    ),
    "proxy": Plant(config("remote.origin.url=git://127.0.0.1/x", "core.gitProxy=EVIL"), "git fetch origin"),
    "include.path": Plant(include, "git status"),
    "includeIf": Plant(include_if, "git status"),
    "config.worktree": Plant(worktree_config, "git status"),
    ".git file": Plant(git_file, "git status"),
    ".git link": Plant(git_link, "git status"),
    "commondir": Plant(commondir, "git status"),
    "linked worktree": Plant(linked_worktree, "git status", "../linked"),
    "bare repository": Plant(bare, "git status", "d"),
    "bare repository by commondir": Plant(bare_by_commondir, "git branch new", "d"),
    "submodule in the index": Plant(submodule_in_index, "git status"),
    "submodule in an index of version 4": Plant(submodule_in_index_4, "git status"),
    "submodule in a split index": Plant(submodule_in_split_index, "git status"),
    "submodule in a block of the index": Plant(submodule_in_a_block, "git status"),
    "working tree in the git directory": Plant(tree_in_git_directory, "git checkout -- ."),
    "git directory in the working tree": Plant(git_directory_in_tree, "git checkout -- ."),
    "git directory of a submodule in it": Plant(git_directory_of_submodule_in_tree, "git reset --hard && git status"),
    "submodule on another branch": Plant(submodule_on_branch, "git checkout other"),
    "submodule not checked out": Plant(module_not_checked_out, "git fetch origin"),
    "repository to be added": Plant(untracked_repository, "git add -A && git commit -m x && git status"),
    "remote in the zone": Plant(remote_in_zone, "git push origin main"),
    "remote of the old kind": Plant(old_remote, "git push origin"),
    "branch follows a path": Plant(branch_follows_path, "git push"),
    "section and key in other case": Plant(odd_config("[CoRe]\nFsMonitor=EVIL\n"), "git status"),
    "key behind a header": Plant(odd_config("[core] fsmonitor = EVIL\n"), "git status"),
    "value over two lines": Plant(
        odd_config("[core]\n\tfs\\\n\n\tfsmonitor = \\\nEVIL\n".replace("fs\\\n\n", "")), "git status"
    ),
    "value in quotes": Plant(odd_config('[core]\n\tfsmonitor = "EVIL"\n'), "git status"),
    "carriage returns": Plant(odd_config("[core]\r\n\tfsmonitor = EVIL\r\n"), "git status"),
    "header with a comment": Plant(odd_config("[core] # x\nfsmonitor = EVIL # y\n"), "git status"),
    "no HEAD that git takes": Plant(not_taken("HEAD", "nothing\n"), "git status", "inner"),
    "an empty HEAD": Plant(not_taken("HEAD", ""), "git status", "inner"),
    "no objects that git takes": Plant(not_taken("objects", ""), "git status", "inner"),
    "no refs that git takes": Plant(not_taken("refs", ""), "git status", "inner"),
    "hidden behind a safe value": Plant(odd_config("[core]\nfsmonitor = false\nfsmonitor = EVIL\n"), "git status"),
}


def run(command: str, cwd: Path, house: House, **env: str) -> None:
    who = {f"GIT_{who}_{what}": "dev@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    base = {
        "HOME": str(house.home),
        "PATH": SYSTEM_PATH,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **who,
        **env,
    }
    stdin = "protocol=https\nhost=127.0.0.1\n\n" if "credential" in command else ""
    subprocess.run(
        ["/bin/bash", "-c", command], cwd=cwd, env=base, input=stdin, text=True, capture_output=True, timeout=60
    )


def other_branch(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "other")
    (repo / "a.txt").write_text("other\n")
    git(repo, "commit", "-q", "-a", "-m", "other")
    git(repo, "checkout", "-q", "main")


def snapshot(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def on_a_copy(house: House, command: str, where: str) -> bool:
    """Run a green command as an agent would, then put everything back; was it green?"""
    if house.bash(command, house.repo / where) != "green":
        return False
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    outside = snapshot(house.outside)
    run(command, house.repo / where, house)
    assert not (house.home / "mark").exists(), command
    assert snapshot(house.outside) == outside, command
    shutil.rmtree(house.projects)
    kept.rename(house.projects)
    return True


@pytest.mark.parametrize("name", PLANTS)
def test_nothing_planted_runs(name: str, house: House) -> None:
    plant = PLANTS[name]
    other_branch(house.repo)
    plant.plant(house)
    kept = house.home / "kept"
    shutil.copytree(house.projects, kept, symlinks=True)
    run(plant.trigger, house.repo / plant.where, house)
    assert (house.home / "mark").exists(), "the plant does not work, so that the test shows nothing"
    (house.home / "mark").unlink()
    shutil.rmtree(house.projects)
    kept.rename(house.projects)
    assert house.bash(plant.trigger, house.repo / plant.where) == "gated"
    for command in COMMANDS:
        for where in {".", plant.where}:
            on_a_copy(house, command, where)


def test_every_command_is_green_in_a_clean_repository(house: House) -> None:
    other_branch(house.repo)
    assert [c for c in COMMANDS if house.bash(c) != "green"] == ["git checkout other && git -C d status"]


def link(name: Path, target: Path) -> None:
    name.unlink(missing_ok=True)
    name.symlink_to(target)


OUTSIDE = {  # links that lead a write of git's outside the zone
    "message": lambda repo, out: link(repo / ".git" / "COMMIT_EDITMSG", out / "file"),
    "log": lambda repo, out: link(repo / ".git" / "logs" / "HEAD", out / "file"),
    "conflict": lambda repo, out: (
        (repo / ".git" / "rr-cache").mkdir(),
        (repo / ".git" / "rr-cache" / "0123").mkdir(),
        (repo / ".git" / "rr-cache" / "0123" / "preimage").symlink_to(out / "file"),
    ),
    "fetched": lambda repo, out: link(repo / ".git" / "FETCH_HEAD", out / "file"),
    "objects": lambda repo, out: (
        (repo / ".git" / "objects" / "pack").rmdir() or (repo / ".git" / "objects" / "pack").symlink_to(out)
    ),
    "commit graph": lambda repo, out: (
        (repo / ".git" / "objects" / "info").mkdir(exist_ok=True),
        link(repo / ".git" / "objects" / "info" / "commit-graph", out / "file"),
        git(repo, "config", "gc.auto", "1"),
    ),
    "configuration": lambda repo, out: (
        shutil.move(repo / ".git" / "config", out / "config"),
        (repo / ".git" / "config").symlink_to(out / "config"),
    ),
    "directory of the tree": lambda repo, out: (shutil.rmtree(repo / "d"), (repo / "d").symlink_to(out)),
    "file of the tree": lambda repo, out: link(repo / "a.txt", out / "file"),
    "ref": lambda repo, out: link(repo / ".git" / "refs" / "heads" / "new", out / "file"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_write_is_led_outside(name: str, house: House) -> None:
    other_branch(house.repo)
    for file in ("file", "b.txt"):
        (house.outside / file).write_text("kept\n")
    OUTSIDE[name](house.repo, house.outside)
    for command in COMMANDS:
        on_a_copy(house, command, ".")


@pytest.mark.parametrize("name", ["remotes", "branches"])
def test_remotes_of_the_old_kind_are_asked(name: str, house: House) -> None:
    (house.repo / ".git" / name).mkdir(exist_ok=True)
    (house.repo / ".git" / name / "evil").write_text("URL: /tmp/x\n")
    assert house.bash("git status") == "gated"


def test_a_submodule_behind_a_link_is_asked(house: House) -> None:
    """This version of git refuses it; older ones follow the link and run the submodule's fsmonitor."""
    submodule_by_link(house)
    assert house.bash("git status") == house.bash("git add -A") == "gated"


def test_a_module_is_asked_whatever_the_remote(house: House) -> None:
    module_not_checked_out(house)
    git(house.repo, "config", "remote.origin.url", "https://127.0.0.1:9/acme/app.git")
    assert house.bash("git fetch origin") == house.bash("git pull") == "gated"
    assert house.bash("git log -1") == "green"


def test_a_sparse_index_is_looked_through(house: House) -> None:
    evil_repository(house, house.repo / "sub")
    index = house.repo / ".git" / "index"
    assert house.bash("git status") == "green"
    index.write_bytes(index.read_bytes() + b"sdir\0\0\0\0")
    assert house.bash("git status") == "gated"


def test_an_index_of_a_file_as_long_as_a_submodule_mode(house: House) -> None:
    """57344 is the mode of a submodule read as a size: it must not be taken for one, nor hide one."""
    (house.repo / "a.txt").write_text("x" * 57344)
    git(house.repo, "add", "a.txt")
    evil_repository(house, house.repo / "sub")
    assert house.bash("git status") == "green"
    git(house.repo, "add", "sub")
    assert house.bash("git status") == "gated"


def test_no_index_yet(house: House) -> None:
    (house.repo / ".git" / "index").unlink()
    assert house.bash("git status") == "green"


def test_sample_hooks_and_empty_leftovers_are_harmless(house: House) -> None:
    for name in ("hooks", "branches"):
        (house.repo / ".git" / name).mkdir(exist_ok=True)
    (house.repo / ".git" / "hooks" / "pre-push.sample").write_text("")
    assert house.bash("git push origin main") == "green"


def test_a_program_of_the_own_settings_planted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (house.home / ".gitconfig").write_text(
        "[core]\n\tpager = delta --dark\n[credential]\n\thelper = !gh auth git-credential\n"
    )
    (house.projects / "venv").mkdir()
    monkeypatch.setenv("PATH", f"{house.projects}/venv:{SYSTEM_PATH}")
    assert house.bash("git push origin main") == "green"
    (house.projects / "venv" / "gh").write_text("")
    assert house.bash("git push origin main") == "gated"


def test_a_remote_that_is_no_address(house: House) -> None:
    wanted = {
        "https://example.com/a.git": "green",
        "http://example.com/a": "green",
        "ssh://git@example.com:22/a.git": "green",
        "git://example.com/a": "green",
        "git@github.com:acme/app.git": "green",
        "git@github.com-work:acme/app": "green",
        "https://user:token@example.com/a": "green",
        "ssh://-oProxyCommand=x/a": "gated",
        "git@-oProxyCommand:x": "gated",
        "-o@example.com:x": "gated",
        "git@example.com:-x": "gated",
        "example.com:a": "gated",
        "./a@b:c": "gated",
        "/tmp/a@b:c": "gated",
        "file:///srv/a": "gated",
        "ext::sh -c x": "gated",
        "../a": "gated",
        "a": "gated",
        "https://exämple.com/a": "gated",
        "https://example.com:x/a": "gated",
        "https:///a": "gated",
        "fd::3": "gated",
        "hg::https://x/y": "gated",
        "git@example.com::a": "gated",
        "": "gated",
    }
    got = {}
    for url in wanted:
        git(house.repo, "config", "remote.origin.url", url)
        got[url] = house.bash("git fetch origin")
    assert got == wanted
    git(house.repo, "config", "remote.origin.url", "https://example.com/a")
    git(house.repo, "config", "--add", "remote.origin.url", "/tmp/x")
    assert house.bash("git push origin") == "gated"
    git(house.repo, "config", "--unset-all", "remote.origin.url")
    git(house.repo, "config", "--unset-all", "branch.main.remote")
    assert house.bash("git fetch") == house.bash("git fetch origin") == "gated"


def test_without_a_name_the_remote_must_still_be_configured(house: House) -> None:
    """git takes "origin", or the default for pushes, for a path when no remote is called so."""
    git(house.repo, "config", "--rename-section", "remote.origin", "remote.work")
    git(house.repo, "config", "branch.main.remote", "work")
    assert [house.bash(c) for c in ("git push", "git fetch", "git pull", "git ls-remote")] == ["gated"] * 4
    assert [house.bash(c) for c in ("git push work main", "git fetch --all", "git fetch work")] == ["green"] * 3
    git(house.repo, "config", "remote.origin.url", "https://example.com/a")
    assert house.bash("git push") == "green"
    (house.home / ".gitconfig").write_text("[remote]\n\tpushDefault = fork\n")
    assert house.bash("git push") == "gated"
    assert house.bash("git push origin main") == "green"


def test_an_address_of_its_own_for_pushes(house: House) -> None:
    git(house.repo, "config", "remote.origin.pushurl", "/tmp/x")
    assert house.bash("git push origin main") == "gated"


def test_a_worktree_file_that_leads_elsewhere(house: House) -> None:
    make_repository(house.outside / "app")
    shutil.rmtree(house.repo / ".git")
    (house.repo / ".git").write_text(f"gitdir: {house.outside}/app/.git\n")
    assert house.why("git status").rule == "the repository's .git points outside the green zone"
    (house.projects / "odd").mkdir()
    (house.projects / "odd" / "commondir").write_text("../other")
    (house.repo / ".git").write_text(f"gitdir: {house.projects}/odd\n")
    assert house.why("git status").rule == "the worktree's .git points to an odd place"


def test_a_commondir_that_says_nothing(house: House) -> None:
    (house.repo / ".git" / "commondir").write_text(".\n")
    assert house.bash("git status") == "green"


def test_a_separate_git_directory(house: House) -> None:
    """A clean one in the zone is as good as a directory, and may say where it is checked out."""
    (house.repo / ".git").rename(house.projects / "store")
    (house.repo / ".git").write_text("gitdir: ../store\n")
    git(house.repo, "config", "core.worktree", "../app")
    assert house.bash("git status") == "green"
    git(house.repo, "config", "core.worktree", "..")
    assert house.bash("git status") == "gated"


class Counting:
    """What the search of each call spends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directories = 0
        spend = Search.spend

        def count(search: Search, directories: int, where: str) -> None:
            self.directories += directories
            spend(search, directories, where)

        monkeypatch.setattr(Search, "spend", count)


def test_too_many_modules_are_asked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (house.repo / ".git" / "modules" / name).mkdir(parents=True)
    assert house.bash("git add .") == "green"
    spent = Counting(monkeypatch)
    assert house.bash("git add .") == "green"
    shutil.rmtree(house.repo / ".git" / "modules")
    before, spent.directories = spent.directories, 0
    assert house.bash("git add .") == "green"
    assert before - spent.directories == len("abc")
    monkeypatch.setattr("cage.cage_policy._MAX_DIRECTORIES", spent.directories)
    assert house.bash("git add .") == "green"
    (house.repo / ".git" / "modules" / "a").mkdir(parents=True)
    assert house.bash("git add .") == "gated"


@pytest.mark.parametrize("name", ["logs", "refs", "info", "rr-cache", "rebase-merge", "objects"])
def test_a_link_below_the_git_directory_is_asked(name: str, house: House) -> None:
    (house.repo / ".git" / name).mkdir(exist_ok=True)
    (house.repo / ".git" / name / "link").symlink_to(house.outside / "file")
    assert (house.bash("git status"), house.bash("git commit -m x")) == ("green", "gated")


def test_what_follows_links_is_asked(house: House) -> None:
    """`git rm` and `git mv` of 2.39 go through a linked directory."""
    for command in ("git rm -f d/b.txt", "git mv a.txt d/"):
        assert house.bash(command) == "gated"


VARIABLES = {
    "GIT_EXTERNAL_DIFF": "/x",
    "GIT_SSH_COMMAND": "/x",
    "GIT_SSH": "/x",
    "GIT_DIR": "/x",
    "GIT_WORK_TREE": "/",
    "GIT_INDEX_FILE": "/x",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_PARAMETERS": "'a.b'='c'",
    "GIT_CONFIG_GLOBAL": "/x",
    "GIT_EXEC_PATH": "/x",
    "GIT_PAGER": "./x",
    "GIT_EDITOR": "/tmp/x",
    "GIT_ASKPASS": "sh ../x",
    "GIT_OBJECT_DIRECTORY": "/x",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/x",
    "GIT_COMMON_DIR": "/x",
    "GIT_TEMPLATE_DIR": "/x",
    "GIT_PROXY_COMMAND": "/x",
    "GIT_NEW_IN_2030": "1",
    "GIT_NAMESPACE": "x",
}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_git_obeys_is_asked(name: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    assert house.bash("git status") == "green"
    monkeypatch.setenv(name, VARIABLES[name])
    assert house.bash("git status") == "gated"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_EDITOR", "true"),
        ("GIT_PAGER", "less -R"),
        ("GIT_ASKPASS", "/usr/share/code/askpass.sh"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_SSL_CAINFO", "/x"),
    ],
)
def test_a_harmless_variable_is_not(name: str, value: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert house.bash("git status") == "green"


@pytest.mark.parametrize("program", ["git", "ssh", "gpg", "less"])
@pytest.mark.parametrize("entry", ["{zone}/venv/bin", "{home}/bin-link", "", "bin", ".", "{zone}/../projects/venv/bin"])
def test_a_planted_program_on_the_path(program: str, entry: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = house.projects / "venv" / "bin"
    directory.mkdir(parents=True)
    (house.home / "bin-link").symlink_to(directory)
    (house.repo / "bin").mkdir()
    monkeypatch.setenv("PATH", entry.format(zone=house.projects, home=house.home) + ":" + SYSTEM_PATH)
    assert house.bash("git status") == "green"
    for where in (directory, house.repo, house.repo / "bin"):
        (where / program).write_text("")
    assert house.bash("git status") == "gated"


def test_a_relative_path_entry_counts_where_it_lies(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (house.outside / "sbox").write_text("")
    (house.repo / "sbox").write_text("")
    monkeypatch.setenv("PATH", f".:{SYSTEM_PATH}")
    assert [house.bash("sbox ls", where) for where in (house.outside, house.repo)] == ["green", "gated"]


def test_a_link_on_the_path_into_the_zone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (house.home / "bin").mkdir()
    (house.projects / "sbox").write_text("")
    (house.home / "bin" / "sbox").symlink_to(house.projects / "sbox")
    monkeypatch.setenv("PATH", f"{house.home}/bin:{SYSTEM_PATH}")
    assert house.bash("sbox ls") == "gated"
    assert house.bash("sbox ls") == "gated"


LOADERS = {  # further separators, and whether an empty entry names the working directory
    **dict.fromkeys(["LD_PRELOAD", "LD_AUDIT"], (" ;", False)),
    "LD_LIBRARY_PATH": (";", True),
    **dict.fromkeys(["PYTHONPATH", "GCONV_PATH"], ("", True)),
    **dict.fromkeys(["BASH_ENV", "PYTHONHOME", "OPENSSL_CONF", "PYTHONUSERBASE"], ("", False)),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_variable_that_loads_from_the_zone(name: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    separators, empty = LOADERS[name]
    both = ("sbox ls", "git status")
    monkeypatch.setenv(name, "/usr/lib:/opt")
    assert [house.bash(line) for line in both] == ["green", "green"]
    for separator in ":" + separators:
        monkeypatch.setenv(name, f"/usr/lib{separator}{house.projects}/lib")
        assert [house.bash(line) for line in both] == ["gated", "gated"]
    monkeypatch.setenv(name, "/usr/lib:")
    assert [house.bash(line) for line in both] == (["gated", "gated"] if empty else ["green", "green"])
    assert house.bash("sbox ls", house.outside) == "green"


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\thooksPath = .githooks\n",
        "[core]\n\thooksPath = ~/hooks\n",
        '[filter "x"]\n\tclean = ./x\n',
        '[filter "lfs"]\n\tclean = x\n',
        '[diff "x"]\n\ttextconv = cat\n',
        '[merge "x"]\n\tdriver = x\n',
        "[core]\n\tfsmonitor = x\n",
        "[core]\n\tworktree = /\n",
        '[protocol "ext"]\n\tallow = always\n',
        "[core]\n\tpager = ~/projects/x\n",
        "[core]\n\teditor = ./x\n",
        "[include]\n\tpath = projects/x\n",
        '[includeIf "gitdir:~/projects/"]\n\tpath = ~/projects/x\n',
        '[remote "origin"]\n\turl = x\n',
        "[credential]\n\thelper = !~/projects/x get\n",
        "[include]\n\tpath = ~/.gitconfig\n",
        "[core]\n\tx = \\\n y\n",
        "x = 1\n",
        '[remote "origin"]\n\tuploadpack = x\n',
        '[branch "main"]\n\tremote = x\n',
        '[hook "x"]\n\tevent = pre-commit\n\tcommand = make lint\n',
        '[trailer "x"]\n\tcommand = true\n',
        "\x00",
    ],
)
def test_own_settings_that_follow_the_repository(text: str, house: House) -> None:
    (house.home / ".gitconfig").write_text(text)
    assert house.bash("git status") == "gated"


def test_a_trailer_that_the_persons_settings_put_into_a_shell_text(house: House) -> None:
    line = f"git commit --allow-empty -m x --trailer \"x: ';echo > {house.outside}/x;'\""
    text = "[trailer \"x\"]\n\tkey = x\n\t{} = git log -1 --author='$ARG'\n"
    for key, verdict, runs in (("cmd", "green", False), ("command", "gated", True)):
        (house.home / ".gitconfig").write_text(text.format(key))
        assert house.bash(line) == verdict
        run(line, house.repo, house)
        assert (house.outside / "x").exists() == runs


OWN = """# mine
[user]
\tname = Dev # me
\temail = "dev@example.com"
[core]
\teditor = vim
\tpager = delta
\texcludesFile = ~/projects/dotfiles/ignore
\thooksPath = /dev/null
[alias]
\tst = status
\tx = !make
[credential "https://github.com"]
\thelper = !/usr/bin/gh auth git-credential
[difftool "x"]
\tcmd = ./x
[filter "lfs"]
\tclean = git-lfs clean -- %f
\tsmudge = git-lfs smudge -- %f
\tprocess = git-lfs filter-process
\trequired = true
[url "git@github.com:"]
\tinsteadOf = https://github.com/
[include]
\tpath = ~/.config/git/more
[pull]
\trebase
"""


def test_own_settings_of_an_ordinary_person(house: House) -> None:
    (house.home / ".gitconfig").write_text(OWN)
    (house.home / ".config" / "git").mkdir(parents=True)
    (house.home / ".config" / "git" / "more").write_text("[push]\n\tdefault = simple\n")
    assert house.why("git status").rule == "git that runs nothing of the repository's choosing"
    assert house.bash("git commit -m x") == house.bash("git push origin main") == "green"


def test_a_program_of_the_environment_planted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_EDITOR", "code --wait")
    (house.projects / "venv").mkdir()
    monkeypatch.setenv("PATH", f"{house.projects}/venv:{SYSTEM_PATH}")
    assert house.bash("git commit") == "green"
    (house.projects / "venv" / "code").write_text("")
    assert house.bash("git commit") == "gated"


@pytest.mark.parametrize("name", ["GIT_EDITOR", "EDITOR", "VISUAL", "PAGER", "SSH_ASKPASS"])
def test_a_program_of_the_environment_in_the_zone(name: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, verdict in (
        ("/usr/bin/vi", "green"),
        (f"{house.projects}/ed", "gated"),
        (f"'{house.projects}/e'", "gated"),
        ("bin/ed", "gated"),
    ):
        monkeypatch.setenv(name, value)
        assert house.bash("git commit") == verdict, value


def test_a_credential_helper_planted_by_the_name_that_git_gives_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.home / ".gitconfig").write_text("[credential]\n\thelper = manager --x\n")
    (house.projects / "venv").mkdir()
    monkeypatch.setenv("PATH", f"{house.projects}/venv:{SYSTEM_PATH}")
    assert house.bash("git fetch origin") == "green"
    shutil.copy(payload(house), house.projects / "venv" / "git-credential-manager")
    run("git credential fill", house.repo, house, PATH=os.environ["PATH"])
    assert (house.home / "mark").exists()
    assert house.bash("git fetch origin") == "gated"


def test_a_path_entry_that_leads_through_the_zone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caged code can have it lead elsewhere at any time."""
    (house.projects / "bin").symlink_to(house.outside)
    monkeypatch.setenv("PATH", f"{house.projects}/bin:{SYSTEM_PATH}")
    assert cage_policy.current_place().fixed == SYSTEM_PATH.split(":")
    assert house.bash("git status") == "green"
    (house.outside / "git").write_text("")
    assert house.bash("git status") == "gated"


def test_a_path_entry_that_is_another_for_each_process(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"/proc/self/cwd/bin:{SYSTEM_PATH}")
    (house.repo / "bin").mkdir()
    shutil.copy(payload(house), house.repo / "bin" / "git")
    run("git status", house.repo, house, PATH=os.environ["PATH"])
    assert (house.home / "mark").exists()
    assert cage_policy.current_place().fixed == SYSTEM_PATH.split(":")
    assert house.bash("git status") == "gated"


def test_a_path_entry_that_cannot_be_looked_at(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, which no file can have: in the zone it counts as what caged code may change, elsewhere not."""
    outside, inside = (f"{place}/{'x' * 300}" for place in (house.outside, house.projects))
    monkeypatch.setenv("PATH", f"{outside}:{inside}:{SYSTEM_PATH}")
    place = cage_policy.current_place()
    assert (place.fixed, place.writable) == ([outside, *SYSTEM_PATH.split(":")], [inside])


@pytest.mark.parametrize("form", ["%G?", "%+GK", "%-G?", "% GS", "%<(9)%+GK"])
def test_a_format_that_runs_gpg(form: str, house: House) -> None:
    for line in (
        f"git log --format='{form}'",
        f"git show --pretty='{form}'",
        f"git shortlog --group='format:{form}' HEAD",
    ):
        assert house.why(line).rule == "this format runs gpg"
    assert house.why("git branch --sort=signature:key").rule == "this format runs gpg"


@pytest.mark.parametrize("name", ["branch", "tag"])
def test_an_order_of_the_repository_that_runs_gpg(name: str, house: House) -> None:
    """Newer versions of git sort by what gpg says of each signature."""
    for order, verdict in (("-committerdate", "green"), ("signature:key", "gated"), ("-Signature", "gated")):
        git(house.repo, "config", name + ".sort", order)
        assert house.bash("git " + name) == verdict, order


@pytest.mark.parametrize(
    ("head", "taken"),
    [
        (b"ref: refs/heads/main\n", True),
        (b"ref: refs/heads/main\r\n", True),
        ("ref: refs/heads/x\U0001f468\u200d\U0001f4bb\n".encode(), True),
        (b"ref: refs/heads/caf\xe9\n", True),
        (b"0" * 40, True),
        (b"0" * 64 + b"\n", True),
        (b"0" * 41 + b"g\n", True),
        (b"0" * 39 + b"\n", False),
        (b"0" * 39 + b"g\n", False),
        (b"ref: heads/main\n", False),
        (b"ref: " + b" " * 300 + b"refs/heads/main\n", False),
        (b"\nref: refs/heads/main\n", False),
        (b"\xef\xbb\xbfref: refs/heads/main\n", False),
    ],
)
def test_a_head_is_taken_where_git_takes_it(head: bytes, taken: bool, house: House) -> None:
    inner = make_repository(house.repo / "inner")
    (inner / ".git" / "HEAD").write_bytes(head)
    assert git(inner, "rev-parse", "--show-toplevel").strip() == str(inner if taken else house.repo)
    assert house.bash("git status", inner) == ("green" if taken else "gated")


def test_a_home_in_the_zone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the person's own settings are held to the repository's rules."""
    monkeypatch.setenv("HOME", str(house.projects))
    assert house.bash("git status") == "gated", "app is not below ~/projects or /tmp any more"
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        monkeypatch.setenv("HOME", home)
        repo = make_repository(Path(home) / "projects" / "app")
        assert house.bash("git status", repo) == "green"
        (Path(home) / ".gitconfig").write_text("[user]\n\tname = Dev\n")
        assert house.bash("git status", repo) == "green"
        (Path(home) / ".gitconfig").write_text("[core]\n\tpager = less\n")
        assert house.bash("git status", repo) == "gated"


def test_own_settings_in_the_zone_are_asked(house: House) -> None:
    (house.projects / "gitconfig").write_text(OWN)
    (house.home / ".gitconfig").symlink_to(house.projects / "gitconfig")
    assert house.bash("git status") == "gated"


def test_where_signing_is_on_commits_are_asked(house: House) -> None:
    (house.home / ".gitconfig").write_text(
        "[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = yes\n[push]\n\tgpgSign = 1\n"
    )
    assert [house.bash(c) for c in ("git status", "git add .", "git branch x")] == ["green"] * 3
    assert [house.bash(c) for c in ("git commit -m x", "git merge x", "git tag v", "git push origin main")] == [
        "gated"
    ] * 4
    (house.home / ".gitconfig").write_text("[commit]\n\tgpgSign = false\n")
    assert house.bash("git commit -m x") == "green"


def test_settings_that_look_into_submodules(house: House) -> None:
    (house.home / ".gitconfig").write_text("[diff]\n\tsubmodule = log\n")
    evil_repository(house, house.repo / "sub")
    assert house.bash("git diff main") == "gated"


def test_clean_worktrees_and_submodules_are_green(house: House) -> None:
    git(house.repo, "worktree", "add", "-q", str(house.repo / ".claude" / "worktrees" / "one"), "-b", "side")
    assert house.bash("git add -A") == "green"
    assert house.bash("git status", house.repo / ".claude" / "worktrees" / "one") == "green"
    make_repository(house.repo / "sub")
    git(house.repo, "add", "sub")
    assert house.bash("git status") == "green"


@pytest.mark.parametrize(
    "break_it",
    [
        lambda repo: (repo / ".git" / "HEAD").unlink(),
        lambda repo: shutil.rmtree(repo / ".git" / "refs"),
        lambda repo: (repo / ".git" / "config").unlink(),
        lambda repo: (repo / ".git" / "config").write_bytes(b"\xff"),
        lambda repo: (repo / ".git" / "config").write_bytes(b"[core]\n" + b"# x\n" * 100_000),
        lambda repo: ((repo / ".git" / "config").unlink(), os.mkfifo(repo / ".git" / "config")),
        lambda repo: (repo / ".git" / "index").write_bytes(b"XXXX"),
        lambda repo: ((repo / ".git" / "index").unlink(), os.mkfifo(repo / ".git" / "index")),
        lambda repo: (
            (repo / ".git" / "objects" / "info").mkdir(exist_ok=True),
            (repo / ".git" / "objects" / "info" / "alternates").write_text("/x\n"),
        ),
        lambda repo: (repo / ".lfsconfig").write_text("[lfs]\n\turl = https://x\n"),
        lambda repo: (shutil.rmtree(repo / ".git"), (repo / ".git").write_text("gitdir: /etc\n")),
        lambda repo: (shutil.rmtree(repo / ".git"), (repo / ".git").write_text("gitdir: \x01\n")),
        lambda repo: (shutil.rmtree(repo / ".git"), (repo / ".git").write_text("nonsense")),
        lambda repo: (shutil.rmtree(repo / ".git"), os.mkfifo(repo / ".git")),
        lambda repo: shutil.rmtree(repo / ".git"),
        lambda repo: git(repo, "config", "core.bare", "true"),
        lambda repo: git(repo, "config", "core.worktree", "/"),
        lambda repo: (repo / ".git" / "config").write_text('[remote "a\\"b"]\n\turl = https://x/y\n'),
        lambda repo: (repo / ".git" / "config").write_text("[a.b]\n\tc = d\n"),
        lambda repo: (repo / ".git" / "config").write_text("[core\n\tbare = false\n"),
        lambda repo: (repo / ".git" / "config").write_text("[co re]\n\tbare = false\n"),
        lambda repo: (repo / ".git" / "config").write_text('[remote "a"x]\n\tbare = false\n'),
    ],
)
def test_an_odd_repository_is_asked(break_it: Callable[[Path], object], house: House) -> None:
    assert house.bash("git status") == "green"
    break_it(house.repo)
    assert house.bash("git status") == "gated"


def test_where_git_may_work(house: House) -> None:
    make_repository(house.outside / "app")
    assert house.bash("git status", house.outside / "app") == "gated"
    assert house.bash(f"git -C {house.outside}/app status") == "gated"
    assert house.bash("git -C ../../outside/app status") == "gated"
    assert house.bash(f"git -C {house.repo} status", house.outside) == "green"
    assert house.bash("git -C ~/projects -C app status", house.outside) == "green"
    assert house.bash("git status", house.repo / "d") == "green"
    assert house.bash("git status", house.repo / ".git") == "gated"
    assert house.bash("git status", house.projects) == "gated"
    assert house.bash("git -C nowhere status") == "gated"
    assert house.bash("git --version", house.outside) == "green"
    (house.projects / "link").symlink_to(house.outside / "app")
    assert house.bash("git status", house.projects / "link") == "gated"


def test_too_much_to_look_through_is_asked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cage.cage_policy._MAX_DIRECTORIES", 12)
    assert house.bash("git status") == "green"
    assert house.bash("git add .") == "gated"


@pytest.mark.parametrize(
    "fill",
    [
        lambda repo, many: [(repo / "d" / f"f{n}").write_text("") for n in range(many)],
        lambda repo, many: [(repo / "d" / f"{many}-{n}").symlink_to("a.txt") for n in range(many // 10)],
        lambda repo, many: [(repo / ".git" / f"f{n}").write_text("") for n in range(many)],
        lambda repo, many: (repo / ".git" / "config").open("a").write("[color]\n" + "ui = auto\n" * many),
    ],
)
def test_files_links_and_settings_count(
    fill: Callable[[Path, int], object], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = Counting(monkeypatch)
    assert house.bash("git add .") == "green"
    monkeypatch.setattr("cage.cage_policy._MAX_DIRECTORIES", spent.directories + 5)
    fill(house.repo, 40)
    assert house.bash("git add .") == "green"
    fill(house.repo, 1000)
    assert house.why("git add .").rule.startswith("there is too much to look through")


def test_a_line_has_one_allowance(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each repository of a nested dozen looks through all below it."""
    inner = [make_repository(house.repo / f"r{number}") for number in range(3)]
    spent = Counting(monkeypatch)
    assert house.bash("git add .") == "green"
    monkeypatch.setattr("cage.cage_policy._MAX_DIRECTORIES", spent.directories + 12)
    line = " && ".join(["git add .", *(f"git -C {repo} add ." for repo in inner)])
    assert (house.bash("git add ."), house.bash(line)) == ("green", "gated")
    assert "too much" in house.why(line).rule


def test_a_large_index_counts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    index = house.repo / ".git" / "index"
    index.write_bytes(b"DIRC\0\0\0\2" + bytes(8 << 16))
    monkeypatch.setattr("cage.cage_policy._MAX_DIRECTORIES", 17)
    assert house.bash("git status") == "gated"
    monkeypatch.setattr("cage.cage_policy._MAX_DIRECTORIES", 18)
    assert house.bash("git status") == "green"


def test_looking_for_a_submodule_counts(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place in the index that looks like one and is none."""
    index = house.repo / ".git" / "index"
    index.write_bytes(b"DIRC\0\0\0\2" + bytes(8) + b"\0\0\xe0\0\0\0\0\0" * 1000)
    spent = Counting(monkeypatch)
    assert house.bash("git status") == "green"
    assert spent.directories > 500


def test_a_way_through_proc_is_asked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be judged from the directory where the judging process happens to be."""
    monkeypatch.chdir(house.repo)
    (house.outside / "here").symlink_to("/proc/self/cwd")
    (house.projects / "here").symlink_to(house.outside / "here")
    for where in ("/proc/self/cwd", "/proc/thread-self/cwd/d/..", str(house.outside / "here"), "~/projects/here"):
        assert house.bash(f"git -C {where} status", house.outside) == "gated"
        assert house.bash(f"git commit -F {where}/a.txt") == "gated"
    assert house.bash("git status", Path("/proc/self/cwd")) == "gated"
    assert house.bash("git commit -F a.txt") == "green"
    (house.repo / ".git").rename(house.projects / "store")
    (house.repo / ".git").write_text("gitdir: ../store\n")
    assert house.bash("git status") == "green"
    (house.repo / ".git").write_text("gitdir: /proc/self/cwd/../store\n")
    assert house.bash("git status") == "gated"


def test_a_way_through_the_zone_is_as_good_as_one_into_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a link in the zone leads is chosen by caged code, wherever it leads now."""
    (house.outside / "tool").write_text("")
    (house.projects / "tool").symlink_to(house.outside / "tool")
    (house.home / ".gitconfig").write_text(f"[credential]\n\thelper = {house.projects}/tool\n")
    assert house.bash("git status") == "gated"
    (house.home / ".gitconfig").unlink()
    assert house.bash("git status") == "green"
    (house.outside / "config").write_text("[credential]\n\thelper = store\n")
    (house.projects / "config").symlink_to(house.outside / "config")
    (house.home / ".gitconfig").symlink_to(house.projects / "config")
    assert house.bash("git status") == "gated"
    (house.home / ".gitconfig").unlink()
    (house.home / "bin").mkdir()
    (house.home / "bin" / "git").symlink_to(house.projects / "tool")
    monkeypatch.setenv("PATH", f"{house.home}/bin:/usr/bin:/bin")
    assert house.bash("git status") == "gated"


def test_what_runs_in_the_cage_first_can_plant(house: House) -> None:
    assert house.bash("sbox make && git status") == "gated"
    assert house.bash("git status && sbox make") == "gated"
    assert house.bash("sbox make && sbox git status") == "green"


# ---------------------------------------------------------------- the index: git works by the paths in it


def sealed(body: bytes, sha256: bool = False) -> bytes:
    return body + (hashlib.sha256(body) if sha256 else hashlib.sha1(body)).digest()


def index_with(house: House, path: str, version: int = 2) -> bytes:
    """A file whose path in the index is `path`, written over one of the same length; the others come before it."""
    index = house.repo / ".git" / "index"
    stand_in = "e" * len(path)
    (house.repo / stand_in).write_text("evil\n")
    git(house.repo, "update-index", "--index-version", str(version), "--add", stand_in)
    (house.repo / stand_in).unlink()
    raw = index.read_bytes()[:-20].replace(stand_in.encode(), path.encode())
    index.write_bytes(sealed(raw))
    return raw


ODD_PATHS = [
    "../../outside/x",
    "d/../../../outside/x",
    "/var/tmp/x",
    ".git/hooks/pre-commit",
    "d/.GIT/x",
    "./x",
    "d//x",
    "d/..",
]


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("path", ODD_PATHS)
def test_an_index_with_paths_outside_the_tree_is_asked(path: str, version: int, house: House) -> None:
    assert house.bash("git checkout -- .") == house.bash("git add -A && git commit -m x") == "green"
    index_with(house, path, version)
    assert house.bash("git checkout -- .") == house.bash("git add -A && git commit -m x") == "gated"
    assert house.why("git restore .").rule == "the repository's index names what lies outside its working tree"
    assert house.bash("git rev-parse HEAD") == "green"


def test_git_does_write_by_such_an_index(house: House) -> None:
    index_with(house, "../../outside/x")
    run("git checkout -- .", house.repo, house)
    assert (house.outside / "x").read_text() == "evil\n", "then the test above guards nothing"


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_an_ordinary_index_of_any_form_is_green(version: int, form: str, house: House) -> None:
    repo = house.projects / "new"
    git(house.projects, "init", "-q", f"--object-format={form}", str(repo))
    shutil.rmtree(repo / ".git" / "hooks", ignore_errors=True)
    for number in range(40):
        name = repo / ("d" * (number % 7 + 1)) / f"{'x' * number * 3}{number}.gitkeep"
        name.parent.mkdir(exist_ok=True)
        name.write_text("")
    (repo / ".gitignore").write_text("")
    git(repo, "update-index", "--index-version", str(version))
    git(repo, "add", ".")
    if version == 3:
        (repo / "later").write_text("")
        git(repo, "add", "-N", "later")  # needs the longer flags
    git(repo, "update-index", "--force-write-index")
    assert (repo / ".git" / "index").read_bytes()[7] == version
    assert len(git(repo, "ls-files").splitlines()) == 41 + (version == 3)
    assert house.why("git add -A", repo).rule == "git that runs nothing of the repository's choosing"


def hidden_by_length(house: House) -> None:
    """An entry tells a shorter name than it holds: git finds the next one where a reader of names does not."""
    index = house.repo / ".git" / "index"
    body = bytearray(index.read_bytes()[:-20])
    at = body.index(b"a.txt")
    body[at - 1] = 3
    index.write_bytes(sealed(bytes(body)))


def hidden_by_blocks(house: House) -> None:
    """Read block by block, the entries are others than read one after the other."""
    house.repo.joinpath("n").mkdir()
    for number in range(30):
        (house.repo / "n" / f"{number}").write_text("")
    git(house.repo, "config", "index.threads", "8")
    git(house.repo, "add", ".")
    index = house.repo / ".git" / "index"
    body = bytearray(index.read_bytes()[:-20])
    count = int.from_bytes(body[8:12], "big")
    table = b"\0\0\0\1" + (12).to_bytes(4, "big") + (count - 1).to_bytes(4, "big")
    table += (12).to_bytes(4, "big") + (1).to_bytes(4, "big")  # the first entry a second time, in place of the last
    index.write_bytes(sealed(bytes(body) + b"IEOT" + len(table).to_bytes(4, "big") + table))


def extension(name: bytes, data: bytes) -> bytes:
    return name + len(data).to_bytes(4, "big") + data


def block(start: int) -> bytes:
    """One block of one entry, as the extension IEOT lists it."""
    return start.to_bytes(4, "big") + (1).to_bytes(4, "big")


def read_by_threads(body: bytes, extensions: list[tuple[bytes, int]], start: int) -> bytes:
    """`body` with the extension EOIE: that these (name, size) begin at `start`."""
    headers = b"".join(name + size.to_bytes(4, "big") for name, size in extensions)
    return sealed(body + extension(b"EOIE", start.to_bytes(4, "big") + hashlib.sha1(headers).digest()))


def entry(
    house: House, name: bytes, length: int = 0, first: bytes = bytes(24), strip: bytes = b"", mode: int = 0o100644
) -> bytes:
    """An entry of a.txt by this name; in version 4 `strip` says how much of the name before is dropped."""
    size, blob = (2).to_bytes(4, "big"), git(house.repo, "rev-parse", ":a.txt")
    told = (length or len(name)).to_bytes(2, "big")
    found = first + mode.to_bytes(4, "big") + bytes(8) + size + bytes.fromhex(blob.strip()) + told + strip + name
    return found + (b"\0" if strip else bytes((len(found) + 8) // 8 * 8 - len(found)))


def a_block_builds_on_no_name_before(house: House) -> None:
    """Read one after the other the second is called aaa/var/…, read as a block /var/…"""
    name = str(house.outside / "x").encode()
    both = [entry(house, b"aaa", strip=b"\0"), entry(house, name, len(name) + 3, strip=b"\0")]
    body = b"DIRC\0\0\0\4\0\0\0\2" + b"".join(both)
    blocks = b"\0\0\0\1" + block(12) + block(12 + len(both[0]))
    index = read_by_threads(body + extension(b"IEOT", blocks), [(b"IEOT", len(blocks))], len(body))
    (house.repo / ".git" / "index").write_bytes(index)


def extensions_begin_in_an_entry(house: House) -> None:
    """The list of blocks stands in the times of the only entry, the one that it lists behind the entries."""
    header, mode = b"DIRC\0\0\0\2\0\0\0\1", 0o100644  # which is the length of XXXX at the same time
    behind = len(header + entry(house, b"aaa")) + 12
    listed = extension(b"IEOT", b"\0\0\0\1" + block(behind))
    body = header + entry(house, b"aaa", first=listed + b"XXXX")
    end = 12 + len(listed) + 8 + mode
    hidden = extension(b"YYYY", b"pad." + entry(house, str(house.outside / "x").encode()))
    body += hidden + extension(b"ZZZZ", bytes(end - len(body + hidden) - 8))
    (house.repo / ".git" / "index").write_bytes(read_by_threads(body, [(b"IEOT", 12), (b"XXXX", mode)], 12))


@pytest.mark.parametrize("hide", [a_block_builds_on_no_name_before, extensions_begin_in_an_entry])
def test_an_index_that_threads_read_otherwise_is_asked(hide: Callable[[House], None], house: House) -> None:
    git(house.repo, "config", "index.threads", "4")
    hide(house)
    assert house.why("git checkout -- .").rule == "the repository's index is odd"
    run("git checkout -- .", house.repo, house)
    assert (house.outside / "x").read_text() == "a\n", "then there was nothing to ask"


@pytest.mark.parametrize("where", ["config", "config.worktree"])
def test_the_kind_of_the_hashes_is_told_once(where: str, house: House) -> None:
    """Git takes the last one of `config`: read otherwise the index holds other paths."""
    git(house.repo, "config", "core.repositoryformatversion", "1")
    git(house.repo, "config", "extensions.objectformat", "sha1")
    assert house.bash("git add -A") == "green"
    plain = (house.repo / ".git" / "config").read_text()
    for value in ("sha256", "sha1"):
        (house.repo / ".git" / where).write_text((plain if where == "config" else "") + SHA256.replace("sha256", value))
        assert house.why("git add -A").rule == (
            "the repository's configuration sets extensions.objectformat twice, or in config.worktree"
        )
    with (house.repo / ".git" / where).open("a") as file:
        file.write("[extensions]\n\tobjectformat = sha1\n")
    assert git(house.repo, "rev-parse", "--show-object-format") == "sha1\n"


SHA256 = "[extensions]\n\tobjectformat = sha256\n"


@pytest.mark.parametrize("hide", [hidden_by_length, hidden_by_blocks])
def test_an_index_that_git_reads_otherwise_is_asked(hide: Callable[[House], None], house: House) -> None:
    hide(house)
    assert house.bash("git rev-parse HEAD") == "green"
    assert house.why("git add -A").rule == "the repository's index is odd"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_git_reads_the_same_paths(version: int, house: House, long_run: bool) -> None:
    """Bytes changed at random: whatever index is accepted, git lists the very same paths."""
    for number in range(12):
        (house.repo / f"{'n' * (number % 4 * 3 + 1)}{number}").write_text("")
    git(house.repo, "config", "index.threads", "8")
    git(house.repo, "update-index", "--index-version", str(version))
    git(house.repo, "add", ".")
    if version == 3:
        (house.repo / "later").write_text("")
        git(house.repo, "add", "-N", "later")
    index, pick, same = house.repo / ".git" / "index", random.Random(version), 0
    whole = index.read_bytes()[:-20]
    assert b"IEOT" in whole, "then git reads it one after the other"
    for _ in range(5_000 if long_run else 250):
        body = bytearray(whole)
        for _ in range(pick.choice((1, 1, 2, 6))):
            body[pick.randrange(12, len(body))] = pick.choice((0, 1, 3, 47, 46, 0x40, 0x80, 0xFF, pick.randrange(256)))
        index.write_bytes(sealed(bytes(body)))
        try:
            paths = cage_policy._judge_index(str(index), 20, Search(quiet=False))
        except cage_policy.Gated:
            continue
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=house.repo, capture_output=True)
        if not listed.returncode:
            assert listed.stdout.split(b"\0")[:-1] == paths, bytes(body)
            same += 1
    assert same > 20


def test_an_index_of_ordinary_blocks_is_green(house: House) -> None:
    git(house.repo, "config", "index.threads", "8")
    (house.repo / "n").mkdir()
    for number in range(70):
        (house.repo / "n" / f"{number}").write_text("")
    git(house.repo, "add", "-A")
    assert b"IEOT" in (house.repo / ".git" / "index").read_bytes()
    assert house.bash("git add -A") == "green"
    for broken in (b"IEOT\0\0\0\4\0\0\0\1", b"IEOT\0\0\0\x0c\0\0\0\1\0\0\0\x0c\0\0\0\1"):
        index = house.repo / ".git" / "index"
        index.write_bytes(sealed(index.read_bytes()[:-20] + broken))
        assert house.bash("git add -A") == "gated"


def test_a_long_name_in_the_index(house: House) -> None:
    """Lengths from 4,095 on are told as 4,095; such a path has to be built in parts."""
    deep = house.repo
    for _ in range(20):
        deep /= "d" * 200
    shell = "for i in $(seq 20); do mkdir " + "d" * 200 + "; cd " + "d" * 200 + "; done; touch " + "e" * 100
    run(shell, house.repo, house)
    name = "/".join(["d" * 200] * 20 + ["e" * 100])
    run(
        f"git update-index --add --cacheinfo 100644,{'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'},{name}",
        house.repo,
        house,
    )
    assert len(git(house.repo, "ls-files").splitlines()[-1]) > 4095
    assert house.bash("git branch x") == "green"
    shutil.rmtree(house.repo / ("d" * 200))


def test_an_index_cut_short_or_of_another_kind_is_asked(house: House) -> None:
    index = house.repo / ".git" / "index"
    whole = index.read_bytes()
    for data in (
        whole[:40],
        whole[:70],
        whole[:12],
        b"DIRC\0\0\0\5" + whole[8:],
        b"DIRC",
        b"",
        b"DIRC\0\1\0\2" + whole[8:],
    ):
        index.write_bytes(data)
        assert house.bash("git add -A") == "gated", data[:12]
    index.unlink()
    assert house.bash("git add -A") == "green"


def test_paths_that_rerere_would_follow_are_asked(house: House) -> None:
    """Resolutions are read from, and written to, the paths that MERGE_RR lists."""
    git(house.repo, "config", "rerere.enabled", "true")
    (house.outside / "secret").write_text("secret\n")
    name = "0" * 40
    (house.repo / ".git" / "rr-cache" / name).mkdir(parents=True)
    (house.repo / ".git" / "rr-cache" / name / "preimage").write_text("x\n")
    (house.repo / ".git" / "MERGE_RR").write_text("")
    assert house.bash("git commit --allow-empty -m x") == "green"
    (house.repo / ".git" / "MERGE_RR").write_text(f"{name}\t../../outside/secret\0")
    assert house.bash("git commit --allow-empty -m x") == "gated"
    assert house.bash("git status") == "green"
    run("git commit --allow-empty -m x", house.repo, house)
    assert (house.repo / ".git" / "rr-cache" / name / "postimage").read_text() == "secret\n"


def test_a_linked_worktrees_own_files_are_no_links(house: House) -> None:
    git(house.repo, "worktree", "add", "-q", str(house.projects / "linked"), "-b", "side")
    assert house.bash("git branch new") == "green"
    shutil.move(house.repo / ".git" / "worktrees" / "linked", house.outside / "linked")
    (house.repo / ".git" / "worktrees" / "linked").symlink_to(house.outside / "linked")
    assert house.bash("git branch new") == "gated"
