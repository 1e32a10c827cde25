"""Network git that runs unasked: `net_git.py SBOX GIT REMOTE… -- git push origin main`, each REMOTE "NAME URL…".

Outside the cage git must read nothing that caged code can change, however it times the change. So it never works in
the repository: it works in a git directory made for this one call, where the cage can only read, with a configuration
written from the very bytes that were checked, the repository's refs, and its objects borrowed as data. No hook, filter,
helper or address of the repository's choosing is known there. What it brought goes into the repository in the cage.

Started by `python3 -I -S`, standard library only. Exit code of git; 125 where it will not run, with one sentence.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

from cage import cage_policy as policy
from cage import moves

REFUSED = 125
WHERE = "/var/tmp"  # noqa: S108  (readable in the cage and not writable there; the directory made in it is private)
PROTOCOLS = "https:http:git:ssh"
MANY = 50
KINDS = ("remote", "branch", "push", "fetch", "protocol", "http")  # settings that matter to what crosses the network
_TO_FETCH = ("-p", "--prune", "-4", "-6", "--ipv4", "--ipv6", "--progress", "--no-progress", "--no-recurse-submodules")
_TO_BOTH = ("-q", "--quiet", "-v", "--verbose")
_HEX = frozenset("0123456789abcdef")

Remote = tuple[str, ...]
"""A remote's name and every address it has, fetching and pushing."""


# ---------------------------------------------------------------- what a call is going to do


@dataclass(frozen=True)
class Plan:
    """One call that was judged green: the words for git outside, and for git in the cage after it (for a pull)."""

    repository: policy.Repository
    remotes: list[Remote]
    outside: list[str]
    inside: list[str]
    upstream: str  # text to append to the configuration


def plan(argv: tuple[str, ...], cwd: str, branch: str = "") -> Plan:
    """Raises Gated where the call is not green, or cannot be done whole in this way. `branch`: not the one it is on."""
    call = policy.parse_git(argv)
    if call.table is not policy.NETWORK:
        raise policy.Gated("git " + call.sub + " does not need the network")
    if len(call.plain) > MANY:  # each is looked up among all refs and settings
        raise policy.Gated("it names more than " + str(MANY) + " refs")
    (repository,) = policy.judge_git([call], cwd)
    if os.path.lexists(repository.common + "/shallow") or call.has("--depth", "--deepen", "--unshallow"):
        raise policy.Gated("it is a shallow repository")
    place = policy.current_place()
    if not all(is_in_cage(path, place) for path in (repository.top, repository.gitdir, repository.common)):
        raise policy.Gated("the cage does not write to this repository, but to a layer over it")
    odd = [value for _, _, value in repository.settings if '"' in value or "\\" in value]
    if odd or not repository.common.isprintable():
        raise policy.Gated("the repository's configuration or path is written in an unusual way")
    own = policy.own_config(place)
    branch = branch or _branch(repository)
    names = _names(call, repository, branch, own)
    # named even where the agent named none: so it is this one whatever else is configured by then
    for url in (url for name in names for url in repository.remotes[name]):
        scheme, _, rest = url.rpartition("://")
        user = rest.partition("/")[0].rpartition("@")[0]
        if user and (":" in user or scheme in ("http", "https")):  # it would be shown, and kept
            raise policy.Gated("the address of the remote holds a password or token; use a credential helper")
    words = list(call.words) if call.plain or call.has("--all") else [*call.words, *names]
    inside: list[str] = []
    if call.sub == "pull":
        words, inside = _pull(call, repository, branch, names[0])
    upstream = _upstream(call, repository, branch, names[0], own) if call.has("-u", "--set-upstream") else ""
    return Plan(
        repository,
        [(name, *repository.remotes[name]) for name in names],
        ["fetch" if call.sub == "pull" else call.sub, *words],
        inside,
        upstream,
    )


