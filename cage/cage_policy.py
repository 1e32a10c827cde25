"""Which tool calls of a coding agent run unasked: `classify` says "ungated", "green" or "gated".

The law, in three lines:
1. What is not wholly understood is gated; nothing here ever raises, guesses or runs a program.
2. Shell text has one reading, `read`: the exact words bash would pass, or None. Verdicts, keys and cards all use it.
3. Green means: in the cage (`sbox ARGV`), or git that can run nothing planted, or a write the cage could make as well.

One file, standard library only, no `re`: it is copied beside hooks and imported once a call. See docs/classifier.md.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Literal

    Answer = Literal["ungated", "green", "gated"]
    Config = list[tuple[str, str, str]]  # section, key, value

# ---------------------------------------------------------------- tools that ask nobody, and why

UNGATED = {
    "Read": "reads a file",
    "Glob": "lists file names",
    "Grep": "searches files",
    "LS": "lists a directory",
    "NotebookRead": "reads a notebook",
    "TodoRead": "reads the agent's own list",
    "TodoWrite": "writes the agent's own list",
    "TaskCreate": "writes the agent's own list",
    "TaskUpdate": "writes the agent's own list",
    "TaskGet": "reads the agent's own list",
    "TaskList": "reads the agent's own list",
    "TaskOutput": "reads the output of a call that was judged when it was made",
    "TaskStop": "ends a call that was judged when it was made",
    "BashOutput": "reads the output of a call that was judged when it was made",
    "AgentOutputTool": "reads the output of a call that was judged when it was made",
    "KillShell": "ends a call that was judged when it was made",
    "KillBash": "ends a call that was judged when it was made",
    "AskUserQuestion": "asks the person in front of the agent",
    "EnterPlanMode": "changes how the agent talks, not what it may do",
    "ExitPlanMode": "shows a plan; the host asks by itself",
    "ToolSearch": "loads descriptions of tools; using one is judged",
    "StructuredOutput": "shapes the agent's answer",
}

BASH_FIELDS = frozenset({"command", "description", "timeout", "run_in_background", "dangerouslyDisableSandbox"})
# tool: (the field that names the file, other fields that name no file)
FILE_TOOLS = {
    "Write": ("file_path", frozenset({"content"})),
    "Edit": ("file_path", frozenset({"old_string", "new_string", "replace_all"})),
    "MultiEdit": ("file_path", frozenset({"edits"})),
    "NotebookEdit": ("notebook_path", frozenset({"new_source", "cell_id", "cell_number", "cell_type", "edit_mode"})),
}

# Names that programs outside the cage execute or trust when they meet them, wherever in the zone they lie.
GUARDED_NAMES = frozenset(
    [".git", ".claude", ".mcp.json", ".claude.json", ".vscode", ".idea", ".envrc", ".direnv", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf", ".zed", ".devcontainer", ".devcontainer.json", ".husky", ".githooks", ".ssh", ".gnupg", ".netrc", ".exrc", ".nvimrc", ".vimrc", ".nvim.lua", ".gdbinit", ".lldbinit", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".xprofile", ".xsessionrc", ".xinitrc", ".pythonrc", ".pythonrc.py", ".gitconfig", "opencode.json", "opencode.jsonc"]
)
# First names below ~/.cache that are sourced, imported or executed by programs outside; "*" ends a prefix.
GUARDED_CACHES = tuple(
    ["p10k-*", "p10k", "gitstatus", "pre-commit", "prek", "uv", "pip", "pipenv", "pypoetry", "pdm", "hatch", "virtualenv", "conda", "pixi", "python*", "black", "pylint", "yarn", "pnpm", "bun", "deno", "node*", "corepack", "npm*", "electron*", "cypress", "ms-playwright*", "puppeteer", "selenium", "esbuild", "turbo", "bazel*", "go-build", "gopls", "golangci-lint*", "zig", "ccache", "sccache", "nix", "jetbrains", "vscode*", "cursor*", "nvim", "vim", "emacs", "zsh*", "zcomp*", "zinit", "antidote", "antigen", "sheldon", "oh-my-zsh*", "oh-my-posh", "starship", "zoxide", "carapace", "direnv", "mise", "asdf", "fish", "bash*", "rofi", "gem", "bundle", "composer", "torch_extensions", "torch", "triton", "jedi", "claude*", "codex*", "gemini*", "helm", "krew", "act", "gradle", "maven", "coursier"]
)

# ---------------------------------------------------------------- the one reading of shell text

# The kernel takes no longer single argument, so no shell is ever started with a longer text.
MAX_COMMAND = 131_071

_INERT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+,^=")
_PLAIN = "".join(sorted(_INERT - {"="})) + " \t"
_KEYWORDS = frozenset(
    ["if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "time", "coproc", "in", "{", "}", "!", "[[", "]]"]
)
_DUPLICATES = ("2>&1", "1>&2", ">&2", ">&1")
_OPENERS = ("2>>", "1>>", "&>>", ">>", "2>", "1>", "&>", ">", "<")


class Segment(tuple["tuple[str, ...]", str, bool]):
    """One simple command: `argv` as bash passes it, `op` before it ("", "&&", "||", ";", "|"), `redirected` harmlessly."""

    __slots__ = ()

    def __new__(cls, argv: tuple[str, ...], op: str = "", redirected: bool = False) -> Segment:
        return tuple.__new__(cls, (argv, op, redirected))

    @property
    def argv(self) -> tuple[str, ...]:
        return self[0]

    @property
    def op(self) -> str:
        return self[1]

    @property
    def redirected(self) -> bool:
        return self[2]


def read(command: str) -> list[Segment] | None:
    """The simple commands of a shell text with the exact words bash would pass, or None where that is not certain.

    Accepted: words joined by `&&`, `||`, `;`, `|`; quotes without live expansions; a leading `~/`; redirects to
    /dev/null and between standard output and error. Takes linear time; longer texts than MAX_COMMAND are refused.
    """
    if type(command) is not str or not 0 < len(command) <= MAX_COMMAND:
        return None
    if not command.strip(_PLAIN):  # every character stands for itself: the common case, read at once
        words = command.split()
        return [Segment(tuple(words))] if words and words[0] not in _KEYWORDS else None
    return _scan(command)


def _scan(text: str) -> list[Segment] | None:
    segments: list[Segment] = []
    argv: list[str] = []
    op, redirected, at, end = "", False, 0, len(text)
    while True:
        while at < end and text[at] in " \t":
            at += 1
        separator = "" if at == end else _separator(text, at)
        if at == end or separator:
            if not argv or "=" in argv[0] or argv[0] in _KEYWORDS:
                return None
            segments.append(Segment(tuple(argv), op, redirected))
            if at == end:
                return segments
            argv, op, redirected, at = [], separator, False, at + len(separator)
            continue
        after = _redirect(text, at)
        if after:
            redirected, at = True, after
            continue
        word, at = _word(text, at)
        if word is None:
            return None
        argv.append(word)


def _separator(text: str, at: int) -> str:
    for separator in ("&&", "||", ";", "|"):
        if text.startswith(separator, at):
            return separator
    return ""


def _redirect(text: str, at: int) -> int:
    """Where a harmless redirect that starts at `at` ends, or 0."""
    if text[at] not in "12&<>":
        return 0
    for spelled in _DUPLICATES:
        if text.startswith(spelled, at):
            after = at + len(spelled)
            break
    else:
        for opener in _OPENERS:
            if text.startswith(opener, at):
                after = at + len(opener)
                break
        else:
            return 0
        while after < len(text) and text[after] in " \t":
            after += 1
        if not text.startswith("/dev/null", after):
            return 0
        after += len("/dev/null")
    return after if after == len(text) or text[after] in " \t;|&" else 0


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
            quoted, at = _single(text, at) if char == "'" else _double(text, at)
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
    if braces and ("," in word or ".." in word):
        return None, at
    if at < end and text[at] in "<>" and (braces or word.isdigit()):  # 3>file and {name}>file name a descriptor
        return None, at
    return word, at


def _single(text: str, at: int) -> tuple[str | None, int]:
    close = text.find("'", at + 1)
    if close < 0:
        return None, at
    body = text[at + 1 : close]
    return (body if _harmless(body) else None), close + 1


def _double(text: str, start: int) -> tuple[str | None, int]:
    parts: list[str] = []
    at = start + 1
    while True:
        close, slash = text.find('"', at), text.find("\\", at)
        if close < 0:
            return None, start
        stop = slash if 0 <= slash < close else close
        body = text[at:stop]
        if "$" in body or "`" in body or not _harmless(body):
            return None, start
        parts.append(body)
        if stop == close:
            return "".join(parts), close + 1
        escaped = text[stop + 1]
        if escaped == "\n":
            return None, start
        if escaped in '$`"\\':
            parts.append(escaped)
            at = stop + 2
        else:
            parts.append("\\")
            at = stop + 1


def _harmless(body: str) -> bool:
    """No control character but tab and newline, and nothing that UTF-8 cannot carry."""
    return body.isprintable() or not any(
        (char < " " and char not in "\t\n") or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in body
    )


# ---------------------------------------------------------------- the green zone

_SYSTEM = tuple(["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"])


def _home() -> str:
    """The caller's home as the shell sees it; "" when there is none to speak of."""
    home = os.environ.get("HOME")
    if home is None:
        import pwd

        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return ""
    home = home.rstrip("/")
    return home if home.startswith("/") and home not in _SYSTEM and "\0" not in home else ""


class Place:
    """The directories that matter, resolved once for each environment: zone, helper, settings."""

    def __init__(self, home: str, tools: str, settings: str) -> None:
        self.home = home
        self.real_home = os.path.realpath(home) if home else ""
        self.tools = _absolute(tools, home) if tools else home and home + "/work"
        self.settings = _absolute(settings, home) if settings else home and home + "/.config/slack-gate"
        self.cache = self._root(home + "/.cache") if home else ""
        self.projects = self._root(home + "/projects") if home else ""
        self.tmp = self._root("/tmp")
        self.roots = tuple(root for root in (self.projects, self.tmp, self.cache) if root)
        self.writable: dict[str, list[str]] = {}  # by PATH: its entries in the zone, and relative ones
        self.leads: dict[tuple[str, str], str] = {}  # by PATH and name: where a link outside the zone leads into it
        # what outside programs trust stays guarded even when it was configured inside the zone
        self.trusted = tuple(os.path.realpath(path) for path in (self.tools, self.settings) if path)

    def _root(self, path: str) -> str:
        """`path` resolved, or "" where a symlink leads to a place that must not become writable."""
        real = os.path.realpath(path)
        if real == path or real == self.real_home + path[len(self.home) :]:
            return real
        hidden = real.startswith(self.real_home + "/") and "/." in real[len(self.real_home) :]
        if real == "/" or _below(self.real_home, real) or hidden:
            return ""
        return "" if any(_below(real, system) for system in _SYSTEM) and real != "/var/tmp" else real

    def holds(self, path: str) -> bool:
        """Is this resolved path in the green zone?"""
        return any(_below(path, root) for root in self.roots)


