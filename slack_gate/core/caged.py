"""What is released into the cage: the text that runs there instead of the agent's, on hosts that take another input."""

# ruff: noqa: SIM905  (words in a string are easier to review and to diff than a list of quoted words)
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from cage import cage_policy as policy
from cage import moves
from cage.net_git import is_branch, is_in_cage
from slack_gate.core.event import ToolEvent
from slack_gate.core.literal import literal
from slack_gate.core.respell import MANY, reworded

# Settings with which git in the cage would not do all that it does outside, but for these values.
_UNFIT_VALUES = {
    "extensions.partialclone": frozenset[str](),
    "remote.*.promisor": policy.OFF,
}  # it would fetch what is missing
_UNSEEN_KINDS = frozenset("credential url http remote alias mergetool difftool gui user gpg safe".split())
_SAME_ANYWHERE = frozenset(
    """GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_CONFIG_NOSYSTEM GIT_MERGE_AUTOEDIT GIT_PAGER GIT_EDITOR GIT_ASKPASS
    GIT_SEQUENCE_EDITOR GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_PS1_SHOWDIRTYSTATE""".split()
)
_INCLUDES = ("include", "includeif")
LINKS = frozenset(["rm", "mv"])  # they follow links in the working tree, so they are no green git


def caged_git(event: ToolEvent, programs: Mapping[str, str]) -> str | None:
    """A line of local git with `sbox` by its name before each `git`, or None where it is not to be caged.

    In the cage nothing that the repository holds gets out, so what it holds is no reason to ask.
    """
    if event.command is None or not event.rewritable:
        return None
    text = literal(event.command)
    line = [segment.argv for segment in policy.read(text) or []]
    if not line or any(argv[0] != "git" for argv in line):
        return None
    words = caged_words(line, event.cwd, programs)
    return None if words is None else _green(event, reworded(text, lambda argv: ("sbox", *words[argv][1:])))


def _green(event: ToolEvent, command: str | None) -> str | None:
    """`command` where the same call with this text is green by itself."""
    if command is None:
        return None
    changed = {**event.tool_input, "command": command}
    return command if policy.classify(event.tool, changed, event.cwd) == "green" else None


def caged_words(
    line: Iterable[tuple[str, ...]], cwd: str, programs: Mapping[str, str], besides: frozenset[str] = frozenset()
) -> dict[tuple[str, ...], tuple[str, ...]] | None:
    """The words that start each of these git commands in the cage; None where `works_caged` would be False.

    One that moves files goes through `whole_git.py`, which finds out first whether it would meet what the cage guards.
    """
    if not {"sbox", "git"} <= programs.keys():
        return None
    sbox, git = programs["sbox"], programs["git"]
    try:
        whole = moves.start(sbox, programs.get("python3", ""), policy.current_place())
    except (policy.Gated, OSError, ValueError):
        return None
    asked = _questions(line, cwd, besides, bool(whole))
    if asked is None:
        return None
    return {argv: (*whole, *questions, "--", git) if questions else (sbox, git) for argv, questions in asked.items()}


def works_caged(line: Iterable[tuple[str, ...]], cwd: str, besides: frozenset[str] = frozenset()) -> bool:
    """Are these git commands green but for what the repository holds, and is the cage no loss to them as they stand?

    The gate then runs them in the cage, where nothing planted gets out. `besides`: further subcommands that count as
    green. False is no verdict: `classify` gives that.
    """
    return _questions(line, cwd, besides, False) is not None


def _questions(
    line: Iterable[tuple[str, ...]], cwd: str, besides: frozenset[str], asks: bool
) -> dict[tuple[str, ...], tuple[str, ...]] | None:
    """What is to be asked before each of these commands, where it `asks` at all; None where it is not to be caged."""
    try:
        place, here = policy.current_place(), policy.directory_of(cwd)
        calls = [policy.parse_git(argv) for argv in line]
        if len(calls) > MANY:  # each has its repository's settings read
            return None
        own = policy.own_config(place)
        if any(call.sub not in besides for call in calls if call.sub in LINKS) or not _is_same_in_cage(place):
            return None
        found: dict[tuple[str, ...], tuple[str, ...]] = {}
        blind = False
        for call in calls:
            repository, settings = _fit(call, own, place, here)
            asked: tuple[str, ...] | None = ()
            if _moves_files(call):
                asked = moves.questions(call, settings) if asks else None
                blind = blind or asked is None
                if _cannot_move(repository, settings, asked is None):
                    return None
            found[call.argv] = asked or ()
        # without a question a second one meets what the first brought, guarded
        return None if blind and sum(map(_moves_files, calls)) > 1 else found
    except (policy.Gated, OSError, ValueError):
        return None


def in_cage(directory: str) -> bool:
    """Is this existing absolute directory the same one in the cage, and writable there?"""
    try:
        real = os.path.realpath(directory)
        return directory[:1] == "/" and os.path.isdir(real) and is_in_cage(real, policy.current_place())
    except (policy.Gated, OSError, ValueError):
        return False


