"""A copy of the running program: our packages, the distributions they need, and a launcher. No network, no pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from slack_gate.errors import InstallError

OURS = ("slack_gate", "cage")
REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?")
EXTRAS = frozenset({"mcp", "postgres"})  # those of ours that the copy has too, where they are installed
EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")

START = '''"""Start slack-gate from this directory alone: no site-packages, no PYTHONPATH, no current directory."""

import sys

sys.path.insert(0, {lib!r})
sys.argv[0] = "slack-gate"

from slack_gate.cli import main

sys.exit(main())
'''


def base_python() -> Path:
    """The interpreter below every virtual environment, with its links resolved."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))


def interpreter_paths() -> tuple[Path, ...]:
    """What runs before the first line of ours: the interpreter and its standard library."""
    library = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    return (base_python(), *sorted(library))


def copy_program(target: Path) -> None:
    """Fill the new directory `target`: `lib/`, `start.py` and `bin/slack-gate`."""
    lib = target / "lib"
    for name, dist in _closure("slack-gate").items():
        for relative, source in _files(name, dist):
            _copy(source, lib / relative)
    for package in OURS:
        root = _package_directory(package)
        for source in root.rglob("*"):
            if source.is_file() and "__pycache__" not in source.parts:
                _copy(source, lib / package / source.relative_to(root))
    _copy_manifest(lib)
    start, launcher = target / "start.py", target / "bin" / "slack-gate"
    start.write_text(START.format(lib=str(lib)))
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join([str(base_python()), "-IS", str(start)])} "$@"\n')
    start.chmod(0o644)
    launcher.chmod(0o755)


def prove_copy(target: Path) -> None:
    """Import the daemon from the copy alone. Raises InstallError when something is missing from it."""
    program = f"import sys; sys.path.insert(0, {str(target / 'lib')!r}); import slack_gate.daemon.serve"
    done = subprocess.run([base_python(), "-IS", "-c", program], capture_output=True, text=True, cwd="/", timeout=120)
    if done.returncode:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise InstallError(f"The copied program does not start: {said}.", "Install slack-gate with pip again.")


def build_sbox(target: Path, home: Path) -> None:
    """`target/built/sbox` and what it needs beside it: the C program where the system can build it and it works here,
    else the shell script. Only the system's own compiler is used, and nothing is built where a cage can write.
    """
    build, built = target / "lib" / "cage" / "build-sbox", target / "built" / "sbox"
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    done = subprocess.run(
        ["/bin/bash", "-p", build, built], capture_output=True, text=True, env=environment, cwd="/", timeout=120
    )
    if done.returncode:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise InstallError(f"The cage's command could not be built: {said}.", "Install slack-gate with pip again.")


def _closure(root: str) -> dict[str, Distribution]:
    """Every distribution that `root` needs here, with the extras asked for, by normalised name."""
    found: dict[str, Distribution] = {}
    extras: dict[str, set[str]] = {}
    pending: list[tuple[str, frozenset[str], bool]] = [(root, EXTRAS, True)]
    while pending:
        name, wanted, required = pending.pop()
        name = _normal(name)
        if name in found and wanted <= extras[name]:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError as error:
            if required:
                raise InstallError(
                    f"The package {name} is not installed in {sys.prefix}.", "Install slack-gate there with pip first."
                ) from error
            continue
        extras.setdefault(name, set()).update(wanted)
        pending.extend(_requirements(found[name], extras[name]))
    return found


def _requirements(dist: Distribution, extras: set[str]) -> Iterator[tuple[str, frozenset[str], bool]]:
    """`(name, extras, must be here)`; one under another marker counts when it is installed."""
    for line in dist.requires or ():
        match = REQUIREMENT.match(line)
        if match is None:
            continue
        name, wanted, marker = match[1], match[2] or "", match[3] or ""
        extra = EXTRA.search(marker)
        if extra is None or _normal(extra[1]) in map(_normal, extras):
            yield name, frozenset(filter(None, map(str.strip, wanted.split(",")))), not marker


def _files(name: str, dist: Distribution) -> Iterator[tuple[Path, Path]]:
    """`(path below lib, source)` of the distribution's files; ours are copied from where they are imported."""
    for file in dist.files or ():
        relative = Path(str(file))
        if ".." in relative.parts or relative.suffix == ".pyc" or relative.is_absolute():
            continue
        if name == "slack-gate" and not relative.parts[0].endswith(".dist-info"):
            continue
        yield relative, Path(str(dist.locate_file(file)))


def _package_directory(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InstallError(f"The package {package} of slack-gate cannot be found.", "Install slack-gate again.")
    return Path(next(iter(spec.submodule_search_locations)))


def _copy_manifest(lib: Path) -> None:
    """A source tree keeps the Slack manifest beside the package; a wheel has it inside already."""
    inside = lib / "slack_gate" / "local_slack" / "slack-app.yaml"
    beside = _package_directory("slack_gate").parent / "manifests" / "slack-app.yaml"
    if not inside.exists() and beside.exists():
        _copy(beside, inside)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
