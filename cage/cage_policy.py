"""Which tool calls of a coding agent run unasked: `classify` says "ungated", "green" or "gated".

The law, in three lines:
1. What is not wholly understood is gated; nothing here raises, guesses or starts a program.
2. Shell text has one reading, `read`: the exact words bash would pass, or None. Verdicts, keys and cards all use it.
3. Green means: in the cage (`sbox ARGV`), or git that can run nothing planted, or a write the cage could make as well,
   or what the person listed in policy.toml.

One file, standard library only, no `re`: it is copied beside hooks and imported once a call. See docs/classifier.md.
"""

# ruff: noqa: SIM905  (words in a string are easier to review and to diff than a list of quoted words)
from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal

    Answer = Literal["ungated", "green", "gated"]
    Config = list[tuple[str, str, str]]  # section, key, value

# ---------------------------------------------------------------- tools

_UNGATED = {  # why tools touch nothing outside the conversation, and which do so
    "reads files or their names": "Read Glob Grep LS NotebookRead",
    "reads or writes the agent's own list": "TodoRead TodoWrite TaskCreate TaskUpdate TaskGet TaskList",
    "reads or ends a call that was judged when it was made": """TaskOutput TaskStop BashOutput AgentOutputTool
        KillShell KillBash""",
    "asks or tells the person in front of the agent": "AskUserQuestion ExitPlanMode",
    "changes how the agent talks, not what it may do": "EnterPlanMode ToolSearch StructuredOutput",
}
UNGATED = {tool: reason for reason, tools in _UNGATED.items() for tool in tools.split()}
BASH_FIELDS = frozenset("command description timeout run_in_background dangerouslyDisableSandbox".split())
FILE_TOOLS = {  # the field that names the file, and the fields that name no file
    "Write": ("file_path", frozenset({"content"})),
    "Edit": ("file_path", frozenset({"old_string", "new_string", "replace_all"})),
    "MultiEdit": ("file_path", frozenset({"edits"})),
    "NotebookEdit": ("notebook_path", frozenset("new_source cell_id cell_number cell_type edit_mode".split())),
}
# Names that programs outside the cage execute or trust when they meet them, wherever in the zone they lie.
GUARDED_NAMES = frozenset(
    """.git .claude .mcp.json .claude.json .vscode .idea .envrc .direnv .cursor .codex .gemini .opencode .windsurf .zed
    .cline .clinerules .copilot .github/hooks .github/copilot .openclaw .hermes .kiro .roo .continue .qwen .kilocode
    .amazonq .junie .trae .augment .factory .agents .agent .claude-plugin .pi .vibe .forge .grok .kimi .qoder .iflow
    .codebuddy .codeium .goose .antigravity .rovodev .fleet .lapce .vim .nvim .lvimrc .dir-locals.el .dir-locals-2.el
    .autoenv .autoenv.zsh .renviron .rdata .ghci .octaverc .hg .jj .sl .crush crush.json .crush.json .helix
    .aider.conf.yml .devcontainer .devcontainer.json .husky .githooks .ssh .gnupg .netrc .exrc .nvimrc .vimrc .nvim.lua
    .gdbinit .lldbinit .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile
    .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xsessionrc .xinitrc .pythonrc
    .pythonrc.py .pdbrc .irbrc .pryrc .rprofile .gitconfig opencode.json opencode.jsonc""".split()
)
# First names below ~/.cache that are sourced, imported or executed by programs outside; "*" ends a prefix.
GUARDED_CACHES = tuple(
    """p10k-* p10k gitstatus* pre-commit prek uv pip pipenv pypoetry pdm hatch virtualenv conda pixi python* black
    pylint yarn pnpm bun deno node* corepack npm* electron* cypress ms-playwright* puppeteer selenium esbuild turbo
    bazel* go-build gopls golangci-lint* zig ccache sccache nix jetbrains vscode* cursor* nvim vim emacs zsh* zcomp*
    zinit antidote antigen sheldon oh-my-zsh* oh-my-posh starship zoxide carapace direnv mise asdf fish bash* rofi gem
    bundle composer torch_extensions torch triton jedi claude* codex* gemini* helm krew act gradle maven
    coursier opencode* copilot* github-copilot* amp* goose* qwen* wal gstreamer-1.0 guile flashinfer vllm
    typescript trunk dprint rebar3 r numba tvm mill sbt zellij luarocks lua-language-server
    pipx pex pants nce scie* nuitka parso yapf modelscope taichi warp tinygrad modular pocl mesa* xonsh prezto antibody
    blesh thefuck prisma next-swc hardhat-nodejs firebase pkg tauri wasmtime .wasm-pack dotslash rattler devbox dagger
    terragrunt vcpkg homebrew winetricks dune crystal nim* common-lisp swiftpm org.swift* clang cabal hie-bios ghcide
    jdtls metals bloop scala* jna fnm* mozilla thunderbird librewolf chromium google google-chrome* bravesoftware
    microsoft-edge* vivaldi* ksycoca* sessions menus""".split()
)

# ---------------------------------------------------------------- the one reading of shell text

# Bytes. The kernel takes no longer single argument, so no shell is ever started with a longer text.
MAX_COMMAND = 131_071

_INERT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+,^=")
_PLAIN = "".join(sorted(_INERT - {"="})) + " \t"
_KEYWORDS = frozenset(
    "if then else elif fi for while until do done case esac select function time coproc in { } ! [[ ]]".split()
)
# Redirects that change nothing outside: one stream into another, or to and from /dev/null; longer spellings first.
_REDIRECTS = ("2>&1", "1>&2", ">&2", ">&1", "2>>", "1>>", "&>>", ">>", "2>", "1>", "&>", ">", "<")


class Segment:
    """A simple command: `argv` as bash passes it, `op` before it ("", "&&", "||", ";", "|"), `redirected` or not."""

    def __init__(self, argv: tuple[str, ...], op: str = "", redirected: bool = False) -> None:
        self.argv, self.op, self.redirected = argv, op, redirected


def read(command: str) -> list[Segment] | None:
    """The simple commands of a shell text with the exact words bash would pass, or None where that is not certain.

    Accepted: words joined by `&&`, `||`, `;`, `|`; quotes without live expansions; a leading `~/`; redirects to
    /dev/null and between standard output and error. Takes linear time; longer texts than MAX_COMMAND are refused.
    """
    if type(command) is not str or not 0 < len(command) <= MAX_COMMAND or command[0] in "-+":
        return None  # `bash -c` takes a text that begins with a dash for options
    if not command.isascii() and len(command.encode("utf-8", "surrogatepass")) > MAX_COMMAND:
        return None
    if not command.strip(_PLAIN):  # every character stands for itself: the common case, read at once
        words = command.split()
        return [Segment(tuple(words))] if words and _is_program(words[0]) else None
    return _scan(command)


def _is_program(word: str) -> bool:
    """Not a keyword, an assignment or a job (bash reads %1 as fg %1)."""
    return word not in _KEYWORDS and "=" not in word and word[:1] != "%"


def _scan(text: str) -> list[Segment] | None:
    segments: list[Segment] = []
    argv: list[str] = []
    op, redirected, at, end = "", False, 0, len(text)
    while True:
        while at < end and text[at] in " \t":
            at += 1
        separator = next((mark for mark in ("&&", "||", ";", "|") if text.startswith(mark, at)), "")
        if len(separator) == 1 and text.startswith("&", at + 1):  # ;& and |& are operators of their own
            return None
        if at == end or separator:
            if not argv or not _is_program(argv[0]):
                return None
            segments.append(Segment(tuple(argv), op, redirected))
            if at == end:
                return segments
            argv, op, redirected, at = [], separator, False, at + len(separator)
            continue
        after = _redirect(text, at) if text[at] in "12&<>" else 0
        if after:
            redirected, at = True, after
            continue
        word, at = _word(text, at)
        if word is None:
            return None
        argv.append(word)


def _redirect(text: str, at: int) -> int:
    """Where a harmless redirect that starts at `at` ends, or 0."""
    spelled = next((spelled for spelled in _REDIRECTS if text.startswith(spelled, at)), "")
    after = at + len(spelled)
    if spelled[-1:] in ("<", ">"):
        while text.startswith((" ", "\t"), after):
            after += 1
        after = after + len("/dev/null") if text.startswith("/dev/null", after) else 0
    return after if spelled and after and text[after : after + 1] in ("", " ", "\t", ";", "|", "&") else 0


def _word(text: str, start: int) -> tuple[str | None, int]:
    """One word after quote removal and the position behind it; None where bash could see something else."""
    parts: list[str] = []
    at, end, braces = start, len(text), False
    while at < end:
        char = text[at]
        if char in _INERT:
            stop = at + 1
            while stop < end and text[stop] in _INERT:
                stop += 1
            parts.append(text[at:stop])
            at = stop
        elif char in " \t;|&<>":
            break
        elif char in "'\"":
            quoted, at = _quoted(text, at)
            if quoted is None:
                return None, at
            parts.append(quoted)
        elif char == "\\" and " " <= text[at + 1 : at + 2] <= "~":
            parts.append(text[at + 1])
            at += 2
        elif char == "~":
            if at == start:
                home = _home() if text[at + 1 : at + 2] in ("", "/", " ", "\t", ";", "|", "&") else ""
                if not home:
                    return None, at
                parts.append(home)
            elif text[at - 1] in "=:":  # bash expands x=~ and, there, what follows a colon
                return None, at
            else:
                parts.append("~")
            at += 1
        elif char in "{}" or (char == "#" and at > start):
            braces = braces or char == "{"
            parts.append(char)
            at += 1
        else:
            return None, at
    word = "".join(parts)
    if at == start or (text[start] == "=" and at > start + 1):  # zsh looks up the program in =name
        return None, at
    inner = word[word.index("{") :].rpartition("}")[0] or word if braces else ""
    if "," in inner or ".." in inner:  # {a,b} and {1..3}, but neither @{u}.. nor {}
        return None, at
    if at < end and text[at] in "<>" and (braces or word.isdigit()):  # 3>file and {name}>file name a descriptor
        return None, at
    return word, at


def _quoted(text: str, start: int) -> tuple[str | None, int]:
    """What stands in the quotes that open at `start` and the position behind them; None like _word."""
    if text[start] == "'":
        close = text.find("'", start + 1)
        body = text[start + 1 : close]
        return (body, close + 1) if close > 0 and _harmless(body) else (None, start)
    parts: list[str] = []
    at = start + 1
    close = text.find('"', at)
    while close >= 0:
        slash = text.find("\\", at, close)
        body = text[at : close if slash < 0 else slash]
        if "$" in body or "`" in body or not _harmless(body):
            break
        parts.append(body)
        if slash < 0:
            return "".join(parts), close + 1
        escaped = text[slash + 1]
        if escaped == "\n":
            break
        parts.append(escaped if escaped in '$`"\\' else "\\")
        at = slash + (2 if escaped in '$`"\\' else 1)
        if at > close:  # the quote was escaped
            close = text.find('"', at)
    return None, start


def _harmless(body: str) -> bool:
    """No control character but tab and newline, and nothing that UTF-8 cannot carry."""
    return body.isprintable() or not any(
        (char < " " and char not in "\t\n") or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in body
    )


# ---------------------------------------------------------------- the green zone

_SYSTEM = tuple("/bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /opt /proc /run /sbin /sys /usr /var".split())
_TMP = "/tmp"  # noqa: S108  (it is one of the cage's writable directories; nothing is made there)
# Variables that make programs outside load code: a directory of the zone in them is as good as a planted program.
_LOADERS = """LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH GCONV_PATH OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES PYTHONPATH
    PYTHONHOME PYTHONUSERBASE PYTHONPYCACHEPREFIX BASH_ENV""".split()
_EMPTY_IS_HERE = ("LD_LIBRARY_PATH", "PYTHONPATH", "GCONV_PATH")  # "/opt/lib:" also names the working directory


def _home() -> str:
    """The caller's home as the shell sees it, or "" when it is none to build a zone on."""
    home = os.environ.get("HOME")
    if home is None:
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return ""
    home = home.rstrip("/")
    return home if home[:1] == "/" and home not in _SYSTEM else ""


