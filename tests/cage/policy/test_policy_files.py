"""Writes by file tools: green below ~/projects, /tmp and ~/.cache, but for what programs outside execute or trust."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cage.cage_policy import FILE_TOOLS, classify, explain

from .conftest import House, entries

GREEN = """~/projects/app/a.txt; ~/projects/app/new.py; ~/projects/app/deep/er/new.py; ~/projects/app/d/../a.txt
    ~/projects/x; /tmp/policy-x/y; /tmp/note.md; ~/.cache/x.txt; ~/.cache/huggingface/hub/a
    ~/.cache/my-tool/data.json; ~/projects/app/.github/workflows/ci.yml; ~/projects/app/.gitignore
    ~/projects/app/.gitattributes; ~/projects/app/.gitmodules; ~/projects/app/.env; ~/projects/app/package.json
    ~/projects/app/Makefile; ~/projects/app/.eslintrc.json; ~/projects/app/CLAUDE.md
    ~/projects/app/.claude/worktrees/one/src/a.py; ~/projects/app/.claude/worktrees/one/a; ~/projects/app/git/config
    ~/projects/app/gitlab; ~/projects/./app//a.txt; ~/projects/app/Ünï ☕.md; ~/projects/app/HEAD
    ~/projects/app/objects/a; ~/.cache/../projects/app/a.txt; ~/projects/app/claude/settings.json
    ~/projects/app/AGENTS.md; ~/projects/app/agents/x.py; ~/.cache/nltk/x
    ~/projects/app/x.github; ~/projects/app/.github/hook; ~/projects/app/.github/x/hooks; ~/projects/app/hooks/x"""
GATED = """~/x; ~/.bashrc; ~/.ssh/authorized_keys; ~/.claude/settings.json; ~/.config/x; ~/work/gh-issue/gh_issue.py
    /etc/passwd; /; /x; /tmp; /tmp/; ~/projects; ~/projects/; ~/projects/app; ~/projects/app/d/; ~/projects/../x
    ~/projects/app/../../x; /tmp/../etc/x; ~/.cacheX/x; ~/projectsX/x; /tmpx/y; ~/.cache; ~/projects/app/.git/config
    ~/projects/app/.git/hooks/pre-commit; ~/projects/app/.GIT/config; ~/projects/app/.git; ~/projects/new/.git
    /tmp/x/.git/HEAD; ~/projects/app/.gIt/x; ~/projects/x.git/config; ~/projects/X.GIT/hooks/update
    ~/projects/app/.claude/settings.json; ~/projects/app/.claude/hooks/x.py; ~/projects/app/.claude
    ~/projects/app/.claude/worktrees; ~/projects/app/.claude/worktrees/one
    ~/projects/app/.claude/worktrees/one/.claude/settings.json; ~/projects/app/.claude/worktrees/one/.git
    ~/projects/app/.claude/worktrees/../settings.json; ~/projects/app/.mcp.json; ~/projects/app/.vscode/tasks.json
    ~/projects/app/.idea/x; ~/projects/app/.envrc; ~/projects/app/.cursor/mcp.json; ~/projects/app/.codex/config.toml
    ~/projects/app/.gemini/settings.json; ~/projects/app/.devcontainer/devcontainer.json
    ~/projects/app/.husky/pre-commit; ~/projects/.bashrc; /tmp/.zshrc; ~/projects/app/.profile
    ~/projects/app/.VSCODE/x; ~/projects/app/opencode.json; ~/projects/app/.gitconfig
    ~/.cache/p10k-instant-prompt-dev.zsh; ~/.cache/pre-commit/x/y; ~/.cache/uv/archive/x.py
    ~/.cache/pip/wheels/x.whl; ~/.cache/huggingface/modules/x.py; ~/.cache/UV/x; ~/.cache/node-gyp/x
    ~/.cache/zsh/zcompdump; ~/.cache/.git/x; ~/.cache/uv; ~/.cache/python-x/y; ~/.cache/torch/hub/x.py
    ~/projects/app/.github/hooks/x.json; ~/projects/app/.GitHub/Hooks/x; ~/projects/app/.github/copilot/settings.json
    ~/projects/app/.github/hooks; ~/projects/app/.clinerules/hooks/PreToolUse; ~/projects/app/.cline/hooks/x.sh
    ~/projects/app/.kiro/hooks/x; ~/projects/app/.aider.conf.yml; ~/projects/app/.helix/languages.toml
    ~/projects/app/.kilocode/mcp.json; ~/projects/a.code-workspace; ~/projects/app/.pdbrc; ~/projects/app/.Rprofile
    ~/projects/app/sub/.qwen/settings.json
    ~/.cache/opencode/node_modules/x/index.js; ~/.cache/my-tool/node_modules/x.js; ~/.cache/a/lib/site-packages/x.py
    ~/.cache/wal/colors.sh; ~/.cache/gstreamer-1.0/registry.x86_64.bin; ~/.cache/copilot/x; ~/.cache/R/renv/x
    ~/.cache/pipx/x/bin/y; ~/.cache/prisma/master/x/libquery_engine.so.node; ~/.cache/parso/x.pkl; ~/.cache/JNA/temp/x
    ~/.cache/next-swc/x; ~/.cache/mozilla/firefox/x/startupCache/y; ~/.cache/ksycoca5_en_x; ~/.cache/sessions/xfce4-x
    ~/.cache/.wasm-pack/x; ~/.cache/mesa_shader_cache_db/x; ~/.cache/google-chrome/x; ~/.cache/rattler/cache/pkgs/x
    ~/projects/app/.agents/skills/x/run.sh; ~/projects/app/.pi/extensions/x.ts; ~/projects/app/.vim/coc-settings.json
    ~/projects/app/.dir-locals.el; ~/projects/app/.Renviron; ~/projects/app/.RData; ~/projects/.ghci
    ~/projects/app/.dir-locals-2.el; ~/projects/app/.sl/config; ~/projects/app/.hg/hgrc
    ~/projects/app/.jj/repo/config.toml
    ~/.cache/pypoetry/virtualenvs/x; ~/projects/app/.exrc; ~/projects/app/.direnv/x; ~/projects/app/.zed/tasks.json"""


def expand(table: str, house: House) -> list[str]:
    return [path.replace("~", str(house.home), 1) for path in entries(table)]


@pytest.mark.parametrize("tool", FILE_TOOLS)
def test_writes_that_the_cage_could_make_too(tool: str, house: House) -> None:
    assert [path for path in expand(GREEN, house) if house.write(path, tool) != "green"] == []


@pytest.mark.parametrize("tool", FILE_TOOLS)
def test_writes_that_are_gated(tool: str, house: House) -> None:
    assert [path for path in expand(GATED, house) if house.write(path, tool) != "gated"] == []


@pytest.mark.parametrize(
    "path",
    [
        "a.txt",
        "./a.txt",
        "~/projects/app/a.txt",
        "",
        " /tmp/x",
        "/tmp/x ",
        "/tmp/.envrc  ",
        "/tmp/x\0",
        "/tmp/x\ny",
        "/tmp/\x1b[2J",
        "/tmp/\ud800",
        "tmp/x",
        "//",
        "file:///tmp/x",
        "/tmp/" + "a" * 300,
        "/tmp/" + "a/" * 5000 + "b",
        None,
        7,
        b"/tmp/x",
        ["/tmp/x"],
        {"path": "/tmp/x"},
        True,
    ],
    ids=lambda path: repr(path)[:30],
)
def test_odd_paths_are_gated(path: object) -> None:
    assert classify("Write", {"file_path": path, "content": ""}) == "gated"  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("tool", "fields"),
    [
        ("NotebookEdit", {"file_path": "/tmp/x", "new_source": ""}),
        ("NotebookEdit", {"file_path": "/tmp/x", "notebook_path": "/etc/x"}),
        ("NotebookEdit", {"file_path": "/tmp/x", "notebook_path": "/tmp/x"}),
        ("Write", {"notebook_path": "/tmp/x"}),
        ("Write", {"path": "/tmp/x"}),
        ("Write", {"file_path": "/tmp/x", "path": "/etc/x"}),
        ("Write", {}),
        ("Edit", {"file_path": "/tmp/x", "more_files": ["/etc/x"]}),
        ("MultiEdit", {"edits": [{"file_path": "/tmp/x"}]}),
        ("Write", None),
    ],
)
def test_the_field_that_names_the_file(tool: str, fields: dict[str, object]) -> None:
    assert classify(tool, fields) == "gated"


def test_links_are_followed(house: House) -> None:
    (house.outside / "file").write_text("x")
    links = {
        "out": house.outside,
        "in": house.repo,
        "loop": house.repo / "loop",
        "file": house.outside / "file",
        "gone": house.outside / "gone",
    }
    for name, target in links.items():
        (house.repo / name).symlink_to(target)
    (house.repo / "git").symlink_to(house.repo / ".git")
    wanted = {
        "out/x": "gated",
        "out/new/x": "gated",
        "file": "gated",
        "gone": "gated",
        "in/a.txt": "green",
        "in/in/new": "green",
        "git/config": "gated",
        "loop/x": "gated",
    }
    assert {name: house.write(house.repo / name) for name in wanted} == wanted


def test_a_path_is_green_by_both_readings(house: House) -> None:
    """Agents strike out NAME/.. before they open a path; the kernel goes up from where NAME leads."""
    (house.projects / "deep" / "er").mkdir(parents=True)
    (house.projects / "link").symlink_to(house.projects / "deep" / "er")
    (house.repo / "out").symlink_to(house.outside)
    struck_out = house.projects / "link" / ".." / ".." / "bin" / "git"
    followed = house.repo / "out" / ".." / "x"
    assert (house.home / "bin" / "git", house.repo / "x") == tuple(
        Path(os.path.normpath(p)) for p in (struck_out, followed)
    )
    assert [house.write(path) for path in (struck_out, followed)] == ["gated", "gated"]
    assert house.write(house.projects / "link" / ".." / "x") == "green"


def test_a_path_whose_accents_agents_compose(house: House) -> None:
    """They write `é` for `e` and its accent, `K` for the sign of the unit: to the kernel other names, here links."""
    for composed, spelled in (("caf\u00e9", "cafe\u0301"), ("K", "\u212a")):
        assert house.write(house.repo / spelled) == house.write(house.repo / spelled / "x") == "green"
        (house.repo / composed).symlink_to(house.outside / "x")
        assert house.write(house.repo / spelled) == house.write(house.repo / spelled / "x") == "gated"
    assert house.write(house.repo / "d" / ".." / "cafe\u0301") == "gated"


def test_a_path_that_is_another_for_each_process(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the judging process finds below /proc is not what the agent's finds."""
    monkeypatch.chdir(house.repo)
    (house.repo / "here").symlink_to("/proc/self/cwd")
    (house.repo / "root").symlink_to("/proc/self/root")
    (house.repo / "far").symlink_to("here/../app")
    fd = os.open(house.repo, os.O_RDONLY)
    try:
        paths = [
            "/proc/self/cwd/new",
            "/proc/thread-self/cwd/a.txt",
            f"/proc/{os.getpid()}/cwd/new",
            f"/proc/self/root{house.repo}/new",
            f"/proc/self/fd/{fd}/new",
            f"/dev/fd/{fd}/new",
            "/dev/stdin",
            f"/tmp/../proc/self/root{house.repo}/new",
            f"{house.repo}/here/new",
            f"{house.repo}/root{house.repo}/new",
            f"{house.repo}/far/new",
        ]
        assert [path for path in paths if os.path.realpath(path).startswith(str(house.repo))][2:] != []
        assert [path for path in paths if house.write(path) != "gated"] == []
    finally:
        os.close(fd)
    assert "another place for each process" in explain("Write", {"file_path": paths[0]}).rule


