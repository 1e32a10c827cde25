"""Network git: a person allows each remote of each repository once, by its address; then it runs by a wrapper, unasked.

What is remembered is the remote with every address it has. A changed address asks again, and both are shown. In a line
with other commands each of them goes its own way: what was remembered of it, local git in the cage. The wrapper looks
at the repository when its turn comes, so what ran before it is no other case than caged code that races it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from cage import cage_policy as policy
from cage import net_git
from slack_gate.core.cage_first import asks_outside
from slack_gate.core.caged import LINKS, caged_words
from slack_gate.core.event import ToolEvent
from slack_gate.core.literal import literal
from slack_gate.core.respell import MANY, reworded

BY_WRAPPER = "approved, it runs by slack-gate's own git"  # for the card; then it runs so, or not at all
WRAPPER = os.path.join(os.path.dirname(os.path.abspath(net_git.__file__)), "net_git.py")


def remotes(event: ToolEvent) -> tuple[tuple[str, ...], ...]:
    """What Always remembers of a call's git that uses the network: `git remote NAME URL… of REPOSITORY`, each once.

    Empty for any other call, for one whose git the wrapper cannot do whole, and beside what must not be remembered.
    """
    try:
        fits = bool(_network(event)) and (beside(event) is not None or _is_green(event))
        return _remotes(event) if fits else ()
    except (policy.Gated, OSError, ValueError):
        return ()


def _remotes(event: ToolEvent) -> tuple[tuple[str, ...], ...]:
    line = _network(event)
    if len(line) > MANY:  # each has its repository judged
        raise policy.Gated(f"it speaks to a remote more than {MANY} times")
    plans = [_plan(argv, event) for argv in line]
    return tuple(dict.fromkeys(words for made in plans for words in _words(made)))


def _plan(argv: tuple[str, ...], event: ToolEvent) -> net_git.Plan:
    """On the branch that stands by then, by git before it in the line. The wrapper looks again."""
    line = _line(event)
    where, branch = policy.parse_git(argv).directories, ""
    for call in (
        policy.parse_git(other) for other in line[: line.index(argv)] if _sub(other) in ("checkout", "switch")
    ):
        new = [value for name, value in call.options if name in ("-b", "-B", "-c", "-C", "--create", "--force-create")]
        named = new or call.plain
        if len(named) == 1 and named[0][:4] not in ("-", "HEAD") and call.directories == where:
            branch = named[0]
    return net_git.plan(argv, event.cwd, branch)


def _words(made: net_git.Plan) -> list[tuple[str, ...]]:
    return [("git", "remote", *remote, "of", os.path.dirname(made.repository.common)) for remote in made.remotes]


def beside(event: ToolEvent) -> tuple[tuple[str, ...], ...] | None:
    """The keys of what stands in one line with network git, but for local git, which goes into the cage.

    None where there is no network git, or where anything beside it must not be remembered.
    """
    if event.tool != "Bash" or not policy.BASH_FIELDS.issuperset(event.tool_input):
        return None
    line = _line(event)
    if not any(map(_is_network, line)) or asks_outside(event.command or ""):
        return None
    others = [argv for argv in line if argv[0] != "git" or _sub(argv) in LINKS]
    found = policy.keys("; ".join(map(policy.shown, [("git", "fetch"), *others])))  # what git forbids beside it counts
    return tuple(found[1:]) if found else None


def is_remote(words: tuple[str, ...]) -> bool:
    """Whether this key is one of `remotes`, and not the name of a command."""
    return words[:2] == ("git", "remote") and words[-2:-1] == ("of",)


def bound(found: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """What an approval of a call with these `remotes` is bound to: each one's addresses, by name.

    Empty for a call without, so also once the repository is no longer fit. Where it is still the same, the wrapper may
    run in place of the approved text: it speaks to the addresses that were shown, and runs nothing planted since.
    """
    return {" ".join((*words[:3], *words[-2:])): " ".join(words[3:-2]) for words in found}


def uses_network(event: ToolEvent) -> bool:
    """A green call with git that speaks to a remote."""
    return _is_green(event) and bool(_network(event))


def may_use(event: ToolEvent) -> bool:
    """Whether it speaks to a remote where its repository is, though nothing of that may be here."""
    return any(argv[0] == "git" and any(word in policy.NETWORK for word in argv) for argv in _line(event))


def why(event: ToolEvent, known: Iterable[tuple[str, ...]]) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """Why it is asked, for the card, given the keys that are remembered: the new address, and the old one if any.

    With it its `remotes`, as they were told there: an approval is for these, whatever is written elsewhere meanwhile.
    """
    try:
        asked = _remotes(event)
    except (policy.Gated, OSError, ValueError) as problem:
        return f"this use of a remote is asked each time: {problem}", ()
    known = set(known)
    parts = []
    for words in asked:
        if words in known:
            continue
        name, place = words[2], words[-1]
        old = [k for k in known if k[:3] == words[:3] and k[-2:] == words[-2:]]
        before = f"; allowed before was {' '.join(old[-1][3:-2])}" if old else ""
        parts.append(f"the remote {name} of {place} is {' '.join(words[3:-2])}{before}")
    return "; ".join(parts) or "the remote is known", asked


def _merge_of(pull: tuple[str, ...]) -> tuple[str, ...]:
    """A merge where this pull works."""
    there = (word for directory in policy.parse_git(pull).directories for word in ("-C", directory))
    return ("git", *there, "merge", "HEAD")


def local(event: ToolEvent) -> list[tuple[str, ...]]:
    """Git of this line that speaks to no remote."""
    return [argv for argv in _line(event) if argv[0] == "git" and not _is_network(argv)]


def wrapped(
    event: ToolEvent,
    programs: Mapping[str, str],
    allowed: Collection[tuple[str, ...]] | None = None,
    others: Callable[[tuple[str, ...]], tuple[str, ...] | None] | None = None,
) -> str | None:
    """The text to run for a call whose remotes are all among `allowed`; None where it is to be asked instead.

    Without `allowed` whatever they are: to know whether it could be. Each look finds what is written then.

    Network git runs by the wrapper, local git in the cage; in a green line also outside where the cage is a loss to it.
    `others` gives the words that start what runs elsewhere, None for its own; it may raise Gated. All else stays.
    """
    if event.command is None or not event.rewritable or not {"sbox", "git", "python3"} <= programs.keys():
        return None
    if not remotes(event):
        return None
    line = _line(event)
    here = local(event)
    pulls = [_merge_of(argv) for argv in line if _sub(argv) == "pull"]
    caged = caged_words([*here, *pulls], event.cwd, programs, LINKS)
    if caged is None and (pulls or (here and (not _is_green(event) or policy.brings_files(here)))):
        return None

    def words(argv: tuple[str, ...]) -> tuple[str, ...] | None:
        if argv[0] != "git" or (caged is None and not _is_network(argv)):
            start = others(argv) if others else None
            if start is None and argv[0] == "git":
                raise policy.Gated("the agent's PATH would say which git that is")
            return start
        if caged is not None and not _is_network(argv):
            return caged[argv]
        made = _plan(argv, event)
        if allowed is not None and not set(allowed).issuperset(_words(made)):
            raise policy.Gated("a remote is another one by now")
        agreed = [" ".join(remote) for remote in made.remotes]
        wrapper = (programs["python3"], "-I", "-S", WRAPPER, programs["sbox"], programs["git"])
        return (*wrapper, *agreed, "--", "git")

    try:
        if policy.current_place().reached(WRAPPER):
            return None
        return reworded(literal(event.command), words)
    except (policy.Gated, OSError, ValueError):
        return None


def _is_green(event: ToolEvent) -> bool:
    if event.tool != "Bash" or event.command is None:
        return False
    return policy.classify(event.tool, dict(event.tool_input), event.cwd) == "green"


def _network(event: ToolEvent) -> list[tuple[str, ...]]:
    return list(filter(_is_network, _line(event)))


def _line(event: ToolEvent) -> list[tuple[str, ...]]:
    return [segment.argv for segment in policy.read(literal(event.command or "")) or []]


def _is_network(argv: tuple[str, ...]) -> bool:
    return _sub(argv) in policy.NETWORK


def _sub(argv: tuple[str, ...]) -> str:
    try:
        return policy.parse_git(argv).sub if argv[0] == "git" else ""
    except policy.Gated:
        return ""
