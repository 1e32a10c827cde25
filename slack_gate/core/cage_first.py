"""Cage first: a gated shell command that runs in the cage instead of being asked, where the person switched that on.

The cage holds whatever the text does. What is decided here is only whether the work could be done in there: a command
whose point lies outside is asked at once, and so is one whose trial would mislead. Words are enough; doubt asks.
"""

# ruff: noqa: SIM905  (words in a string are easier to review and to diff than a list of quoted words)
from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping

from cage import cage_policy
from slack_gate.core.caged import LINKS, caged_words, in_cage, works_caged
from slack_gate.core.event import ToolEvent
from slack_gate.core.respell import reworded

LONGEST = 32_768  # characters
# Begins a command that is to be asked, not caged. To a shell it does nothing.
UNCAGED = ": uncaged;"
ADVICE = (
    "slack-gate runs this in the cage: no network, none of the home's hidden files, writes only in ~/projects, /tmp "
    "and a cache of its own. If the cage stops what is needed, ask a person for just that: begin the command with "
    f"`{UNCAGED}`"
)

# Programs whose work lies outside the cage: other machines, other processes, the system, the desktop.
OUTWARD = frozenset(
    """curl wget aria2c ssh scp sftp rsync ftp telnet nc ncat netcat socat mosh ping traceroute dig nslookup whois
    gh glab hub svn hg aws gcloud gsutil az kubectl helm terraform tofu pulumi ansible ansible-playbook vault
    docker docker-compose podman nerdctl buildah skopeo vercel fly flyctl wrangler heroku netlify supabase ngrok
    psql pg_dump mysql mysqldump mongosh redis-cli npx bunx pnpx uvx pipx corepack nvm fnm volta rustup brew apt
    apt-get aptitude dpkg dnf yum rpm pacman apk snap flatpak claude codex gemini opencode
    sudo su doas pkexec systemctl service journalctl loginctl dbus-send kill pkill killall ps pgrep top htop lsof fuser
    ss netstat ip iptables crontab at batch tmux screen zellij nohup disown setsid mount umount reboot shutdown
    open xdg-open notify-send pbcopy pbpaste xclip xsel wl-copy osascript gpg ssh-add ssh-keygen""".split()
)
_PACKAGES = "install i ci add update upgrade up publish login dlx exec x create init audit outdated view info search"
# Programs that go outside with some of their words only.
SOMETIMES = {
    "git": "push pull fetch clone ls-remote remote submodule lfs config send-email svn credential bundle gc daemon",
    **dict.fromkeys("npm pnpm yarn bun".split(), _PACKAGES),
    **dict.fromkeys("pip pip3".split(), "install download index search wheel"),
    "uv": "sync add pip lock tool python publish",
    **dict.fromkeys("poetry pdm pipenv conda mamba".split(), "install add update lock publish create sync"),
    "cargo": "install add update fetch publish search login",
    "go": "get install mod",
    **dict.fromkeys("gem bundle composer".split(), "install update push add require"),
    "playwright": "install",
    "pre-commit": "install autoupdate",
}
_ELSEWHERE = {program: frozenset(words.split()) for program, words in SOMETIMES.items()}
# They change the shell that later commands start from; in the cage that would be lost without a word.
_STATE = frozenset("cd pushd popd export unset alias unalias source . set shopt umask ulimit".split())
# Where a command may begin in a text that is not read exactly, and what stands between its words.
_BEGINS = re.compile(r"[\n;&|(`{!]|\b(?:do|then|else|elif|if|while)\b")
_MARKS = re.compile(r"[\s'\"<>(){}$,;&|`]+")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)")
_ASSIGNMENT = re.compile(r"\w+=")
_BACKGROUND = re.compile(r"(?<![&<>])&(?![&>\d])")
# Git in a text that is not read exactly: what neither moves files nor writes the configuration.
_GIT_TRIAL = (("git", "status"), ("git", "commit", "-m", "x"))
_GIT_PLAIN = frozenset("status diff log show blame grep ls-files rev-parse add commit shortlog describe".split())


