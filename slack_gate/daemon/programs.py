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
_FINDERS = frozenset([b"env", b"sh", b"bash", b"dash", b"ksh", b"zsh"])
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
        self._places = list(dict.fromkeys([*own, *SYSTEM, *ADMIN, *(home / name for name in OF_THE_HOME)]))

    def file_of(self, name: str) -> str | None:
        """None where there is none, where caged code can have written it, and where it finds what it runs by PATH."""
        if name in PINNED:
            return self._trusted.get(name)
        file = next(_usable([place / name for place in self._places]), None)
        return None if file is None or _is_reached(file) or _uses_path(file) else str(file)


def _is_reached(file: Path) -> bool:
    try:
        return bool(cage_policy.current_place().reached(str(file)))
    except (cage_policy.Gated, OSError):
        return True


def _uses_path(file: Path) -> bool:
    """Whether it is a script for a shell, or for an interpreter that `env` finds."""
    try:
        with file.open("rb") as script:
            first = script.read(256).partition(b"\n")[0]
    except OSError:
        return True
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    return bool(words) and words[0].rpartition(b"/")[2] in _FINDERS


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