def is_in_cage(path: str, place: policy.Place) -> bool:
    """Is this resolved path the same directory in the cage? ~/.cache has a layer there, and the home is covered."""
    if place.projects and policy.below(path, place.projects):
        return True
    return bool(place.tmp) and policy.below(path, place.tmp) and not policy.below(path, place.real_home)


def _branch(repository: policy.Repository) -> str:
    """The checked-out branch, or ""; raises Gated where HEAD could not be written again as it is."""
    head = policy.line_of(repository.gitdir + "/HEAD")
    if not head:
        raise policy.Gated("the branch has an unusual name")
    return head[16:] if head[:16] == "ref: refs/heads/" else ""


def is_branch(name: str, repository: policy.Repository) -> bool:
    """Does the repository have this branch?"""
    packed = policy.text_of(repository.common + "/packed-refs", 1 << 22) or ""
    ref = "refs/heads/" + name
    return os.path.isfile(repository.common + "/" + ref) or " " + ref + "\n" in packed + "\n"


def _setting(settings: policy.Config, section: str, name: str) -> str:
    return next((value for s, n, value in reversed(settings) if (s, n) == (section, name)), "")


def _names(call: policy.Git, repository: policy.Repository, branch: str, own: policy.Config) -> list[str]:
    if call.sub == "fetch" and call.has("--all"):
        return sorted(repository.remotes)
    if call.plain:
        return call.plain if call.has("--multiple") else call.plain[:1]
    settings = repository.settings
    pushes = [_setting(settings, "branch." + branch, "pushremote"), _setting(own, "remote", "pushdefault")]
    chosen = (pushes if call.sub == "push" else []) + [_setting(settings, "branch." + branch, "remote"), "origin"]
    name = next(name for name in chosen if name)
    if name not in repository.remotes:
        raise policy.Gated("the branch follows no remote")
    return [name]


def _pull(call: policy.Git, repository: policy.Repository, branch: str, remote: str) -> tuple[list[str], list[str]]:
    """The words of the fetch outside, and of the pull from what it brought, in the cage."""
    merge = _setting(repository.settings, "branch." + branch, "merge")
    follows = _setting(repository.settings, "branch." + branch, "remote") == remote
    wanted = call.plain[1] if len(call.plain) > 1 else merge if follows else ""
    name = wanted.removeprefix("refs/heads/")
    tracked = ("remote." + remote, "fetch", f"+refs/heads/*:refs/remotes/{remote}/*") in repository.settings
    if not name or name[:5] == "refs/" or ":" in name or len(call.plain) > 2 or not tracked:
        raise policy.Gated("it is not clear which branch is to be merged")
    if call.has("-a", "--all", "-t", "--tags", "--dry-run"):
        raise policy.Gated("this form of pull cannot be done in two steps")
    given = [(name, name + "=" + value if value else name) for name, value in call.options]
    outside = [word for option, word in given if option in _TO_FETCH + _TO_BOTH]
    inside = [word for option, word in given if option not in _TO_FETCH]
    return [*outside, remote, *call.plain[1:]], ["pull", *inside, ".", f"refs/remotes/{remote}/{name}"]


def _upstream(call: policy.Git, repository: policy.Repository, branch: str, remote: str, own: policy.Config) -> str:
    """What `push -u` adds to the configuration; Gated where more than an addition may be needed."""
    default = _setting(own + repository.settings, "push", "default")
    if call.has("--all", "--branches", "--tags", "--follow-tags") or default not in ("", "simple", "current"):
        raise policy.Gated("it may set the upstream of several branches")
    text = ""
    for spec in call.plain[1:] or ["HEAD"]:
        source, _, target = spec.partition(":")
        source = (branch if source == "HEAD" else source).removeprefix("refs/heads/")
        target = "refs/heads/" + (target or source).removeprefix("refs/heads/")
        if not policy.is_plain_ref(source + target):  # HEAD may hold a name that would end the quotes
            raise policy.Gated("the branch has an unusual name")
        if target[11:16] == "refs/" or not is_branch(source, repository):
            raise policy.Gated("it may set the upstream of something that is no branch")
        now = [(n, v) for s, n, v in repository.settings if s == "branch." + source and n in ("remote", "merge")]
        if now not in ([], [("remote", remote), ("merge", target)]):
            raise policy.Gated("the branch " + source + " follows another one")
        text += "" if now else f'[branch "{source}"]\n\tremote = "{remote}"\n\tmerge = "{target}"\n'
    return text


