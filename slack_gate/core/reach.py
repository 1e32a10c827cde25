"""What a call may reach, in plain words: the network, files outside the zone, deletes, installs, credentials.

For a reader, never for a decision: a word more than there is does no harm, so a text that the closed reading refuses is
split at everything that could part its words, quotes and substitutions included.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from cage import cage_policy
from slack_gate.core.display import one_line
from slack_gate.core.hosts import hosts_in
from slack_gate.core.request import Request
from slack_gate.core.secrets import mask

MAX_PROGRAMS = 200  # UTF-16 units of their list
MAX_READ = 100_000  # characters of a text that are looked through
MAX_STARTS = 4000  # places in it where a command may begin; of more, the first and the last
MAX_WORDS = 2000  # characters of each
MAX_LOOKED = 400_000  # of all of them together
NET = "the network"
OUTSIDE = "files outside the zone"
DELETES = "deletes"
INSTALLS = "installs"
CREDENTIALS = "credentials"
OTHERS = "another user's rights"
PROCESSES = "other processes"
UNKNOWN = "what this tool reaches is not known"
ORDER = (DELETES, CREDENTIALS, OTHERS, INSTALLS, NET, OUTSIDE, PROCESSES)

_PROGRAMS = {
    NET: """curl wget ssh scp sftp mosh rsync nc ncat netcat socat telnet ftp lftp dig host nslookup whois ping
    traceroute gh glab hub aws gcloud az doctl fly flyctl heroku vercel netlify wrangler kubectl helm docker podman
    npm npx pnpm yarn bun deno pip pip3 pipx uv uvx poetry pdm conda mamba gem bundle cargo go composer brew apt apt-get
    dnf yum apk pacman snap flatpak psql mysql mongosh redis-cli terraform tofu ansible ansible-playbook mail sendmail
    twine s3cmd rclone aria2c http https xh websocat""",
    DELETES: "rm rmdir unlink shred dd truncate wipefs mkfs fdisk sfdisk parted",
    INSTALLS: "apt apt-get dnf yum apk pacman brew snap flatpak pipx dpkg rpm make-install",
    CREDENTIALS: "pass gpg security op vault printenv ssh-add ssh-keygen secret-tool keyring aws-vault",
    OTHERS: "sudo su doas pkexec run0 runuser chroot nsenter",
    PROCESSES: "kill pkill killall systemctl service crontab at launchctl shutdown reboot halt poweroff",
}
_PAIRS = {
    NET: """git:push git:pull git:fetch git:clone git:ls-remote git:submodule git:remote""",
    DELETES: """git:clean git:rm find:-delete docker:rm docker:rmi docker:prune kubectl:delete terraform:destroy
    gh:delete aws:rm aws:rb npm:unpublish git:--force git:-f git:--force-with-lease git:--hard git:--delete git:-D
    rsync:--delete mysql:drop psql:drop""",
    INSTALLS: """npm:install npm:i npm:ci npm:add npx: pnpm:add pnpm:install yarn:add yarn:install pip:install
    pip3:install uv:add uv:sync uv:pip uvx: cargo:install go:install go:get gem:install bundle:install
    poetry:add poetry:install make:install composer:require composer:install""",
    CREDENTIALS: "gh:auth aws:configure gcloud:auth az:login docker:login npm:login npm:token git:credential",
}
_BY_PROGRAM: dict[str, set[str]] = {}
for _what, _names in _PROGRAMS.items():
    for _name in _names.split():
        _BY_PROGRAM.setdefault(_name, set()).add(_what)
_BY_PAIR: dict[tuple[str, str], set[str]] = {}
for _what, _names in _PAIRS.items():
    for _name in _names.split():
        _program, _, _word = _name.partition(":")
        if _word:
            _BY_PAIR.setdefault((_program, _word), set()).add(_what)
        else:
            _BY_PROGRAM.setdefault(_program, set()).add(_what)
_SUBCOMMANDS = "git npm pnpm yarn pip pip3 uv cargo go docker kubectl helm terraform gh aws gcloud apt apt-get make"
_WITH_SUBCOMMAND = frozenset(_SUBCOMMANDS.split())
_SECRET_PLACE = re.compile(
    r"(?:^|/)(?:\.ssh|\.aws|\.gnupg|\.kube|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.docker/config\.json|\.env[^/]*|"
    r"id_(?:rsa|ed25519|ecdsa|dsa)|credentials(?:\.json)?|[^/]*\.pem|[^/]*\.key|shadow|keychain[^/]*)(?:/|$)",
    re.IGNORECASE,
)
_SPLIT = re.compile(r"[\s;|&<>()`{}'\"$\\=]+")
_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero"})
_WEB = frozenset({"WebFetch", "WebSearch"})
_MCP = re.compile(r"mcp__(?P<server>(?:(?!__).)+)__(?P<tool>(?!_)(?:(?!__).)+)", re.DOTALL)


def reach(request: Request) -> list[str]:
    """What it may reach, the worst first; empty when nothing is known to be touched."""
    found: set[str] = set()
    command = request.command
    if command is not None:
        argvs, exact = _argvs(command)
        for argv in argvs:
            found |= _of_words(argv, request.cwd)
        if not exact and any(_SECRET_PLACE.search(word) for word in _SPLIT.split(command[:MAX_READ])):
            found.add(CREDENTIALS)
        if hosts_in(command[:MAX_READ]):
            found.add(NET)
    elif request.tool in _WEB:
        found.add(NET)
    elif (field := cage_policy.FILE_TOOLS.get(request.tool, ("", None))[0]) and isinstance(
        path := request.tool_input.get(field), str
    ):
        found |= _of_path(path, request.cwd)
    return [what for what in ORDER if what in found]


def programs(command: str) -> str:
    """The programs that it names, in order, on one line; rather more where the text cannot be read exactly."""
    argvs, exact = _argvs(command)
    names = _named(argvs)
    if not names:
        return "Programs: none can be read"
    listed = one_line(mask(", ".join(names)), MAX_PROGRAMS)
    return f"Programs: {listed}" if exact else f"Programs, not read exactly: {listed}"


def first_programs(command: str) -> list[str]:
    """The first names, for a notification."""
    return _named(_argvs(command)[0])


def _named(argvs: Sequence[Sequence[str]]) -> list[str]:
    """Each once, with its subcommand where one follows at once: what follows an option may be the option's own."""
    found = []
    for argv in argvs:
        name = os.path.basename(argv[0]) or argv[0]
        word = argv[1] if name in _WITH_SUBCOMMAND and len(argv) > 1 else "-"
        found.append(name if word[:1] in ("-", "/", "~", ".") else f"{name} {word}")
    return list(dict.fromkeys(found))


