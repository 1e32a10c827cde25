"""The person's own rules for the gate: the `[gate]` table of policy.toml, which can only make it stricter.

    [gate]
    allow = ["make test( -k [a-z_]+)?"]    # whole commands that the gate runs itself without asking
    [[gate.rule]]
    command = "git push --force ..."       # or pattern = "regular expression", tool = "mcp__db__*", path = "~/prod/**"
    do = "deny"                            # deny, ask (each time, even if green) or never-remember
    reason = "Force pushes go through CI."
    approvals = 2                          # people who must approve
    executor = "cage"                      # what runs it, where the gate runs it

A call that several rules name gets the strictest of each: deny before ask before what is remembered, the most
approvals, the cage before the Sandboxer; the order in the file does not count.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise, takewhile
from typing import Any

from cage import cage_policy
from slack_gate.core.allowlist import DEFAULT, Allowlist
from slack_gate.core.event import ToolEvent
from slack_gate.core.opened import opened

MATCHERS = ("command", "pattern", "tool", "path")
DEEDS = ("deny", "ask", "never-remember")
_EXECUTORS = ("cage", "sandboxer")  # the stricter one first
_FIELDS = {"do": str, "reason": str, "approvals": int, "executor": str, **dict.fromkeys(MATCHERS, str)}
MAX_APPROVALS = 20
WINDOW = 8000  # characters that a pattern is looked for in at once: its cost may grow with their square


class PolicyError(ValueError):
    """The file cannot be used. `line` counts from 1; 0 where it is not known."""

    def __init__(self, sentence: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {sentence}" if line else sentence)
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule: which calls it names (every matcher that it has must hold), and what it demands of them."""

    shown: str
    matches: tuple[Callable[[ToolEvent], bool], ...]
    do: str
    reason: str
    approvals: int
    executor: str
    searches: bool = False  # for a pattern, which may miss what is longer than a window

    def names(self, event: ToolEvent) -> bool:
        return all(match(event) for match in self.matches)


@dataclass(frozen=True, slots=True)
class Demands:
    """What the policy demands of one call; by default nothing beyond the classifier's verdict."""

    denied: str = ""  # why it is denied, empty: it is not
    ask: str = ""  # the rule that has it asked each time
    forgettable: bool = False  # it is not remembered
    approvals: int = 1
    executor: str = ""


NOTHING = Demands()


@dataclass(frozen=True, slots=True)
class Policy:
    allowlist: Allowlist
    entries: tuple[Entry, ...] = ()

    def demands(self, event: ToolEvent) -> Demands:
        found = [entry for entry in self.entries if entry.names(event)]
        denied = next((entry for entry in found if entry.do == "deny"), None)
        asked = next((entry for entry in found if entry.do == "ask"), None)
        executors = {entry.executor for entry in found}
        if asked is None and len(event.command or "") > WINDOW:
            asked = next((entry for entry in self.entries if entry.searches), None)
        return Demands(
            denied=f"{denied.reason or 'It is not allowed here.'} (policy: {denied.shown})" if denied else "",
            ask=f"the policy has it asked each time ({asked.shown})" if asked else "",
            forgettable=bool(asked) or any(entry.do == "never-remember" or entry.approvals > 1 for entry in found),
            approvals=max([entry.approvals for entry in found], default=1),
            executor=next((name for name in _EXECUTORS if name in executors), ""),
        )


EMPTY = Policy(Allowlist(DEFAULT))


def parse(text: str) -> Policy:
    """The `[gate]` table of a policy.toml. Raises PolicyError, also for an empty one: so it is while it is written."""
    if not text:
        raise PolicyError("It is empty. Remove it to have no rules of your own")
    try:
        table = tomllib.loads(text).get("gate", {})
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(r"at line (\d+)", str(error))
        raise PolicyError(f"It is no TOML: {error}", int(place[1]) if place else 0) from None
    if not isinstance(table, dict):
        raise PolicyError("gate is not a table", _line(text, "gate"))
    if unknown := sorted(set(table) - {"allow", "rule"}):
        raise PolicyError(f"gate.{unknown[0]} is no setting; there are allow and rule", _line(text, unknown[0]))
    return Policy(_allowlist(text, table.get("allow", list(DEFAULT))), tuple(_entries(text, table.get("rule", []))))