def _is_same_in_cage(place: policy.Place) -> bool:
    """Are the person's settings of git, and its variables, the same in the cage?"""
    files = [place.home + "/.config/git/" + name for name in ("config", "ignore", "attributes")]
    config_home = os.environ.get("XDG_CONFIG_HOME") or place.home + "/.config"
    unseen = any(name[:4] == "GIT_" and name not in _SAME_ANYWHERE for name in os.environ)
    return not (unseen or config_home != place.home + "/.config" or any(_is_hidden(file, place) for file in files))


def _fit(
    call: policy.Git, own: policy.Config, place: policy.Place, here: str
) -> tuple[policy.Repository, policy.Config]:
    """Its repository and all settings; raises Gated where the cage would be a loss to it."""
    if call.sub not in LINKS:
        policy.judge_git_words(call, place, here)
    directory = os.path.realpath(os.path.join(here, *call.directories))
    if call.table is policy.NETWORK or call.sub in ("version", "worktree list") or _opens_editor(call):
        raise policy.Gated("it is no work for the cage")
    repository = policy.find_repository(directory, place)
    top, common = repository.top, repository.common
    if not all(is_in_cage(path, place) for path in (os.path.realpath(here), directory, top, repository.gitdir, common)):
        raise policy.Gated("the cage has another directory there")
    local = policy.local_config(repository)
    settings = own + local
    if any(policy.full_key(section, "")[0] in _INCLUDES for section, _, _ in local):
        raise policy.Gated("its configuration is not wholly read")
    if os.path.lexists(common + "/objects/info/alternates") or any(_is_unfit(*one, place) for one in settings):
        raise policy.Gated("it needs what the cage does not have")
    if policy.signs(call, settings) or _writes_config(call, repository, settings):
        raise policy.Gated("it signs, or writes the configuration")
    return repository, settings


def _cannot_move(repository: policy.Repository, settings: policy.Config, blind: bool) -> bool:
    """May something be in the way of moving files here? `blind`: nothing finds out in the cage what it would change."""
    named = {section + "." + name for section, name, _ in settings}
    if "submodule.recurse" in named or os.path.lexists(repository.common + "/lfs"):
        return True
    guarded = (repository.top + "/" + name for name in policy.GUARDED_NAMES if name != ".git")
    return blind and ("core.hookspath" in named or any(map(os.path.lexists, guarded)))


def _moves_files(call: policy.Git) -> bool:
    return policy.moves_files(call) or (call.sub in LINKS and not call.has("--cached"))


def _is_hidden(path: str, place: policy.Place) -> bool:
    """Does this path lead to a hidden entry of the home that the cage does not show?"""
    real = os.path.realpath(path)
    if not policy.below(real, place.real_home) or is_in_cage(real, place) or "/." not in real[len(place.real_home) :]:
        return False
    shown_files = (place.home + "/.gitconfig", place.home + "/.config/git")
    return not any(policy.below(real, os.path.realpath(file)) for file in shown_files)


def _is_unfit(section: str, name: str, value: str, place: policy.Place) -> bool:
    kind, full = policy.full_key(section, name)
    if full in _UNFIT_VALUES:
        return value.lower() not in _UNFIT_VALUES[full]
    words = [value] if kind in _INCLUDES else value.lstrip("!").split()
    paths = [place.home + word[1:] if word[:2] == "~/" else word for word in words]
    return kind not in _UNSEEN_KINDS and any(path[:1] == "/" and _is_hidden(path, place) for path in paths)


def _opens_editor(call: policy.Git) -> bool:
    """The agent's own editor (GIT_EDITOR=true, mostly) is not known in the cage."""
    if call.sub == "commit":
        named = ("-m", "--message", "-F", "--file", "-C", "--reuse-message", "--no-edit", "--dry-run")
        return not call.has(*named)
    if call.sub == "revert":
        return not call.has("--no-edit", "-n", "--no-commit", "--abort", "--quit")
    return call.has("--continue") or (
        call.has("-a", "--annotate") and call.sub == "tag" and not call.has("-m", "--message")
    )


def _writes_config(call: policy.Git, repository: policy.Repository, settings: policy.Config) -> bool:
    """Does it perhaps write the configuration, which the cage guards? One made from a remote's branch follows that."""
    plain = call.plain
    if call.sub == "branch":
        names = "-d -D --delete -m -M --move -c -C --copy -t --track -u --set-upstream-to --unset-upstream"
        creates, start = bool(plain), plain[1:]
        writes = call.has(*names.split())
    elif call.sub in ("checkout", "switch"):
        creates = call.has("-b", "-B", "-c", "-C", "--create", "--force-create")
        start = plain[:1]
        # where a name is no branch yet, git makes one from the remote's
        writes = call.has("-t", "--track") or any(not (creates or _is_branch(word, repository)) for word in start)
    else:
        return False
    always = any(
        (section, name) == ("branch", "autosetupmerge") and value.lower() not in policy.ON_OR_OFF
        for section, name, value in settings
    )
    return writes or (creates and (always or any(not _is_head(word) for word in start)))


def _is_head(word: str) -> bool:
    return word[:4] == "HEAD" and word[4:5] in ("", "~", "^") and not word[4:].strip("~^0123456789")


def _is_branch(name: str, repository: policy.Repository) -> bool:
    """Or no name of a branch at all: HEAD~1, the branch before, the mark before paths."""
    return name in ("-", "--") or _is_head(name) or is_branch(name, repository)