def asks_outside(command: str) -> bool:
    """Whether the agent asks for the run outside: the cage has stopped it already."""
    return command.lstrip().startswith(UNCAGED)


def caged_first(event: ToolEvent, programs: Mapping[str, str]) -> str | None:
    """`sbox bash -c` with the text of this gated call, or None where it is to be asked.

    It is exactly that text, but for git that moves files: `whole_git.py` starts it.
    """
    command = event.command
    if command is None or not event.rewritable or event.unusual_flags:
        return None
    if command[:1] in "-+" or len(command) > LONGEST:  # bash takes a leading dash for options
        return None
    if asks_outside(command) or not in_cage(event.cwd):
        return None
    text = _inward(command, event.cwd, programs)
    if text is None or "://" in command or _names_hidden(command):
        return None
    caged = f"sbox bash -c {shlex.quote(text)}"
    if [segment.argv for segment in cage_policy.read(caged) or []] != [("sbox", "bash", "-c", text)]:
        return None
    green = cage_policy.classify(event.tool, {**event.tool_input, "command": caged}, event.cwd) == "green"
    return caged if green else None


def _inward(command: str, cwd: str, programs: Mapping[str, str]) -> str | None:
    """The text to run in the cage; None where its work lies outside."""
    segments = cage_policy.read(command)
    if segments is None:
        return None if _text_is_outward(command, cwd) else command
    line = [segment.argv for segment in segments]
    git = [argv for argv in line if _name(argv[0]) == "git"]
    caged = caged_words(git, cwd, programs, LINKS) if git else {}
    if caged is None or all(argv[0] in _STATE for argv in line):
        return None
    if any(_is_outward(argv) for argv in line if argv not in git):  # git's own words are known by now
        return None
    moving = {argv: words[1:] for argv, words in caged.items() if len(words) > len(("sbox", "git"))}
    asked = {argv: words for argv, words in moving.items() if argv[0] == "git"}  # ./git is another program
    return reworded(command, asked.get) if asked else command


def _text_is_outward(text: str, cwd: str) -> bool:
    line = [words for piece in _BEGINS.split(_without_heredocs(text)) if (words := _words(piece))]
    git = [words for words in line if _name(words[0]) == "git"]
    if git and not (all(words[1:2] and words[1] in _GIT_PLAIN for words in git) and works_caged(_GIT_TRIAL, cwd)):
        return True
    return bool(_BACKGROUND.search(text)) or any(map(_is_outward, line))


def _without_heredocs(text: str) -> str:
    """A text passed on is mostly data: prose with "open" in it opens nothing."""
    kept: list[str] = []
    end = ""
    for row in text.split("\n"):
        if end:
            end = "" if row.strip() == end else end
            continue
        kept.append(row)
        if (opened := _HEREDOC.search(row)) is not None:
            end = opened[1]
    return "\n".join(kept)


def _words(piece: str) -> tuple[str, ...]:
    words = [word for word in _MARKS.split(piece) if word]
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    return tuple(words)


def _is_outward(argv: tuple[str, ...]) -> bool:
    """The program of this simple command; for one whose arguments name what runs, any of its words."""
    words = argv[:1]
    if _name(argv[0]) in cage_policy.CARRIERS:
        words = argv = tuple(part for word in argv for part in _MARKS.split(word))
    names = {_name(word) for word in words}
    if names & OUTWARD or "sbox" in names:
        return True
    return any(not outside.isdisjoint(argv) for name, outside in _ELSEWHERE.items() if name in names)


def _name(word: str) -> str:
    return os.path.basename(word)


def _names_hidden(text: str) -> bool:
    """Hidden files of the home are out of sight in the cage: a command that looks for them would be misled."""
    return any(start + "/." in text for start in ("~", "$HOME", "${HOME}", os.path.expanduser("~")))