def unpinned(command: str) -> bool:
    """Whether it may run a script named by a pattern or a variable, to whose content no approval is bound."""
    for text in _PARTS.split(command[:MAX_READ])[:MAX_STARTS]:
        words = text[_ASSIGNED.match(text).end() :].split()  # type: ignore[union-attr]  # it matches the empty text
        if not words:
            continue
        runs = os.path.basename(words[0]).rstrip("0123456789.") in _RUN_FILES or words[0] in (".", "source")
        if any(_PATTERN.search(word) for word in (words[1:] if runs else words[:1])):
            return True
    return False


_PARTS = re.compile(r"[;|&\n(){}]")
_PATTERN = re.compile(r"[$*?`\[]")
_RUN_FILES = cage_policy.INTERPRETERS | {"sh", "bash", "zsh", "dash", "ksh", "fish", "sudo", "env", "xargs", "exec"}


def may_hold_secrets(path: str) -> bool:
    """By its name alone."""
    return _SECRET_PLACE.search(path) is not None


def mcp(tool: str) -> tuple[str, str] | None:
    """Server and tool of an MCP tool's name; None where it can be parted in several ways."""
    match = _MCP.fullmatch(tool)
    return None if match is None else (match["server"], match["tool"])


def _argvs(command: str) -> tuple[list[tuple[str, ...]], bool]:
    """The words of each simple command, and whether that is exact; else of everything that could be one."""
    if len(command) <= MAX_READ and (segments := cage_policy.read(command)) is not None:
        return [segment.argv for segment in segments], True
    text = mask(command)
    if len(text) > MAX_READ:  # what stands at the end is what a long beginning would hide
        text = f"{text[: MAX_READ // 2]}\n{text[-MAX_READ // 2 :]}"
    return list(_lenient(text)), False


_AT_COMMAND = re.compile(
    r"(?:^|[;|&\n(`{]|\$\(|\b(?:then|do|else|sudo|xargs|env|exec|nohup|time|eval)\s)\s*", re.MULTILINE
)
_END = re.compile(r"[;|&\n)`}]")


_ASSIGNED = re.compile(r"(?:[A-Za-z_]\w{0,100}=[^\s;|&]{0,1000}\s+)*")


def _lenient(command: str) -> Iterator[tuple[str, ...]]:
    """A word list for every place where a command could begin."""
    starts = list(dict.fromkeys(match.end() for match in _AT_COMMAND.finditer(command)))
    if len(starts) > MAX_STARTS:
        starts = starts[: MAX_STARTS // 2] + starts[-MAX_STARTS // 2 :]
    room = min(MAX_WORDS, MAX_LOOKED // max(1, len(starts)))
    for at in starts:
        text = _END.split(command[at : at + room], maxsplit=1)[0]
        text = text[_ASSIGNED.match(text).end() :]  # type: ignore[union-attr]  # it matches the empty text
        words = [word for word in _SPLIT.split(text) if word]
        if words and re.search(r"\w", words[0]):
            yield tuple(words)


def _of_words(words: Sequence[str], cwd: str) -> set[str]:
    """Of one simple command; behind a carrier (`sudo`, `xargs`) every word may be a program."""
    names = [os.path.basename(word) for word in words]
    carried = names if names[0] in cage_policy.CARRIERS else names[:1]
    found = {what for name in carried for what in _BY_PROGRAM.get(name, ())}
    for at, name in enumerate(names):
        found |= {what for word in words[at + 1 : at + 6] for what in _BY_PAIR.get((name, word), ())}
    if carried is names or names[0].rstrip("0123456789.") in cage_policy.INTERPRETERS:
        inner = [argv for word in words if " " in word for argv in _lenient(word)]
        found |= {what for argv in inner for what in _of_words(argv, cwd)}
    for word in words[1:]:
        if word[:1] in ("/", "~") or ".." in word or _SECRET_PLACE.search(word):
            found |= _of_path(word, cwd)
    return found


def _of_path(path: str, cwd: str) -> set[str]:
    found = {CREDENTIALS} if _SECRET_PLACE.search(path) else set()
    place = cage_policy.current_place()
    full = path if path[:1] in "/~" else os.path.join(cwd, path)
    full = os.path.normpath(place.home + full[1:] if full == "~" or full[:2] == "~/" else full)
    if full not in _DEVICES and not any(cage_policy.below(full, root) for root in place.roots):
        found.add(OUTSIDE)
    return found
