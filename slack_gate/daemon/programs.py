"""Where programs are for what runs unasked: files that caged code cannot have put there, never by the agent's PATH."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL
from collections.abc import Iterator, Mapping
from pathlib import Path

from cage import cage_policy
from slack_gate.core.respell import PINNED
from slack_gate.install.trust import untrusted_reason

SYSTEM = (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin"))
FROM_SYSTEM = ("git", "python3")
ADMIN = (Path("/usr/local/sbin"), Path("/usr/sbin"), Path("/sbin"))
OF_THE_HOME = (".local/bin", "bin", ".cargo/bin", "go/bin", ".bun/bin", ".deno/bin")
# Programs under other names, which start what a file of the working directory says: a path of the project, too.
LAUNCHERS = frozenset("asdf mise rustup volta-shim proto-shim aqua-proxy".split())  # noqa: SIM905 - to read them
SCRIPTS = 4  # scripts that start one another by their first lines: as many as Linux follows
START_S = 10.0  # a cage takes some hundredths of a second
PACKAGED = Path(__file__).resolve().parents[2] / "cage" / "sbox"


def trusted_programs(home: Path, packaged: Path = PACKAGED) -> Mapping[str, str]:
    """Name to absolute path. `sbox` as installed, else the one beside this package; the others from the system.

    A program that is missing is missing in the mapping too: then what names it is asked.
    """
    found = {}
    places_of = {"sbox": [home / ".local" / "bin" / "sbox", packaged]}
    places_of |= {name: [place / name for place in SYSTEM] for name in FROM_SYSTEM}
    for name, places in places_of.items():
        for place in _usable(places):
            # The copy beside the package is the demo's and the tests'; `serve` warns where the agent can write it.
            if place == packaged or untrusted_reason(place, home) is None:
                found[name] = str(place)
                break
    return found


class Programs:
    """Any program by its name: where the daemon's own PATH has it, then in the system, then among the home's tools."""

    def __init__(self, trusted: Mapping[str, str], home: Path, path: str) -> None:
        self._trusted = trusted
        own = [Path(entry) for entry in path.split(":") if entry.startswith("/")]
        places = [*own, *SYSTEM, *ADMIN, *(home / name for name in OF_THE_HOME)]
        self._places = [place for place in dict.fromkeys(places) if ":" not in str(place) and not _is_of_shims(place)]

    def words_of(self, name: str) -> tuple[str, ...] | None:
        """The words that start it; None where there is none, and where caged code can have written it.

        What it starts in turn it finds in the same places, by the PATH it gets.
        """
        if name == "sbox":  # what runs in the cage goes by the agent's PATH
            return (self._trusted[name],) if name in self._trusted else None
        file, env = self._file_of(name), self._file_of("env")
        if file is None or env is None:
            return None
        path = ":".join(str(place) for place in self._places if place.is_dir() and not is_reached(place))
        return env, f"PATH={path}", file

    def _file_of(self, name: str) -> str | None:
        if name in PINNED:
            return self._trusted.get(name)
        file = self._found(name)
        if file is None or "=" in str(file):  # to env that is a variable
            return None
        return str(file) if self._is_sound(file, SCRIPTS) else None

    def _found(self, name: str) -> Path | None:
        if "/" in name:
            return next(_usable([Path(name)]), None) if name.startswith("/") else None
        return next(_usable([place / name for place in self._places]), None)

    def _is_sound(self, file: Path, scripts: int) -> bool:
        """Whether neither it nor what its first line names, where it is a script, can be of caged code."""
        if not scripts or is_reached(file) or _chooses(file):
            return False
        try:
            with file.open("rb") as opened:
                first = opened.read(256).partition(b"\n")[0]
        except OSError:
            return False
        words = os.fsdecode(first).removeprefix("#!").split() if first.startswith(b"#!") else []
        if not words:
            return True
        if not words[0].startswith("/"):  # from the working directory, whatever PATH says
            return False
        started = words[:1]
        if os.path.basename(words[0]) == "env":
            started += [word for word in words[1:] if word != "-S"][:1]
        interpreters = [self._found(word) for word in started]
        return all(one is not None and self._is_sound(one, scripts - 1) for one in interpreters)


def is_reached(path: str | Path) -> bool:
    """Whether caged code can write it, or choose where it leads; also where that cannot be said."""
    try:
        return bool(cage_policy.current_place().reached(str(path)))
    except (cage_policy.Gated, OSError, ValueError):
        return True


def _usable(places: list[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            yield place


def _chooses(file: Path) -> bool:
    """Whether the working directory has a say in what it starts."""
    real = Path(os.path.realpath(file))
    beside = file.with_name("rustup")  # of which others are a hard link
    is_rustup = beside.is_file() and os.path.samefile(file, beside)
    shim = _is_of_shims(file.parent) or _is_of_shims(real.parent)
    return is_rustup or real.name in LAUNCHERS or shim or cage_policy.looks_around(file.name)


def _is_of_shims(place: Path) -> bool:
    return place.name == "shims" or os.path.lexists(place / "volta-shim")


async def cage_starts(sbox: str | None) -> bool:
    """Whether `sbox` can build a cage on this machine; where it cannot, nothing may be sent into one unasked."""
    if sbox is None:
        return False
    try:
        # from / because the daemon may have been started in a directory that the cage hides
        cage = await asyncio.create_subprocess_exec(
            sbox, "true", cwd="/", stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(START_S):
            return await cage.wait() == 0
    except TimeoutError:
        cage.kill()
        await cage.wait()
        return False