_places: dict[tuple[str, str, str], Place] = {}


def _place() -> Place:
    # A zone directory that became a symlink after this was kept is no longer matched: the stale answer is the strict one.
    get = os.environ.get
    key = (_home(), get("AGENT_TOOLS_DIR", ""), get("SLACK_GATE_HOME", ""))
    place = _places.get(key)
    if place is None:
        place = _places[key] = Place(*key)
    return place


def _absolute(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = home + path[1:] if home else ""
    return os.path.normpath(path) if path.startswith("/") else ""


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")


def _planted(names: Iterable[str], place: Place, cwd: str) -> str:
    """The first of these programs that PATH finds where caged code can write, or ""."""
    path = os.environ.get("PATH", "")
    writable = place.writable.get(path)
    if writable is None:
        entries = path.split(":")
        writable = place.writable[path] = [e for e in entries if e[:1] != "/" or place.holds(os.path.realpath(e))]
    for entry in writable:
        at = os.path.realpath(os.path.join(cwd, entry))
        for name in names:
            if place.holds(at) and os.path.lexists(at + "/" + name):
                return at + "/" + name
    for name in names:
        found = place.leads.get((path, name))
        if found is None:  # kept: nothing but the person changes what lies in a directory outside the zone
            files = (os.path.join(entry, name) for entry in path.split(":") if entry[:1] == "/")
            real = next((os.path.realpath(file) for file in files if os.path.lexists(file)), "")
            found = place.leads[path, name] = real if place.holds(real) else ""
        if found:
            return found
    return ""


# ---------------------------------------------------------------- verdicts


class Verdict(tuple[str, str, str, str]):
    """`verdict` ("ungated", "green", "gated"), the `segment` and the `rule` that decided, and the green way as `hint`."""

    __slots__ = ()

    def __new__(cls, verdict: Answer, segment: str = "", rule: str = "", hint: str = "") -> Verdict:
        return tuple.__new__(cls, (verdict, segment, rule, hint))

    @property
    def verdict(self) -> Answer:
        return self[0]  # type: ignore[return-value]  # built from an Answer above

    @property
    def segment(self) -> str:
        return self[1]

    @property
    def rule(self) -> str:
        return self[2]

    @property
    def hint(self) -> str:
        return self[3]


class _Gated(Exception):
    """Raised inside this file where a rule refuses: rule, hint, segment."""

    def __init__(self, rule: str, hint: str = "", segment: str = "") -> None:
        super().__init__(rule)
        self.rule, self.hint, self.segment = rule, hint, segment


def classify(tool: str, tool_input: dict[str, Any] | None, cwd: str | None = None) -> Answer:
    """"ungated", "green" or "gated" for one tool call; never raises. `cwd` defaults to the process's own."""
    return explain(tool, tool_input, cwd).verdict


def explain(tool: str, tool_input: dict[str, Any] | None, cwd: str | None = None) -> Verdict:
    """The verdict with its reason in plain words; the same decision as `classify`, which is a part of it."""
    try:
        return _judge(tool, tool_input, cwd)
    except _Gated as gated:
        return Verdict("gated", gated.segment, gated.rule, gated.hint)
    except Exception as odd:  # whatever the input was, the answer to the unexpected is to ask
        return Verdict("gated", "", "this call cannot be judged (" + type(odd).__name__ + ")")


def _judge(tool: str, tool_input: dict[str, Any] | None, cwd: str | None) -> Verdict:
    if type(tool) is not str or not (tool_input is None or type(tool_input) is dict):
        raise _Gated("the call is malformed")
    if tool in UNGATED:
        return Verdict("ungated", tool, UNGATED[tool])
    if tool_input is None:
        raise _Gated("the call has no input")
    if tool == "Bash":
        return _judge_bash(tool_input, cwd)
    if tool in FILE_TOOLS:
        return _judge_file(tool, tool_input)
    raise _Gated("the tool " + tool[:80] + " is not known to be harmless")


def _judge_bash(fields: dict[str, Any], cwd: str | None) -> Verdict:
    command = fields.get("command")
    if type(command) is not str:
        raise _Gated("the call has no command text")
    if fields.get("dangerouslyDisableSandbox") not in (None, False):
        raise _Gated("it asks to run outside the host's sandbox")
    if not BASH_FIELDS.issuperset(fields):
        raise _Gated("the call has a field that is not known")
    segments = read(command)
    if segments is None:
        raise _Gated("the text cannot be read exactly", "put it in a script and run: sbox bash SCRIPT")
    git: list[tuple[Segment, Git]] = []
    for segment in segments:
        try:
            rule = _judge_segment(segment, git, cwd)
        except _Gated as gated:
            gated.segment = gated.segment or shown(segment.argv)
            raise
    if git:
        _judge_git(git, any(segment.argv[0] == "sbox" for segment in segments), cwd)
    return Verdict("green", shown(segments[-1].argv), rule)


def _judge_segment(segment: Segment, git: list[tuple[Segment, Git]], cwd: str | None) -> str:
    if segment.op not in ("", "&&"):
        raise _Gated("commands joined by " + segment.op + " are asked", "run the whole line as: sbox bash -c '...'")
    program = segment.argv[0]
    if program == "sbox":
        return _judge_sbox(segment.argv, _cwd(cwd))
    if program == "git":
        git.append((segment, parse_git(segment.argv)))
        return "git that runs nothing of the repository's choosing"
    if program == "python3" or program.endswith("/gh_issue.py"):
        return _judge_helper(segment.argv, _cwd(cwd))
    if program == "cd":
        raise _Gated("cd is not green", "name the directory instead: git -C DIR ..., or sbox bash -c 'cd DIR && ...'")
    raise _Gated("it runs outside the cage", "sbox " + shown(segment.argv))


def shown(argv: tuple[str, ...]) -> str:
    """The words as one line of shell text that reads back as the same words."""
    return " ".join(w if w and not w.strip(_PLAIN[:-2]) else "'" + w.replace("'", "'\\''") + "'" for w in argv)


def _cwd(cwd: str | None) -> str:
    if cwd is None:
        return os.getcwd()
    if type(cwd) is not str or not cwd.startswith("/"):
        raise _Gated("the working directory is not known")
    return cwd


# ---------------------------------------------------------------- writes to files


def _judge_file(tool: str, fields: dict[str, Any]) -> Verdict:
    field, others = FILE_TOOLS[tool]
    path = fields.get(field)
    if type(path) is not str or not all(name == field or name in others for name in fields):
        raise _Gated("the call has a field that is not known, or names no file")
    if not path.startswith("/") or not path.isprintable():
        raise _Gated("the path is not a plain absolute path", "give the absolute path")
    place = _place()
    real = os.path.realpath(path)
    root = next((root for root in place.roots if real.startswith(root + "/")), "")
    if not root:
        raise _Gated("the path leads outside the green zone", "write below ~/projects or /tmp", path)
    if path.endswith("/") or not _ordinary(real):
        raise _Gated("it is not an ordinary file with one name", "", path)
    if any(_below(real, trusted) for trusted in place.trusted):
        raise _Gated("the gate's helper or settings lie there", "", path)
    guarded = _guarded(real, root, place)
    if guarded:
        raise _Gated("programs outside the cage trust " + guarded, "", path)
    return Verdict("green", path, "a file in the green zone")


def _ordinary(path: str) -> bool:
    """Absent, or a regular file with no second name that could lie outside the zone."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _guarded(real: str, root: str, place: Place) -> str:
    """The part of a resolved path that outside programs execute or trust, or ""."""
    parts = real[len(root) + 1 :].split("/")
    folded = [part.casefold() for part in parts]
    if root == place.cache or (place.cache and _below(real, place.cache)):
        first = real[len(place.cache) + 1 :].split("/")[0].casefold()
        for name in GUARDED_CACHES:
            if first == name or (name[-1] == "*" and first.startswith(name[:-1])):
                return "~/.cache/" + first
        if folded[:2] == ["huggingface", "modules"]:
            return "~/.cache/huggingface/modules"
    at = 0
    while at < len(folded):
        name = folded[at]
        if name == ".claude" and folded[at + 1 : at + 2] == ["worktrees"] and at + 3 < len(folded):
            at += 3
            continue
        if name in GUARDED_NAMES or name.endswith(".git"):
            return parts[at]
        at += 1
    directory = os.path.dirname(real)
    while len(directory) > len(root):
        if _looks_bare(directory):
            return directory
        directory = os.path.dirname(directory)
    return ""


def _looks_bare(directory: str) -> bool:
    return os.path.lexists(directory + "/HEAD") and os.path.lexists(directory + "/objects")


# ---------------------------------------------------------------- sbox and the helper


def _judge_sbox(argv: tuple[str, ...], cwd: str) -> str:
    place = _place()
    words = argv[1:]
    if words[:1] == ("--net-allow",):
        if len(words) < 4 or words[2] != "--" or words[1] not in _listed(place, "net-allow.txt"):
            raise _Gated("this network name is not among the committed ones", "sbox --net-allow NAME -- CMD")
        words = words[3:]
    elif words[:1] == ("--",):
        words = words[1:]
    if not words or not words[0] or words[0].startswith("-"):
        raise _Gated("sbox is given options, or no command", "sbox CMD ARG...")
    planted = _planted(("sbox",), place, cwd)
    if planted:
        raise _Gated("caged code could have written " + planted)
    return "one command in the cage"


def _listed(place: Place, name: str) -> list[str]:
    """First word of each line of a settings file that only the person can write."""
    path = os.path.realpath(place.settings + "/" + name) if place.settings else ""
    if not path or place.holds(path):
        return []
    text = _text(path)
    if text is None or os.stat(path).st_mode & 0o022:
        return []
    lines = (line.split("#")[0].split() for line in text.split("\n"))
    return [words[0] for words in lines if words]


# verb: (number of plain words, options that take a value, of these required)
_HELPER = {
    "list": (0, "--state --limit", ""),
    "view": (1, "", ""),
    "create": (0, "--title --body-file", "--title --body-file"),
    "comment": (1, "--body-file", "--body-file"),
    "close": (1, "", ""),
    "reopen": (1, "", ""),
    "label": (1, "--add --remove", ""),
    "pr-create": (0, "--title --head --base --body-file", "--title --head --body-file"),
    "pr-list": (0, "", ""),
    "pr-view": (1, "", ""),
    "pr-diff": (1, "", ""),
    "link-branch": (2, "", ""),
}


def _judge_helper(argv: tuple[str, ...], cwd: str) -> str:
    place = _place()
    words = list(argv)
    if words[0] == "python3":
        words = words[1:]
        planted = _planted(("python3",), place, cwd)
        if planted:
            raise _Gated("caged code could have written " + planted)
    helper = place.tools + "/gh-issue/gh_issue.py"
    if not place.tools or words[:1] != [helper]:
        raise _Gated("it runs outside the cage", "sbox " + shown(argv))
    if place.holds(os.path.realpath(helper)):
        raise _Gated("the helper lies where caged code can rewrite it", "keep it outside ~/projects, /tmp and ~/.cache")
    verb = words[1] if len(words) > 1 else ""
    if verb not in _HELPER:
        raise _Gated("the helper's verb is not one of " + ", ".join(_HELPER))
    count, optional, required = _HELPER[verb]
    options, plain = _helper_options(words[2:], (optional + " --repo").split())
    if len(plain) != count or not all(option in options for option in required.split()):
        raise _Gated("the helper's arguments do not fit its verb")
    if plain and not (plain[0].isascii() and plain[0].isdigit()):
        raise _Gated("the helper's argument is not a number")
    for value in options.get("--body-file", ()):
        if not _sendable(value, place, cwd):
            raise _Gated("the body is not an ordinary file below ~/projects or /tmp")
    allowed = [*_listed(place, "helper-repos.txt"), os.environ.get("GH_ISSUE_REPO", "")]
    if not all(repo and repo in allowed for repo in options.get("--repo", ())):
        raise _Gated("the settings do not name this repository")
    return "the vetted issue helper"


def _helper_options(words: list[str], known: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options: dict[str, list[str]] = {}
    plain: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if not word.startswith("-"):
            plain.append(word)
            at += 1
            continue
        if word not in known or at + 1 == len(words) or words[at + 1].startswith("-"):
            raise _Gated("the helper's option " + word[:40] + " is not one it lists")
        options.setdefault(word, []).append(words[at + 1])
        at += 2
    return options, plain


def _sendable(path: str, place: Place, cwd: str) -> bool:
    real = os.path.realpath(os.path.join(cwd, path))
    inside = any(root and real.startswith(root + "/") for root in (place.projects, place.tmp))
    return inside and _ordinary(real)


def _text(path: str, limit: int = 1 << 20) -> str | None:
    """A regular file's text, or None: never waits on a pipe, never reads more than `limit` bytes."""
    data = _bytes(path, limit)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _bytes(path: str, limit: int) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return None
        parts: list[bytes] = []
        while True:
            part = os.read(fd, 1 << 20)
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        os.close(fd)


# ---------------------------------------------------------------- git: the words

# Options each subcommand may carry, by exact name; git's abbreviations are refused. "-m:" takes the next word, "--x=" its
# own value, "-U#" digits. Nothing listed names a program, writes a file git was not asked for, or skips a check.
_DIFF = """-p -u --patch -s --no-patch --stat --stat= --shortstat --numstat --summary --name-only --name-status --raw
    --patch-with-stat --dirstat --compact-summary -z --color --color= --no-color -w -b -a --text --binary --full-index
    --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --ignore-cr-at-eol -U# -U:
    --unified= --abbrev --abbrev= --minimal --patience --histogram --diff-algorithm= --word-diff --word-diff=
    --word-diff-regex= --color-words --color-moved --no-renames -M -M# -C -C# --find-renames --find-renames=
    --find-copies --find-copies-harder --diff-filter= -S: -G: --pickaxe-all --pickaxe-regex --check --exit-code --quiet
    --no-ext-diff --no-textconv --relative --relative= --no-relative --function-context -W --inter-hunk-context=
    --src-prefix= --dst-prefix= --no-prefix --submodule=short --ignore-submodules --ignore-submodules= --no-indent-heuristic
    -R --cc -c -m --combined-all-paths --line-prefix= --ita-invisible-in-index"""
_LOG = (
    _DIFF
    + """ --oneline --graph --all --branches --branches= --tags --tags= --remotes --remotes= --decorate --decorate=
    --no-decorate --decorate-refs= --format= --pretty --pretty= --abbrev-commit --no-abbrev-commit --date= --date:
    --since= --since: --until= --until: --after= --after: --before= --before: --author= --author: --committer=
    --committer: --grep= --grep: -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp
    --invert-grep --all-match --follow --merges --no-merges --min-parents= --max-parents= --first-parent --reverse
    --topo-order --date-order --author-date-order -n: -n# -# --max-count= --max-count: --skip= --skip: -L: --left-right
    --left-only --right-only --cherry-pick --cherry-mark --cherry --not --boundary --ancestry-path --simplify-by-decoration
    --full-history --sparse --simplify-merges --source --no-walk --no-notes --root -t -r --count -g --walk-reflogs
    --relative-date --parents --children --objects --timestamp --exclude= --no-mailmap --no-commit-id"""
)
_REFS = """--sort= --sort: --format= --format: --contains --contains= --no-contains --merged --merged= --no-merged
    --no-merged= --points-at= --points-at: --column --no-column --color --color= --no-color --count= -i --ignore-case"""
# Reading subcommands look at objects, refs, index and files; they neither move nor write anything but the index's cache.
_READING = {
    "status": """-s --short -b --branch --show-stash --porcelain --porcelain= --long -v -vv --verbose -u -uno -unormal -uall
        --untracked-files --untracked-files= --ignored --ignored= -z --column --no-column --ahead-behind
        --no-ahead-behind --renames --no-renames --find-renames --find-renames= --ignore-submodules --ignore-submodules=""",
    "diff": _DIFF + " --cached --staged --merge-base",
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "shortlog": _LOG + " -s -n -e -c --summary --numbered --email --group=",
    "reflog": _LOG,
    "rev-list": _LOG + " --disk-usage --objects-edge --header",
    "diff-tree": _LOG,
    "range-diff": _DIFF + " --creation-factor= --no-dual-color --left-only --right-only",
    "rev-parse": """--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --verify -q --quiet
        --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --abbrev-ref
        --abbrev-ref= --short --short= --symbolic --symbolic-full-name --all --branches --tags --remotes
        --path-format= --show-object-format --revs-only --no-revs --flags --no-flags --default: --git-path: --not""",
    "ls-files": """-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k --killed -z -t -v
        --exclude-standard --directory --no-empty-directory --full-name --error-unmatch --eol --deduplicate --abbrev
        --abbrev= --exclude= -x:""",
    "ls-tree": "-r -t -d -l --long -z --name-only --name-status --full-name --full-tree --abbrev --abbrev= --object-only",
    "blame": """-L: -w -M -M# -C -C# -s -e -l -t -p --porcelain --line-porcelain --incremental --since= --date= --root
        --show-email --show-name --show-number --show-stats -n -f --abbrev= --first-parent --reverse --color-lines""",
    "grep": """-n --line-number -i --ignore-case -l --files-with-matches --name-only -L --files-without-match -c --count -w
        --word-regexp -v --invert-match -E --extended-regexp -G -F --fixed-strings -P --perl-regexp -h -H -o --column
        --only-matching -q --quiet --cached --untracked --heading --break -p --show-function -W --function-context
        -A# -A: -B# -B: -C# -C: -# --after-context= --before-context= --context= -e: --and --or --not --all-match
        --color --color= --no-color --max-depth= -m: --max-count= -I -a --text --full-name -z --null -r --recursive""",
    "cat-file": "-t -s -p -e",
    "merge-base": "--all -a --is-ancestor --fork-point --octopus --independent",
    "describe": """--tags --all --always --abbrev= --long --dirty --dirty= --exact-match --match= --match: --exclude= --exclude:
        --contains --first-parent --candidates=""",
    "for-each-ref": _REFS,
    "show-ref": "--heads --tags -d --dereference -s --hash --hash= --verify -q --quiet --head --abbrev --abbrev=",
    "name-rev": "--name-only --tags --refs= --always --no-undefined",
    "symbolic-ref": "--short -q --quiet",
    "check-ignore": "-v --verbose -q --quiet -n --non-matching -z --no-index",
    "count-objects": "-v -H --verbose --human-readable",
    "remote": "-v --verbose",
    "remote get-url": "--all --push",
    "config": """-l --list --get: --get-all: --get-regexp: --show-origin --show-scope --local --global --system --name-only -z
        --null --type= --bool --int --path""",
    "stash list": _LOG,
    "stash show": _DIFF + " --include-untracked --only-untracked",
    "worktree list": "--porcelain -v --verbose -z",
    "version": "--build-options",
}
# Changing subcommands that leave the files of the working tree as they are.
_WRITING = {
    "add": """-A --all --no-all -u --update -n --dry-run -v --verbose -f --force -N --intent-to-add --refresh
        --ignore-errors --ignore-missing --ignore-removal --no-ignore-removal --sparse --renormalize --chmod=""",
    "commit": """-m: --message= --message: -a --all --amend --no-edit --allow-empty --allow-empty-message -q --quiet -v
        --verbose -s --signoff --no-signoff --author= --author: --date= --date: --dry-run --short --branch --porcelain
        --long -F: --file= --file: --reset-author --fixup= --fixup: --squash= --squash: --trailer= --trailer: -o --only
        -i --include --status --no-status --cleanup= -C: --reuse-message= --reuse-message: -u -uno -uall""",
    "branch": _REFS
    + """ -a --all -r --remotes -v -vv --verbose -l --list --show-current -d -D --delete -m -M --move -c -C --copy -f
        --force -t --track --track= --no-track -u: --set-upstream-to= --set-upstream-to: --unset-upstream -q --quiet
        --abbrev= --no-abbrev""",
    "tag": _REFS + " -l --list -n -n# -a --annotate -m: --message= --message: -d --delete -f --force",
}
# Subcommands that change files of the working tree.
_MOVING = {
    "checkout": """-b: -B: -f --force -q --quiet -d --detach -t --track --track= --no-track --orphan: --orphan= --ours --theirs -m
        --merge --conflict= --progress --no-progress --guess --no-guess -l --overlay --no-overlay --ignore-skip-worktree-bits""",
    "switch": """-c: -C: --create= --create: --force-create= --force-create: -d --detach -f --force --discard-changes -q --quiet -t
        --track --track= --no-track --orphan: --orphan= -m --merge --conflict= --guess --no-guess --progress --no-progress""",
    "restore": """-s: --source= --source: -S --staged -W --worktree -q --quiet --ours --theirs -m --merge --conflict= --overlay
        --no-overlay --progress --no-progress --ignore-unmerged""",
    "reset": "--soft --mixed --hard --merge --keep -q --quiet -N --intent-to-add --refresh --no-refresh",
    "stash": """-u --include-untracked --no-include-untracked -a --all -k --keep-index --no-keep-index -S --staged -q --quiet -m:
        --message= --message:""",
    "stash push": """-u --include-untracked --no-include-untracked -a --all -k --keep-index --no-keep-index -S --staged -q
        --quiet -m: --message= --message:""",
    "stash save": "-u --include-untracked -a --all -k --keep-index --no-keep-index -q --quiet",
    "stash pop": "--index -q --quiet",
    "stash apply": "--index -q --quiet",
    "stash drop": "-q --quiet",
    "stash clear": "",
    "stash branch": "",
    "merge": """--no-edit --ff --no-ff --ff-only --squash --no-squash --commit --no-commit -m: -q --quiet -v --verbose --abort
        --continue --quit --stat -n --no-stat --allow-unrelated-histories --autostash --no-autostash --log --no-log
        --signoff --no-signoff --progress --no-progress""",
    "rebase": """--onto: --onto= --abort --quit -q --quiet -v --verbose --autostash --no-autostash --stat -n --no-stat --root
        --keep-base --fork-point --no-fork-point -r --rebase-merges --no-rebase-merges -f --force-rebase --no-ff
        --reapply-cherry-picks --no-reapply-cherry-picks --committer-date-is-author-date --signoff --no-autosquash""",
    "cherry-pick": "-n --no-commit -x --abort --quit -m: -m# --mainline= --ff --allow-empty -s --signoff",
    "revert": "-n --no-commit --no-edit --abort --quit -m: -m# --mainline= -s --signoff",
}
_NETWORK = {
    "fetch": """--all --append -p --prune --prune-tags -t --tags -n --no-tags --depth= --depth: --deepen= --unshallow -q --quiet
        -v --verbose --dry-run --progress --no-progress --atomic --multiple -4 -6 --ipv4 --ipv6 --no-recurse-submodules""",
    "pull": """-r --rebase --rebase= --no-rebase --ff --ff-only --no-ff -q --quiet -v --verbose --autostash --no-autostash
        --no-edit --commit --no-commit --squash --no-squash --stat --no-stat -n -p --prune -t --tags --no-tags --all
        --depth= --depth: --unshallow --dry-run --progress --no-progress --allow-unrelated-histories -4 -6 --ipv4
        --ipv6 --no-recurse-submodules""",
    "push": """-u --set-upstream --tags --follow-tags --no-follow-tags -q --quiet -v --verbose -n --dry-run --porcelain --progress
        --no-progress --atomic --no-atomic --all --branches -4 -6 --ipv4 --ipv6 --no-recurse-submodules""",
}
# Never green, but a person may allow them for good: nothing here carries a program either.
_ASKED = {
    "rm": "--cached -r -f --force -q --quiet -n --dry-run --ignore-unmatch",
    "mv": "-f --force -k -n --dry-run -v --verbose",
    "init": "-q --quiet -b: --initial-branch= --bare",
    "clone": "--depth= --depth: -q --quiet -v --verbose -b: --branch= --branch: --single-branch --no-tags -n --no-checkout --bare",
    "ls-remote": "--heads -t --tags --refs -q --quiet --exit-code --sort= --symref",
    "worktree add": "-b: -B: -f --force -d --detach -q --quiet --track --no-track",
    "worktree remove": "-f --force",
    "worktree prune": "-n --dry-run -v --verbose",
    "fsck": "--full --no-full --strict --lost-found --no-progress --progress -v --verbose",
    "apply": "--check --stat --numstat --summary -R --reverse --index --cached -3 --3way -v --verbose -p#",
}
_GREEN_TABLES = (_READING, _WRITING, _MOVING, _NETWORK)
_TWO_WORDS = frozenset({"stash", "remote", "worktree"})
_SURE = frozenset({"-m", "--message"})  # messages: whatever the next word is, git takes it as the value


class Git:
    """A git command line taken apart: subcommand ("stash pop"), options with values, plain words, `-C` directories."""

    __slots__ = ("directories", "options", "plain", "sub", "table")

    def __init__(self, sub: str, table: dict[str, str], directories: list[str]) -> None:
        self.sub, self.table, self.directories = sub, table, directories
        self.options: list[tuple[str, str]] = []
        self.plain: list[str] = []

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names]


