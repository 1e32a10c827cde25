"""Names made absolute: `sbox` and `git` must be the trusted files, not what the agent's PATH, aliases or functions say.

A virtual environment in the zone may hold a planted `sbox`; the classifier judged the name, so the gate pins the file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from cage import cage_policy

_SEPARATORS = ("&&", "||", ";", "|")


def respelled(command: str, programs: Mapping[str, str]) -> str | None:
    """`command` with each simple command's name, where it is a key of `programs`, replaced by that path.

    The rest stays byte for byte. None when that cannot be shown: reading the result again must give the same words.
    """
    segments = cage_policy.read(command)
    if segments is None:
        return None
    pieces, rest = [], command
    for number, segment in enumerate(segments):
        start = _start_of_next(rest, segments, number)
        if start is None:
            return None
        head, rest = rest[:start], rest[start:]
        pieces.append(head)
        name = segment.argv[0]
        if name in programs:
            if not rest.startswith(name):  # quoted or escaped: too odd to be rewritten
                return None
            pieces.append(shlex.quote(programs[name]))
            rest = rest[len(name) :]
    result = "".join(pieces) + rest
    return result if _same_but_names(result, segments, programs) else None


def _start_of_next(rest: str, segments: list[cage_policy.Segment], number: int) -> int | None:
    """Where segment `number` begins in `rest`: behind a separator after which exactly the segments left are read."""
    if number == 0:
        return len(rest) - len(rest.lstrip(" \t"))
    expected = [segment.argv for segment in segments[number:]]
    separator = segments[number].op
    at = rest.find(separator)
    while separator in _SEPARATORS and at >= 0:
        start = at + len(separator)
        start += len(rest[start:]) - len(rest[start:].lstrip(" \t"))
        left = cage_policy.read(rest[start:])
        if left is not None and [segment.argv for segment in left] == expected:
            return start
        at = rest.find(separator, at + 1)
    return None


def _same_but_names(result: str, segments: list[cage_policy.Segment], programs: Mapping[str, str]) -> bool:
    read = cage_policy.read(result)
    if read is None or len(read) != len(segments):
        return False
    return all(
        new.argv == (programs.get(old.argv[0], old.argv[0]), *old.argv[1:])
        and (new.op, new.redirected) == (old.op, old.redirected)
        for new, old in zip(read, segments, strict=True)
    )