class Place:
    """The directories that matter, resolved once for each environment: the zone, the helper's, the settings'."""

    def __init__(self, home: str, tools: str, settings: str, path: str) -> None:
        self.home = home
        self.real_home = os.path.realpath(home) if home else ""
        self.named = tools
        self.settings = self.absolute(settings or "~/.config/slack-gate")
        self.projects, self.cache = self._root(home and home + "/projects"), self._root(home and home + "/.cache")
        self.tmp = self._root(_TMP)
        self.roots = tuple(root for root in (self.projects, self.tmp, self.cache) if root)
        self.use(None, dict(_POLICY))
        entries = path.split(":")
        self.fixed = [entry for entry in entries if entry[:1] == "/" and not self._is_writable(entry)]
        self.writable = [entry for entry in entries if entry not in self.fixed]
        self.found: dict[str, str] = {}  # by program: where a directory outside the zone leads, "" when not inside

    def use(self, version: tuple[int, ...] | None, policy: dict[str, Any]) -> None:
        """Take over what policy.toml says; raises Gated where that is wider than what is true without it."""
        self.version = version
        self.policy = policy
        chosen = policy["helper_directory"]
        self.tools = self.absolute(chosen or self.named or "~/work")
        if chosen and self.named and self.tools != self.absolute(self.named):
            self.tools = ""  # the environment and the file disagree: the stricter answer is that there is none
        self.zone = tuple(os.path.realpath(self.absolute(path)) for path in policy["zone"]) or self.roots
        # what outside programs trust stays guarded even where it was configured inside the zone
        named = [self.absolute(path or "~/work") for path in (self.named, chosen)]
        self.trusted = tuple(os.path.realpath(path) for path in (*named, self.settings) if path)

    def absolute(self, path: str) -> str:
        if path[:2] == "~/":
            path = self.home + path[1:] if self.home else ""
        return os.path.normpath(path) if path[:1] == "/" else ""

    def _root(self, path: str) -> str:
        """`path` resolved, or "" where a link leads to a place that must not become writable."""
        real = os.path.realpath(path) if path else ""
        inside_home = self.home and path.startswith(self.home + "/")
        if real == (self.real_home + path[len(self.home) :] if inside_home else path):
            return real
        hidden = below(real, self.real_home) and "/." in real[len(self.real_home) :]
        system = any(below(real, system) for system in _SYSTEM) and real != "/var/tmp"  # noqa: S108
        return "" if real == "/" or hidden or system or below(self.real_home, real) else real

    def holds(self, path: str) -> bool:
        """Is this resolved path one that caged code can write?"""
        return any(below(path, root) for root in self.roots)

    def green(self, path: str) -> bool:
        """Is it also in the part of the zone that the settings leave green?"""
        return self.holds(path) and any(below(path, part) for part in self.zone)

    def reached(self, path: str) -> str:
        """Where this absolute path first passes through the zone, so that caged code chooses where it ends, or ""."""
        return next((step for step in _steps(path) if self.holds(step)), "")

    def _is_writable(self, path: str) -> bool:
        try:
            return bool(self.reached(path))
        except Gated:  # for the agent it may be a place in the zone
            return True
        except OSError:  # where this process cannot look, caged code can change nothing
            return self.holds(os.path.realpath(path))

    def planted(self, names: tuple[str, ...], cwd: str, words: Iterable[str]) -> str:
        """The first of these programs that PATH finds where caged code can write, or ""."""
        for entry in self.writable:
            at = os.path.join(cwd, entry)
            if self.reached(at):
                for name in {*names, *words}:
                    if name and "/" not in name and os.path.lexists(at + "/" + name):
                        return at + "/" + name
        for name in names:
            if name not in self.found:  # kept: only the person changes what lies in a directory outside the zone
                files = (os.path.join(entry, name) for entry in self.fixed)
                file = next((file for file in files if os.path.lexists(file)), "/")
                self.found[name] = self.reached(file)
            if self.found[name]:
                return self.found[name]
        return ""


_places: dict[tuple[str, ...], Place] = {}


def current_place() -> Place:
    # A zone directory that becomes a link after this was kept no longer matches: the stale answer is the strict one.
    get = os.environ.get
    key = (_home(), get("AGENT_TOOLS_DIR", ""), get("SLACK_GATE_HOME", ""), get("PATH", ""))
    place = _places.get(key)
    if place is None:
        place = _places[key] = Place(*key)
    path = (place.settings or "/dev/null") + "/policy.toml"
    try:
        found = os.stat(path)
        version = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
    except (FileNotFoundError, NotADirectoryError):
        version = None
    if version != place.version:
        place.use(version, dict(_POLICY) if version is None else _policy(path, place))
    return place


# ---------------------------------------------------------------- the settings

# policy.toml, as it is without the file: the zone made smaller, the helper, and what else is green. What stands in its
# [gate] table is the gate's: that can only make a call stricter.
_POLICY: dict[str, Any] = {"zone": [], "helper_directory": "", "helper_repositories": [], "green": []}


def _policy(path: str, place: Place) -> dict[str, Any]:
    """The settings in this file, checked; raises Gated where anything in it is not wholly understood."""
    try:
        import tomllib

        text = _own_file(path, place)
        values = tomllib.loads(text or "\0")  # an empty one is just being written
        values.pop("gate", None)
    except (ImportError, ValueError, RecursionError):  # before Python 3.11 there is no reader for it
        raise Gated(path + " is empty, or no TOML file that only you can write") from None
    for name, value in values.items():
        words = value if type(value) is list else [value]
        if type(value) is not type(_POLICY.get(name)) or not all(type(word) is str for word in words):
            raise Gated(path + ": " + name + " is no setting, or not of this form")
    policy = {**_POLICY, **values}
    for part in policy["zone"]:
        if not place.holds(os.path.realpath(place.absolute(part) or "/")):
            raise Gated(path + ": the zone can only be made smaller, not " + part)
    for text in policy["green"]:
        segments = read(text) or []
        if len(segments) != 1 or segments[0].redirected or segments[0].argv[0][:1] != "/":
            raise Gated(path + ": not one command that begins with an absolute path: " + text)
        if place.reached(segments[0].argv[0]):
            raise Gated(path + ": caged code could rewrite the program of " + text)
    policy["green"] = [segment.argv for text in policy["green"] for segment in read(text) or []]
    return policy


def _own_file(path: str, place: Place) -> str | None:
    """The text of a settings file that nobody but the person can write; None for any other."""
    try:
        return None if place.reached(path) or os.stat(path).st_mode & 0o022 else text_of(path)
    except OSError:
        return None


def settings_problem() -> str:
    """Why everything is asked because of policy.toml, or ""."""
    try:
        current_place()
    except (Gated, OSError) as problem:
        return str(problem)
    return ""


def below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")


_MAX_NAMES = 5_000  # in a path with its links followed; the kernel takes no path of more than 4,096 bytes


def _resolve(path: str) -> str:
    """An absolute path without its links; see _steps."""
    return _steps(path)[-1]


def _steps(path: str) -> list[str]:
    """Where an absolute path passes: each link and each place left by "..", resolved; at last where it ends.

    Raises Gated for a path through /proc or /dev/fd: there it leads each process to a place of its own, so that what
    is judged here is not what the agent reaches. Raises OSError where a part cannot be looked at.
    """
    steps: list[str] = []
    rest, real, looked = path.split("/")[::-1], "", 0
    while rest:
        name, looked = rest.pop(), looked + 1
        if looked + len(rest) > _MAX_NAMES:
            raise Gated("the path is too long, or leads through too many links")
        if name == "..":
            steps.append(real)
            real = real.rpartition("/")[0]
        elif name not in ("", "."):
            real += "/" + name
            if real in ("/proc", "/dev/fd"):
                raise Gated("the path leads through " + real + ", which is another place for each process")
            try:
                target = os.readlink(real)
            except OSError as problem:
                if problem.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                    raise
                target = ""  # no link, or absent
            if target:
                steps.append(real)
                rest += target.split("/")[::-1]
                real = "" if target[0] == "/" else real.rpartition("/")[0]
    return [*steps, real or "/"]


def text_of(path: str, limit: int = 1 << 20) -> str | None:
    """A regular file's text, or None."""
    data = _bytes(path, limit)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _bytes(path: str, limit: int) -> bytes | None:
    """A regular file of at most `limit` bytes; None for any other: never waits on a pipe or a device."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return None
        return file.read()


def _ordinary(path: str) -> bool:
    """Absent, or a regular file without a second name that could lie outside the zone."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


# ---------------------------------------------------------------- verdicts


class Verdict:
    """`verdict` ("ungated", "green", "gated"), the `segment` and the `rule` that decided, the green way as `hint`."""

    def __init__(self, verdict: Answer, segment: str, rule: str, hint: str = "") -> None:
        self.verdict, self.segment, self.rule, self.hint = verdict, segment, rule, hint


class Gated(Exception):
    """Raised inside this file where a rule refuses; `_IN_THE_CAGE` as hint stands for the same command under sbox."""

    def __init__(self, rule: str, hint: str = "", segment: str = "") -> None:
        super().__init__(rule)
        self.rule, self.hint, self.segment = rule, hint, segment
        self.argv: tuple[str, ...] = ()


_IN_THE_CAGE = "sbox"


def classify(tool: str, tool_input: dict[str, Any] | None, cwd: str | None = None) -> Answer:
    """ "ungated", "green" or "gated" for one tool call; never raises. `cwd` defaults to the process's own."""
    try:
        return _judge(tool, tool_input, cwd).verdict
    except Exception:  # noqa: BLE001  (whatever the input was, the answer to the unexpected is to ask)
        return "gated"


def explain(tool: str, tool_input: dict[str, Any] | None, cwd: str | None = None) -> Verdict:
    """The verdict of `classify` with its reason in plain words; the same decision, told in full."""
    try:
        return _judge(tool, tool_input, cwd)
    except Gated as gated:
        hint = _caged_line((tool_input or {})["command"]) if gated.hint is _IN_THE_CAGE else gated.hint
        return Verdict("gated", gated.segment or shown(gated.argv), gated.rule, hint)
    except Exception as odd:  # noqa: BLE001  (see classify)
        return Verdict("gated", "", "this call cannot be judged (" + type(odd).__name__ + ")")


def _caged_line(command: str) -> str:
    """The same command as one green call, where a line can say it."""
    segments = read(command) or []
    if any(segment.argv[0] == "sbox" for segment in segments):
        return "put the whole line into the cage: sbox bash -c '...'"
    line = shown(("sbox", *segments[0].argv) if len(segments) == 1 else ("sbox", "bash", "-c", command))
    return line if read(line) else "put it in a file and run: sbox bash FILE"


def _judge(tool: str, fields: dict[str, Any] | None, cwd: str | None) -> Verdict:
    if type(tool) is not str or not (fields is None or type(fields) is dict):
        raise Gated("the call is malformed")
    if tool in UNGATED:
        return Verdict("ungated", tool, UNGATED[tool])
    if tool == "Bash":
        return _judge_bash(fields or {}, cwd)
    if tool in FILE_TOOLS:
        return _judge_file(tool, fields or {})
    raise Gated("nothing is known of the tool " + tool[:80])


def _judge_bash(fields: dict[str, Any], cwd: str | None) -> Verdict:
    command = fields.get("command")
    if type(command) is not str or not BASH_FIELDS.issuperset(fields):
        raise Gated("the call holds no command, or fields that are not known")
    if fields.get("dangerouslyDisableSandbox") not in (None, False):
        raise Gated("it asks to run outside the host's sandbox")
    segments = read(command)
    if segments is None:
        raise Gated("the text cannot be read exactly", _IN_THE_CAGE)
    rule = ""
    calls: list[Git] = []
    for segment in segments:
        try:
            rule = _judge_segment(segment, calls, cwd)
        except Gated as gated:
            gated.argv = segment.argv
            raise
    if calls:
        if len(calls) < len(segments):
            raise Gated("what runs before git could change what git then runs", "a call for each, or: sbox git ...")
        judge_git(calls, cwd)
    return Verdict("green", command, rule)


def _judge_segment(segment: Segment, calls: list[Git], cwd: str | None) -> str:
    if segment.op not in ("", "&&"):
        raise Gated("commands joined by " + segment.op + " are asked", _IN_THE_CAGE)
    program = segment.argv[0]
    if program[:1] == "/" and _is_listed(segment.argv, current_place().policy["green"]):
        _unplanted((), current_place(), directory_of(cwd))
        return "your settings call it green"
    if program == "git":
        calls.append(parse_git(segment.argv))
        return "git that runs nothing of the repository's choosing"
    if program == "sbox":
        return _judge_sbox(segment.argv, cwd)
    if program == "python3" or program.endswith("/gh_issue.py"):
        return _judge_helper(segment.argv, cwd)
    if program == "cd":
        raise Gated("cd is not green", "name the directory instead: git -C DIR ..., or sbox bash -c 'cd DIR && ...'")
    raise Gated("it runs outside the cage", _IN_THE_CAGE)


def _is_listed(argv: tuple[str, ...], commands: list[tuple[str, ...]]) -> bool:
    """Is it one of these commands, or the beginning of one that ends in "..."?"""
    return any(argv[: len(known) - 1] == known[:-1] if known[-1] == "..." else argv == known for known in commands)


def shown(argv: tuple[str, ...]) -> str:
    """The words as one line of shell text that reads back as the same words."""
    words = [w if w and not w.strip(_PLAIN[:-2]) else "'" + w.replace("'", "'\\''") + "'" for w in argv]
    if words and words[0][0] in "-+":  # a text that begins so is not read
        words[0] = "'" + words[0] + "'"
    return " ".join(words)


def directory_of(cwd: str | None) -> str:
    if cwd is None:
        return os.getcwd()
    if type(cwd) is not str or cwd[:1] != "/":
        raise Gated("the working directory is not known")
    return cwd


def _unplanted(names: tuple[str, ...], place: Place, cwd: str, words: Iterable[str] = ()) -> None:
    """Raise Gated where caged code may have chosen what one of these names (or `words`) runs, or what it loads."""
    planted = place.planted(names, cwd, words)
    if planted:
        raise Gated("caged code could have written " + planted)
    for variable in _LOADERS:
        value = os.environ.get(variable, "")
        if variable[:3] == "LD_":  # the loader also separates by these
            value = value.replace(";", ":").replace(" ", ":")
        for entry in value.split(":") if value else ():
            if (entry or variable in _EMPTY_IS_HERE) and place.reached(os.path.join(cwd, entry)):
                raise Gated("the variable " + variable + " loads what caged code could have written")


# ---------------------------------------------------------------- writes to files