def _allowlist(text: str, patterns: object) -> Allowlist:
    if not isinstance(patterns, list):
        raise PolicyError("gate.allow is not a list of patterns", _line(text, "allow"))
    for pattern in patterns:
        _compiled(text, pattern)
    return Allowlist(patterns)


def _entries(text: str, tables: object) -> Iterable[Entry]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise PolicyError("gate.rule is not a list of tables; begin each with [[gate.rule]]", _line(text, "rule"))
    headings = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*gate", line)]
    for number, table in enumerate(tables):
        line = headings[number] if number < len(headings) else 0
        try:
            yield _entry(text, table)
        except PolicyError as error:
            raise error if error.line else PolicyError(str(error), line) from None


def _entry(text: str, table: Mapping[str, Any]) -> Entry:
    for name, value in table.items():
        kind = _FIELDS.get(name)
        if kind is None:
            raise PolicyError(f"{name} is no field of a rule; there are {', '.join(_FIELDS)}", _line(text, name))
        if type(value) is not kind:
            raise PolicyError(f"{name} is not a {'number' if kind is int else 'text'}", _line(text, name))
    named = [name for name in MATCHERS if name in table]
    do, approvals, executor = table.get("do", ""), table.get("approvals", 1), table.get("executor", "")
    if not named:
        raise PolicyError(f"a rule names no calls; give it one of {', '.join(MATCHERS)}")
    if do not in ("", *DEEDS):
        raise PolicyError(f"do = {do!r} is none of {', '.join(DEEDS)}", _line(text, do))
    if executor not in ("", *_EXECUTORS):
        raise PolicyError(f"executor = {executor!r} is none of {', '.join(_EXECUTORS)}", _line(text, executor))
    if not 1 <= approvals <= MAX_APPROVALS:
        raise PolicyError(f"approvals = {approvals} is not between 1 and {MAX_APPROVALS}")
    if not do and approvals == 1 and not executor:
        raise PolicyError("a rule demands nothing; give it do, approvals or executor")
    matches = tuple(_MATCHES[name](text, table[name]) for name in named)
    shown = ", ".join(f"{name} {table[name]!r}" for name in named)
    return Entry(shown, matches, do, table.get("reason", ""), approvals, executor, "pattern" in named)


def _line(text: str, word: str) -> int:
    """The first line that holds `word`; comments are looked at last."""
    lines = [
        (line.lstrip().startswith("#"), number) for number, line in enumerate(text.splitlines(), 1) if word in line
    ]
    return min(lines, default=(False, 0))[1]


# How a rule names calls


def _command(text: str, words: str) -> Callable[[ToolEvent], bool]:
    """The words of one simple command; `...` at their end stands for any more. Any part of a compound counts."""
    segments = cage_policy.read(words) or []
    if len(segments) != 1 or segments[0].redirected or segments[0].argv == ("...",):
        raise PolicyError(f"not the words of one command: {words}", _line(text, words))
    wanted = segments[0].argv
    head = wanted[:-1] if wanted[-1] == "..." else wanted

    def named(event: ToolEvent) -> bool:
        written = _QUOTES.sub("", event.command or "")
        told = all(word in written for word in head)
        return any(_is_named(wanted, argv) or (told and _is_unsure(head, argv)) for argv in _argvs(event.command))

    return named


MAX_DEPTH = 8  # texts within texts
MAX_CARRIED = 4000  # words of one simple command where a carried one may begin
MAX_NAMED = 64  # words of each that are compared
MAX_OPTIONS = 40  # words before a subcommand


def _is_named(wanted: Sequence[str], argv: Sequence[str]) -> bool:
    for _ in range(MAX_DEPTH):
        here = (os.path.basename(argv[0]), *argv[1:]) if "/" not in wanted[0] else tuple(argv)
        if any(_fits(wanted, words) for words in (here, *_without_options(wanted, here))):
            return True
        inner = next((number for number, word in enumerate(argv) if number and word[:1] != "-"), 0)
        if os.path.basename(argv[0]) != "sbox" or not inner:
            return False
        argv = argv[inner:]  # what runs in the cage is named like what runs outside
    return True  # nobody says what so many cages hold


UNKNOWN = "\0"  # in a word: here stands what the shell makes of an expansion; no text that is read exactly holds it


