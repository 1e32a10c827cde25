"""Where `sbox`, `git` and `python3` are for what runs unasked: files the agent cannot change, never its PATH."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL
from collections.abc import Iterator, Mapping
from pathlib import Path

from slack_gate.install.trust import untrusted_reason

SYSTEM = (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin"))
FROM_SYSTEM = ("git", "python3")
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
