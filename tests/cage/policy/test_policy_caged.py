"""Which local git may run in the cage instead: what is green but for the repository, and loses nothing there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cage import cage_policy
from slack_gate.core import caged as caged_git
from slack_gate.core.caged import works_caged
from slack_gate.core.respell import MANY

from .conftest import House, entries, git, make_repository


def caged(house: House, command: str, cwd: Path | None = None) -> bool:
    line = [segment.argv for segment in cage_policy.read(command) or []]
    return works_caged(line, str(cwd or house.repo))


FITS = entries(
    """git status; git -C d status -s; git diff HEAD; git log -p -3; git show HEAD; git blame a.txt; git grep -n a
    git add -A; git commit -m x; git commit -am x; git commit --amend --no-edit; git add a.txt && git commit -m x
    git checkout main; git checkout -b new; git checkout main && git checkout -b x; git checkout -b new HEAD~1
    git checkout HEAD; git checkout -- a.txt
    git switch main; git switch -c new; git checkout main -- a.txt; git branch; git branch new; git branch new HEAD
    git tag v1; git tag -a v1 -m x; git stash; git stash pop; git reset --hard; git restore .; git merge main -m x
    git revert --no-edit HEAD; git cherry-pick main; git checkout -; git config --get user.name; git branch -vv"""
)
STAYS = entries(
    """git push; git fetch origin; git pull; git ls-remote origin; git status && git push; git --version
    git rm a.txt; git mv a.txt b.txt; git clone x; git init; git foo; git -c a=b status; git config user.name x
    git commit; git commit -a; git commit --amend; git tag -a v1; git merge --continue; git revert HEAD
    git branch -d x; git branch -D x; git branch -m x; git branch -u origin/main; git branch --unset-upstream
    git branch new origin/main; git branch new other; git branch -t new main; git checkout -b new origin/main
    git checkout -b new HEAD@{u}; git checkout -t origin/other; git switch -c new origin/main; git checkout origin
    git checkout nowhere; git checkout a.txt; git switch other; git checkout DEAD; git checkout 42
    git checkout HEAD2; git checkout -b x -t
    git checkout main && git stash; git worktree list; git -C / status; git -C ../.. status
    git commit -F /etc/passwd; git log --format=%GK"""
)


@pytest.mark.parametrize("command", FITS)
def test_local_git_fits_the_cage(command: str, house: House) -> None:
    assert caged(house, command)
    git(house.repo, "config", "core.fsmonitor", "/nowhere/evil")
    assert house.bash(command) == "gated"
    assert caged(house, command)


@pytest.mark.parametrize("command", STAYS)
def test_what_the_cage_is_a_loss_to_stays(command: str, house: House) -> None:
    assert not caged(house, command)


def test_a_long_line_has_no_settings_read_for_each_of_its_commands(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    parse = cage_policy.parse_config
    monkeypatch.setattr(cage_policy, "parse_config", lambda path: read.append(path) or parse(path))
    counts = []
    for many in (MANY, MANY + 1, 100 * MANY):
        fits = caged(house, "&&".join(["git status"] * many))
        counts.append((fits, len(read) > MANY))
        read.clear()
    assert counts == [(True, False), (False, False), (False, False)]


LINKS = entries("git rm a.txt; git rm -r --cached a.txt; git mv a.txt b.txt && git status; git add . && git rm a.txt")


@pytest.mark.parametrize("command", LINKS)
def test_git_that_follows_links_fits_only_where_the_person_has_gated_commands_caged(command: str, house: House) -> None:
    line = [segment.argv for segment in cage_policy.read(command) or []]
    assert house.bash(command) == "gated"
    assert not works_caged(line, str(house.repo))
    assert works_caged(line, str(house.repo), caged_git.LINKS)
    write(".vscode/settings.json")(house)
    assert works_caged(line, str(house.repo), caged_git.LINKS) == ("--cached" in command)


def test_where_the_cage_guards_files_only_what_moves_none_fits(house: House) -> None:
    write(".vscode/settings.json")(house)
    stays = entries("git checkout -b new; git switch -q -c new; git reset; git reset --soft HEAD; git restore -S a.txt")
    moves = """git checkout -f -b new; git checkout -b new HEAD; git restore -S -W a.txt; git restore a.txt
        git reset --keep; git stash pop; git checkout -B new -m; git switch main"""
    assert [command for command in stays if not caged(house, command)] == []
    assert [command for command in entries(moves) if caged(house, command)] == []


def test_a_branch_may_be_packed(house: House) -> None:
    git(house.repo, "branch", "side")
    git(house.repo, "pack-refs", "--all")
    assert caged(house, "git checkout side")
    assert not caged(house, "git checkout sid")
    assert not caged(house, "git checkout ide")


@pytest.mark.parametrize(
    ("text", "stopped", "goes_on"),
    [
        ("[commit]\n\tgpgsign = true\n", "git commit -m x; git merge main -m x", "git status; git add ."),
        ("[tag]\n\tgpgSign = true\n", "git tag v1", "git commit -m x"),
        ("[core]\n\texcludesFile = ~/.gitignore_global\n", "git status; git add .", ""),
        ("[core]\n\texcludesFile = ~/gitignore\n\tpager = less\n", "", "git status; git add ."),
        ("[core]\n\thooksPath = ~/.githooks\n", "git commit -m x", ""),
        ("[include]\n\tpath = .gitconfig-work\n", "git commit -m x; git log", ""),
        ("[include]\n\tpath = ~/plain\n", "", "git log; git checkout main"),
        ('[includeIf "gitdir:~/projects/"]\n\tpath = ~/.gitconfig-work\n', "git commit -m x", ""),
        ("[credential]\n\thelper = ~/.local/share/helper\n", "", "git commit -m x; git log"),
        ("[branch]\n\tautoSetupMerge = always\n", "git checkout -b x; git branch x", "git checkout main; git branch"),
        ("[submodule]\n\trecurse = true\n", "git checkout main", "git add ."),
        ('[filter "x"]\n\tclean = nbstripout\n', "git add .; git status", ""),
    ],
)
def test_the_persons_settings(text: str, stopped: str, goes_on: str, house: House) -> None:
    (house.home / ".gitconfig").write_text(text)
    assert [command for command in entries(stopped) if command and caged(house, command)] == []
    assert [command for command in entries(goes_on) if command and not caged(house, command)] == []


def write(name: str, text: str = "") -> Callable[[House], None]:
    def make(house: House) -> None:
        (house.repo / name).parent.mkdir(parents=True, exist_ok=True)
        (house.repo / name).write_text(text)

    return make


def setting(*words: str) -> Callable[[House], None]:
    return lambda house: print(git(house.repo, "config", *words))


def linked(house: House) -> None:
    """~/.config/git/ignore leads to a hidden directory."""
    (house.home / ".dotfiles").mkdir()
    (house.home / ".dotfiles" / "ignore").write_text("x")
    (house.home / ".config" / "git").mkdir()
    (house.home / ".config" / "git" / "ignore").symlink_to(house.home / ".dotfiles" / "ignore")


@pytest.mark.parametrize(
    ("change", "stopped", "goes_on"),
    [
        (setting("commit.gpgsign", "true"), "git commit -m x", "git status"),
        (setting("include.path", "~/x"), "git status; git commit -m x", ""),
        (setting("remote.origin.promisor", "true"), "git log -p; git checkout main", ""),
        (setting("extensions.partialclone", "origin"), "git log -p; git checkout main", ""),
        (setting("core.hooksPath", ".husky"), "git checkout main", "git commit -m x; git status"),
        (setting("branch.autoSetupMerge", "inherit"), "git checkout -b x", "git status"),
        (write(".vscode/settings.json"), "git checkout main; git stash; git reset --hard", "git commit -m x"),
        (write(".git/lfs/x"), "git checkout main", "git add ."),
        (write(".git/objects/info/alternates", "/x\n"), "git log", ""),
        (write(".git/config.worktree", "[commit]\n\tgpgsign = true\n"), "git commit -m x", "git log"),
        (write(".git/config", "[a\n"), "git log; git status", ""),
        (linked, "git status; git commit -m x", ""),
    ],
)
def test_the_repositorys_settings(change: Callable[[House], None], stopped: str, goes_on: str, house: House) -> None:
    change(house)
    assert [command for command in entries(stopped) if command and caged(house, command)] == []
    assert [command for command in entries(goes_on) if command and not caged(house, command)] == []


def test_places(house: House, tmp_path: Path) -> None:
    for place in (house.cache / "x", house.outside / "x", house.home / ".hidden"):
        assert not caged(house, "git status", make_repository(place))
    assert not caged(house, "git status", house.projects / "missing")
    assert not caged(house, "git status", house.projects)
    assert not caged(house, f"git -C {house.cache}/x status")
    assert not caged(house, f"git -C {house.repo} status", house.cache)
    assert not caged(house, "git status", Path("/\0"))
    assert not works_caged([("git", "status")], "relative")
    assert caged(house, "git status", make_repository(tmp_path / "x"))
    git(house.repo, "worktree", "add", "-q", str(house.projects / "linked"), "-b", "side")
    assert caged(house, "git commit -m x", house.projects / "linked")


def test_a_home_in_tmp_covers_what_is_hidden_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_")):
            monkeypatch.delenv(name)
    hidden = make_repository(tmp_path / ".hidden")
    shown = make_repository(tmp_path / "projects" / "x")
    assert not works_caged([("git", "status")], str(hidden))
    assert works_caged([("git", "status")], str(shown))


def test_variables_that_local_git_does_not_need(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_SSL_CAINFO", "/etc/ssl/certs/ca-certificates.crt")
    monkeypatch.setenv("GIT_EDITOR", "true")
    assert caged(house, "git commit -m x")


@pytest.mark.parametrize("name", ["GIT_AUTHOR_NAME", "GIT_DIR", "XDG_CONFIG_HOME"])
def test_variables_that_the_cage_does_not_pass_on(name: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/var/tmp/x")
    assert not caged(house, "git commit -m x")


def test_which_git_brings_files() -> None:
    def brings(command: str) -> bool:
        return cage_policy.brings_files(segment.argv for segment in cage_policy.read(command) or [])

    assert all(
        map(brings, entries("git pull; git checkout x; git add . && git stash pop; sbox ls && git reset --hard"))
    )
    assert all(
        map(
            brings,
            entries("git checkout -b x y; git switch -f -c x; git reset --merge; git restore .; git restore -S -W ."),
        )
    )
    assert not any(map(brings, entries("git fetch; git add .; git branch x; sbox git pull; git status && git push")))
    assert not any(
        map(
            brings,
            entries("git checkout -b x; git switch -q -C x; git reset a; git restore --staged .; git stash drop"),
        )
    )