def _fits(wanted: Sequence[str], words: Sequence[str]) -> bool:
    """Are they the words, or may they be, and a part of them at least is known?"""
    head = wanted[:-1] if wanted[-1] == "..." else wanted
    if tuple(words[: len(head)]) == tuple(head):
        return head is not wanted or len(words) == len(head)
    pairs = list(zip(head, words, strict=False))  # of fewer words, an unknown one may be several
    if not all(_may_be(word, want) for want, word in pairs) or not any(word.strip(UNKNOWN) for _, word in pairs):
        return False
    return any(UNKNOWN in word for word in words) and (head is not wanted or len(words) <= len(head))


def _may_be(word: str, wanted: str) -> bool:
    """May the shell make `wanted` of this word?"""
    if UNKNOWN not in word:
        return word == wanted
    first, *middle, last = word.split(UNKNOWN)
    if not (wanted.startswith(first) and wanted.endswith(last)):
        return False
    at = len(first)
    for part in middle:
        found = wanted.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return at <= len(wanted) - len(last)


def _is_unsure(head: Sequence[str], words: Sequence[str]) -> bool:
    """Is it not known which program these words start, or which of its subcommands?"""
    if not _may_be(os.path.basename(words[0]), os.path.basename(head[0])):
        return False
    options = takewhile(lambda pair: pair[1][:1] == "-" or pair[0][:1] == "-", pairwise(words[:MAX_OPTIONS]))
    return UNKNOWN in words[0] or any(UNKNOWN in word for _, word in options)


def _without_options(wanted: Sequence[str], words: Sequence[str]) -> Iterator[Sequence[str]]:
    """`git -C x push` is `git push` too: options before a subcommand, each with a word of its own or without."""
    if len(wanted) < 2 or wanted[1][:1] == "-" or wanted[1] == "...":
        return
    free = True  # whether a word that is no option may be an option's
    for at, word in enumerate(words[1:MAX_OPTIONS], 1):
        if word == wanted[1] or (UNKNOWN in word and not free and _may_be(word, wanted[1])):
            yield (words[0], *words[at:])
        if word[:1] != "-":
            if at == 1 or not free:
                return
            free = False
        else:
            free = True


def _argvs(command: str | None, depth: int = MAX_DEPTH) -> Iterator[Sequence[str]]:
    """The simple commands of a text, and what carriers such as `sudo` or `bash -c` carry: rather too many."""
    if command is None or not depth:
        return
    segments = cage_policy.read(command)
    lines = _pieces(command) if segments is None else [segment.argv for segment in segments]
    begun = [words for words in map(_begun, lines) if words]
    carried = segments is None or any(os.path.basename(words[0]) in _SHELLS for words in begun)
    for words in begun:
        yield words
        if carried or os.path.basename(words[0]) in _CARRIERS:
            yield from _suffixes(words)
        if os.path.basename(words[0]) in _APPENDING:
            yield from _suffixes([*(word.replace("{}", UNKNOWN) for word in words), UNKNOWN])
        for word in words[1:MAX_CARRIED]:
            if len(word) > 3 and any(blank in word for blank in " \t\n"):
                yield from _argvs(word, depth - 1)
    for words in map(_begun, _blurred(command) if segments is None else ()):
        if any(UNKNOWN in word for word in words):
            nothing = sum(1 for _ in takewhile(lambda word: not word.strip(UNKNOWN), words[:MAX_OPTIONS]))
            yield from (words[start:] for start in range(nothing + 1) if words[start:])
            if os.path.basename(words[0]) in _CARRIERS:
                yield from _suffixes(words)


def _begun(words: Sequence[str]) -> Sequence[str]:
    """Without the assignments and keywords before a command."""
    start = next((at for at, word in enumerate(words) if not (_ASSIGNMENT.match(word) or word in _BEFORE)), len(words))
    return words[start:]


def _suffixes(words: Sequence[str]) -> Iterator[Sequence[str]]:
    return (words[start : start + MAX_NAMED] for start in range(1, min(len(words), MAX_CARRIED)))


