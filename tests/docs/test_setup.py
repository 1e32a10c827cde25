"""scripts/setup says what is wrong, and what to do, before it changes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.generated import ROOT

TOOLS = ("cat", "cksum", "dirname", "id", "sh")
NOBODY = 65534


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The script alone, in a directory with blanks in its name that an ordinary user can enter."""
    clone = tmp_path / "a clone"
    (clone / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup", clone / "scripts")
    for directory in (clone, *clone.parents):
        if directory != Path("/") and directory.stat().st_uid == os.getuid() and os.getuid() == 0:
            directory.chmod(directory.stat().st_mode | 0o011)
    return clone


def set_up(
    clone: Path, *arguments: str, also: tuple[str, ...] = (), python: str = "/usr/bin/python3"
) -> tuple[int, str]:
    """Exit code and stderr where PATH has only `TOOLS`, and fakes of `also` that must not be started."""
    path = clone / "path"
    path.mkdir()
    for name in TOOLS:
        (path / name).symlink_to(str(shutil.which(name)))
    for name in also:
        (path / name).write_text(f"#!/bin/sh\necho {name} was started\nexit 99\n")
        (path / name).chmod(0o755)
    user = NOBODY if os.getuid() == 0 else None
    done = subprocess.run(
        ["sh", "scripts/setup", *arguments],
        cwd=clone,
        env={"PATH": str(path), "PYTHON": python},
        capture_output=True,
        text=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    assert not (clone / ".venv").exists()
    assert "was started" not in done.stdout + done.stderr
    return done.returncode, done.stderr


def test_another_distribution_is_told_the_packages(clone: Path) -> None:
    code, said = set_up(clone)
    assert code == 1
    assert "not Debian or Ubuntu" in said
    assert "bubblewrap" in said


def test_without_root_and_sudo_the_command_for_root_is_said(clone: Path) -> None:
    code, said = set_up(clone, also=("apt-get",))
    assert code == 1
    assert "As root: apt-get install" in said
    assert "bubblewrap" in said


def test_an_old_python_is_named(clone: Path) -> None:
    old = clone / "python"
    old.write_text("#!/bin/sh\ncase $2 in *print*) echo 3.9 ;; *version_info*) exit 1 ;; esac\n")
    old.chmod(0o755)
    code, said = set_up(clone, also=("apt-get", "sudo"), python=str(old))
    assert code == 1
    assert f"needs Python 3.11 or later, and {old} is 3.9" in said


def test_an_unknown_argument_is_refused(clone: Path) -> None:
    code, said = set_up(clone, "everything", also=("apt-get", "sudo"))
    assert code == 1
    assert "Unknown argument everything" in said