_specs: dict[str, frozenset[str]] = {}


def parse_git(argv: tuple[str, ...]) -> Git:
    """Take `git ...` apart, or raise _Gated where a word is not on the subcommand's list."""
    at, directories = 1, []
    while at < len(argv) and argv[at].startswith("-"):
        if argv[at] == "-C" and at + 1 < len(argv) and argv[at + 1]:
            directories.append(argv[at + 1])
            at += 1
        elif argv[at] == "--version" and len(argv) == 2:
            return Git("version", _READING, directories)
        elif argv[at] != "--no-pager":
            raise _Gated("git's own option " + argv[at][:40] + " can change what runs")
        at += 1
    sub = argv[at] if at < len(argv) else ""
    if sub in _TWO_WORDS and at + 1 < len(argv) and not argv[at + 1].startswith("-"):
        at += 1
        sub += " " + argv[at]
    for table in (*_GREEN_TABLES, _ASKED):
        if sub in table:
            call = Git(sub, table, directories)
            break
    else:
        raise _Gated("git " + sub[:40] + " is not on the list", "in the cage: sbox " + shown(argv))
    if sub not in _specs:
        _specs[sub] = frozenset(table[sub].split())
    _git_options(call, argv[at + 1 :], _specs[sub])
    return call


def _git_options(call: Git, words: tuple[str, ...], allowed: frozenset[str]) -> None:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            call.plain += words[at - 1 :]
            return
        if not word.startswith("-") or (word == "-" and call.sub in ("checkout", "switch", "merge", "rebase")):
            call.plain.append(word)
            continue
        for name, value, takes_next in _option(word, allowed):
            if takes_next:
                value = words[at] if at < len(words) else "-"
                if value.startswith("-") and (at >= len(words) or name not in _SURE):
                    raise _Gated("the option " + name + " has no plain value")
                at += 1
            call.options.append((name, value))


