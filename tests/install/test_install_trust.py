"""Who could change a file. Every row is one way in which a path that looks safe is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slack_gate.errors import InstallError
from slack_gate.install import untrusted_reason, warn_if_writable

FILE = ".local/share/tool/run.py"


def make(home: Path, relative: str = FILE) -> Path:
    path = home / relative
    path.parent.mkdir(parents=True)
    path.write_text("pass\n")
    return path


def in_projects(home: Path) -> Path:
    return make(home, "projects/tool/run.py")


def in_cache(home: Path) -> Path:
    return make(home, ".cache/tool/run.py")


def in_tmp(home: Path) -> Path:
    return Path("/tmp/run.py")


def link_into_the_zone(home: Path) -> Path:
    (home / "bin").symlink_to(in_projects(home).parent)
    return home / "bin/run.py"


def link_through_the_zone(home: Path) -> Path:
    target = make(home)
    (home / "projects").mkdir()
    (home / "projects/way").symlink_to(target.parent)
    (home / "bin").symlink_to("projects/way")
    return home / "bin/run.py"


def zone_is_a_link(home: Path) -> Path:
    (home / "data/code").mkdir(parents=True)
    (home / "projects").symlink_to("data/code")
    return make(home, "data/code/x/run.py")


def dots_out_of_a_link(home: Path) -> Path:
    (home / "projects/deep").mkdir(parents=True)
    (home / "projects/run.py").write_text("pass\n")
    (home / "way").symlink_to("projects/deep/..")
    return home / "way/run.py"


def not_there_yet_in_the_zone(home: Path) -> Path:
    return home / "projects/new/run.py"


def open_to_others(home: Path) -> Path:
    path = make(home)
    path.parent.chmod(0o777)
    return path


def file_open_to_others(home: Path) -> Path:
    path = make(home)
    path.chmod(0o666)
    return path


def open_to_a_shared_group(home: Path) -> Path:
    path = make(home)
    os.chown(path.parent, -1, 100)
    path.parent.chmod(0o775)
    return path


def of_another_user(home: Path) -> Path:
    path = make(home)
    os.chown(path.parent, 12345, 12345)
    return path


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (in_projects, "/projects, where the agent and the cage can write"),
        (in_cache, "/.cache, where the agent and the cage can write"),
        (in_tmp, "lies in /tmp, where the agent and the cage can write"),
        (link_into_the_zone, "/projects, where"),
        (link_through_the_zone, "/projects, where"),
        (zone_is_a_link, "/data/code, where"),
        (dots_out_of_a_link, "/projects, where"),
        (not_there_yet_in_the_zone, "/projects, where"),
        (open_to_others, "other users can write"),
        (file_open_to_others, "run.py (mode 0666)"),
        (open_to_a_shared_group, "other users can write"),
        (of_another_user, "belongs to the user 12345"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_untrusted(home: Path, build: Callable[[Path], Path], words: str) -> None:
    if build in (of_another_user, open_to_a_shared_group) and os.getuid() != 0:
        pytest.skip("only root can give files away")
    reason = untrusted_reason(build(home), home)
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize("relative", [FILE, "projects2/run.py", ".cached/run.py", "tmp/run.py"])
def test_trusted(home: Path, relative: str) -> None:
    assert untrusted_reason(make(home, relative), home) is None


def test_what_does_not_exist_yet_is_judged_by_its_directory(home: Path) -> None:
    assert untrusted_reason(home / "a/b/c", home) is None
    (home / "a").mkdir()
    (home / "a").chmod(0o777)
    assert "other users can write" in str(untrusted_reason(home / "a/b/c", home))


def test_a_sticky_directory_is_as_good_as_a_closed_one(home: Path) -> None:
    path = make(home)
    path.parent.chmod(0o1777)
    assert untrusted_reason(path, home) is None


def test_a_loop_of_links_is_an_error_not_a_hang(home: Path) -> None:
    (home / "a").symlink_to("b")
    (home / "b").symlink_to("a")
    with pytest.raises(InstallError, match="loop"):
        untrusted_reason(home / "a/x", home)


def test_a_warning_names_the_way_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    (warning,) = warn_if_writable(in_projects(home))
    assert "where the agent and the cage can write" in warning
    assert "slack-gate install claude-code" in warning
    assert warn_if_writable(make(home)) == []
