"""Git that moves files, whole or not at all: `whole_git.py QUESTION… -- GIT checkout main`, run in the cage.

Some files of a working tree are read-only there, and git that meets one has done half of its work by then. So git is
asked first which files it would change: each QUESTION holds words for it (`moves.py` knows them). Where one of these
files lies on, in or around what is mounted here, nothing is done, and a sentence says how to ask for the run outside.
Else git starts with the words given, as if this had not been. A question that fails keeps nothing: git says why.

This is no wall, the mounts are. Caged code that races it gains what git alone would have given it.

Started by `python3 -I -S`, standard library only. Exit code of git; 125 where it is not started.
"""

from __future__ import annotations

import os
import sys

REFUSED = 125
# Names as they are, whatever the settings say. A submodule that moves on writes no file of the tree around it.
_NAMES = [
    "--name-only",
    "-z",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=all",
    "-O/dev/null",
]
_FIXED = {
    "diff": _NAMES,
    "diff-index": _NAMES,
    "diff-files": _NAMES,
    "log": [*_NAMES, "--format=", "--root", "--no-show-signature", "--no-notes"],
    "ls-files": ["-z", "--full-name"],
    "merge-base": [],  # a condition: where it is met, nothing is asked behind it
    "ls-tree": ["-r", "-z", "--name-only", "--full-tree"],
}


def printed(git: str, *words: str) -> bytes | None:
    """What git prints; None where it fails."""
    read, write = os.pipe()
    streams = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(git, [git, "-c", "diff.relative=false", *words], os.environ, file_actions=streams)
    os.close(write)
    with open(read, "rb") as pipe:
        text = pipe.read()
    return None if os.waitpid(process, 0)[1] else text


def words_of(question: str) -> list[str]:
    """As `moves.py` has joined them."""
    return [word.replace("%20", " ").replace("%25", "%") for word in question.split(" ")]


def mounts(top: bytes) -> tuple[set[bytes], tuple[bytes, ...]]:
    """Below this directory: the places that can be neither replaced nor removed, and what read-only ones begin with."""
    kept: set[bytes] = set()
    read_only: list[bytes] = []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = line.split(b" ")
            path = fields[4].decode("unicode_escape").encode("latin-1")  # a blank is written \040
            if not path.startswith(top + b"/"):
                continue
            place = path[len(top) + 1 :]
            parts = place.split(b"/")
            kept.update(b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
            if b"ro" in fields[5].split(b","):
                read_only.append(place + b"/")
    return kept, tuple(read_only)


def in_the_way(git: str, questions: list[list[str]]) -> bytes:
    """The first file that would be changed and must not be, or nothing."""
    at = 0
    while questions[0][at] == "-C":
        at += 2
    there = questions[0][:at]
    place = printed(git, *there, "rev-parse", "--show-toplevel", "--revs-only", "HEAD")
    if place is None:
        return b""
    top, _, head = place[:-1].rpartition(b"\n")
    empty = ""
    if not (len(head) in (40, 64) and head.isalnum()):  # before the first commit: the branch has no file
        top = place[:-1]
        empty = os.fsdecode(printed(git, *there, "hash-object", "-t", "tree", os.devnull) or b"").strip()
    kept, read_only = mounts(top)
    fresh = False
    for words in questions:
        if words[at] in ("diff-index", "diff-files") and not fresh:  # else what was only touched counts as changed
            printed(git, *there, "update-index", "-q", "--refresh")
            fresh = True
        rest = words[at + 1 :]
        if empty:
            rest = [part for word in rest for part in _without_head(word, empty)]
        if words[at] in ("diff", "diff-index", "log") and "--" not in rest:
            rest = [*rest, "--"]  # else a file of a commit's name makes git unsure which is meant
        names = printed(git, *words[: at + 1], *_FIXED[words[at]], *rest)
        if words[at] == "merge-base" and names is not None:
            break
        for name in (names or b"").split(b"\0"):
            if name in kept or name.startswith(read_only):
                return name
    return b""


def _without_head(word: str, empty: str) -> list[str]:
    return [empty, word[7:]] if word[:7] == "HEAD..." else [empty if word == "HEAD" else word]


def main(argv: list[str]) -> int:
    end = argv.index("--")
    command = argv[end + 1 :]
    name = in_the_way(command[0], [words_of(question) for question in argv[:end]])
    if not name:
        os.execv(command[0], command)  # noqa: S606  (there is to be no shell)
    shown = os.fsdecode(name)
    said = f"no file was changed. Git would have changed {shown if shown.isprintable() else ascii(shown)}"
    ask = "to have a person asked, begin the command with `: uncaged;`"
    print(f"whole_git: {said}, which the cage guards; {ask}", file=sys.stderr)
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
