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
OF_THE_HOME = (".local/bin", "bin", ".cargo/bin", "go/bin", ".bun/bin", ".deno/bin", ".volta/bin")
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
        self._places = [place for place in dict.fromkeys(places) if ":" not in str(place)]

    def words_of(self, name: str) -> tuple[str, ...] | None:
        """The words that start it; None where there is none, and where caged code can have written it.

        What it starts in turn it finds in the same places, by the PATH it gets.
        """
        if name == "sbox":  # what runs in the cage goes by the agent's PATH
            return (self._trusted[name],) if name in self._trusted else None
        file, env = self._file_of(name), self._file_of("env")
        if file is None or env is None:
            return None
        path = ":".join(str(place) for place in self._places if place.is_dir() and not _is_reached(place))
        return env, f"PATH={path}", file

    def _file_of(self, name: str) -> str | None:
        if name in PINNED:
            return self._trusted.get(name)
        file = self._found(name)
        return None if file is None or not self._is_sound(file, SCRIPTS) else str(file)

    def _found(self, name: str) -> Path | None:
        if "/" in name:
            return next(_usable([Path(name)]), None) if name.startswith("/") else None
        return next(_usable([place / name for place in self._places]), None)

    def _is_sound(self, file: Path, scripts: int) -> bool:
        """Whether neither it nor what its first line names, where it is a script, can be of caged code."""
        if not scripts or _is_reached(file):
            return False
        try:
            with file.open("rb") as opened:
                first = opened.read(256).partition(b"\n")[0]
        except OSError:
            return False
        words = os.fsdecode(first).removeprefix("#!").split() if first.startswith(b"#!") else []
        if words and os.path.basename(words[0]) == "env":
            words = [word for word in words[1:] if word != "-S"]
        interpreter = self._found(words[0]) if words else file
        return interpreter == file or (interpreter is not None and self._is_sound(interpreter, scripts - 1))


def _is_reached(file: Path) -> bool:
    try:
        return bool(cage_policy.current_place().reached(str(file)))
    except (cage_policy.Gated, OSError):
        return True


def _usable(places: list[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            yield place


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
