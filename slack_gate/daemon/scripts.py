"""Files that a command names as scripts: an approval is for what stands in them, not only for their names."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from itertools import islice

from cage import cage_policy
from slack_gate.core.event import ToolEvent
from slack_gate.daemon import words
from slack_gate.daemon.paths import Paths, Place, Unclear, expanded
from slack_gate.daemon.planted import planted

LARGE = 4 << 20  # bytes; of larger files size, inode and times stand for the content
MAX_BYTES = 32 << 20  # of all files of a command; of the rest, the same
MAX_FILES = 256  # listed one by one; of the rest, the same, and together
_MAX_PATHS = 300_000  # looked at; a command that names more is refused by `OwnFiles`, for its number of paths

# For these files are data, which may change while a person decides; what they name is a script only if executable.
_PLAIN = frozenset(
    """git ls cat head tail grep egrep fgrep rg wc cd pwd echo printf mkdir touch rm rmdir chmod chown true false diff
    cmp stat file du df sort uniq cut tr tree""".split()  # noqa: SIM905 - one word a program is easier to read
)
_SYSTEM = ("/usr/", "/bin/", "/sbin/")
_GIT_RUNS = frozenset({"apply", "am", "bisect", "config", "filter-branch", "rebase", "submodule"})
# What programs run without being told its name.
_DEFAULTS = {
    program: names.split()
    for programs, names in {
        "make gmake": "GNUmakefile makefile Makefile",
        "npm npx pnpm yarn bun node": "package.json",
        "pytest py.test": "conftest.py pytest.ini pyproject.toml tox.ini setup.cfg",
        "docker podman docker-compose": "Dockerfile compose.yaml compose.yml docker-compose.yaml docker-compose.yml",
        "pip uv poetry hatch pdm": "pyproject.toml setup.py",
        "invoke inv": "tasks.py",
        "tox": "tox.ini pyproject.toml",
        "nox": "noxfile.py",
        "just": "justfile Justfile .justfile",
        "task": "Taskfile.yml Taskfile.yaml",
        "rake": "Rakefile",
        "cargo": "Cargo.toml build.rs",
        "cmake": "CMakeLists.txt",
        "pre-commit": ".pre-commit-config.yaml",
    }.items()
    for program in programs.split()
}


def scripts_of(event: ToolEvent) -> Mapping[str, str]:
    """Path to SHA-256 (hex) of each file that the command could run; empty for another tool.

    Too many rather than too few: every file that a word names, unless all programs take files for data; relative to the
    working directory and to those that the command changes into. A function of the event and the file system alone,
    with bounded work: beyond it a file's size, inode and times stand for its content ("" stands for many files).
    """
    command = event.command
    if command is None or len(command) > cage_policy.MAX_COMMAND:
        return {}
    lines = words.readings(command)
    plain = _takes_data(command)
    found: dict[str, str] = {}
    hashes, rest = _Hashes(), hashlib.sha256()
    for path in islice(_candidates(event.cwd, event.search_path, command, lines), _MAX_PATHS):
        status = _status(path)
        real = os.path.realpath(path) if status else ""
        if status is None or path in found or (plain and not os.access(path, os.X_OK)) or _is_program(path, real):
            continue
        if len(found) < MAX_FILES:
            found[path] = real if real.startswith(_SYSTEM) else hashes.of(path, status)
        else:
            rest.update(f"{path}\0{_seen(status)}\0".encode(errors="surrogatepass"))
    return found if len(found) < MAX_FILES else {**found, "": rest.hexdigest()}


def _takes_data(command: str) -> bool:
    """Whether every program of the command takes the files it names for data."""
    argvs = words.certain(command)
    return argvs is not None and all(
        argv[0] in _PLAIN
        and not (argv[0] == "git" and (argv[1:2] == () or argv[1][0:1] == "-" or _GIT_RUNS & set(argv)))
        for argv in argvs
    )


def _candidates(cwd: str, search_path: str, command: str, lines: list[list[str]]) -> Iterator[str]:
    """Every path that could be a script, each word in each of the directories the command may be in."""
    every = [word for line in lines for word in line]
    names = dict.fromkeys(meaning for word in every for meaning in words.meanings(word))
    names |= dict.fromkeys(name for line in lines for name in words.modules(line))
    names |= dict.fromkeys(name for word in every for name in _DEFAULTS.get(os.path.basename(word), ()))
    places = _places(cwd, command, lines)
    for place in places:
        for name in names:
            yield os.path.join(place, expanded(name))
    yield from planted(search_path, places, every)


def _places(cwd: str, command: str, lines: list[list[str]]) -> list[str]:
    paths, home = Paths(), ["~"] if words.goes_home(command) else []
    try:
        start = paths.place(cwd)
    except Unclear:  # refused before it could run
        return [cwd]
    try:
        places, _ = paths.places(start, dict.fromkeys((*home, *words.moves(line)) for line in lines))
    except Unclear:
        places = [Place(start.written, start.real)]
    return list(dict.fromkeys(place.real for place in places))


def _status(path: str) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: a zero byte or a surrogate, which no file's name holds
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _is_program(path: str, real: str) -> bool:
    """/usr/bin/python3 itself: the agent can change links to it only, and hashing it each time would cost."""
    return path.startswith(_SYSTEM) and real.startswith(_SYSTEM)


def _seen(status: os.stat_result) -> str:
    """What stands for a content that is not read; nobody can set the time of change (ctime)."""
    return f"{status.st_size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"


class _Hashes:
    """Each file is read once, whatever its names, until the bytes of one command are used up."""

    def __init__(self) -> None:
        self._left = MAX_BYTES
        self._known: dict[tuple[int, int], str] = {}

    def of(self, path: str, status: os.stat_result) -> str:
        file = (status.st_dev, status.st_ino)
        if file not in self._known:
            self._known[file] = self._hash(path, status)
        return self._known[file]

    def _hash(self, path: str, status: os.stat_result) -> str:
        try:
            # Not to wait for a writer, should the file have become a FIFO since it was looked at.
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_size > min(LARGE, self._left):
                    return _seen(status)
                content = file.read(LARGE + 1)
        except OSError as error:
            return f"unreadable: {error.strerror} {_seen(status)}"  # a lease, or rights, can be taken back
        self._left -= len(content)
        return hashlib.sha256(content).hexdigest()