def _judge_file(tool: str, fields: dict[str, Any]) -> Verdict:
    field, others = FILE_TOOLS[tool]
    path = fields.get(field)
    if type(path) is not str or not all(name == field or name in others for name in fields):
        raise Gated("the call names no file, or has fields that are not known")
    if path[:1] != "/" or path[-1:] in ("/", " ") or not path.isprintable():  # agents cut off a blank
        raise Gated("the path is not a plain absolute one", "give the absolute path", path[:200])
    for reading in readings(path):
        _judge_target(path, _resolve(reading), current_place())
    return Verdict("green", path, "a file in the green zone")


def readings(path: str) -> Iterable[str]:
    """As the kernel reads it, and as agents do before they open it: without NAME/.., with accents composed."""
    plain = os.path.normpath(path)
    return dict.fromkeys([path, plain, composed(plain)])


def composed(path: str) -> str:
    """To the kernel that is another name. It takes quadratic time: no file has a name of more characters."""
    if path.isascii():
        return path
    import unicodedata

    return "/".join([unicodedata.normalize("NFC", name) if len(name) <= 1024 else name for name in path.split("/")])


def _judge_target(path: str, real: str, place: Place) -> None:
    """Raise Gated unless what was spelled `path`, and is this resolved one, is an ordinary file of the green zone."""
    root = next((root for root in place.roots if real.startswith(root + "/")), "")
    if not root or not place.green(real):
        raise Gated("the path leads outside the green zone", "write below ~/projects or /tmp", path)
    if not _ordinary(real):
        raise Gated("it is not an ordinary file with a single name", "", path)
    if any(below(real, trusted) for trusted in place.trusted):
        raise Gated("the gate's helper or settings lie there", "", path)
    guarded = _guarded(real, root, place)
    if guarded:
        raise Gated("programs outside the cage trust " + guarded, "", path)


def _guarded(real: str, root: str, place: Place) -> str:
    """The part of a resolved path that outside programs execute or trust, or ""."""
    parts = real[len(root) + 1 :].casefold().split("/")
    if place.cache and below(real, place.cache):
        first = real[len(place.cache) + 1 :].casefold().split("/")
        if not {"node_modules", "site-packages"}.isdisjoint(first):
            return "what is imported from ~/.cache/" + first[0]
        begun = any(name[-1] == "*" and first[0].startswith(name[:-1]) for name in GUARDED_CACHES)
        if begun or first[0] in GUARDED_CACHES or first[:2] == ["huggingface", "modules"]:
            return "~/.cache/" + first[0]
    at = 0
    while at < len(parts):
        if parts[at : at + 2] == [".claude", "worktrees"] and at + 3 < len(parts):
            at += 3
            continue
        repository_or_window = parts[at].endswith((".git", ".code-workspace"))
        if parts[at] in GUARDED_NAMES or repository_or_window or "/".join(parts[at : at + 2]) in GUARDED_NAMES:
            return parts[at]
        at += 1
    directory = os.path.dirname(real)
    while len(directory) > len(root):
        if _looks_bare(directory):
            return "the repository " + directory
        directory = os.path.dirname(directory)
    return ""


def _looks_bare(directory: str) -> bool:
    """git takes any directory with these for a repository, and runs what its config says."""
    found = os.path.lexists
    return found(directory + "/HEAD") and (found(directory + "/objects") or found(directory + "/commondir"))


# ---------------------------------------------------------------- sbox and the helper


def _judge_sbox(argv: tuple[str, ...], cwd: str | None) -> str:
    place = current_place()
    words = argv[1:]
    if words[:1] == ("--net-allow",):
        text = _own_file(place.settings + "/net-allow.txt", place) or ""  # a line: NAME HOST:PORT...
        lines = [line.partition("#")[0].split() for line in text.split("\n")]
        names = [line[0] for line in lines if len(line) > 1 and all(":" in word for word in line[1:])]
        if len(words) < 4 or words[2] != "--" or words[1] not in names:
            raise Gated("the settings do not name this network", "sbox --net-allow NAME -- CMD ARG...")
        words = words[3:]
    elif words[:1] == ("--",):
        words = words[1:]
    if not words or not words[0] or words[0][0] == "-":
        raise Gated("sbox is given options, or no command", "sbox CMD ARG...")
    _unplanted(("sbox",), place, directory_of(cwd))
    return "a command in the cage"


HELPER_VERBS = {  # plain words, options (each takes the next word), those of them that must be there
    "list": (0, "--state: --limit:", ""),
    "view": (1, "", ""),
    "create": (0, "--title: --body-file:", "--title --body-file"),
    "comment": (1, "--body-file:", "--body-file"),
    "close": (1, "", ""),
    "reopen": (1, "", ""),
    "label": (1, "--add: --remove:", ""),
    "pr-create": (0, "--title: --head: --base: --body-file:", "--title --head --body-file"),
    "pr-list": (0, "", ""),
    "pr-view": (1, "", ""),
    "pr-diff": (1, "", ""),
    "link-branch": (2, "", ""),
}


def _judge_helper(argv: tuple[str, ...], cwd: str | None) -> str:
    place, here = current_place(), directory_of(cwd)
    words = argv[1:] if argv[0] == "python3" else argv
    helper = place.tools + "/gh-issue/gh_issue.py"
    if not place.tools or words[:1] != (helper,):
        raise Gated("it runs outside the cage", _IN_THE_CAGE)
    if place.reached(helper):
        raise Gated("the helper lies where caged code can rewrite it", "move it out of ~/projects, /tmp and ~/.cache")
    _unplanted(("python3",), place, here)
    verb = words[1] if len(words) > 1 else ""
    if verb not in HELPER_VERBS:
        raise Gated("the helper's verb is not one of " + ", ".join(HELPER_VERBS))
    count, known, required = HELPER_VERBS[verb]
    options, plain = _options(words[2:], frozenset((known + " --repo:").split()))
    given = {name for name, _ in options}
    if len(plain) != count or not given.issuperset(required.split()):
        raise Gated("the helper's arguments do not fit its verb")
    if plain and not (plain[0].isascii() and plain[0].isdecimal()):
        raise Gated("the helper's first argument is not a number")
    repositories = {*place.policy["helper_repositories"], os.environ.get("GH_ISSUE_REPO", "")} - {""}
    for name, value in options:
        if name == "--body-file" and not _sendable(value, place, here):
            raise Gated("the body is not an ordinary file below ~/projects or /tmp")
        if name == "--repo" and value not in repositories:
            raise Gated("the settings do not name this repository")
    return "the vetted issue helper"


def _sendable(path: str, place: Place, cwd: str) -> bool:
    """May the text of this file leave in the agent's name? An ordinary file below ~/projects or /tmp."""
    real = _resolve(os.path.join(cwd, path))
    return any(root and real.startswith(root + "/") for root in (place.projects, place.tmp)) and _ordinary(real)


# ---------------------------------------------------------------- git: the words

# Options each subcommand may carry, by exact name: git's abbreviations are refused. "-m:" takes the next word, "--x="
# a value of its own, "--x=:" either, "-U#" digits; "--x[=]" and "--[no-]x" are two each. Nothing here names a program,
# writes a named file or skips a check.
_DIFF = """-p -u --[no-]patch -s --stat[=] --shortstat --numstat --summary --name-only --name-status --raw
    --patch-with-stat --dirstat --compact-summary -z --[no-]color --color= -w -b -a --text --binary --full-index
    --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --ignore-cr-at-eol -U#
    --unified= --abbrev[=] --minimal --patience --histogram --diff-algorithm= --word-diff[=] --word-diff-regex=
    --color-words --color-moved --no-renames -M -M# -C -C# --find-renames[=] --find-copies --find-copies-harder
    --diff-filter= -S: -G: --pickaxe-all --pickaxe-regex --check --exit-code --quiet --no-ext-diff --no-textconv
    --[no-]relative --relative= --function-context -W --inter-hunk-context= --src-prefix= --dst-prefix= --no-prefix
    --submodule=short --ignore-submodules[=] -R --cc -c -m"""
_LOG = (
    _DIFF
    + """ --oneline --graph --all --branches[=] --tags[=] --remotes[=] --[no-]decorate --decorate= --format= --pretty[=]
        --[no-]abbrev-commit --date=: --since=: --until=: --after=: --before=: --author=: --committer=: --grep=: -i
        --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp --invert-grep --all-match --follow
        --[no-]merges --first-parent --reverse --topo-order --date-order --author-date-order -n: -n# -# --max-count=:
        --skip=: -L: --left-right --left-only --right-only --cherry-pick --cherry-mark --cherry --not --boundary
        --ancestry-path --simplify-by-decoration --full-history --simplify-merges --source --no-walk --no-notes --root
        -t -r --count -g --walk-reflogs --relative-date --parents --children --no-commit-id --full-diff
        --ignore-missing"""
)
_REFS = """--sort=: --format=: --[no-]contains --[no-]merged --points-at=: --[no-]column --[no-]color --color= --count=
    -i --ignore-case"""
_STASH = "-u --[no-]include-untracked -a --all -k --[no-]keep-index -S --staged -q --quiet -m: --message=:"
# Reading: looks at objects, refs, index and files, and writes nothing but the index's own cache.
READING = {
    "status": """-s --short -b --branch --show-stash --porcelain[=] --long -v -vv --verbose -u -uno -unormal -uall
        --untracked-files[=] --ignored[=] -z --[no-]column --[no-]ahead-behind --[no-]renames --find-renames=
        --ignore-submodules[=]""",
    **dict.fromkeys(["log", "show", "whatchanged", "reflog", "diff-tree", "stash list"], _LOG),
    "diff": _DIFF + " --cached --staged --merge-base",
    "diff-index": _DIFF + " --cached --merge-base",
    "diff-files": _DIFF + " --base --ours --theirs",
    "cherry": "-v --verbose --abbrev=",
    "shortlog": _LOG.replace(" -n: -n#", "") + " -s -n -e --summary --numbered --email --group=",
    "rev-list": _LOG + " --objects --disk-usage --header",
    "range-diff": _DIFF + " --creation-factor= --no-dual-color",
    "rev-parse": """--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --verify -q
        --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --abbrev-ref[=]
        --short[=] --symbolic --symbolic-full-name --all --branches --tags --remotes --path-format= --revs-only
        --no-revs --[no-]flags --default: --git-path: --not""",
    "ls-files": """-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k --killed
        -z -t -v --exclude-standard --directory --no-empty-directory --full-name --error-unmatch --eol --deduplicate
        --abbrev[=] --exclude= -x:""",
    "ls-tree": "-r -t -d -l --long -z --name-only --name-status --full-name --full-tree --abbrev[=]",
    "blame": """-L: -w -M -M# -C -C# -s -e -l -t -p --porcelain --line-porcelain --since= --date= --root --show-email
        --show-name --show-number -n -f --abbrev= --first-parent --reverse""",
    "grep": """-n --line-number -i --ignore-case -l --files-with-matches --name-only -L --files-without-match -c --count
        -w --word-regexp -v --invert-match -E --extended-regexp -G -F --fixed-strings -P --perl-regexp -h -H -o --column
        --only-matching -q --quiet --cached --untracked --heading --break -p --show-function -W --function-context -A#
        -A: -B# -B: -C# -C: -# --after-context= --before-context= --context= -e: --and --or --not --all-match
        --[no-]color --color= --max-depth= -m: --max-count= -I -a --text --full-name -z --null -r --recursive""",
    "cat-file": "-t -s -p -e",
    "merge-base": "--all -a --is-ancestor --fork-point --octopus --independent",
    "describe": """--tags --all --always --abbrev= --long --dirty[=] --exact-match --match=: --exclude=: --contains
        --first-parent --candidates=""",
    "for-each-ref": _REFS,
    "show-ref": "--heads --tags -d --dereference -s --hash[=] --verify -q --quiet --head --abbrev[=]",
    "name-rev": "--name-only --tags --refs= --always --no-undefined",
    "symbolic-ref": "--short -q --quiet",
    "check-ignore": "-v --verbose -q --quiet -n --non-matching -z --no-index",
    "count-objects": "-v -H --verbose --human-readable",
    "remote": "-v --verbose",
    "remote get-url": "--all --push",
    "config": """-l --list --get: --get-all: --get-regexp: --show-origin --show-scope --local --global --system
        --name-only -z --null --type= --bool --int --path""",
    "stash show": _DIFF + " --include-untracked --only-untracked",
    "worktree list": "--porcelain -v --verbose -z",
    "version": "--build-options",
}
# Writing: changes index, refs or objects, and leaves the files of the working tree as they are.
_WRITING = {
    "add": """-A --[no-]all -u --update -n --dry-run -v --verbose -f --force -N --intent-to-add --refresh
        --ignore-errors --ignore-missing --[no-]ignore-removal --sparse --renormalize --chmod=""",
    "commit": """-m: --message=: -a --all --amend --no-edit --allow-empty --allow-empty-message -q --quiet -v --verbose
        -s --[no-]signoff --author=: --date=: --dry-run --short --branch --porcelain --long -F: --file=: --reset-author
        --fixup=: --squash=: --trailer=: -o --only -i --include --[no-]status --cleanup= -C: --reuse-message= -u -uno
        -uall""",
    "branch": _REFS
    + """ -a --all -r --remotes -v -vv --verbose -l --list --show-current -d -D --delete -m -M --move -c -C --copy -f
        --force -t --[no-]track --track= -u: --set-upstream-to=: --unset-upstream -q --quiet --abbrev= --no-abbrev""",
    "tag": _REFS + " -l --list -n -n# -a --annotate -m: --message=: -d --delete -f --force",
}
# Moving: changes files of the working tree.
MOVING = {
    "checkout": """-b: -B: -f --force -q --quiet -d --detach -t --[no-]track --track= --orphan=: --ours --theirs -m
        --merge --conflict= --[no-]progress --[no-]guess -l --[no-]overlay""",
    "switch": """-c: -C: --create=: --force-create=: -d --detach -f --force --discard-changes -q --quiet -t --[no-]track
        --track= --orphan=: -m --merge --conflict= --[no-]guess""",
    "restore": """-s: --source=: -S --staged -W --worktree -q --quiet --ours --theirs -m --merge --conflict=
        --[no-]overlay --ignore-unmerged""",
    "reset": "--soft --mixed --hard --merge --keep -q --quiet -N --intent-to-add --[no-]refresh",
    **dict.fromkeys(["stash", "stash push"], _STASH),
    **dict.fromkeys(["stash pop", "stash apply"], "--index -q --quiet"),
    **dict.fromkeys(["stash clear", "stash branch"], ""),
    "stash save": "-u --include-untracked -a --all -k --[no-]keep-index -q --quiet",
    "stash drop": "-q --quiet",
    "merge": """--no-edit --[no-]ff --ff-only --[no-]squash --[no-]commit -m: -q --quiet -v --verbose --abort --continue
        --quit --[no-]stat -n --allow-unrelated-histories --[no-]autostash --[no-]log --[no-]signoff""",
    "rebase": """--onto=: --abort --quit -q --quiet -v --verbose --[no-]autostash --[no-]stat -n --root --keep-base
        --[no-]fork-point -r --[no-]rebase-merges -f --force-rebase --no-ff --[no-]reapply-cherry-picks
        --committer-date-is-author-date --signoff""",
    "cherry-pick": "-n --no-commit -x --abort --quit -m: -m# --mainline= --ff --allow-empty -s --signoff",
    "revert": "-n --no-commit --no-edit --abort --quit -m: -m# --mainline= -s --signoff",
}
NETWORK = {  # their first plain word is the name of a configured remote
    "fetch": """--all --append -p --prune --prune-tags -t --[no-]tags -n --depth=: --deepen= --unshallow -q --quiet -v
        --verbose --dry-run --[no-]progress --atomic --multiple -4 -6 --ipv4 --ipv6 --no-recurse-submodules""",
    "pull": """-r --[no-]rebase --rebase=true --rebase=false --rebase=merges --[no-]ff --ff-only -q --quiet -v --verbose
        --[no-]autostash --no-edit --[no-]commit --[no-]squash --[no-]stat -n -p --prune -t --[no-]tags --all --depth=:
        --unshallow --dry-run --[no-]progress --allow-unrelated-histories -4 -6 --ipv4 --ipv6
        --no-recurse-submodules""",
    "push": """-u --set-upstream --tags --[no-]follow-tags -q --quiet -v --verbose -n --dry-run --porcelain
        --[no-]progress --[no-]atomic --all --branches -4 -6 --ipv4 --ipv6 --no-recurse-submodules""",
    "ls-remote": "--heads -t --tags --refs -q --quiet --exit-code --sort= --symref",
}
# Asked: never green, but a person may allow them for good. rm and mv follow links in the working tree to outside it.
_ASKED = {
    "rm": "--cached -r -f --force -q --quiet -n --dry-run --ignore-unmatch",
    "mv": "-f --force -k -n --dry-run -v --verbose",
    "init": "-q --quiet -b: --initial-branch= --bare",
    "clone": "--depth=: -q --quiet -v --verbose -b: --branch=: --single-branch --no-tags -n --no-checkout --bare",
    "worktree add": "-b: -B: -f --force -d --detach -q --quiet --[no-]track",
    "worktree remove": "-f --force",
    "worktree prune": "-n --dry-run -v --verbose",
}
_GROUPS = frozenset(["stash", "remote", "worktree"])  # of subcommands
_TABLES = (READING, _WRITING, MOVING, NETWORK, _ASKED)
_specs: dict[str, frozenset[str]] = {}  # the rows written out, on first use


