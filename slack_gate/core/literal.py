"""A commit's message as agents write it, `"$(cat <<'EOF' … EOF)"`, as the plain word that it is.

Nothing in it is expanded: the delimiter is quoted. So the word is known, and without `cat` in it a line of git can be
judged and run in the cage like any other.
"""

from __future__ import annotations

import re

from cage import cage_policy

MANY = 4  # such words in one text; each has what stands before it read again
_OPENS = re.compile(r"""\"\$\(cat <<'(\w+)'\n""", re.ASCII)
_CLOSES = re.compile(r"""[ \t]*\)\"(?=[ \t;&|<>]|$)""")


def literal(command: str) -> str:
    """`command` with each such word written in quotes; unchanged where it is not certain to be one."""
    if len(command) > cage_policy.MAX_COMMAND:
        return command
    done, at = "", 0
    for _ in range(MANY):
        if (opened := _OPENS.search(command, at)) is None:
            return done + command[at:]
        before = done + command[at : opened.start()]
        end = command.find(f"\n{opened[1]}\n", opened.end() - 1)
        closed = _CLOSES.match(command, end + len(opened[1]) + 2) if end >= 0 else None
        # a word begins here only where what stands before it is read to its end, and ends in a blank
        if closed is None or before[-1:] not in (" ", "\t") or cage_policy.read(before + "x") is None:
            return command
        body = command[opened.end() : end + 1]
        if f"\n{opened[1]}" in "\n" + body:  # to bash a line such as `EOF)` can be the end as well
            return command
        done, at = before + cage_policy.shown(("x", body.rstrip("\n")))[2:], closed.end()
    return command
