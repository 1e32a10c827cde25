"""What git that moves files is going to change: the questions that `whole_git.py` puts to git before, by subcommand.

A question is words for git that lists names. It may name a file too many, which then is asked about, but none too few.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from cage import cage_policy as policy

Words = list[str]
_RENAMED = ("-M", "-l200", "--diff-filter=R")  # to what one side has renamed a file, the other side's change goes


def questions(call: policy.Git, settings: policy.Config) -> tuple[str, ...] | None:
    """Empty where it surely changes no file; None where it is not known what it would change."""
    known = _TABLE.get(call.sub)
    asked = known(call, settings) if known else None
    there = [word for directory in call.directories for word in ("-C", directory)]
    return None if asked is None else tuple(joined([*there, *words]) for words in asked)


def start(sbox: str, python: str, place: policy.Place) -> tuple[str, ...]:
    """The words before the questions; empty where no script lies beside `sbox`, or the cage does not show it."""
    script = os.path.join(os.path.dirname(sbox), "whole_git.py")
    real = os.path.realpath(script)
    hidden = policy.below(real, place.real_home) and "/." in real[len(place.real_home) :]
    shown = os.path.dirname(script) == place.home + "/.local/bin" or not hidden
    return (sbox, python, "-I", "-S", script) if python and shown and os.path.isfile(script) else ()


def joined(words: Words) -> str:
    return " ".join(word.replace("%", "%25").replace(" ", "%20") for word in words)


def _checkout(call: policy.Git, settings: policy.Config) -> list[Words] | None:
    if call.has("--orphan"):
        return None
    plain = call.plain
    mark = plain.index("--") if "--" in plain else None
    named, paths = (plain[:1], plain[1:]) if mark is None else (plain[:mark], plain[mark + 1 :])
    tree = _commit(named[0]) if named else "HEAD"
    if paths:
        return [_from_tree(tree, paths, not call.has("--no-overlay"))] if named else [["diff-files", "--", *paths]]
    trees = [tree, "refs/heads/" + tree]  # git takes the branch before a tag of its name, and asked it does not
    if call.has("-f", "--force", "--discard-changes"):
        return [["diff-index", one] for one in trees]
    merged = call.has("-m", "--merge", "--conflict")  # what was changed is written again
    return [["diff", "HEAD", one] for one in trees] + [["diff-index", one] for one in trees if merged]


def _restore(call: policy.Git, settings: policy.Config) -> list[Words]:
    source = [value for name, value in call.options if name in ("-s", "--source")]
    if not source and not call.has("-S", "--staged"):
        return [["diff-files", "--", *_names(call)]]
    return [_from_tree(_commit(source[-1]) if source else "HEAD", _names(call), call.has("--overlay"))]


def _from_tree(tree: str, paths: Words, overlay: bool) -> Words:
    """With an overlay, what the tree does not have stays."""
    return ["diff-index", *(["--diff-filter=a"] if overlay else []), tree, "--", *paths]


def _reset(call: policy.Git, settings: policy.Config) -> list[Words]:
    tree = _commit((_names(call) or ["HEAD"])[0])
    if call.has("--keep"):
        return [["diff", "HEAD", tree]]
    return [["diff-index", *([] if call.has("--hard") else ["--cached"]), tree]]


def _stash(call: policy.Git, settings: policy.Config) -> list[Words]:
    paths = [] if call.sub == "stash save" else _names(call)
    asked = [["diff-index", *(["--cached"] if call.has("-S", "--staged") else []), "HEAD", "--", *paths]]
    if call.has("-u", "--include-untracked", "-a", "--all"):
        every = [] if call.has("-a", "--all") else ["--exclude-standard"]
        asked.append(["ls-files", "--others", *every, "--", *(paths or [":/"])])
    return asked


def _unstash(call: policy.Git, settings: policy.Config) -> list[Words]:
    name = _commit((_names(call) or ["0"])[0])
    stash = "stash@{" + name + "}" if name.isdecimal() else name
    return [*_applied(stash), ["diff", *_RENAMED, stash + "^", "HEAD"], ["ls-tree", stash + "^3"]]


def _applied(stash: str) -> list[Words]:
    return [["diff", stash + "^", stash]]


def _merge(call: policy.Git, settings: policy.Config) -> list[Words]:
    if call.has("--quit"):
        return []
    if call.has("--abort"):
        return [["diff-index", "--cached", "HEAD"], *_applied("MERGE_AUTOSTASH")]
    return _autostash(call, settings) + _merged(call, list(map(_commit, _names(call) or ["@{upstream}"])))


def _merged(call: policy.Git, others: Words) -> list[Words]:
    asked = []
    for other in others:
        if call.has("--allow-unrelated-histories"):
            asked += [["diff", "HEAD", other]]
        else:
            asked += [["diff", "HEAD..." + other], ["diff", *_RENAMED, other + "...HEAD"]]
    if len(others) == 1:
        asked += [["merge-base", "--is-ancestor", "HEAD", others[0]]]  # then that is all
    return [*asked, ["diff-index", "HEAD"]]  # where it cannot be merged, what is not committed is written again


def _rebase(call: policy.Git, settings: policy.Config) -> list[Words] | None:
    if call.has("--quit"):
        return []
    if call.has("--abort"):
        places = ("rebase-merge", "rebase-apply")
        started = [["diff-index", place + "/orig-head"] for place in places]
        return started + [words for place in places for words in _applied(place + "/autostash")]
    upstream, *branch = map(_commit, _names(call) or ["@{upstream}"])
    onto = next((_commit(value) for name, value in call.options if name == "--onto"), upstream)
    if call.has("--root") or "..." in onto:
        return None
    tip = (branch or ["HEAD"])[0]
    picked = [*_picked(call, settings, upstream + ".." + tip), *_autostash(call, settings)]
    if call.has("--keep-base"):
        picked.append(["diff", upstream + "..." + tip])
    else:
        picked.append(["diff", "HEAD", onto])
    return [*picked, ["diff", "HEAD", tip], ["diff", "HEAD", "refs/heads/" + tip]] if branch else picked


def _picked(call: policy.Git, settings: policy.Config, commits: str) -> list[Words]:
    """What a rebase takes along."""
    given = call.has("--rebase-merges") or (call.sub == "rebase" and call.has("-r"))
    merges = given or any(name == "rebasemerges" or value in ("merges", "m") for _, name, value in settings)
    merges = merges or any(value in ("merges", "m") for name, value in call.options if name == "--rebase")
    return [["log", "-m" if merges else "--no-merges", commits]]


def _pick(call: policy.Git, settings: policy.Config) -> list[Words]:
    if call.has("--quit"):
        return []
    if call.has("--abort"):
        return [["diff-index", "--cached", "HEAD"], ["diff-index", "--cached", "sequencer/head"]]
    commits = list(map(_commit, _names(call)))
    before = "" if call.sub == "revert" else "^"
    bases = [word.partition("..")[0] if ".." in word else word + before for word in commits]
    return [["log", "-m", "--no-walk", *commits], *(["diff", *_RENAMED, base, "HEAD"] for base in bases)]


def _pull(call: policy.Git, settings: policy.Config) -> list[Words] | None:
    """From the repository itself, where `net_git.py` has put what the remote has."""
    if call.plain[:1] != ["."] or len(call.plain) != 2:
        return None
    other = call.plain[1]
    given = [value or "true" for name, value in call.options if name in ("-r", "--rebase")]
    kinds = ("pull.rebase", "branch.*.rebase")
    set_to = [value for section, name, value in settings if policy.full_key(section, name)[1] in kinds]
    rebases = not call.has("--no-rebase") and any(value.lower() not in policy.OFF for value in given or set_to)
    rebased = [["diff", "HEAD", other], *_picked(call, settings, other + "..HEAD")] if rebases else []
    return [*_autostash(call, settings), *rebased, *_merged(call, [other])]


def _rm(call: policy.Git, settings: policy.Config) -> list[Words]:
    return [["ls-files", "--", *_names(call)]]


def _autostash(call: policy.Git, settings: policy.Config) -> list[Words]:
    """What is not committed is put aside before, and back after."""
    kept = any(name == "autostash" and value.lower() not in policy.OFF for _, name, value in settings)
    return [["diff-index", "HEAD"]] if kept or call.has("--autostash") else []


def _names(call: policy.Git) -> Words:
    return [word for word in call.plain if word != "--"]


def _commit(word: str) -> str:
    """In a question it must not be read as an option."""
    if word[:1] == "-" and word != "-":
        raise policy.Gated("the name of a commit begins with a dash")
    return "@{-1}" if word == "-" else word


_TABLE: dict[str, Callable[[policy.Git, policy.Config], list[Words] | None]] = {
    **dict.fromkeys(["checkout", "switch"], _checkout),
    "restore": _restore,
    "reset": _reset,
    **dict.fromkeys(["stash", "stash push", "stash save"], _stash),
    **dict.fromkeys(["stash pop", "stash apply"], _unstash),
    "merge": _merge,
    "rebase": _rebase,
    **dict.fromkeys(["cherry-pick", "revert"], _pick),
    "pull": _pull,
    "rm": _rm,
}