class Git:
    """A git command line taken apart: subcommand ("stash pop"), options with values, plain words, `-C` directories."""

    def __init__(self, argv: tuple[str, ...], at: int, sub: str, table: dict[str, str], directories: list[str]) -> None:
        self.argv, self.sub, self.table, self.directories = argv, sub, table, directories
        self.words = argv[at:]  # behind the subcommand
        self.options: list[tuple[str, str]] = []
        self.plain: list[str] = []

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


def parse_git(argv: tuple[str, ...]) -> Git:
    """Take `git ...` apart, or raise Gated where a word is not on the subcommand's list."""
    at, directories = 1, []
    while at < len(argv) and argv[at][:1] == "-":
        if argv[at] == "-C" and at + 1 < len(argv) and argv[at + 1]:
            directories.append(argv[at + 1])
            at += 1
        elif argv[at] == "--version" and len(argv) == 2:
            return Git(argv, at + 1, "version", READING, directories)
        elif argv[at] != "--no-pager":
            raise Gated("git's own option " + argv[at][:40] + " can change what runs")
        at += 1
    sub = argv[at] if at < len(argv) else ""
    if sub in _GROUPS and at + 1 < len(argv) and argv[at + 1][:1] != "-":
        at += 1
        sub += " " + argv[at]
    table = next((table for table in _TABLES if sub in table), None)
    if table is None:
        raise Gated("git " + sub[:40] + " is not on the list", _IN_THE_CAGE)
    if sub not in _specs:
        words = table[sub].split()
        for mark, one, other in (("[no-]", "", "no-"), ("[=]", "", "="), ("=:", "=", ":")):
            words += [word.replace(mark, other) for word in words if mark in word]
            words = [word.replace(mark, one) for word in words]
        _specs[sub] = frozenset(words)
    call = Git(argv, at + 1, sub, table, directories)
    call.options, call.plain = _options(call.words, _specs[sub], sub in ("checkout", "switch", "merge", "rebase"))
    if sub in _GROUPS and call.plain[:1] not in ([], ["--"]):  # `git remote -v update` is `git remote update`
        raise Gated("git " + sub + " has its subcommand behind an option")
    return call


def _options(
    words: tuple[str, ...], allowed: frozenset[str], dash: bool = False
) -> tuple[list[tuple[str, str]], list[str]]:
    """The options (name, value) and the plain words; raises Gated for what is not `allowed`. `dash`: "-" is plain."""
    options: list[tuple[str, str]] = []
    plain: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            return options, [*plain, *words[at - 1 :]]
        if word[:1] != "-" or (word == "-" and dash):
            plain.append(word)
            continue
        for name, value, takes_next in _option(word, allowed):
            if takes_next:
                value = words[at] if at < len(words) else "-"
                # a message may begin with a dash: git surely takes it; elsewhere a dash could be an option after all
                if value[:1] == "-" and (at >= len(words) or name not in ("-m", "--message")):
                    raise Gated("the option " + name + " has no plain value")
                at += 1
            options.append((name, value))
    return options, plain


def _option(word: str, allowed: frozenset[str]) -> Iterator[tuple[str, str, bool]]:
    """(name, value, takes the next word) of an option word; several for a cluster such as -am."""
    name, equals, value = word.partition("=")
    if word in allowed and word[-1] not in "=:#":
        yield name, value, False
    elif word[:2] == "--":
        if (name + "=" if equals else name + ":") not in allowed:
            raise Gated("the option " + word[:40] + " is not on the list of this command")
        yield name, value, not equals
    elif "-#" in allowed and word[1:].isdecimal() and word.isascii():
        yield "-#", word[1:], False
    else:
        for at in range(1, len(word)):
            letter, rest = "-" + word[at], word[at + 1 :]
            if letter + "#" in allowed and rest.rstrip("%").isdecimal() and rest.isascii():
                yield letter, rest, False
                return
            if letter + ":" in allowed:
                yield letter, rest, not rest
                return
            if letter not in allowed or letter[1] in "=:#":
                raise Gated("the option " + word[:40] + " is not on the list of this command")
            yield letter, "", False


# ---------------------------------------------------------------- git: its settings

OFF = frozenset(["false", "no", "off", "0", ""])
ON_OR_OFF = OFF | {"true", "yes", "on", "1"}
_NONE: frozenset[str] = frozenset()
# Keys of a repository's own configuration that run nothing and lead nowhere, "remote.*.fetch" for any remote.
_LOCAL_KEYS = frozenset(
    """core.filemode core.logallrefupdates core.ignorecase core.precomposeunicode core.symlinks core.autocrlf core.eol
    core.safecrlf core.quotepath core.compression core.abbrev core.untrackedcache core.preloadindex core.commentchar
    core.whitespace core.longpaths core.sharedrepository core.sparsecheckout core.sparsecheckoutcone
    core.checkstat core.trustctime user.name user.email user.signingkey user.useconfigonly author.name author.email
    committer.name committer.email init.defaultbranch remote.*.fetch remote.*.tagopt remote.*.prune remote.*.prunetags
    remote.*.gh-resolved remote.*.skipdefaultupdate branch.*.merge branch.*.rebase branch.*.description
    branch.*.remote branch.*.pushremote branch.*.vscode-merge-base branch.*.gh-merge-base
    branch.*.github-pr-owner-number branch.*.gk-last-accessed branch.*.gk-last-modified branch.*.gk-merge-base
    branch.sort branch.autosetupmerge branch.autosetuprebase pull.rebase pull.ff push.default push.autosetupremote
    push.followtags fetch.prune fetch.prunetags fetch.parallel rebase.autostash rebase.autosquash rebase.updaterefs
    rebase.stat merge.ff merge.conflictstyle merge.renames merge.renamelimit merge.stat merge.log diff.algorithm
    diff.renames diff.renamelimit diff.colormoved diff.mnemonicprefix diff.noprefix diff.context diff.wordregex
    log.date log.decorate log.abbrevcommit log.follow log.mailmap status.short status.branch
    status.showuntrackedfiles status.showstash status.aheadbehind status.renames commit.verbose commit.status
    commit.cleanup rerere.enabled rerere.autoupdate tag.sort versionsort.suffix i18n.commitencoding
    i18n.logoutputencoding gui.wmstate gui.geometry submodule.active submodule.*.url submodule.*.active
    submodule.*.branch submodule.*.ignore submodule.*.shallow index.version index.threads feature.manyfiles gc.auto
    gc.autodetach gc.autopacklimit gc.pruneexpire gc.reflogexpire gc.reflogexpireunreachable maintenance.auto
    maintenance.strategy grep.linenumber grep.patterntype grep.column grep.extendedregexp extensions.objectformat
    apply.whitespace am.keepcr checkout.defaultremote checkout.guess checkout.workers protocol.version
    http.postbuffer lfs.repositoryformatversion""".split()
)
_LOCAL_SECTIONS = frozenset(["advice", "color", "column"])  # every key of them is harmless
_LOCAL_VALUES = {  # further keys, harmless with these values
    "core.repositoryformatversion": frozenset(["0", "1"]),
    "extensions.worktreeconfig": ON_OR_OFF,
    "submodule.*.update": frozenset(["checkout", "rebase", "merge", "none"]),
    **dict.fromkeys("core.bare core.fsmonitor submodule.recurse".split(), OFF),
    **dict.fromkeys("commit.gpgsign tag.gpgsign tag.forcesignannotated push.gpgsign".split(), OFF),
}
# Keys of the person's own files that make git follow the repository, and the values with which they do not.
_OWN_VALUES = {
    "core.hookspath": frozenset(["/dev/null", ""]),
    "core.fsmonitor": ON_OR_OFF,
    "protocol.allow": frozenset(["never", "user"]),
    "protocol.*.allow": frozenset(["never", "user"]),
    "push.recursesubmodules": frozenset(["no", "check"]),
    **dict.fromkeys("core.bare remote.*.mirror remote.*.promisor".split(), OFF),
    **dict.fromkeys("core.worktree core.gitproxy core.alternaterefscommand submodule.*.update".split(), _NONE),
    **dict.fromkeys("remote.*.url remote.*.pushurl remote.*.push remote.*.vcs".split(), _NONE),
    **dict.fromkeys("remote.*.uploadpack remote.*.receivepack branch.*.remote branch.*.pushremote".split(), _NONE),
    **dict.fromkeys("diff.*.command diff.*.textconv merge.*.driver hook.*.command".split(), _NONE),
    "trailer.*.command": _NONE,  # what the agent gives to --trailer becomes part of its shell text
    # what `git lfs install` writes: the one filter known to run the same program whatever the repository says
    "filter.*.clean": frozenset(["git-lfs clean -- %f"]),
    "filter.*.smudge": frozenset(["git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"]),
    "filter.*.process": frozenset(["git-lfs filter-process", "git-lfs filter-process --skip"]),
}
# Sections and keys of the person's own files that are data: a path in them is read at most, or is an address.
_OWN_DATA = frozenset(
    """core.excludesfile core.attributesfile commit.template user url safe http mailmap alias mergetool difftool
    gui""".split()
)
_SIGNING = frozenset(["gpgsign", "forcesignannotated"])
_INTO_SUBMODULES = frozenset(
    "diff.submodule diff.ignoresubmodules status.submodulesummary submodule.recurse fetch.recursesubmodules".split()
)


