"""What is released into the cage: the text that runs there instead of the agent's, on hosts that take another input."""

# ruff: noqa: SIM905  (words in a string are easier to review and to diff than a list of quoted words)
from __future__ import annotations

import os
from collections.abc import Iterable

from cage import cage_policy as policy
from cage.net_git import is_branch, is_in_cage
from slack_gate.core.event import ToolEvent
from slack_gate.core.literal import literal
from slack_gate.core.respell import MANY, respelled

# Settings with which git in the cage would not do all that it does outside, but for these values.
_UNFIT_VALUES = {
    "extensions.partialclone": frozenset[str](),
    "remote.*.promisor": policy.OFF,
}  # it would fetch what is missing
_UNFIT_TO_MOVE = frozenset(["core.hookspath", "submodule.recurse"])  # what the cage guards may lie in git's way
_GUARDED_IN_TREES = (".claude", ".mcp.json", ".vscode", ".idea", ".envrc")  # the cage's own list, at a repository's top
_UNSEEN_KINDS = frozenset("credential url http remote alias mergetool difftool gui user gpg safe".split())
_SAME_ANYWHERE = frozenset(
    """GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_CONFIG_NOSYSTEM GIT_MERGE_AUTOEDIT GIT_PAGER GIT_EDITOR GIT_ASKPASS
    GIT_SEQUENCE_EDITOR GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_PS1_SHOWDIRTYSTATE""".split()
)
_INCLUDES = ("include", "includeif")
LINKS = frozenset(["rm", "mv"])  # they follow links in the working tree, so they are no green git


def caged_git(event: ToolEvent, git: str) -> str | None:
    """A line of local git with `sbox` before each `git` (the absolute path of it), or None where it is not to be caged.

    In the cage nothing that the repository holds gets out, so what it holds is no reason to ask.
    """
    if event.command is None or not event.rewritable:
        return None
    text = literal(event.command)
    line = [segment.argv for segment in policy.read(text) or []]
    if not line or any(argv[0] != "git" for argv in line) or not works_caged(line, event.cwd):
        return None
    return _green(event, respelled(text, {"git": ("sbox", git)}))


def _green(event: ToolEvent, command: str | None) -> str | None:
    """`command` where the same call with this text is green by itself."""
    if command is None:
        return None
    changed = {**event.tool_input, "command": command}
    return command if policy.classify(event.tool, changed, event.cwd) == "green" else None


def works_caged(line: Iterable[tuple[str, ...]], cwd: str, besides: frozenset[str] = frozenset()) -> bool:
    """Are these git commands green but for what the repository holds, and is the cage no loss to them?

    The gate then runs them in the cage, where nothing planted gets out. `besides`: further subcommands that count as
    green. False is no verdict: `classify` gives that.
    """
    try:
        place, here = policy.current_place(), policy.directory_of(cwd)
        calls = [policy.parse_git(argv) for argv in line]
        if len(calls) > MANY:  # each has its repository's settings read
            return False
        own = policy.own_config(place)
        if any(call.sub not in besides for call in calls if call.sub in LINKS):
            return False
        moving = sum(map(_moves_files, calls))  # a second one meets what the first brought, guarded
        return moving < 2 and _is_same_in_cage(place) and all(_works_caged(call, own, place, here) for call in calls)
    except (policy.Gated, OSError, ValueError):
        return False


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


def _works_caged(call: policy.Git, own: policy.Config, place: policy.Place, here: str) -> bool:
    if call.sub not in LINKS:
        policy.judge_git_words(call, place, here)
    directory = os.path.realpath(os.path.join(here, *call.directories))
    if call.table is policy.NETWORK or call.sub in ("version", "worktree list") or _opens_editor(call):
        return False
    repository = policy.find_repository(directory, place)
    top, common = repository.top, repository.common
    if not all(is_in_cage(path, place) for path in (os.path.realpath(here), directory, top, repository.gitdir, common)):
        return False
    local = policy.local_config(repository)
    settings = own + local
    if any(policy.full_key(section, "")[0] in _INCLUDES for section, _, _ in local):
        return False
    if os.path.lexists(common + "/objects/info/alternates") or any(_is_unfit(*one, place) for one in settings):
        return False
    if _moves_files(call):
        guarded = [top + "/" + name for name in _GUARDED_IN_TREES] + [common + "/lfs"]
        named = any(section + "." + name in _UNFIT_TO_MOVE for section, name, _ in settings)
        if named or any(os.path.lexists(path) for path in guarded):
            return False
    return not (policy.signs(call, settings) or _writes_config(call, repository, settings))


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