def _pieces(command: str) -> Iterable[Sequence[str]]:
    """The words between everything that could part commands, with quotes and escapes taken out, in a text that is not
    read exactly; once with the redirects in it and once without."""
    text = command.replace("\\\n", "")
    pieces = dict.fromkeys((*_PARTING.split(text), *_PARTING.split(_REDIRECT.sub(" ", text))))
    return (tuple(_QUOTES.sub("", word) for word in piece.split()) for piece in pieces)


def _blurred(command: str) -> Iterable[Sequence[str]]:
    """The same, with UNKNOWN for every expansion: `$X`, `$(…)`, `{a,b}`, `*`."""
    for expansion in _EXPANSIONS:
        for _ in range(MAX_DEPTH):  # one within another
            command, changed = expansion.subn(UNKNOWN, command)
            if not changed:
                break
    return _pieces(command)


_PARTING = re.compile(r"[\n;&|()`{}<>]")
_REDIRECT = re.compile(r"\d?[<>]{1,2}&?[ \t]*[^\s;&|()<>`]+")
_QUOTES = re.compile(r"\$?['\"]|\\")
_ASSIGNMENT = re.compile(r"\w+=")
_EXPANSIONS = [
    re.compile(pattern)
    for pattern in (
        r"\$'[^'\\]*\\(?:[^'\\]|\\.)*'",
        r"\$\([^()]*\)|`[^`]*`|\$\{[^{}]*\}|[@?*+!]\([^()]*\)",
        r"""\{(?:[^{}\s'"]|'[^']*'|"[^"]*")*\}""",
        r"\$(?:\w+|[@*#?$!-])?|[*?`]|\{\S+|\[[^\[\]\s]*\]",  # and what is left of deeper ones
    )
]
_CARRIERS = cage_policy.CARRIERS | {"find", "fd", "fdfind", "sbox"}
_APPENDING = frozenset({"xargs", "parallel", "find", "fd", "fdfind"})  # they put words that they read into a command
_SHELLS = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "fish", "xargs", "parallel", "eval"}
)  # may run what is printed
_BEFORE = frozenset({"if", "then", "else", "elif", "do", "while", "until", "!", "time"})


def _pattern(text: str, pattern: str) -> Callable[[ToolEvent], bool]:
    compiled = _compiled(text, pattern)

    def named(event: ToolEvent) -> bool:
        command = event.command or ""
        starts = range(0, max(len(command) - WINDOW // 2, 1), WINDOW // 2)
        return event.command is not None and any(compiled.search(command, at, at + WINDOW) for at in starts)

    return named


def _tool(_text: str, name: str) -> Callable[[ToolEvent], bool]:
    return lambda event: fnmatchcase(event.tool, name)


def _path(text: str, pattern: str) -> Callable[[ToolEvent], bool]:
    """A glob over the path of a file tool, as it is written and with its links followed."""
    whole = os.path.expanduser(pattern)
    if not whole.startswith("/"):
        raise PolicyError(f"path = {pattern!r} begins with neither / nor ~", _line(text, pattern))

    def named(event: ToolEvent) -> bool:
        field, _ = cage_policy.FILE_TOOLS.get(event.tool, ("", None))
        path = event.tool_input.get(field) if field else None
        if not isinstance(path, str):
            return False
        places: set[str] = set()
        for spelled in {path, opened(path)}:
            written = os.path.join(event.cwd, os.path.expanduser(spelled))
            here = os.path.normpath(written)
            # `link/..` is another directory to the kernel than to who only reads the words: both count.
            places |= {here, *map(_real, (written, here))}
        patterns = {one for spelled in (whole, cage_policy.composed(whole)) for one in (spelled, _real_head(spelled))}
        return any(fnmatchcase(one, pattern) for one in places for pattern in patterns)

    return named


def _real(path: str) -> str:
    return path if "\0" in path else os.path.realpath(path)


def _real_head(pattern: str) -> str:
    """The pattern with the links of what stands before its first wildcard followed."""
    head = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
    real = _real(head or "/").rstrip("/")
    return real + pattern[len(head) :]


_MATCHES = {"command": _command, "pattern": _pattern, "tool": _tool, "path": _path}


def _compiled(text: str, pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise PolicyError("a pattern is not a text", _line(text, "allow"))
    try:
        return re.compile(pattern)
    except re.error as error:
        raise PolicyError(f"{pattern!r} is no regular expression: {error}", _line(text, pattern)) from None