def own_config(place: Place) -> Config:
    """The person's and the machine's git settings; raises Gated where they make git follow the repository."""
    get = os.environ.get
    waiting = [] if get("GIT_CONFIG_NOSYSTEM") or get("GIT_CONFIG_SYSTEM") == os.devnull else ["/etc/gitconfig"]
    if get("GIT_CONFIG_GLOBAL") != os.devnull:
        waiting += [(get("XDG_CONFIG_HOME") or place.home + "/.config") + "/git/config", place.home + "/.gitconfig"]
    settings: Config = []
    seen = 0
    while waiting:
        path = waiting.pop()
        seen += 1
        if seen > 30:
            raise Gated("your git settings include too many files")
        exposed = place.reached(path)
        for section, name, value in parse_config(path) if os.path.lexists(path) else []:
            if exposed and not is_harmless(section, name, value):
                raise Gated("caged code can write " + path + ", which sets " + section + "." + name)
            if section.partition(".")[0] in ("include", "includeif"):
                value = place.home + value[1:] if value[:2] == "~/" else os.path.join(os.path.dirname(path), value)
                waiting.append(value)
            if _follows_repository(section, name, value, place):
                raise Gated("your git settings let the repository choose what runs: " + section + "." + name)
            settings.append((section, name, value))
    return settings


def full_key(section: str, name: str) -> tuple[str, str]:
    """The section's kind and the key as the lists spell it: "remote" and "remote.*.url"."""
    kind, _, which = section.partition(".")
    return kind, kind + (".*." if which else ".") + name


def is_harmless(section: str, name: str, value: str) -> bool:
    """May a file that caged code can write hold this setting?"""
    kind, full = full_key(section, name)
    if name == "sort" and "signature" in value.lower():  # newer versions of git ask gpg for it
        return False
    return full in _LOCAL_KEYS or kind in _LOCAL_SECTIONS or value.lower() in _LOCAL_VALUES.get(full, ())


def _follows_repository(section: str, name: str, value: str, place: Place) -> bool:
    kind, full = full_key(section, name)
    if full in _OWN_VALUES:
        return value.lower() not in _OWN_VALUES[full]
    if full in _OWN_DATA or kind in _OWN_DATA:
        return False
    return any(_leads_inside(word.strip("'\""), place) for word in value.lstrip("!").split())


def _leads_inside(word: str, place: Place) -> bool:
    """Is this word of a setting a path that depends on where git runs, or one in the zone?"""
    if word[:2] == "~/":
        word = place.home + word[1:]
    return word.startswith(("./", "../")) or (word[:1] == "/" and bool(place.reached(word)))


def _starts_inside(value: str, place: Place) -> bool:
    """May the program in this variable lie in the zone, or be another one wherever git runs?"""
    words = [word.strip("'\"") for word in value.split()]
    relative = bool(words) and "/" in words[0] and words[0][0] not in "/~"
    return relative or any(_leads_inside(word, place) for word in words)


def signs(call: Git, own: Config) -> bool:
    """Do the person's settings want what this call makes to be signed? A signature may wait for a passphrase."""
    asked = {section + "." + name for section, name, value in own if name in _SIGNING and value.lower() not in OFF}
    commits = call.sub in ("commit", "merge", "rebase", "cherry-pick", "revert", "pull")
    tags = call.sub == "tag" and asked & {"tag.gpgsign", "tag.forcesignannotated"}
    return bool(tags or (commits and "commit.gpgsign" in asked) or (call.sub == "push" and "push.gpgsign" in asked))


def parse_config(path: str) -> Config:
    """(section, key, value) of a git config file: "remote.origin", "url", "..."; any unusual spelling raises Gated."""
    text = text_of(path, 1 << 18)
    section = ""
    found: Config = []
    for line in (text if text is not None else "\0").split("\n"):
        line = line.strip(" \t")
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            section = _section(line)
            if not section:  # the line may hold a key as well
                raise Gated("this git configuration cannot be read exactly: " + path)
            continue
        name, equals, value = line.partition("=")
        name = name.rstrip(" \t").lower()
        plain = line.replace("\t", " ").isprintable() and line[-1] != "\\"
        if not (section and _is_key(name) and plain):
            raise Gated("this git configuration cannot be read exactly: " + path)
        found.append((section, name, _value(value.lstrip(" \t")) if equals else "true"))
    return found


def _is_key(name: str) -> bool:
    return name[:1].isalpha() and name.isascii() and name.replace("-", "a").isalnum()


def _section(line: str) -> str:
    """The section that a header line opens, or "" for any unusual spelling."""
    head, close, rest = line[1:].partition("]")
    if not close or rest.strip(" \t")[:1] not in ("", "#", ";") or not head.isprintable():
        return ""
    name, quote, sub = head.lower().partition('"')
    if not quote:
        return name if _is_key(name) else ""
    sub = head[len(name) + 1 :]
    if name[-1:] != " " or not _is_key(name.rstrip(" ")) or sub[-1:] != '"' or '"' in sub[:-1] or "\\" in sub:
        return ""
    return name.rstrip(" ") + "." + sub[:-1]


def _value(text: str) -> str:
    """A value without its comment or its quotes; where quotes are mixed in, it stays raw and matches no list."""
    inner = text[1:-1]
    if '"' in text or "\\" in text:
        whole = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner and "\\" not in inner
        return inner if whole else text
    return text.partition("#")[0].partition(";")[0].rstrip(" \t").replace("\t", " ")  # as git reads a tab


# ---------------------------------------------------------------- git: the repository

_GIT_RUNS = ("git", "ssh", "sh", "gpg", "git-lfs", "less", "pager", "editor", "vi", "nano")
# Variables that git obeys and that are harmless: with any value, with this one, with a program outside the zone.
_GIT_VARIABLES = frozenset(
    """GIT_TERMINAL_PROMPT GIT_CONFIG_NOSYSTEM GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT GIT_LFS_SKIP_SMUDGE GIT_SSL_CAINFO
    GIT_SSL_CAPATH GIT_PS1_SHOWDIRTYSTATE GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME
    GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE""".split()
)
_GIT_FILES = frozenset(["GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"])
_GIT_PROGRAMS = frozenset(
    "GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS EDITOR VISUAL PAGER SSH_ASKPASS".split()
)
_MAX_DIRECTORIES = 20_000  # looked through for one line: about half a second
_A_REPOSITORY = 10  # costs as much as so many directories
_LINES = 32  # of a configuration, or files of a directory, cost as much as one
_MAX_INDEX = 64 << 20
_WRITTEN = frozenset("logs refs info worktrees rr-cache rebase-merge rebase-apply sequencer".split())


class Repository:
    """A repository in the zone: working tree `top`, its `gitdir`, and the `common` one with config and hooks."""

    def __init__(self, top: str, gitdir: str, common: str) -> None:
        self.top, self.gitdir, self.common = top, gitdir, common
        self.trees = [top]  # where it may write files: with what core.worktree says
        self.remotes: dict[str, list[str]] = {}
        self.settings: Config = []


class Search:
    """What one line may cost, counted in directories. `quiet`: the whole line only reads, so that nothing but what
    the index already names can bring a submodule in."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.left = quiet, _MAX_DIRECTORIES

    def spend(self, directories: int, where: str) -> None:
        self.left -= directories
        if self.left < 0:
            raise Gated("there is too much to look through: " + where)


def judge_git(calls: list[Git], cwd: str | None) -> list[Repository]:
    """Raise Gated unless every git call of a line runs nothing but git, whatever was planted before."""
    place, here = current_place(), directory_of(cwd)
    programs: list[str] = []
    for name, value in os.environ.items():
        if name in _GIT_PROGRAMS and not _starts_inside(value, place):
            programs.append(value)
        elif name in _GIT_PROGRAMS or (
            name[:4] == "GIT_" and name not in _GIT_VARIABLES and name + "=" + value not in _GIT_FILES
        ):
            raise Gated("the variable " + name + " changes what git does")
    own = own_config(place)
    programs += [value.lstrip("!") for _, _, value in own]
    programs += ["git-credential-" + value for section, name, value in own if name == "helper"]  # git finds these so
    _unplanted(_GIT_RUNS, place, here, [word for value in programs for word in value.split()])
    search = Search(quiet=all(call.table is READING for call in calls))
    moved = ""
    judged: dict[tuple[str, str], Repository] = {}
    for call in calls:
        try:
            judge_git_words(call, place, here)
            directory = _resolve(os.path.join(here, *call.directories))
            if call.sub == "version":
                continue
            repository = find_repository(directory, place)
            if moved and not moved == directory == repository.top:
                raise Gated("the command before it can make another repository of this directory", "two calls")
            if moved and call.has("-F", "--file"):
                raise Gated("the command before it can bring another file of that name", "two calls")
            where = (repository.top, repository.gitdir)
            if where not in judged:
                _judge_repository(repository, own, search)
            repository = judged.setdefault(where, repository)
            if call.table is NETWORK:
                _judge_remote(call, repository, own)
            if signs(call, own):
                raise Gated("your git settings ask for a signature")
            if moves_files(call):
                moved = repository.top
        except Gated as gated:
            gated.argv = call.argv
            gated.hint = gated.hint or ("" if call.table is NETWORK else _IN_THE_CAGE)
            raise
    return list(judged.values())


def judge_git_words(call: Git, place: Place, here: str) -> None:
    """What the tables of options cannot say."""
    plain, sub = call.plain, call.sub
    if call.table is _ASKED:
        raise Gated("git " + sub + " is always asked")
    for value in (value for name, value in call.options if name in ("--format", "--pretty", "--group", "--sort")):
        if "signature" in value or "%G" in value.replace("+", "").replace("-", "").replace(" ", ""):  # %+G? is %G?, too
            raise Gated("this format runs gpg")
    if sub == "reflog" and plain[:1] in (["expire"], ["delete"], ["drop"], ["write"], ["exists"]):
        raise Gated("this changes what git remembers")
    lists = call.has("-l", "--list") and not plain
    gets = call.has("--get", "--get-all", "--get-regexp") and len(plain) < 2
    asks = len(plain) == 1 and "." in plain[0]  # without a dot newer versions of git take it for a subcommand
    if sub == "config" and not (lists or gets or asks):
        raise Gated("it may write git's configuration")
    if sub == "symbolic-ref" and len(plain) != 1:
        raise Gated("it moves HEAD")
    if sub == "commit":
        there = os.path.join(here, *call.directories)
        for name, value in call.options:
            if name in ("-F", "--file") and (value == "-" or not _sendable(value, place, there)):
                raise Gated("the message is not an ordinary file below ~/projects or /tmp")


def find_repository(directory: str, place: Place) -> Repository:
    """The repository git would use in this resolved directory; raises Gated unless it lies plainly in the zone."""
    if not os.path.isdir(directory) or ".git" in directory.casefold().split("/"):
        raise Gated("the directory where git would work is not there, or lies inside .git")
    at = directory
    while place.green(at):
        if os.path.lexists(at + "/.git"):
            return _open_repository(at, place)
        if _looks_bare(at):
            raise Gated("there is a bare repository at " + at)
        at = os.path.dirname(at)
    raise Gated("the repository is outside the green zone, or there is none")


def _open_repository(top: str, place: Place) -> Repository:
    dot = top + "/.git"
    mode = os.lstat(dot).st_mode
    if stat.S_ISDIR(mode):
        if os.path.lexists(dot + "/commondir") and line_of(dot + "/commondir") != ".":
            raise Gated("the repository's .git/commondir points elsewhere")
        return Repository(top, dot, dot)
    pointer = line_of(dot) if stat.S_ISREG(mode) else ""
    if pointer[:8] != "gitdir: ":
        raise Gated("the repository's .git is odd")
    gitdir = common = _resolve(os.path.join(top, pointer[8:]))
    if os.path.lexists(gitdir + "/commondir"):
        common = _resolve(os.path.join(gitdir, line_of(gitdir + "/commondir")))
        if os.path.dirname(gitdir) != common + "/worktrees":
            raise Gated("the worktree's .git points to an odd place")
    if not place.holds(gitdir) or not place.holds(common):
        raise Gated("the repository's .git points outside the green zone")
    return Repository(top, gitdir, common)


def line_of(path: str) -> str:
    """The single line a small file holds, or ""."""
    text = text_of(path, 8192) or ""
    line = text[:-1] if text[-1:] == "\n" else text
    return line if line.isprintable() else ""


def _judge_repository(repository: Repository, own: Config, search: Search) -> None:
    """Raise Gated unless the repository, and every one below it that git could enter, runs nothing."""
    _judge_files(repository, search)
    index = repository.gitdir + "/index"
    if not search.quiet:
        sha256 = ("extensions", "objectformat", "sha256") in repository.settings
        _judge_index(index, 32 if sha256 else 20, search)
    if os.path.lexists(repository.top + "/.lfsconfig"):
        raise Gated("the repository holds settings for git-lfs")
    curious = any(section + "." + name in _INTO_SUBMODULES for section, name, _ in own)
    if search.quiet and not curious and not _has_gitlinks(index, search):
        return
    # every directory below with a `.git` of its own: git looks into one as soon as the index names it
    tops = [path[:-5] for path in _walk(repository.top, search, links=True) if path[:-5] != repository.top]
    inner = [_open_repository(top, current_place()) for top in tops]
    for found in inner:
        _judge_files(found, search)
    commons = {directory for found in (repository, *inner) for directory in (found.common, found.gitdir)}
    if any(_can_hold(tree, directory) for tree in repository.trees for directory in commons):
        raise Gated("git could write what it runs: its directory lies in the working tree under another name than .git")
    for gitdir in _modules(commons, search):
        _judge_files(Repository(repository.top, gitdir, gitdir), search)


def _can_hold(tree: str, gitdir: str) -> bool:
    """May a path of this working tree lead into this git directory? Git takes none that passes through a `.git`."""
    return below(tree, gitdir) or (below(gitdir, tree) and ".git" not in gitdir[len(tree) :].lower().split("/"))


def _judge_files(repository: Repository, search: Search) -> None:
    search.spend(_A_REPOSITORY, repository.gitdir)
    gitdir, common = repository.gitdir, repository.common
    _judge_gitdir(common, frozenset(["HEAD", "config", "objects", "refs"]), search)
    if gitdir != common:
        _judge_gitdir(gitdir, frozenset(["HEAD"]), search)
    if not (_is_head(gitdir) and all(os.access(common + part, os.X_OK) for part in ("/objects/.", "/refs/."))):
        raise Gated("git may take the repository's .git for none, and look for another further up")
    settings = repository.settings = local_config(repository)
    search.spend(len(settings) // _LINES, repository.gitdir)
    for section, name, value in settings:
        if full_key(section, name)[1] in ("remote.*.url", "remote.*.pushurl"):
            repository.remotes.setdefault(section[7:], []).append(value)
        elif (section, name) == ("core", "worktree") and below(_resolve(os.path.join(gitdir, value)), repository.top):
            repository.trees.append(_resolve(os.path.join(gitdir, value)))  # a submodule says where it is checked out
        elif not is_harmless(section, name, value):
            raise Gated("the repository's configuration sets " + section + "." + name)
    for section, name, value in settings:
        if (
            section[:7] == "branch."
            and name in ("remote", "pushremote")
            and value != "."
            and value not in repository.remotes
        ):
            raise Gated("the branch " + section[7:] + " follows something that is not a named remote")


def _is_head(gitdir: str) -> bool:
    """Is its HEAD one that git accepts for a repository's? Only the beginning counts, in any encoding."""
    head = _bytes(gitdir + "/HEAD", 8192) or b""
    return head[:10] == b"ref: refs/" or (len(head) >= 40 and set(head[:40]) <= set(b"0123456789abcdef"))


