"""Names replaced: `sbox` and `git` must be the trusted files, not what the agent's PATH, aliases or functions say.

A virtual environment in the zone may hold a planted `sbox`; the classifier judged the name, so the gate pins the file.
`git` can also become several words, to run in the cage or by its own wrapper.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from cage import cage_policy

# Finding where a simple command begins reads the rest of the text again: bounds for a text made to be slow.
MANY = 16  # simple commands
LONG = 8192  # characters, of a text of several commands
TRIES = 8  # places that look like the separator


PINNED = frozenset({"sbox", "git", "python3"})  # what is green names these; never left to the agent's PATH
BUILTINS = frozenset(["cd", "echo", "printf", "pwd", "true", "false", "kill"])  # of the shell: no PATH leads elsewhere


def pinned(command: str, programs: Mapping[str, tuple[str, ...]]) -> str | None:
    """What runs unasked, with the words of trusted files for these names; None when one is missing or unclear."""
    segments = cage_policy.read(command) or []
    if any(segment.argv[0] in PINNED and segment.argv[0] not in programs for segment in segments):
        return None
    return respelled(command, programs)


def placed(command: str, words_of: Callable[[tuple[str, ...]], tuple[str, ...] | None]) -> str | None:
    """What a rule lets run, each command by the words that `words_of` starts it with; None when it knows none for one.

    Caged code may have put another of that name where the agent's PATH comes first, as in a project's environment.
    """
    line = {segment.argv for segment in cage_policy.read(command) or [] if segment.argv[0] not in BUILTINS}
    known = {argv: words for argv in line if (words := words_of(argv)) is not None}
    return reworded(command, known.get) if len(known) == len(line) else None


def respelled(command: str, programs: Mapping[str, tuple[str, ...]]) -> str | None:
    """`reworded` where the name alone decides."""
    return reworded(command, lambda argv: programs.get(argv[0]))


def is_slow(command: str, segments: Sequence[cage_policy.Segment]) -> bool:
    """Whether it would take too long to rewrite, so that it is not."""
    return len(segments) > 1 and (len(segments) > MANY or len(command) > LONG)


def reworded(command: str, new: Callable[[tuple[str, ...]], tuple[str, ...] | None]) -> str | None:
    """`command` with the name of each simple command replaced by the words that `new` gives for it, None: by none.

    The rest stays byte for byte. None when that cannot be shown: reading the result again must give the same words.
    """
    segments = cage_policy.read(command)
    if segments is None or is_slow(command, segments):
        return None
    names = [new(segment.argv) for segment in segments]
    pieces, rest = [], command
    for number, segment in enumerate(segments):
        start = _start(rest, segments, number)
        pieces.append(rest[:start])
        rest = rest[start:]
        words = names[number]
        if words is not None:
            if not rest.startswith(segment.argv[0]):  # quoted or escaped: too odd to be rewritten
                return None
            pieces.append(shlex.join(words))
            rest = rest[len(segment.argv[0]) :]
    result = "".join(pieces) + rest
    return result if _same_but_names(result, segments, names) else None


def _start(rest: str, segments: list[cage_policy.Segment], number: int) -> int:
    """Where segment `number` begins in `rest`: behind a separator after which exactly the segments left are read."""
    if number == 0:
        return _blanks_end(rest, 0)
    separator = segments[number].op
    expected = [segment.argv for segment in segments[number:]]
    behind = (at + len(separator) for at in range(len(rest)) if rest.startswith(separator, at))
    starts = (_blanks_end(rest, at) for at in behind)
    return next((start for start in islice(starts, TRIES) if _argvs(rest[start:]) == expected), len(rest))


def _blanks_end(text: str, at: int) -> int:
    return len(text) - len(text[at:].lstrip(" \t"))


def _argvs(text: str) -> list[tuple[str, ...]]:
    return [segment.argv for segment in cage_policy.read(text) or []]


def _same_but_names(result: str, segments: list[cage_policy.Segment], names: Sequence[tuple[str, ...] | None]) -> bool:
    expected = [
        ((*(name or old.argv[:1]), *old.argv[1:]), old.op, old.redirected)
        for old, name in zip(segments, names, strict=True)
    ]
    return [(new.argv, new.op, new.redirected) for new in cage_policy.read(result) or []] == expected