def test_only_ordinary_files(house: House) -> None:
    os.mkfifo(house.repo / "pipe")
    os.link(house.repo / "a.txt", house.outside / "second-name")
    assert [house.write(house.repo / name) for name in ("pipe", "a.txt", "d", "d/b.txt/x")] == ["gated"] * 4


def test_a_bare_repository_is_no_ordinary_directory(house: House) -> None:
    bare = house.projects / "store"
    (bare / "objects").mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    assert house.write(bare / "config") == house.write(bare / "hooks" / "update") == "gated"


def test_a_zone_that_is_a_link(house: House) -> None:
    elsewhere = Path(tempfile.mkdtemp(prefix="zone-", dir="/mnt"))
    try:
        house.projects.rename(elsewhere / "projects")
        (house.home / "projects").symlink_to(elsewhere / "projects")
        assert house.write(house.home / "projects" / "x") == house.write(elsewhere / "projects" / "x") == "green"
        assert house.write(elsewhere / "x") == "gated"
        assert house.bash("git status", house.home / "projects" / "app") == "green"
    finally:
        for path in sorted(elsewhere.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        elsewhere.rmdir()


@pytest.mark.parametrize(
    "target", ["/", "/etc", "/usr/share", "/var/lib", "{home}", "{home}/..", "{home}/.config", "{home}/.local/share"]
)
def test_a_zone_that_leads_where_nothing_may_be_written(target: str, house: House) -> None:
    real = target.format(home=house.home)
    os.makedirs(real, exist_ok=True)
    house.projects.rename(house.home / "kept")
    (house.home / "projects").symlink_to(real)
    assert house.write(house.home / "projects" / "policy-new") == "gated"
    assert house.write(os.path.realpath(real) + "/policy-new") == "gated"


@pytest.mark.parametrize(("target", "wanted"), [("code", "green"), (".config", "gated"), (".local/share", "gated")])
def test_a_zone_that_leads_elsewhere_in_the_home(
    target: str, wanted: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cage.cage_policy._SYSTEM", ("/etc",))  # the home of the tests lies below /var
    (house.home / target).mkdir(parents=True, exist_ok=True)
    house.projects.rename(house.home / "kept")
    (house.home / "projects").symlink_to(house.home / target)
    assert house.write(house.home / "projects" / "x") == house.write(house.home / target / "x") == wanted


def test_a_tmp_that_leads_home(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cage.cage_policy._places", {})
    (house.home.parent / "tmp").symlink_to(house.home)
    monkeypatch.setattr("cage.cage_policy._TMP", str(house.home.parent / "tmp"))
    assert house.write(house.home / "x") == house.write(house.home.parent / "tmp" / "x") == "gated"


@pytest.mark.parametrize("home", ["", "/", "relative", "/etc", "/usr", "/proc"])
def test_no_home_no_zone_but_tmp(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    assert classify("Write", {"file_path": home + "/projects/x"}) == "gated"
    assert classify("Write", {"file_path": "/tmp/policy-x"}) == "green"
    assert classify("Bash", {"command": "sbox ls"}, "/") == "green"
    assert classify("Bash", {"command": "python3 /work/gh-issue/gh_issue.py view 3"}, "/") == "gated"


def test_home_unset_is_the_passwd_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    monkeypatch.delenv("HOME")
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert classify("Write", {"file_path": home + "/projects/policy-x"}) == "green"
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert classify("Write", {"file_path": home + "/projects/policy-x"}) == "gated"


def test_helper_and_settings_stay_guarded_in_the_zone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_TOOLS_DIR", str(house.projects / "tools"))
    monkeypatch.setenv("SLACK_GATE_HOME", str(house.projects / "gate"))
    assert (
        house.write(house.projects / "tools" / "gh-issue" / "gh_issue.py")
        == house.write(house.projects / "gate" / "x")
        == "gated"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["Bash", "Write", "Edit", "NotebookEdit", "Read"]) | JSON,
    JSON | st.dictionaries(st.sampled_from(["command", "file_path", "notebook_path", "timeout", "description"]), JSON),
    st.none() | JSON,
)
def test_nothing_raises(tool: object, fields: object, cwd: object) -> None:
    assert explain(tool, fields, cwd).verdict in ("ungated", "green", "gated")  # type: ignore[arg-type]


class Trap(dict[str, object]):
    def get(self, *_: object) -> object:
        raise RuntimeError


class Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "fields",
    [
        Trap(command="sbox ls"),
        {"command": Word("sbox ls")},
        [],
        "sbox ls",
        7,
        {7: "x"},
        {"command": "sbox ls", 7: 8},
        {"command": None},
        {"command": ["sbox", "ls"]},
        {"command": b"sbox ls"},
    ],
    ids=repr,
)
def test_odd_calls_are_gated(fields: object) -> None:
    assert classify("Bash", fields) == "gated"  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", [None, 7, b"Read", ["Read"], Word("Read"), True], ids=repr)
def test_odd_tools_are_gated(tool: object) -> None:
    assert classify(tool, {}) == "gated"  # type: ignore[arg-type]