def local_config(repository: Repository) -> Config:
    """All that the repository's own files set; Gated where that leaves the kind of its hashes unclear."""
    settings = parse_config(repository.common + "/config")
    formats = _formats(settings)[:1]
    for file in {repository.gitdir + "/config.worktree", repository.common + "/config.worktree"}:
        settings += parse_config(file) if os.path.lexists(file) else []
    if _formats(settings) != formats:  # git reads it from the one file alone
        raise Gated("the repository's configuration sets extensions.objectformat twice, or in config.worktree")
    return settings


def _formats(settings: Config) -> Config:
    return [setting for setting in settings if setting[:2] == ("extensions", "objectformat")]


def _modules(commons: set[str], search: Search) -> list[str]:
    """The git directories of submodules kept below these ones: fetch works in them even when none is checked out."""
    found: list[str] = []
    waiting = [common + "/modules" for common in commons]
    for directory in waiting:
        search.spend(1, directory)
        names = _links(directory, search) if os.path.lexists(directory) else {}
        if "HEAD" in names:
            found.append(directory)
            waiting.append(directory + "/modules")
        else:
            waiting += [directory + "/" + name for name in names]
    return found


def _judge_gitdir(gitdir: str, needed: frozenset[str], search: Search) -> None:
    """Raise Gated where a git directory holds what runs, borrows, or leads a write elsewhere."""
    links = _links(gitdir, search)
    if not needed <= links.keys():
        raise Gated("the repository's .git is odd")
    for name in links:
        if links[name] or name[:12] == "sharedindex.":
            raise Gated("the repository's .git/" + name + " leads elsewhere")
    for name in _links(gitdir + "/hooks", search) if "hooks" in links else []:
        if name[-7:] != ".sample":
            raise Gated("the repository has a hook: " + name)
    if any(name in links and os.listdir(gitdir + "/" + name) for name in ("remotes", "branches")):
        raise Gated("the repository has remotes of the old kind")
    for file in ("/objects/info/alternates", "/objects/info/http-alternates"):
        if os.path.lexists(gitdir + file):
            raise Gated("the repository borrows objects from another")
    if not search.quiet:  # git writes to these by name: a link leads the write elsewhere
        if "MERGE_RR" in links and os.path.getsize(gitdir + "/MERGE_RR"):  # paths, which rerere reads and writes
            raise Gated("the repository is in the middle of a merge: MERGE_RR")
        for name in _WRITTEN & links.keys():
            _walk(gitdir + "/" + name, search, links=False)
        for name in ("info", "pack"):
            if os.path.lexists(gitdir + "/objects/" + name):
                _walk(gitdir + "/objects/" + name, search, links=False)
        if "objects" in links and any(_links(gitdir + "/objects", search).values()):
            raise Gated("the repository's .git/objects holds a link")


def _links(directory: str, search: Search) -> dict[str, bool]:
    """Is it a symbolic link? for each name in a directory."""
    return {entry.name: entry.is_symlink() for entry in _entries(directory, search)}