# ---------------------------------------------------------------- the run


class Run:
    """One call in progress: `sbox` and `git` are the trusted files, `private` the git directory made for it."""

    def __init__(self, sbox: str, git: str, made: Plan, private: str) -> None:
        self.sbox, self.git, self.plan, self.private = sbox, git, made, private
        path = ":".join(policy.current_place().fixed) or "/usr/bin:/bin"
        self.env = {**os.environ, "PATH": path, "GIT_ALLOW_PROTOCOL": PROTOCOLS}

    def whole(self) -> int:
        before = _refs(self._caged("for-each-ref", _FORMAT))
        make(self.private, self.plan.repository, before)
        done = self._outside(*self.plan.outside).returncode
        try:
            return self._record(before, done)
        except (policy.Gated, OSError, ValueError) as problem:
            said = f"git {self.plan.outside[0]} ended with {done}, but not all of it is in the repository: {problem}"
            print(f"net_git: {said}", file=sys.stderr)
            return done or REFUSED

    def _record(self, before: dict[str, str], done: int) -> int:
        """Put into the repository what git outside did; the exit code of the whole."""
        if self.plan.outside[0] != "ls-remote":
            self._bring(before)
        if done:
            return done
        if self.plan.upstream:
            append(self.plan.repository.common, self.plan.upstream)
        code = self._pulled() if self.plan.inside else 0
        heads = os.path.join(self.private, "FETCH_HEAD")
        if os.path.exists(heads):
            top, gitdir = self.plan.repository.top, self.plan.repository.gitdir
            _must(_run([self.sbox, "cp", heads, gitdir + "/FETCH_HEAD"], top, dict(os.environ)))
        return code

    def _pulled(self) -> int:
        """Git in the cage merges or rebases what came, after it was asked which files it would change."""
        words = tuple(self.plan.inside)
        settings = policy.own_config(policy.current_place()) + self.plan.repository.settings
        asked = moves.questions(policy.parse_git(("git", *words)), settings)
        whole = moves.start(self.sbox, sys.executable, policy.current_place())
        if not asked or not whole:
            return self._caged(*words).returncode
        line = [*whole, *asked, "--", self.git, *words]
        return _run(line, self.plan.repository.top, dict(os.environ)).returncode

    def _bring(self, before: dict[str, str]) -> None:
        """Refs and objects that are new outside, fetched by git in the cage; what was pruned goes there too."""
        after = _refs(self._outside("for-each-ref", _FORMAT))
        new = "".join(f"+{ref}:{ref}\n" for ref, value in after.items() if before.get(ref) != value)
        gone = "".join(f"delete {ref} {value}\n" for ref, value in before.items() if ref not in after)
        if new:
            quiet = ("--quiet", "--no-tags", "--no-prune", "--no-write-fetch-head", "--no-recurse-submodules")
            _must(self._caged("-c", "gc.auto=0", "fetch", *quiet, "--stdin", self.private, text=new))
        if gone:
            _must(self._caged("update-ref", "--stdin", text=gone))

    def _caged(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """git in the cage, in the repository itself."""
        return _run([self.sbox, self.git, *words], self.plan.repository.top, dict(os.environ), text)

    def _outside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """git outside, in the directory made for it."""
        # without the last one git starts another in the repository whose objects are borrowed, to list its refs
        settings = ("gc.auto=0", "maintenance.auto=false", "core.hooksPath=/dev/null", "core.alternateRefsCommand=true")
        fixed = [word for setting in settings for word in ("-c", setting)]
        return _run([self.git, "--git-dir=" + self.private, *fixed, *words], self.private, self.env)


def _must(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise policy.Gated(f"in the cage it ended with {done.returncode}")


def _run(argv: list[str], cwd: str, env: dict[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
    pipe = subprocess.PIPE if _FORMAT in argv else None  # what we read; all else is for the agent
    return subprocess.run(argv, cwd=cwd, env=env, input=text, stdout=pipe, text=True, errors="surrogateescape")


_FORMAT = "--format=%(objectname) %(refname) %(symref)"


def _refs(listed: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """By name, without symbolic ones. What the cage says is checked, for git outside is going to read it."""
    found: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        value, ref, symbolic = line.split(" ")
        if not (len(value) in (40, 64) and set(value) <= _HEX and ref[:5] == "refs/" and ref.isprintable()):
            raise policy.Gated("the repository's refs cannot be read exactly")
        if not symbolic:
            found[ref] = value
    if listed.returncode:
        raise policy.Gated("the repository's refs cannot be read")
    return found


def make(private: str, repository: policy.Repository, refs: dict[str, str]) -> None:
    """A bare git directory with these refs, the checked settings of the repository, and its objects borrowed."""
    sections = {"core": [("bare", "true")]}
    for section, name, value in repository.settings:
        if section.partition(".")[0] in KINDS:
            sections.setdefault(section, []).append((name, value))
        if (section, name) == ("extensions", "objectformat"):
            sections["extensions"] = [(name, value)]
    sections["core"].append(("repositoryformatversion", "1" if "extensions" in sections else "0"))
    lines = []
    for section, pairs in sections.items():
        kind, _, which = section.partition(".")
        lines.append(f'[{kind} "{which}"]' if which else f"[{kind}]")
        lines += [f'\t{name} = "{value}"' for name, value in pairs]
    os.makedirs(private + "/objects/info")
    os.mkdir(private + "/refs")
    files = {
        "HEAD": policy.line_of(repository.gitdir + "/HEAD"),
        "config": "\n".join(lines),
        "packed-refs": "\n".join(f"{refs[ref]} {ref}" for ref in sorted(refs)),
        "objects/info/alternates": repository.common + "/objects",
    }
    for name, text in files.items():
        with open(os.path.join(private, name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text + "\n" if text else "")


def append(common: str, text: str) -> None:
    """Add to the repository's configuration, through no link: caged code may put one anywhere on the way."""
    here = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        for name in common.strip("/").split("/"):
            there = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = there
        file = os.open("config", os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                raise policy.Gated("the repository's configuration is no ordinary file")
            last = os.pread(file, 1, found.st_size - 1) if found.st_size else b"\n"
            os.write(file, (("" if last == b"\n" else "\n") + text).encode(errors="surrogateescape"))
        finally:
            os.close(file)
    finally:
        os.close(here)


def main(argv: list[str]) -> int:
    try:
        end = argv.index("--")
        sbox, git, *agreed = argv[:end]
        made = plan(tuple(argv[end + 1 :]), os.getcwd())
        if [" ".join(remote) for remote in made.remotes] != agreed:
            raise policy.Gated("the address of the remote has changed since it was approved")
        for path in (sbox, git, WHERE):
            if path[:1] != "/" or policy.current_place().reached(path):
                raise policy.Gated(path + " is where caged code can write")
        with tempfile.TemporaryDirectory(prefix="net-git-", dir=WHERE) as private:
            return Run(sbox, git, made, private).whole()
    except (policy.Gated, OSError, ValueError) as problem:
        said = "nothing was sent. To have a person asked, begin the command with `: uncaged;`"
        print(f"net_git: {problem}; {said}", file=sys.stderr)
        return REFUSED


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the directory goes
    sys.exit(main(sys.argv[1:]))