def _option(word: str, allowed: frozenset[str]) -> Iterator[tuple[str, str, bool]]:
    """(name, value, takes the next word) of an option word; several for a cluster such as -am."""
    name, equals, value = word.partition("=")
    if word in allowed and not equals:
        yield word, "", False
        return
    if word.startswith("--"):
        if equals and name + "=" in allowed:
            yield name, value, False
        elif not equals and name + ":" in allowed:
            yield name, "", True
        elif word in allowed:  # one exact value, as --submodule=short
            yield name, value, False
        else:
            raise _Gated("the option " + word[:40] + " is not on the list for this git command")
        return
    if word[1:].isdecimal() and word.isascii() and "-#" in allowed:
        yield "-#", word[1:], False
        return
    at = 1
    while at < len(word):
        letter, rest = "-" + word[at], word[at + 1 :]
        at += 1
        if letter + "#" in allowed and rest.rstrip("%").isdecimal() and rest.isascii():
            yield letter, rest, False
            return
        if letter + ":" in allowed:
            yield letter, rest, not rest
            return
        if letter not in allowed:
            raise _Gated("the option " + word[:40] + " is not on the list for this git command")
        yield letter, "", False


# ---------------------------------------------------------------- git: the repository

# Keys of a repository's own configuration that run nothing and lead nowhere; a value set limits what they may say.
# "remote.*.fetch" stands for any remote. Everything else in .git/config is asked.
_BOOLEAN = frozenset(["true", "false", "yes", "no", "on", "off", "1", "0"]) | {""}
_OFF = frozenset({"false", "no", "off", "0", ""})
_ANY: frozenset[str] = frozenset()
_LOCAL_KEYS = {
    **dict.fromkeys(
        ["core.filemode", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks", "core.autocrlf", "core.eol", "core.safecrlf", "core.quotepath", "core.compression", "core.loosecompression", "core.bigfilethreshold", "core.abbrev", "core.untrackedcache", "core.preloadindex", "core.commentchar", "core.whitespace", "core.longpaths", "core.sharedrepository", "core.sparsecheckout", "core.sparsecheckoutcone", "core.protecthfs", "core.protectntfs", "core.checkstat", "core.trustctime", "core.packedgitlimit", "user.name", "user.email", "user.useconfigonly", "author.name", "author.email", "committer.name", "committer.email", "init.defaultbranch", "remote.*.fetch", "remote.*.tagopt", "remote.*.prune", "remote.*.prunetags", "remote.*.gh-resolved", "remote.*.skipdefaultupdate", "branch.*.remote", "branch.*.pushremote", "branch.*.merge", "branch.*.rebase", "branch.*.description", "branch.*.vscode-merge-base", "branch.*.gh-merge-base", "branch.*.github-pr-owner-number", "branch.*.gk-last-accessed", "branch.*.gk-merge-base", "branch.*.gk-last-modified", "branch.sort", "branch.autosetupmerge", "branch.autosetuprebase", "pull.rebase", "pull.ff", "push.default", "push.autosetupremote", "push.followtags", "fetch.prune", "fetch.prunetags", "fetch.parallel", "fetch.writecommitgraph", "rebase.autostash", "rebase.autosquash", "rebase.updaterefs", "rebase.stat", "merge.ff", "merge.conflictstyle", "merge.renames", "merge.renamelimit", "merge.stat", "merge.log", "diff.algorithm", "diff.renames", "diff.renamelimit", "diff.colormoved", "diff.colormovedws", "diff.mnemonicprefix", "diff.noprefix", "diff.context", "diff.interhunkcontext", "diff.statgraphwidth", "diff.wordregex", "diff.indentheuristic", "log.date", "log.decorate", "log.abbrevcommit", "log.follow", "log.mailmap", "status.short", "status.branch", "status.showuntrackedfiles", "status.showstash", "status.aheadbehind", "status.renames", "commit.verbose", "commit.status", "commit.cleanup", "rerere.enabled", "rerere.autoupdate", "stash.showpatch", "stash.showincludeuntracked", "tag.sort", "versionsort.suffix", "i18n.commitencoding", "i18n.logoutputencoding", "gui.wmstate", "gui.geometry", "submodule.active", "submodule.*.url", "submodule.*.active", "submodule.*.branch", "submodule.*.ignore", "submodule.*.shallow", "index.version", "index.threads", "index.sparse", "feature.manyfiles", "pack.threads", "pack.windowmemory", "pack.packsizelimit", "gc.auto", "gc.autodetach", "gc.autopacklimit", "gc.pruneexpire", "gc.reflogexpire", "gc.reflogexpireunreachable", "gc.worktreepruneexpire", "maintenance.auto", "maintenance.strategy", "blame.coloring", "blame.showemail", "grep.linenumber", "grep.patterntype", "grep.column", "grep.extendedregexp", "grep.fullname", "help.autocorrect", "extensions.objectformat", "apply.whitespace", "am.keepcr", "checkout.defaultremote", "checkout.guess", "checkout.workers", "notes.displayref", "format.pretty", "protocol.version", "http.postbuffer", "lfs.repositoryformatversion"],
        _ANY,
    ),
    "core.repositoryformatversion": frozenset({"0", "1"}),
    "core.bare": _OFF,
    "core.fsmonitor": _OFF,
    "commit.gpgsign": _OFF,
    "tag.gpgsign": _OFF,
    "tag.forcesignannotated": _OFF,
    "push.gpgsign": _OFF,
    "submodule.recurse": _OFF,
    "extensions.worktreeconfig": _BOOLEAN,
    "submodule.*.update": frozenset({"checkout", "rebase", "merge", "none"}),
}
_LOCAL_SECTIONS = frozenset({"advice", "color", "column"})  # sections of which every key is harmless
# Keys of the person's own files that make git follow the repository, and the values that do not.
_OWN_KEYS = {
    "core.hookspath": frozenset({"/dev/null", ""}),
    "core.fsmonitor": _BOOLEAN,
    "core.worktree": _ANY,
    "core.gitproxy": _ANY,
    "core.alternaterefscommand": _ANY,
    "core.bare": _OFF,
    "remote.*.url": _ANY,
    "remote.*.pushurl": _ANY,
    "remote.*.push": _ANY,
    "remote.*.mirror": _OFF,
    "remote.*.uploadpack": _ANY,
    "remote.*.receivepack": _ANY,
    "remote.*.vcs": _ANY,
    "remote.*.promisor": _OFF,
    "protocol.allow": frozenset({"never", "user"}),
    "protocol.ext.allow": frozenset({"never"}),
    "diff.*.command": _ANY,
    "diff.*.textconv": _ANY,
    "merge.*.driver": _ANY,
    "push.recursesubmodules": frozenset({"no", "check"}),
    "submodule.*.update": _ANY,
}
_LFS = {  # what `git lfs install` writes: the one filter known to run the same program whatever the repository says
    "filter.lfs.clean": "git-lfs clean -- %f",
    "filter.lfs.smudge": "git-lfs smudge -- %f",
    "filter.lfs.process": "git-lfs filter-process",
    "filter.lfs.required": "true",
}
# Data in the person's own files: a path in them is read at most, or an address.
_OWN_DATA = frozenset({"core.excludesfile", "core.attributesfile", "commit.template", "user", "url", "safe", "http", "mailmap"})
_LOOKS_INTO_SUBMODULES = frozenset(
    {"diff.submodule", "status.submodulesummary", "submodule.recurse", "fetch.recursesubmodules", "diff.ignoresubmodules"}
)
_GIT_RUNS = ("git", "ssh", "sh", "gpg", "git-lfs", "less", "pager", "editor", "vi", "nano")
_GIT_ENV = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_PS1_", "GIT_TRACE2_PARENT_")  # beginnings of harmless variables
_GIT_ENV_VALUES = {  # variables that are harmless with these values; None: with any
    "GIT_TERMINAL_PROMPT": None,
    "GIT_CONFIG_NOSYSTEM": None,
    "GIT_OPTIONAL_LOCKS": None,
    "GIT_MERGE_AUTOEDIT": None,
    "GIT_LFS_SKIP_SMUDGE": None,
    "GIT_SSL_CAINFO": None,
    "GIT_SSL_CAPATH": None,
    "GIT_CONFIG_GLOBAL": ("/dev/null", "/etc/gitconfig"),
    "GIT_CONFIG_SYSTEM": ("/dev/null", "/etc/gitconfig"),
    "GIT_PAGER": ("", "cat", "less"),
    "GIT_EDITOR": ("true", ":"),
    "GIT_SEQUENCE_EDITOR": ("true", ":"),
    "GIT_ASKPASS": ("", "true", "echo"),
}
_MAX_DIRECTORIES = 20_000  # looked through for nested repositories: about half a second
_MAX_INDEX = 64 << 20



def _judge_git(calls: list[tuple[Segment, Git]], caged: bool, cwd: str | None) -> None:
    """Raise _Gated unless every git segment of the line can run nothing but git, whatever was planted before."""
    place = _place()
    here = _cwd(cwd)
    if caged:
        raise _Gated("what runs in the cage first could change what git then runs", "two calls, or: sbox git ...")
    _judge_environment(place, here)
    own = _own_config(place)
    moved, tops = False, set()
    quiet = all(call.table is _READING for _, call in calls)
    for segment, call in calls:
        try:
            _judge_git_words(call, place, here)
            if call.sub == "version":
                continue
            directory = here
            for step in call.directories:
                directory = os.path.join(directory, step)
            directory = os.path.realpath(directory)
            repository = _find_repository(directory, place)
            if moved and not (directory == repository.top and directory in tops):
                raise _Gated("the command before it can change what lies in this directory", "two calls")
            _judge_repository(repository, own, place, quiet)
            if call.table is _NETWORK:
                _judge_remote(call, repository)
            if _signs(call, own):
                raise _Gated("your settings ask for a signature", "run it with the gate, or by hand")
            moved = moved or call.table is _MOVING or call.sub == "pull"
            tops.add(repository.top)
        except _Gated as gated:
            gated.segment = gated.segment or shown(segment.argv)
            gated.hint = gated.hint or ("" if call.table is _NETWORK else "in the cage: sbox " + shown(segment.argv))
            raise


def _judge_git_words(call: Git, place: Place, here: str) -> None:
    plain, sub = call.plain, call.sub
    if call.table is _ASKED:
        raise _Gated("git " + sub + " is always asked")
    if any("%G" in value for name, value in call.options if name in ("--format", "--pretty")):
        raise _Gated("this format runs gpg")
    if sub == "reflog" and plain[:1] in (["expire"], ["delete"], ["exists"]):
        raise _Gated("this deletes what git remembers")
    if sub == "config":
        reads = call.has("-l", "--list", "--get", "--get-all", "--get-regexp")
        if not reads or len(plain) > (0 if call.has("-l", "--list") else 1):
            raise _Gated("it may write git's configuration")
    if sub == "symbolic-ref" and len(plain) != 1:
        raise _Gated("it moves HEAD")
    for path in call.values("-F", "--file") if sub == "commit" else ():
        if not _sendable(path, place, here):
            raise _Gated("the message is not an ordinary file below ~/projects or /tmp")
    if any(value not in ("true", "false", "merges") for value in call.values("--rebase")):
        raise _Gated("this kind of rebase is not on the list")


def _judge_environment(place: Place, here: str) -> None:
    for name, value in os.environ.items():
        if not name.startswith("GIT_") or name.startswith(_GIT_ENV):
            continue
        allowed = _GIT_ENV_VALUES.get(name, ())
        inside = value.startswith("/") and " " not in value and not place.holds(os.path.realpath(value))
        if allowed is not None and value not in allowed and not (name == "GIT_ASKPASS" and inside):
            raise _Gated("the variable " + name + " changes what git does")
    planted = _planted(_GIT_RUNS, place, here)
    if planted:
        raise _Gated("caged code could have written " + planted)


class Repository:
    """A repository found in the zone: working tree `top`, its `gitdir`, and the `common` one that holds config and hooks."""

    __slots__ = ("common", "gitdir", "remotes", "top")

    def __init__(self, top: str, gitdir: str, common: str) -> None:
        self.top, self.gitdir, self.common = top, gitdir, common
        self.remotes: dict[str, list[str]] = {}


def _find_repository(directory: str, place: Place) -> Repository:
    """The repository git would use in this resolved directory; raises _Gated unless it lies plainly in the zone."""
    if not os.path.isdir(directory) or any(part.casefold() == ".git" for part in directory.split("/")):
        raise _Gated("git would not work in an ordinary directory there")
    at = directory
    while place.holds(at):
        dot = at + "/.git"
        if os.path.lexists(dot):
            return _open_repository(at, dot, place)
        if _looks_bare(at):
            raise _Gated("there is a bare repository at " + at)
        at = os.path.dirname(at)
    raise _Gated("the repository is outside the green zone")


def _open_repository(top: str, dot: str, place: Place) -> Repository:
    mode = os.lstat(dot).st_mode
    if stat.S_ISDIR(mode):
        if os.path.lexists(dot + "/commondir") and _line(dot + "/commondir") != ".":
            raise _Gated("the repository's .git/commondir points elsewhere")
        return Repository(top, dot, dot)
    pointer = _line(dot) if stat.S_ISREG(mode) else ""
    if not pointer.startswith("gitdir: "):
        raise _Gated("the repository's .git is odd")
    gitdir = os.path.realpath(os.path.join(top, pointer[8:]))
    common = gitdir
    if os.path.lexists(gitdir + "/commondir"):
        common = os.path.realpath(os.path.join(gitdir, _line(gitdir + "/commondir")))
        if os.path.dirname(gitdir) != common + "/worktrees":
            raise _Gated("the worktree's .git points to an odd place")
    if not place.holds(gitdir) or not place.holds(common):
        raise _Gated("the repository's .git points outside the green zone")
    return Repository(top, gitdir, common)


def _line(path: str) -> str:
    """The single line a small file holds, or ""."""
    text = _text(path, 8192) or ""
    line = text[:-1] if text.endswith("\n") else text
    return line if line.isprintable() else ""


def _judge_repository(repository: Repository, own: Config, place: Place, quiet: bool) -> None:
    top, gitdir, common = repository.top, repository.gitdir, repository.common
    _judge_gitdir(common, own=True)
    if gitdir != common:
        _judge_gitdir(gitdir, own=False)
    settings = _parse(common + "/config")
    for file in (gitdir + "/config.worktree", common + "/config.worktree"):
        if os.path.lexists(file):
            settings = settings + _parse(file)
    for section, name, value in settings:
        _judge_local_key(repository, section, name, value)
    for section, name, value in settings:
        if section.startswith("branch.") and name in ("remote", "pushremote") and value not in (*repository.remotes, "."):
            raise _Gated("the branch " + section[7:] + " follows something that is not a named remote")
    if os.path.lexists(top + "/.lfsconfig"):
        raise _Gated("the repository holds settings for git-lfs")
    curious = any(section + "." + name in _LOOKS_INTO_SUBMODULES for section, name, _ in own)
    if not quiet or curious or _has_gitlinks(gitdir + "/index"):
        for nested in _nested(top):
            inner = _open_repository(os.path.dirname(nested), nested, place)
            _judge_repository_files(inner, own)


def _judge_repository_files(repository: Repository, own: Config) -> None:
    """A nested repository: git may run status in it, so the same holds for its files."""
    _judge_gitdir(repository.common, own=True)
    if repository.gitdir != repository.common:
        _judge_gitdir(repository.gitdir, own=False)
    for file in (repository.common + "/config", repository.gitdir + "/config.worktree"):
        if file.endswith("/config") or os.path.lexists(file):
            for section, name, value in _parse(file):
                _judge_local_key(repository, section, name, value)


def _judge_gitdir(gitdir: str, own: bool) -> None:
    """Nothing in a git directory that runs, redirects a write or borrows from elsewhere."""
    names = set()
    with os.scandir(gitdir) as entries:
        for entry in entries:
            names.add(entry.name)
            if entry.is_symlink():
                raise _Gated("the repository's .git/" + entry.name + " is a link", "", "")
    if "HEAD" not in names or (own and not {"objects", "refs", "config"} <= names):
        raise _Gated("the repository's .git is odd")
    if any(name.startswith("sharedindex.") for name in names):
        raise _Gated("the repository's index is split")
    if "hooks" in names:
        for name in os.listdir(gitdir + "/hooks"):
            if not name.endswith(".sample"):
                raise _Gated("the repository has a hook: " + name)
    for legacy in ("remotes", "branches"):
        if legacy in names and os.listdir(gitdir + "/" + legacy):
            raise _Gated("the repository has remotes of the old kind")
    for file in ("/objects/info/alternates", "/objects/info/http-alternates"):
        if own and os.path.lexists(gitdir + file):
            raise _Gated("the repository borrows objects from another")
    for directory in ("logs", "refs"):
        if directory in names:
            _no_links(gitdir + "/" + directory)


def _no_links(directory: str) -> None:
    """git appends to and replaces these files by name: a link would lead the write elsewhere."""
    waiting = [directory]
    seen = 0
    while waiting:
        seen += 1
        if seen > _MAX_DIRECTORIES:
            raise _Gated("the repository is too big to look through")
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise _Gated("the repository's .git holds a link: " + entry.name)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _nested(top: str) -> list[str]:
    """Every `.git` below `top` but its own: git looks into such a directory once the index names it."""
    found: list[str] = []
    waiting = [top]
    seen = 0
    while waiting:
        directory = waiting.pop()
        seen += 1
        if seen > _MAX_DIRECTORIES:
            raise _Gated("the working tree is too big to look through for nested repositories")
        try:
            entries = os.scandir(directory)
        except PermissionError:
            continue
        with entries:
            for entry in entries:
                if entry.name == ".git":
                    if directory != top:
                        found.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return found


def _has_gitlinks(index: str) -> bool:
    """May the index name a submodule (mode 160000)? A false yes only costs a look through the tree."""
    if not os.path.lexists(index):
        return False
    data = _bytes(index, _MAX_INDEX)
    if data is None or data[:4] != b"DIRC":
        raise _Gated("the repository's index is odd")
    aligned = data[7] < 4  # before version 4 an entry starts at 12 + 8n and holds its mode 24 bytes on
    at = data.find(b"\x00\x00\xe0\x00", 12)
    while at >= 0:
        if not aligned or at % 8 == 4:
            return True
        at = data.find(b"\x00\x00\xe0\x00", at + 1)
    return False


def _judge_local_key(repository: Repository, section: str, name: str, value: str) -> None:
    kind, _, which = section.partition(".")
    full = kind + (".*." if which else ".") + name
    if full in ("remote.*.url", "remote.*.pushurl"):
        repository.remotes.setdefault(which, []).append(value)
        return
    if kind in _LOCAL_SECTIONS:
        return
    if full == "core.worktree" and os.path.realpath(os.path.join(repository.gitdir, value)) == repository.top:
        return  # a submodule says where it is checked out
    allowed = _LOCAL_KEYS.get(full)
    if allowed is None or (allowed and value.lower() not in allowed):
        raise _Gated("the repository's configuration sets " + section + "." + name)


def _own_config(place: Place) -> Config:
    """The person's and the machine's git settings; raises _Gated where they make git follow the repository."""
    get = os.environ.get
    config = get("XDG_CONFIG_HOME") or place.home + "/.config"
    waiting = ["/etc/gitconfig"] if not get("GIT_CONFIG_NOSYSTEM") and get("GIT_CONFIG_SYSTEM") != "/dev/null" else []
    if get("GIT_CONFIG_GLOBAL") != "/dev/null":
        waiting += [config + "/git/config", place.home + "/.gitconfig"]
    settings: Config = []
    read_files = 0
    while waiting:
        path = waiting.pop()
        read_files += 1
        if read_files > 30:
            raise _Gated("your git settings include too many files")
        if not os.path.lexists(path):
            continue
        if place.holds(os.path.realpath(path)):
            raise _Gated("your git settings come from a file that caged code can write: " + path)
        for section, name, value in _parse(path):
            if section.partition(".")[0] in ("include", "includeif") and name == "path":
                value = place.home + value[1:] if value.startswith("~/") else value
                waiting.append(os.path.join(os.path.dirname(path), value))
            else:
                _judge_own_key(section, name, value, place)
                settings.append((section, name, value))
    return settings


def _judge_own_key(section: str, name: str, value: str, place: Place) -> None:
    kind, _, which = section.partition(".")
    full = kind + (".*." if which else ".") + name
    exact = section + "." + name
    if kind == "filter":
        bad = _LFS.get(exact) != value
    elif exact == "protocol.ext.allow":
        bad = value.lower() not in _OWN_KEYS[exact]
    elif full in _OWN_KEYS:
        bad = value.lower() not in _OWN_KEYS[full]
    elif full in _OWN_DATA or kind in _OWN_DATA:
        bad = False
    else:
        bad = any(_leads_inside(word, place) for word in value.lstrip("!").split())
    if bad:
        raise _Gated("your git settings let the repository choose what runs: " + exact)


def _leads_inside(word: str, place: Place) -> bool:
    word = word.strip("'\"")
    if word.startswith(("./", "../")):
        return True
    if word.startswith("~/"):
        word = place.home + word[1:]
    return word.startswith("/") and place.holds(os.path.realpath(word))


def _signs(call: Git, own: Config) -> bool:
    asked = {section + "." + name for section, name, value in own if value.lower() not in _OFF or name not in _SIGNING}
    commits = call.sub in ("commit", "merge", "rebase", "cherry-pick", "revert", "pull")
    return (
        (commits and "commit.gpgsign" in asked)
        or (call.sub == "tag" and bool(asked & {"tag.gpgsign", "tag.forcesignannotated"}))
        or (call.sub == "push" and "push.gpgsign" in asked)
    )


_SIGNING = frozenset({"gpgsign", "forcesignannotated"})


def _parse(path: str) -> Config:
    """(section, key, value) of a git config file in lower case, "remote.origin" for [remote "origin"]; odd files raise."""
    text = _text(path, 1 << 18)
    if text is None:
        raise _Gated("this git configuration cannot be read: " + path)
    section = ""
    found: Config = []
    for line in text.split("\n"):
        line = line.strip(" \t")
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            section = _section(line)
            if not section:
                raise _Gated("this git configuration is odd: " + path)
            continue
        name, equals, value = line.partition("=")
        name = name.rstrip(" \t").lower()
        value = value.lstrip(" \t") if equals else "true"
        if not section or not _is_key(name) or line.endswith("\\") or not line.replace("\t", " ").isprintable():
            raise _Gated("this git configuration is odd: " + path)
        found.append((section, name, _value(value)))
    return found


def _is_key(name: str) -> bool:
    return name[:1].isalpha() and name.isascii() and name.replace("-", "a").isalnum()


def _section(line: str) -> str:
    """The section a header line opens, or "" for any unusual spelling."""
    head, close, rest = line[1:].partition("]")
    rest = rest.strip(" \t")
    if not close or (rest and rest[0] not in "#;") or not head.isprintable():
        return ""
    name, quote, sub = head.partition('"')
    name = name.lower()
    if not quote:
        return name if _is_key(name) else ""
    if name[-1:] != " " or not _is_key(name.rstrip(" ")) or sub[-1:] != '"' or '"' in sub[:-1] or "\\" in sub:
        return ""
    return name.rstrip(" ") + "." + sub[:-1]


def _value(text: str) -> str:
    """A value without comment and quotes. Where quotes are mixed in, what is returned matches no list."""
    if '"' not in text and "\\" not in text:
        for mark in "#;":
            text = text.split(mark)[0]
        return text.rstrip(" \t")
    inner = text[1:-1]
    return inner if text[:1] == text[-1:] == '"' and len(text) > 1 and '"' not in inner and "\\" not in inner else text


# ---------------------------------------------------------------- git: the remote

_REF = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./@#=+")
_HOST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.")


def _judge_remote(call: Git, repository: Repository) -> None:
    problem = _remote_words(call)
    if problem:
        raise _Gated(problem)
    several = call.has("--all", "--multiple") and call.sub != "push"
    names = call.plain if several else call.plain[:1]
    for name in names:
        if name not in repository.remotes:
            raise _Gated(name[:60] + " is not the name of a configured remote")
    if not repository.remotes:
        raise _Gated("the repository has no remote")
    used = names if names and not call.has("--all") else list(repository.remotes)
    for name in used:
        for url in repository.remotes[name]:
            if not _plain_url(url):
                raise _Gated("the remote " + name + " has an unusual address: " + url[:80])


def _remote_words(call: Git) -> str:
    """Why the plain words of a push, fetch or pull are not a remote's name and unforced refs, or ""."""
    if call.plain[:1] and not (call.plain[0][0:1].isalnum() and set(call.plain[0]) <= _REF - {"@"}):
        return "the first word is not the name of a remote"
    for ref in call.plain[1:]:
        source, colon, target = ref.partition(":")
        if ref.startswith("+"):
            return "it forces: " + ref[:60]
        if not source or (colon and not target):
            return "it deletes: " + ref[:60]
        if not set(source) | set(target) <= _REF or source.startswith("-") or target[:1] in ("-", "+"):
            return "the ref is not a plain name: " + ref[:60]
    return ""


def _plain_url(url: str) -> bool:
    """https, http, git or ssh to a host written in ASCII; no local path, no other transport, no port tricks."""
    scheme, mark, rest = url.partition("://")
    if not mark:  # user@host:path
        rest, colon, path = url.partition(":")
        if not colon or not path or path.startswith(("-", ":")) or "@" not in rest:
            return False
    elif scheme not in ("https", "http", "git", "ssh"):
        return False
    authority = rest.split("/")[0]
    user, _, host = authority.rpartition("@")
    host, _, port = host.partition(":")
    good_user = not user or (user[0].isalnum() and set(user) <= _HOST | set("_:%~+"))
    return bool(host) and host[0].isalnum() and set(host) <= _HOST and (not port or port.isdecimal()) and good_user


# ---------------------------------------------------------------- names that Always remembers

# Programs that run what their arguments name, or change what later words mean: never a key.
CARRIERS = frozenset(
    ["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "elvish", "xonsh", "nu", "pwsh", "powershell", "busybox", "toybox", "sudo", "su", "doas", "pkexec", "runuser", "sg", "newgrp", "chroot", "unshare", "nsenter", "setpriv", "capsh", "bwrap", "firejail", "fakeroot", "proot", "systemd-run", "env", "xargs", "parallel", "nice", "ionice", "nohup", "timeout", "stdbuf", "time", "chrt", "taskset", "setsid", "setarch", "linux64", "linux32", "watch", "flock", "strace", "ltrace", "gdb", "lldb", "perf", "valgrind", "rr", "script", "scriptreplay", "expect", "unbuffer", "rlwrap", "screen", "tmux", "zellij", "dtach", "abduco", "at", "batch", "crontab", "ssh", "mosh", "sshpass", "telnet", "ftp", "sftp", "scp", "rsync", "nc", "ncat", "netcat", "socat", "rsh", "command", "builtin", "exec", "eval", "source", ".", "trap", "hash", "enable", "alias", "unalias", "export", "declare", "typeset", "local", "readonly", "set", "unset", "shift", "shopt", "bind", "complete", "compgen", "pushd", "popd", "let", "read", "mapfile", "readarray", "getopts", "history", "fc", "test", "[", "wait", "jobs", "fg", "bg", "disown", "suspend", "exit", "return", "break", "continue", "logout", "umask", "ulimit", "coproc", "caller", "dirs", "help", "times", "npx", "bunx", "pnpx", "pipx", "uvx", "tsx", "ts-node", "nodemon", "concurrently", "cross-env", "env-cmd", "dotenv", "entr", "watchexec", "hyperfine", "corepack", "awk", "gawk", "mawk", "nawk", "original-awk", "ed", "ex", "vi", "vim", "nvim", "view", "emacs", "emacsclient", "nano", "pico", "less", "more", "most", "man", "info", "sqlite3", "psql", "mysql", "mariadb", "mongosh", "redis-cli", "irb", "iex", "ghci", "erl", "tar", "zip", "cpio", "osascript", "open", "xdg-open", "start", "op", "doppler", "chamber", "aws-vault", "envchain", "infisical", "direnv", "tee-exec", "sbox-run", "lftp", "dc", "bc", "split", "csplit", "m4", "tex", "latex", "pdflatex", "ld.so", "ld-linux-x86-64.so.2", "choom", "prlimit", "softlimit", "daemonize", "start-stop-daemon", "runcon", "runsv", "chpst", "su-exec", "gosu", "tini"]
)
NEVER = frozenset(
    ["rm", "rmdir", "unlink", "shred", "dd", "fdisk", "sfdisk", "parted", "wipefs", "shutdown", "reboot", "halt", "poweroff", "init", "telinit", "kexec"]
)
INTERPRETERS = ["python", "pypy", "node", "nodejs", "ruby", "perl", "php", "lua", "luajit", "tclsh", "wish", "rscript", "r", "julia", "deno", "bun", "java", "scala", "groovy", "racket", "guile", "swipl", "elixir", "runghc", "ocaml", "crystal", "janet", "raku", "octave", "sclang", "cling"]
# Modules that `python3 -m` may be remembered with.
_MODULES = frozenset(["pytest", "unittest", "mypy", "ruff", "black", "isort", "flake8", "pylint", "coverage", "compileall", "build", "tox", "nox"])

# Programs whose arguments are data, so that any first one will do.
_SIMPLE = frozenset(
    ["touch", "chmod", "chown", "chgrp", "mkdir", "cp", "mv", "ln", "ls", "cat", "head", "tail", "grep", "egrep", "fgrep", "rg", "fd", "fdfind", "wc", "cut", "tr", "nl", "tac", "rev", "fold", "fmt", "stat", "file", "du", "df", "diff", "cmp", "comm", "paste", "join", "column", "basename", "dirname", "realpath", "readlink", "pwd", "which", "whereis", "type", "id", "whoami", "groups", "uname", "date", "uptime", "ps", "free", "seq", "sleep", "true", "false", "echo", "printf", "tee", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha512sum", "cksum", "base64", "xxd", "od", "hexdump", "strings", "tree", "jq", "yq", "find", "sort", "uniq", "expr", "nproc", "arch", "tty", "hostname", "printenv", "ping", "curl", "wget", "dig", "host", "nslookup", "whois", "http", "https", "kill", "pkill", "killall", "lsof", "ss", "netstat", "ip", "shellcheck", "gzip", "gunzip", "zcat", "unzip", "bat", "eza", "exa"]
)

# How many words name what a program does. Words of the key must come first: an option among them makes no key.
# A longer entry wins: ("npm run", 3) before ("npm", 2).
_DEPTH = {
    **dict.fromkeys(
        ["npm", "pnpm", "yarn", "pip", "pip3", "uv", "cargo", "go", "docker", "podman", "docker-compose", "kubectl", "helm", "terraform", "tofu", "systemctl", "make", "gmake", "just", "task", "rake", "invoke", "nox", "brew", "apt", "apt-get", "dnf", "gem", "bundle", "poetry", "pdm", "hatch", "rye", "pipenv", "conda", "mamba", "pixi", "mix", "composer", "dotnet", "swift", "flutter", "dart", "rustup", "mvn", "gradle", "sbt", "lein", "stack", "cabal", "zig", "nix", "mise", "asdf", "pre-commit", "playwright", "cypress", "alembic", "rails", "hg", "svn", "turbo", "nx", "lerna", "vercel", "netlify", "fly", "flyctl", "wrangler", "heroku", "supabase", "railway", "ollama", "tailscale", "journalctl-x", "snap", "flatpak", "argocd", "skaffold", "pulumi", "ansible-galaxy", "bazel", "bazelisk", "buck2", "volta", "fnm", "nvm", "bun", "deno"],
        2,
    ),
    **dict.fromkeys(["gh", "aws", "gcloud", "az", "glab", "doctl"], 3),
    **dict.fromkeys(["npm run", "npm run-script", "pnpm run", "yarn run", "bun run", "deno task", "yarn workspace"], 3),
    **dict.fromkeys(["uv pip", "uv tool", "uv python", "uv cache", "conda env", "go mod", "go work", "nx run"], 3),
    **dict.fromkeys(
        [f"{d} {s}" for d in ("docker", "podman") for s in ["compose", "container", "image", "volume", "network", "system", "buildx", "builder"]],
        3,
    ),
    **dict.fromkeys(["kubectl rollout", "kubectl set", "kubectl create", "kubectl top", "kubectl auth", "kubectl config"], 3),
    **dict.fromkeys(["helm repo", "helm get", "helm show", "helm dependency", "terraform state", "terraform workspace"], 3),
    "gh api": 2,
}
# Subcommands that run what follows, or change what the program itself runs: never a key. "*" is any program.
_RUNNING = {
    "*": "exec run dlx shell eval command repl script scripts console attach ssh -c -e -m --eval --command --exec --run",
    "npm": "exec x init create explore edit config set start-x root-x",
    "pnpm": "exec dlx create config init",
    "yarn": "exec dlx node create config init policies set",
    "pip": "config",
    "pip3": "config",
    "uv": "run x",
    "uv tool": "run",
    "cargo": "x script",
    "go": "tool env telemetry",
    "docker": "run exec create attach start-x plugin context",
    "podman": "run exec create attach unshare",
    "docker compose": "run exec attach",
    "docker container": "run exec create attach",
    "podman compose": "run exec attach",
    "docker-compose": "run exec attach",
    "kubectl": "exec run debug attach plugin edit proxy cp krew",
    "kubectl config": "set set-credentials set-cluster edit",
    "helm": "plugin",
    "terraform": "console",
    "systemctl": "edit link set-environment import-environment",
    "gh": "alias extension ext codespace config",
    "aws": "configure ssm",
    "gcloud": "config components",
    "az": "extension alias config",
    "git": "",
    "make": "",
    "just": "",
    "task": "",
    "rake": "",
    "nox": "",
}
# Options that name a program, a file of settings or another project; also in any abbreviation of the long ones.
_EDGES = {
    "*": "--exec --command --pager --editor --shell --pre --rsh --to-command --use-compress-program --checkpoint-action "
    "--compress-program --hostname-bin --info-script --new-volume-script --filter-x --script-shell --node-options --require-x",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls",
    "fd": "-x -X --exec --exec-batch",
    "fdfind": "-x -X --exec --exec-batch",
    "sort": "-o --output -T --compress-program --files0-from",
    "rg": "--pre --hostname-bin --search-zip",
    "ss": "-D -K --diag --kill",
    "npm": "--script-shell --node-options --prefix -C --userconfig --globalconfig --shell --git --editor --viewer --ignore-scripts",
    "pnpm": "--script-shell --node-options --prefix -C --dir --shell-emulator --config",
    "yarn": "--cwd --use-yarnrc --script-shell",
    "bun": "--preload -r --config -c --cwd --shell --eval -e --print -p",
    "cargo": "--config -Z -C --manifest-path --target-dir",
    "go": "-toolexec -exec -vettool -overlay -modfile -C -ldflags -gccgoflags -pkgdir",
    "make": "-f -C -I --file --makefile --directory --eval --include-dir",
    "just": "-f -d --justfile --working-directory --shell --shell-arg --set --dotenv-path --chooser --command -c",
    "docker": "-v --volume --mount --privileged --entrypoint --config -H --host --context -c --env-file",
    "kubectl": "--kubeconfig --plugin --raw",
    "helm": "--post-renderer --kubeconfig --registry-config",
    "terraform": "-chdir -plugin-dir -config",
    "mvn": "-D -f -s -gs -t --define --file --settings --global-settings --toolchains -P",
    "gradle": "-I -b -p -c --init-script --build-file --project-dir --settings-file -D -P",
    "pip": "--python --config-settings --global-option --build-option --prefix --target -t --root",
    "systemctl": "-H --host -M --machine --root --image",
    "curl": "-K --config",
    "wget": "-e --execute --config --use-askpass",
    "gh": "--hostname",
    "aws": "--cli-binary-x --endpoint-url --ca-bundle",
    "rake": "-f -r -R -e -E -p --rakefile --require --rakelibdir --execute --execute-print --execute-continue --libdir -I",
    "cmake": "-E -P",
    "date": "-s --set",
    "jq": "-L --from-file -f",
}
# Programs that speak to a host named by an argument: a name that is not plain ASCII is never covered.
_NETWORKED = frozenset(["curl", "wget", "gh", "git", "ping", "dig", "host", "nslookup", "whois", "http", "https", "xh", "aria2c", "docker", "podman", "helm", "pip", "npm"])

# Programs that run project code, which caged code may have changed since a person said Always: released in the cage only.
RUNNERS = frozenset(
    ["make", "gmake", "just", "task", "rake", "invoke", "inv", "nox", "tox", "pytest", "py.test", "coverage", "mypy", "pylint", "flake8", "pre-commit", "alembic", "celery", "npm", "pnpm", "yarn", "bun", "deno", "jest", "vitest", "mocha", "ava", "eslint", "prettier", "tsc", "webpack", "vite", "next", "nuxt", "astro", "rollup", "esbuild", "parcel", "turbo", "nx", "lerna", "playwright", "cypress", "storybook", "gulp", "grunt", "stylelint", "knip", "biome", "svelte-kit", "cargo", "go", "gradle", "mvn", "sbt", "lein", "ant", "bazel", "bazelisk", "buck2", "cmake", "ctest", "ninja", "meson", "stack", "cabal", "zig", "mix", "rebar3", "dotnet", "swift", "flutter", "dart", "bundle", "rails", "rspec", "phpunit", "composer", "poetry", "pdm", "hatch", "uv", "pip", "pip3", "sphinx-build", "mkdocs", "terraform", "tofu", "docker", "podman", "docker-compose", "python", "python3"]
)
_BUILDERS = {  # of these only some subcommands run project code
    "docker": frozenset({"compose", "build", "buildx"}),
    "podman": frozenset({"compose", "build"}),
    "go": frozenset({"run", "test", "generate", "build", "vet", "install", "tool"}),
}


def keys(command: str) -> list[tuple[str, ...]]:
    """For each segment the words that Always would remember, or [] where the text must not be remembered."""
    segments = read(command)
    if segments is None:
        return []
    found = [_key(segment.argv) for segment in segments]
    if any(key is None for key in found):
        return []
    moves = [key for key in found if key and key[0] == "cd"]
    if moves and any(key and key[0] == "git" for key in found):
        return []  # the repository would be another one than the rule was made for
    return [key for key in found if key]


def base_tokens(command: str) -> list[str]:
    """One name for each segment ("git push", "npm run build"); [] when it cannot or must not be remembered."""
    return [" ".join(key) for key in keys(command)]


def covers(key: tuple[str, ...], argv: tuple[str, ...]) -> bool:
    """Does this remembered key apply to these words? Only where the words would yield the very same key."""
    try:
        return bool(argv) and _key(argv) == tuple(key)
    except Exception:  # odd arguments are covered by nothing
        return False


def is_project_runner(argv: tuple[str, ...], cwd: str | None = None) -> bool:
    """Does this program run code or settings of a project that caged code may have rewritten since it was approved?"""
    program = os.path.basename(argv[0])
    if program == "git":
        return _git_in_zone(argv, cwd)
    if "/" in argv[0] or program not in RUNNERS:
        return "/" in argv[0] and program in RUNNERS
    return program not in _BUILDERS or (len(argv) > 1 and argv[1] in _BUILDERS[program])


def _git_in_zone(argv: tuple[str, ...], cwd: str | None) -> bool:
    """Git runs what its repository says: harmless where caged code cannot write, or where `classify` finds it clean."""
    try:
        call, here = parse_git(argv), _cwd(cwd)
        directory = os.path.realpath(os.path.join(here, *call.directories))
        if not _place().holds(directory):
            return False
        _judge_git([(Segment(argv), call)], False, here)
    except (_Gated, OSError):
        return True
    return False


def _key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """The key of one simple command, or None."""
    program = argv[0]
    base = os.path.basename(program)
    if not base or _carries(base.lower()) or (program != base and not _trusted_path(program)):
        return None
    if base == "sbox":
        return ("sbox",) if program == base and len(argv) > 1 and not argv[1].startswith("-") and argv[1] else None
    if base == "git":
        return _git_key(argv) if program == base else None
    if base == "cd":
        return argv if program == base and len(argv) == 2 and _key_word(argv[1]) and argv[1][0] != "-" else None
    if base == "sed":
        return (program,) if _sed_prints(argv) else None
    if base in ("echo", "printf") and len(argv) > 1 and argv[1].startswith("-v"):
        return None
    if base in ("uniq", "hostname") and sum(not word.startswith("-") for word in argv[1:]) > (base == "uniq"):
        return None
    if _interprets(base.lower()):
        return _interpreter_key(argv, base)
    if any(_foreign(word) for word in argv[1:] if "://" in word or base in _NETWORKED):
        return None
    if _has_edge(argv, base):
        return None
    if base in ("make", "gmake"):
        return _make_key(argv)
    depth = _depth(argv)
    words = argv[:depth]
    for at in range(1, len(words)):
        names = _RUNNING.get(" ".join((base, *words[1:at])), "" if at > 1 else _RUNNING["*"])
        if words[at] in names.split() or not _key_word(words[at]) or words[at].startswith(("-", "+")):
            return None
    if depth == 1 and base not in _SIMPLE and len(argv) > 1 and argv[1] in _RUNNING["*"].split():
        return None
    if base in ("go", "deno", "mvn", "gradle") and any("@" in w or ":" in w for w in argv[1:3]):
        return None
    return words


def _carries(base: str) -> bool:
    name = base.rstrip("0123456789.-")
    return base in CARRIERS or base in NEVER or name in CARRIERS or base.startswith(("mkfs", "mkswap", "ld-linux"))


def _interprets(base: str) -> bool:
    return base.rstrip("0123456789.-") in INTERPRETERS and base not in ("bun", "deno")


def _trusted_path(program: str) -> bool:
    """An absolute path to a program outside everything the cage can write."""
    return program.startswith("/") and _key_word(program) and not _place().holds(os.path.realpath(program))


def _key_word(word: str) -> bool:
    return 0 < len(word) <= 200 and word.isascii() and word.isprintable() and " " not in word


def _foreign(word: str) -> bool:
    """Does the word name a host in other letters than ASCII, or in punycode?"""
    host = word.partition("://")[2] or word
    host = host.split("/")[0]
    return not host.isascii() or "xn--" in host.lower() or "%" in host or "\\" in host


def _depth(argv: tuple[str, ...]) -> int:
    base = os.path.basename(argv[0])
    two = base + " " + argv[1] if len(argv) > 1 else ""
    return min(_DEPTH.get(two, _DEPTH.get(base, 1)), len(argv))


def _has_edge(argv: tuple[str, ...], base: str) -> bool:
    family = {"pip3": "pip", "gmake": "make", "podman": "docker", "docker-compose": "docker", "tofu": "terraform"}
    edges = (_EDGES["*"] + " " + _EDGES.get(family.get(base, base), "")).split()
    for word in argv[1:]:
        if word == "--" and base in ("npm", "pnpm", "yarn", "bun", "cargo"):
            return False  # what follows is for the script, and the script is what was allowed
        if not word.startswith("-") or word == "-":
            continue
        name = word.partition("=")[0]
        for edge in edges:
            if name == edge or (edge.startswith("--") and len(name) > 3 and edge.startswith(name)):
                return True
            if len(edge) == 2 and not word.startswith("--") and edge[1] in name[1:]:
                return True  # -xfoo and clusters
            if edge[0] == "-" and edge[1] != "-" and len(edge) > 2 and name.lstrip("-") == edge[1:]:
                return True
    return False


def _make_key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    targets = []
    for word in argv[1:]:
        if word.startswith("-"):
            if word not in ("-s", "-k", "-B", "-n", "-j") and not (word[:2] == "-j" and word[2:].isdecimal()):
                return None
        elif "=" in word or not _key_word(word):
            return None
        else:
            targets.append(word)
    return (argv[0], *targets)


def _interpreter_key(argv: tuple[str, ...], base: str) -> tuple[str, ...] | None:
    """An interpreter counts with its script, and only where the cage cannot write the script."""
    if argv[1:2] == ("-m",) and base.startswith("python") and len(argv) > 2 and argv[2] in _MODULES:
        return argv[:3]
    if argv[1:] in (("--version",), ("-V",), ("-v",)):
        return argv
    if len(argv) > 1 and argv[1].startswith("/") and _trusted_path(argv[1]) and base not in ("java", "r", "R"):
        return argv[:2]
    return None


def _sed_prints(argv: tuple[str, ...]) -> bool:
    """`sed -n 1,20p FILE`: the only sed that surely neither writes nor runs anything."""
    if len(argv) < 3 or argv[1] != "-n":
        return False
    script = argv[2]
    return script[-1:] == "p" and set(script[:-1]) <= set("0123456789,$;p ") and not any(w[:1] == "-" for w in argv[3:])


def _git_key(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        call = parse_git(argv)
    except _Gated:
        return None
    words = tuple(call.sub.split())
    if argv[1 : 1 + len(words)] != words or (call.sub == "reset" and call.has("--hard")):
        return None
    if call.sub in ("config", "stash clear", "symbolic-ref") or (call.sub == "reflog" and call.plain):
        return None
    if call.table is _NETWORK and _remote_words(call):
        return None
    if call.sub in ("clone", "ls-remote") and not all(_plain_url(w) or set(w) <= _REF for w in call.plain):
        return None
    return ("git", *words)