def _entries(directory: str, search: Search) -> Iterator[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        for number, entry in enumerate(entries, 1):
            if number % _LINES == 0:
                search.spend(1, directory)
            yield entry


def _walk(top: str, search: Search, links: bool) -> list[str]:
    """The paths called `.git` from `top` down; raises Gated where it costs too much, or for a link unless `links`."""
    found: list[str] = []
    waiting = [top]
    for directory in waiting:
        search.spend(1, top)
        for entry in _entries(directory, search):
            if links and entry.name == ".git":
                found.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.is_symlink():
                if not links:
                    raise Gated("the repository's .git holds a link: " + entry.path)
                search.spend(1, top)
                if os.path.lexists(entry.path + "/.git"):  # older versions of git follow it to a submodule
                    found.append(_resolve(entry.path) + "/.git")
    return found


def _index(path: str, search: Search, cost: int) -> bytes:
    """The index, an empty one where there is none; it counts as a directory for each 2**cost bytes."""
    data = _bytes(path, _MAX_INDEX) if os.path.lexists(path) else b"DIRC\0\0\0\2\0\0\0\0"
    if data is None or data[:7] != b"DIRC\0\0\0" or data[7:8] not in (b"\2", b"\3", b"\4"):
        raise Gated("the repository's index is odd")
    search.spend(len(data) >> cost, path)
    return data


def _judge_index(path: str, digest: int, search: Search) -> list[bytes]:
    """The paths in the index; Gated unless all lie in the working tree: git writes, reads and removes by them.

    It is read as git reads it: by the length that an entry tells, or in blocks where the extension IEOT lists them. The
    extensions begin where EOIE says, and the first name of a block builds on none before.
    """
    data = _index(path, search, 10)
    version, at, name, names, starts, whole = data[7], 12, b"", [b"x"], [12], []
    try:
        for _ in range(int.from_bytes(data[8:12], "big")):
            flags = int.from_bytes(data[at + 40 + digest : at + 42 + digest], "big")
            begin = at + 42 + digest + (2 if flags & 0x4000 else 0)
            kept = 0
            if version == 4:  # as much of the name before as is not dropped; the number's digits have 7 bits
                less = data[begin] & 0x7F
                while data[begin] & 0x80:
                    begin += 1
                    less = (less + 1) << 7 | data[begin] & 0x7F
                begin, kept = begin + 1, len(name) - less
            end = data.index(b"\0", begin)
            name = name[:kept] + data[begin:end]
            if kept < 0 or flags & 0xFFF != min(len(name), 0xFFF):
                raise ValueError
            at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
            names.append(name)
            starts.append(at)
            whole.append(kept == 0)
        last = len(data) - 2 * digest - 12
        if data[last : last + 4] == b"EOIE" and int.from_bytes(data[last + 8 : last + 12], "big") != at:
            raise ValueError
        found = data.find(b"IEOT", at)
        while found >= 0:
            size, done = int.from_bytes(data[found + 4 : found + 8], "big"), 0
            for block in range(found + 12, found + 8 + size, 8):
                if int.from_bytes(data[block : block + 4], "big") != starts[done] or not whole[done]:
                    raise ValueError
                done += int.from_bytes(data[block + 4 : block + 8], "big")
            if done != len(starts) - 1:
                raise ValueError
            found = data.find(b"IEOT", found + 1)
    except (IndexError, ValueError):
        raise Gated("the repository's index is odd") from None
    together = b"/" + b"/\0/".join(names).lower() + b"/"
    if any(part in together for part in (b"//", b"/./", b"/../", b"/.git/")):
        raise Gated("the repository's index names what lies outside its working tree")
    return names[1:]


def _has_gitlinks(path: str, search: Search) -> bool:
    """May the index name a submodule (mode 160000)? A false yes only costs a look through the tree."""
    data = _index(path, search, 16)
    if b"sdir" in data:  # a sparse index: a directory in it may hold one
        return True
    # before version 4 an entry starts at 12 + 8n and its mode lies 24 bytes on, but for blocks: they start anywhere
    aligned = data[7:8] < b"\x04" and b"IEOT" not in data
    at = data.find(b"\x00\x00\xe0\x00", 12)
    while at >= 0 and aligned and at % 8 != 4:
        search.spend(1, path)
        at = data.find(b"\x00\x00\xe0\x00", at + 1)
    return at >= 0


# ---------------------------------------------------------------- git: the remote

_HOST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.")
_REF = _HOST | frozenset("_/@#=+")


def _judge_remote(call: Git, repository: Repository, own: Config) -> None:
    problem = _remote_words(call)
    if problem:
        raise Gated(problem)
    everything = call.sub == "fetch" and call.has("--all")
    names = call.plain if everything or call.has("--multiple") else call.plain[:1]
    # git takes the name of a remote that is not configured for a path; without a name the last resort is "origin"
    defaults = [value for section, name, value in own if (section, name) == ("remote", "pushdefault")]
    for name in names or ([] if everything else ["origin", *defaults]):
        if name not in repository.remotes:
            raise Gated("there is no configured remote of that name: " + name[:60])
    for name in dict.fromkeys(names) if names and not everything else repository.remotes:
        for url in repository.remotes[name]:
            if not plain_url(url):
                raise Gated("the remote " + name + " has an unusual address: " + url[:80])


def _remote_words(call: Git) -> str:
    """Why the plain words of a push, fetch or pull are not a remote's name and unforced refs, or ""."""
    for at, ref in enumerate(call.plain):
        source, colon, target = ref.partition(":")
        if ref[:1] == "+" or not source or (colon and not target):
            return "it forces or deletes: " + ref[:60]
        if not (is_plain_ref(source + target) and source[0] not in "-/." and target[:1] not in ("-", "+")):
            return "not a plain name: " + ref[:60]
        if at == 0 and ("/" in ref or colon):
            return "the first word is not the name of a remote: " + ref[:60]
    return ""


def is_plain_ref(name: str) -> bool:
    return set(name) <= _REF


def plain_url(url: str) -> bool:
    """https, http, git or ssh to a host written in ASCII: no local path, no other transport."""
    scheme, mark, rest = url.partition("://")
    if not mark:  # user@host:path
        rest, colon, path = url.partition(":")
        if not colon or "@" not in rest or "/" in rest or path[:1] in ("", "-", ":"):
            return False
    elif scheme not in ("https", "http", "git", "ssh"):
        return False
    user, _, host = rest.partition("/")[0].rpartition("@")
    host, _, port = host.partition(":")
    plain_user = not user or (user[0].isalnum() and set(user) <= _HOST | set("_:%~+"))
    return host[:1].isalnum() and set(host) <= _HOST and (not port or port.isdecimal()) and plain_user


# ---------------------------------------------------------------- what Always remembers

# Programs that run what their arguments name, or change what later words mean: never a key.
CARRIERS = frozenset(
    """sh bash zsh dash ksh mksh ash fish csh tcsh elvish xonsh nu pwsh powershell busybox toybox sudo su doas pkexec
    runuser sg newgrp chroot unshare nsenter setpriv capsh bwrap firejail fakeroot proot systemd-run env xargs parallel
    nice ionice nohup timeout stdbuf time chrt taskset setsid setarch watch flock strace ltrace gdb lldb perf valgrind
    rr script expect unbuffer rlwrap screen tmux zellij dtach at batch crontab ssh mosh sshpass telnet ftp sftp scp
    rsync nc ncat netcat socat lftp command builtin exec eval source . trap hash enable alias unalias export declare
    typeset local readonly set unset shift shopt bind complete compgen pushd popd let read mapfile readarray getopts
    history fc test [ wait jobs fg bg disown suspend exit return break continue logout umask ulimit coproc npx bunx pnpx
    pipx uvx tsx ts-node nodemon concurrently cross-env env-cmd dotenv entr watchexec hyperfine corepack awk gawk mawk
    nawk ed ex vi vim nvim view emacs emacsclient nano less more most man info sqlite3 psql mysql mariadb mongosh
    redis-cli irb iex ghci erl tar zip cpio split csplit m4 dc tex latex pdflatex osascript open xdg-open op doppler
    ip chamber aws-vault envchain infisical direnv choom prlimit daemonize start-stop-daemon runcon chpst su-exec gosu
    tini dumb-init chronic ifne pee vipe vidir sem sponge numactl cpulimit cgexec cgclassify faketime datefudge
    eatmydata proxychains torsocks torify tsocks trickle xvfb-run dbus-run-session dbus-launch dbus-send gdbus busctl
    systemd-inhibit run0 run-parts flatpak-spawn toolbox distrobox catchsegv logsave ccache sccache distcc heaptrack
    bpftrace tcpdump qemu wine ldd rbash yash posh ipython bpython ptpython jupyter jshell gnuplot fzf sk peco gum
    vimdiff rvim rview gvim gview evim vimtutor kak hx helix micro joe mg code code-insiders zed subl idea duckdb
    clickhouse usql pgcli mycli litecli cqlsh ssh-agent sshfs setlock envdir softlimit pm2 forever foreman honcho
    supervisord supervisorctl gunicorn uvicorn hypercorn flask django-admin streamlit vite-node jiti wasmtime wasmer
    vagrant virsh lxc lxd incus nerdctl ctr crictl buildah machinectl launchctl xterm kitty wezterm alacritty foot
    konsole gnome-terminal xdotool ydotool wtype gio dpkg rpm rpmbuild gradlew mvnw unzip""".split()
)
# Agents, which act by themselves, and the gate: a rule for `slack-gate rules` would be one for `slack-gate uninstall`.
AGENTS = frozenset(
    """copilot opencode aider amp goose crush cline roo kilocode continue cody qwen kimi auggie augment droid devin
    openhands plandex kiro kiro-cli q grok windsurf trae llm sgpt mods aichat interpreter open-interpreter ollama
    gptme swe-agent mini acli junie""".split()
)
# Beginnings of further names of all these kinds.
_PREFIXES = tuple("slack-gate slack_gate claude codex gemini cursor ansible qemu- s6- mkfs ld-linux".split())
NEVER = frozenset("rm rmdir unlink shred dd fdisk sfdisk parted wipefs shutdown reboot halt poweroff telinit".split())
INTERPRETERS = frozenset(
    """python pypy node nodejs ruby perl php lua luajit tclsh wish rscript r julia java scala groovy racket guile swipl
    elixir runghc ocaml crystal janet raku octave""".split()
)
_MODULES = frozenset("pytest unittest mypy ruff black isort flake8 pylint coverage compileall build tox nox".split())
# Programs whose arguments are data, so that the first of them is not taken for a subcommand.
_SIMPLE = frozenset(
    """touch chmod chown chgrp mkdir cp mv ln ls cat head tail grep egrep fgrep rg fd fdfind wc cut tr nl tac rev fold
    fmt stat file du df diff cmp comm paste join column basename dirname realpath readlink pwd which whereis type id
    whoami groups uname date uptime ps free seq sleep true false echo printf tee md5sum sha1sum sha256sum sha512sum
    cksum base64 xxd od hexdump strings tree jq yq find sort uniq expr nproc tty hostname printenv ping curl wget dig
    host nslookup whois kill pkill killall lsof ss netstat gzip gunzip zcat bat eza truncate mktemp sync
    b2sum sum sha224sum sha384sum shuf nproc numfmt tsort expand unexpand arch locale getent who w last lscpu lsblk
    lsmod dmesg vmstat iostat pgrep pstree readelf nm size cal bc ncal traceroute shellcheck hadolint actionlint
    yamllint rustfmt gofmt""".split()
)
# programs | words of the key | subcommands that carry (never a key) | options that carry: settings, programs, projects
_PROGRAMS = """
* | 1 | exec run dlx shell eval command repl console attach ssh -c -e -m | --exec --command --pager --editor --shell
find | 1 | | -exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls
fd fdfind | 1 | | -x -X --exec --exec-batch
sort | 1 | | -o --output -T --compress-program --files0-from
rg | 1 | | --pre --hostname-bin --search-zip -z
ss | 1 | | -D -K --diag --kill
cp | 1 | | -r -R -a -t --recursive --archive --target-directory
mv ln | 1 | | -t --target-directory
curl | 1 | | -K --config --engine --unix-socket --abstract-unix-socket
wget | 1 | | -e --execute --config --use-askpass
date | 1 | | -s --set
nm size | 1 | | --plugin @
yq | 1 | | --security-enable-system-operator
actionlint | 1 | | -shellcheck -pyflakes
cmake | 1 | | -E -P
npm | 2 | exec x init create explore edit config set | -C --prefix --script-shell --node-options --userconfig \
    --globalconfig --shell --git --editor --viewer --ignore-scripts
pnpm | 2 | exec dlx create config init | -C --dir --prefix --script-shell --node-options --shell-emulator --config
yarn | 2 | exec dlx node create config init policies set | --cwd --use-yarnrc --script-shell
bun | 2 | x exec create init repl | -r -c -e -p --preload --config --cwd --shell --eval --print
deno | 2 | run eval repl x install | --config --import-map
npm+run npm+run-script pnpm+run yarn+run bun+run deno+task | 3 | |
pip pip3 | 2 | config | -t --python --config-settings --global-option --build-option --prefix --target --root
uv | 2 | run x | --python --project --directory --config-file
uv+pip uv+tool uv+python uv+cache | 3 | run dir | --python
cargo | 2 | x script | -Z -C --config --manifest-path --target-dir
go | 2 | tool env telemetry | -toolexec -exec -vettool -overlay -modfile -C -ldflags -gccgoflags -pkgdir
go+mod go+work | 3 | edit |
docker podman | 2 | run exec create attach start plugin context unshare cp extension mcp agent sandbox \
    offload ai dev desktop quadlet healthcheck | -v -H -c --volume --mount --privileged \
    --entrypoint --config --host --context --env-file --runtime --conmon --hooks-dir --module --storage-opt --root \
    --imagestore --url --connection
docker+compose podman+compose docker+container podman+container | 3 | run exec create attach start cp runlabel |
docker+image docker+volume docker+network docker+system podman+image podman+volume podman+network podman+system \
    docker+service docker+stack docker+swarm docker+model docker+sandbox docker+checkpoint podman+pod podman+kube \
    podman+machine podman+play podman+generate podman+artifact docker+manifest docker+node docker+secret docker+config \
    docker+trust podman+secret podman+manifest \
    | 3 | create deploy update run exec ssh play kube join build connection service |
docker-compose | 2 | run exec | -f --file --project-directory --env-file
kubectl | 2 | exec run debug attach plugin edit proxy cp krew config alpha | --kubeconfig --kuberc --raw \
    --helm-command --enable-alpha-plugins --enable-exec -s --server --cluster --context --user --token --as \
    --insecure-skip-tls-verify --tls-server-name --certificate-authority --client-certificate --client-key
kubectl+rollout kubectl+create kubectl+auth kubectl+certificate kubectl+set | 3 | |
helm | 2 | plugin | --post-renderer --kubeconfig --registry-config --repo --kube-apiserver --kube-context --kube-token \
    --kube-as-user --kube-ca-file --kube-insecure-skip-tls-verify --kube-tls-server-name
helm+repo | 3 | add |
helm+get helm+show helm+registry helm+dependency helm+search | 3 | |
terraform tofu | 2 | console | -chdir -plugin-dir -config
terraform+state terraform+workspace | 3 | |
systemctl | 2 | edit link set-environment import-environment enable reenable poweroff reboot halt \
    soft-reboot kexec switch-root rescue emergency isolate | -H -M --host --machine --root --image
gh | 3 | alias extension extensions ext codespace cs co config copilot agent agents agent-task agent-tasks \
    skill skills | --hostname
gh+repo | 3 | clone fork sync deploy-key autolink |
gh+gist | 3 | clone |
gh+pr | 3 | checkout co |
gh+pr+close gh+pr+merge | 3 | | -d --delete-branch
gh+status | 2 | |
gh+api | 2 | | -X --method -f -F --field --raw-field --input
aws | 3 | configure ssm ecs | --endpoint-url --ca-bundle --profile --no-verify-ssl
gcloud | 3 | config components alpha beta preview | --configuration --flags-file --account --project \
    --impersonate-service-account
az | 3 | extension alias config ssh rest | --subscription
pytest tox nox mypy ruff black eslint prettier jest vitest tsc | 1 | |
just | 2 | | -f -d -c --justfile --working-directory --shell --shell-arg --set --dotenv-path --chooser --command
rake | 2 | | -f -r -R -e -E -p -I --rakefile --require --rakelibdir --execute --execute-print --libdir
task invoke bundle mix composer | 2 | exec run eval do cmd | -c -f -r --file --taskfile --collection
mise | 2 | exec x shell activate config set | -C
mise+run | 3 | |
poetry pdm hatch rye pipenv conda mamba pixi asdf volta fnm nvm rustup | 2 | run exec x shell activate config | -C
gradle mvn | 2 | exec | -D -P -I -b -p -c -f -s -gs -t --define --file --settings --global-settings --toolchains \
    --init-script --build-file --project-dir --settings-file
dotnet swift flutter dart bazel zig nix stack cabal lein sbt | 2 | exec run script repl shell develop tool package |
apt apt-get | 2 | edit-sources shell satisfy | -o -c -t -a --option --config-file --allow-unauthenticated \
    --allow-insecure-repositories --force-yes
brew | 2 | tap bundle ruby irb sh test create run exec edit alias unalias config | --config
dnf | 2 | shell config alias copr config-manager | --config --setopt --installroot --enableplugin \
    --repofrompath --nogpgcheck --no-gpgchecks
flatpak | 2 | run enter build override config remote-add remote-modify | --from --bundle --config
snap | 2 | run try alias set | --shell
brew+services dnf+group dnf+module dnf+history | 3 | |
gem pre-commit playwright alembic rails turbo nx vercel fly flyctl wrangler netlify firebase \
    pulumi cdk sam serverless sls expo eas ng hugo jekyll skaffold tilt earthly | 2 | \
    run exec runner console ssh shell edit alias config | --config
"""
# Programs that install, with root's rights mostly, also a file that caged code may have made.
_INSTALL = frozenset("apt apt-get dnf brew snap flatpak conda mamba pixi".split())
_PACKAGES = (".deb", ".rpm", ".rb", ".snap", ".flatpak", ".flatpakref", ".conda", ".bz2", ".yml", ".yaml", ".toml")
# Programs that carry out what they are told at an address, in a cluster.
_APPLY = frozenset(["helm", "kubectl"])
# Programs that speak to a host named in an argument: a host that is not plain ASCII is never covered.
_NETWORKED = frozenset("curl wget gh ping dig host nslookup whois docker podman helm pip pip3 npm".split())
# Programs that run project code, which caged code may have changed since a person said Always.
RUNNERS = frozenset(
    """make gmake just task mise rake invoke inv nox tox pytest py.test coverage mypy pylint flake8 pre-commit alembic
    celery npm pnpm yarn bun deno jest vitest mocha ava eslint prettier tsc webpack vite next nuxt astro rollup esbuild
    parcel turbo nx lerna playwright cypress storybook gulp grunt stylelint cargo go gradle mvn sbt lein ant bazel
    bazelisk cmake ctest ninja meson stack cabal zig mix rebar3 dotnet swift flutter dart bundle rails rspec phpunit
    composer poetry pdm hatch uv pip pip3 gem sphinx-build mkdocs hugo jekyll terraform tofu pulumi cdk sam serverless
    sls firebase netlify vercel wrangler fly flyctl ng expo eas skaffold tilt earthly docker podman
    docker-compose podman-compose nerdctl-compose
    rustup rustc rustdoc rustfmt rust-analyzer rls cargo-fmt cargo-clippy cargo-miri clippy-driver volta fnm nvm asdf
    pyenv rbenv nodenv goenv jenv rye pipenv conda mamba micromamba pixi nix nix-build nix-shell nix-instantiate nix-env
    devbox devenv guix scons waf tup redo buck buck2 pants plz mage bmake pmake remake xmake colcon catkin_make
    west pio platformio idf.py conan vcpkg b2 gn autoreconf autoconf automake aclocal latexmk doxygen quarto
    forge hardhat truffle anchor dvc snakemake nextflow doit dbt sqlmesh prefect dagster kedro airflow mlflow molecule
    lefthook overcommit lint-staged commitlint xo babel rspack rsbuild tsup nyc c8 karma wdio jasmine knip typedoc
    docusaurus vitepress eleventy hexo gatsby ember ionic cordova nest prisma drizzle-kit knex typeorm graphql-codegen
    semantic-release changeset release-it plop projen husky rubocop standardrb cucumber guard fastlane pod cap kitchen
    phpstan psalm rector pest drush packer terragrunt terramate cdktf chalice zappa amplify sst dagger act ddev lando
    clj clojure mill scala-cli dune opam esy shards dub nimble spago gleam trunk wasm-pack
    golangci-lint goreleaser ko air reflex modd buf sqlc nose2 nosetests behave robot locust scrapy fab copier prove
    tuist carthage xcodebuild hg chg sl jj darcs fossil pijul tig lazygit gitui gitk hub stg prettierd eslint_d
    tsc-watch pyright basedpyright pyre pytype tflint helmfile garden werf okteto devspace cue""".split()
)
_RUN_BY = {  # of these only some subcommands run project code
    **dict.fromkeys(["docker", "podman"], frozenset(["compose", "build", "buildx", "builder", "bake", "farm"])),
    "go": frozenset("run test generate build vet install tool list fix".split()),
}
# What gh and glab do in the repository that they stand in by a git that runs its hooks.
_GH_GIT = {
    "pr": frozenset("create new merge".split()),
    "mr": frozenset("create new for merge checkout rebase".split()),
    "repo": frozenset("create new".split()),
    "issue": frozenset(["develop"]),
}
# Interpreters of which nothing but the script runs: others read a file of the working directory first (R, octave), or
# look there for what the script loads (php, lua, java).
_NOTHING_ELSE = frozenset("python pypy node nodejs ruby perl".split())
_CLOUDS = frozenset("aws az gcloud".split())
_NESTED = frozenset(["az", "gcloud"])  # groups in groups: what is to be done stands at any depth before the options
# Options of gcloud that always take the next word for their value.
_GCLOUD_VALUES = frozenset(
    """--format --verbosity --flatten --filter --limit --page-size --sort-by --zone --region --location --cluster
    --machine-type""".split()
)
# Their words, at any depth, that run what further words say on another machine.
_REMOTE = frozenset("ssh scp exec execute-command run-command command send-command start-session".split())


# How the words of a program make a key: how many, and which subcommands and options carry something else.
_programs: dict[str, tuple[int, frozenset[str], tuple[str, ...]]] = {}  # the table's rows taken apart, on first use
_NO_ROW = (1, _NONE, ())


def _program(name: str) -> tuple[int, frozenset[str], tuple[str, ...]]:
    if not _programs:
        for row in _PROGRAMS.strip().split("\n"):
            names, depth, subs, options = row.split("|")
            taken = (int(depth), frozenset(subs.split()), tuple(options.split()))
            _programs.update(dict.fromkeys(names.replace("+", "\0").split(), taken))
    return _programs.get(name, _NO_ROW)


def keys(command: str) -> list[tuple[str, ...]]:
    """For each segment the words that Always would remember, or [] where the text must not be remembered."""
    found = [key_of(segment.argv) for segment in read(command) or ()]
    if found and not command.replace("\t", "").replace("\n", "").isprintable():
        return []  # characters that show nothing, or steer what shows them: a person looks each time
    known = [key for key in found if key]
    programs = {key[0] for key in known}
    # after `cd` git would work in another repository than the rule was made for, after `sbox` in a changed one
    return [] if len(known) < len(found) or ("git" in programs and programs & {"cd", "sbox"}) else known


def base_tokens(command: str) -> list[str]:
    """One name for each segment ("git push", "npm run build"); [] where it cannot or must not be remembered."""
    return [" ".join(key) for key in keys(command)]


def covers(key: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    """Does a remembered key apply to these words? Only where the words would yield the very same key."""
    return bool(argv) and key_of(argv) == key


def key_of(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """The key of one simple command, or None where it must not be remembered."""
    name = argv[0]
    base = os.path.basename(name).lower()
    stem = base.rstrip("0123456789.-")  # of python3.12, bash5
    if {base, stem} & (CARRIERS | NEVER | AGENTS) or base.startswith(_PREFIXES) or not _is_key_word(name):
        return None
    if "/" in name and (base in _KEYS_BY_HAND or not _outside_zone(name)):
        return None
    if stem in INTERPRETERS:
        return _script_key(argv, stem)
    if any(_is_foreign(word) for word in argv[1:] if "://" in word or base in _NETWORKED):
        return None
    if base != os.path.basename(name):  # GIT is not git, but a program of its own
        return _exact_key(argv)
    if base in _KEYS_BY_HAND:
        return _KEYS_BY_HAND[base](argv)
    return _table_key(argv, base)


def _is_key_word(word: str) -> bool:
    return 0 < len(word) <= 200 and word.isascii() and word.isprintable() and " " not in word


def _outside_zone(path: str) -> bool:
    try:
        return path[:1] == "/" and not current_place().reached(path)
    except (Gated, OSError):
        return False


def _is_foreign(word: str) -> bool:
    """Does the word name a host in other letters than ASCII, or in a disguise?"""
    _, mark, rest = word.partition("://")
    host = (rest if mark else word).partition("/")[0].lower()
    return not host.isascii() or "xn--" in host or (bool(mark) and ("%" in host or "\\" in host))


def _table_key(argv: tuple[str, ...], base: str) -> tuple[str, ...] | None:
    _, anything, carrying = _program("*")
    rows = [_program("\0".join((base, *argv[1:deep]))) for deep in (1, 2, 3)]
    known = rows[0] is not _NO_ROW
    if _carries(argv[1:], (*carrying, *(option for row in rows for option in row[2])), is_project_runner(argv)):
        return None
    if base in _CLOUDS and not _REMOTE.isdisjoint(argv):
        return None
    if base in _APPLY and any("://" in word for word in argv):
        return None
    if base in _INSTALL and any(
        _is_package_file(word) or (base == "brew" and _is_of_others(word)) for word in argv[1:]
    ):
        return None
    if not known and base not in _SIMPLE:
        if argv[1:2] and argv[1] in anything:
            return None
        return argv[:1] if base in RUNNERS else _exact_key(argv)
    depth = next((row[0] for row in rows[::-1] if row is not _NO_ROW), 1)
    if base in _NESTED:
        depth = next((at for at, word in enumerate(argv) if at >= depth and word[:1] == "-"), len(argv))
        if base == "gcloud" and _may_go_on(argv[depth:]):
            return None
    for at, word in enumerate(argv[1:depth]):
        if not _is_key_word(word) or word[0] in "-+@" or word in rows[min(at, 2)][1]:
            return None
        if at == 0 and ("/" in word or "." in word):  # a script, where a subcommand should stand
            return None
    return argv[:depth]


def _may_go_on(words: tuple[str, ...]) -> bool:
    """May one of these, behind an option, be a further word of the command? A known option's value is none."""
    names = (word for at, word in enumerate(words[1:]) if words[at] not in _GCLOUD_VALUES)
    return any(word[:1].islower() and word.replace("-", "a").isalnum() for word in names)


def _is_of_others(word: str) -> bool:
    """Does brew fetch it from a collection that is not Homebrew's own?"""
    return "/" in word and not word.startswith("homebrew/")


def _is_package_file(word: str) -> bool:
    is_path = "/" in word if word[:1] == "-" else word[:1] in ("/", ".", "~") or "://" in word
    return is_path or word.startswith("--file") or word.endswith(_PACKAGES)


def _exact_key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """A program nothing is known of counts with all its words, and with none that could be run: no path, no file,
    no value behind "=", no known program's name. So a carrier that no list names is harmless."""
    words = argv[1:]
    lists = (CARRIERS, NEVER, AGENTS, INTERPRETERS, RUNNERS, _SIMPLE, _KEYS_BY_HAND)
    for word in words:
        stem = word.lower().rstrip("0123456789")
        known = any(stem in names for names in lists) or word.startswith(_PREFIXES) or _program(stem) is not _NO_ROW
        if known or not _is_key_word(word) or set(word) & set("/.=:@"):
            return None
    return argv if len(words) <= 6 else None


def _carries(words: tuple[str, ...], options: tuple[str, ...], caged: bool) -> bool:
    """Is one of these options among the words, abbreviated or in a cluster?

    Behind `--` too, unless it runs in the cage only: to `find` and as the value of an option it ends nothing.
    """
    for word in words:
        name = word.partition("=")[0]
        if word == "--" and caged:
            return False
        if word[:1] == "@" and "@" in options:  # @FILE holds more options
            return True
        for option in options if word[:1] == "-" else ():
            if option[:2] == "--":
                hit = len(name) > 2 and option.startswith(name)
            elif len(option) == 2:
                hit = word[:2] != "--" and option[1] in name
            else:
                hit = name in (option, "-" + option)
            if hit:
                return True
    return False


def _script_key(argv: tuple[str, ...], stem: str) -> tuple[str, ...] | None:
    """An interpreter counts with what it runs: a known module, or a script that the cage cannot write."""
    if stem == "python" and argv[1:2] == ("-m",) and argv[2:3] and argv[2] in _MODULES:
        return argv[:3]
    if argv[1:2] and argv[1].endswith("/net_git.py"):  # the gate's wrapper runs the programs that its words name
        return None
    if argv[1:] == ("--version",):
        return argv
    if looks_around(argv[0]) or not (argv[1:2] and _is_key_word(argv[1]) and _outside_zone(argv[1])):
        return None
    return argv[:2]


def looks_around(program: str) -> bool:
    """Is it an interpreter that runs more than its script: what lies in the working directory?"""
    stem = os.path.basename(program).lower().rstrip("0123456789.-")
    return stem in INTERPRETERS and stem not in _NOTHING_ELSE


def _make_key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """`make` with all its targets: a rule for one target is none for another."""
    targets = [word for word in argv[1:] if word[:1] != "-"]
    options = [word for word in argv[1:] if word[:1] == "-"]
    plain = all(
        word in ("-s", "-k", "-B", "-n", "-j") or (word[:2] == "-j" and word[2:].isdecimal()) for word in options
    )
    return (argv[0], *targets) if plain and all(_is_key_word(word) and "=" not in word for word in targets) else None


def _sed_key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """`sed -n 1,20p FILE...`: the one form that surely neither writes nor runs anything."""
    script = argv[2] if argv[1:2] == ("-n",) and len(argv) > 2 else ""
    prints = script[-1:] == "p" and set(script) <= set("0123456789,$;p ")
    return argv[:1] if prints and not any(word[:1] == "-" for word in argv[3:]) else None


def _git_key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        call = parse_git(argv)
    except Gated:
        return None
    words = tuple(call.sub.split())
    if argv[1 : 1 + len(words)] != words or call.sub in ("config", "symbolic-ref", "stash clear"):
        return None
    if (call.sub == "reset" and call.has("--hard")) or (call.sub == "reflog" and call.plain):
        return None
    if call.table is NETWORK and _remote_words(call):
        return None
    if call.sub == "clone" and not (call.plain and plain_url(call.plain[0])):
        return None
    return ("git", *words)


def _cd_key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """`cd DIR` with its directory; not upwards, where each repetition leads further."""
    plain = len(argv) == 2 and _is_key_word(argv[1]) and argv[1][0] != "-"
    return argv if plain and ".." not in argv[1].split("/") else None


def _few_words(most: int) -> Callable[[tuple[str, ...]], tuple[str, ...] | None]:
    """For programs that write where a further plain word says."""
    return lambda argv: argv[:1] if sum(word[:1] != "-" for word in argv[1:]) <= most else None


_KEYS_BY_HAND: dict[str, Callable[[tuple[str, ...]], tuple[str, ...] | None]] = {
    "git": _git_key,
    "make": _make_key,
    "gmake": _make_key,
    "sed": _sed_key,
    "cd": _cd_key,
    "sbox": lambda argv: argv[:1] if argv[1:2] and argv[1][:1] not in ("", "-") else None,
    "uniq": _few_words(1),
    "hostname": lambda argv: argv[:1] if set(argv[1:]) <= {"-f", "-s", "-i", "-I", "-d", "-A"} else None,
    "printf": lambda argv: argv[:1] if argv[1:2] and argv[1][:1] != "-" else None,
}


def is_project_runner(argv: tuple[str, ...], cwd: str | None = None) -> bool:
    """Does this run what a project holds, which caged code may have rewritten since a person said Always?

    The gate releases such a call caged only. Git counts where `classify` would not call it green in `cwd`; without a
    `cwd` local git counts always. Network git that counts cannot do its work in the cage: it has to be asked.
    """
    base = os.path.basename(argv[0])
    if base == "git":
        try:
            call = parse_git(argv)
            if cwd is None:
                return call.table is not NETWORK and call.sub != "clone"
            if current_place().reached(os.path.join(cwd, *call.directories)):  # or caged code cannot have written there
                judge_git([call], cwd)
        except (Gated, OSError):
            return True
        return False
    if base in ("gh", "glab"):  # with a directory, as network git that counts
        return cwd is not None and argv[2:3] != () and argv[2] in _GH_GIT.get(argv[1], _NONE)
    stem = base.rstrip("0123456789.-")  # of pytest-3, go1.22
    if stem == "python":
        return argv[1:2] == ("-m",)
    name = base if base in RUNNERS else stem
    if name not in RUNNERS:
        head = name.partition("-")[0]  # of git-lfs, cargo-watch, which git and cargo start by their last word
        return head != name and (head == "git" or head in RUNNERS)
    return name not in _RUN_BY or (len(argv) > 1 and argv[1] in _RUN_BY[name])


def brings_files(line: Iterable[tuple[str, ...]]) -> bool:
    """Does a git command of this line write files of another commit, among them what agents and editors trust?"""
    return any(moves_files(parse_git(argv)) for argv in line if argv[0] == "git")


def moves_files(call: Git) -> bool:
    """May it change files of the working tree? Not by a new branch where one stands, nor in the index alone."""
    given = {name for name, _ in call.options}
    if call.sub in ("checkout", "switch"):
        new = frozenset("-b -B -c -C --create --force-create".split())
        return bool(call.plain) or not given & new or not given <= new | {"-q", "--quiet", "--no-track"}
    if call.sub == "reset":
        return not given.isdisjoint(["--hard", "--merge", "--keep"])
    if call.sub == "restore":
        return given.isdisjoint(["-S", "--staged"]) or not given.isdisjoint(["-W", "--worktree"])
    return call.sub == "pull" or (call.table is MOVING and call.sub not in ("stash drop", "stash clear"))
