"""The one reading of shell text: what it accepts, word by word, and what it refuses to read."""

from __future__ import annotations

import pytest

from cage.cage_policy import MAX_COMMAND, read

from .conftest import argvs

HOME = "/home/dev"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)


READ = [  # text, then each simple command as (operator, words)
    ("ls", [("", "ls")]),
    ("  ls \t -la  ", [("", "ls", "-la")]),
    ("a && b || c ; d | e", [("", "a"), ("&&", "b"), ("||", "c"), (";", "d"), ("|", "e")]),
    ("a&&b||c;d|e", [("", "a"), ("&&", "b"), ("||", "c"), (";", "d"), ("|", "e")]),
    ('git sta""tus', [("", "git", "status")]),
    ("g''it 'status'", [("", "git", "status")]),
    ("echo 'a b' \"c d\" e\\ f", [("", "echo", "a b", "c d", "e f")]),
    ("echo '' \"\"", [("", "echo", "", "")]),
    ("echo 'single \"inside\" $HOME `x` \\n'", [("", "echo", 'single "inside" $HOME `x` \\n')]),
    ('echo "a\\"b\\\\c\\$d\\`e\\nf"', [("", "echo", 'a"b\\c$d`e\\nf')]),
    ("echo 'two\nlines' \"three\nlines\"", [("", "echo", "two\nlines", "three\nlines")]),
    ("echo 'Grüße ☕'", [("", "echo", "Grüße ☕")]),
    ("git commit -m 'Fix bug!'", [("", "git", "commit", "-m", "Fix bug!")]),
    ('git commit -m "Fix bug!"', [("", "git", "commit", "-m", "Fix bug!")]),
    ("git show HEAD~1:a.py HEAD^ @{u} stash@{0}", [("", "git", "show", "HEAD~1:a.py", "HEAD^", "@{u}", "stash@{0}")]),
    ("git log @{u}.. {}.. a,b{c}", [("", "git", "log", "@{u}..", "{}..", "a,b{c}")]),
    ("ls ~ ~/a", [("", "ls", HOME, HOME + "/a")]),
    ("ls '~' \\~ a~b ''~", [("", "ls", "~", "~", "a~b", "~")]),
    ("find -name x -exec echo {} +", [("", "find", "-name", "x", "-exec", "echo", "{}", "+")]),
    ("echo '{a,b}' {a\\} a#b \\#c", [("", "echo", "{a,b}", "{a}", "a#b", "#c")]),
    ("make X=1 = a=b", [("", "make", "X=1", "=", "a=b")]),
    ("echo if then", [("", "echo", "if", "then")]),
    ("\\ls", [("", "ls")]),
    ("ls 2>/dev/null", [("", "ls")]),
    ("ls 2> /dev/null >/dev/null 2>&1 >&2 1>&2 >&1 &>/dev/null </dev/null 2>>/dev/null", [("", "ls")]),
    ("ls>/dev/null", [("", "ls")]),
    ("ls a>/dev/null b", [("", "ls", "a", "b")]),
    ("2>/dev/null ls", [("", "ls")]),
    ("ls 2>&1|cat", [("", "ls"), ("|", "cat")]),
    ("ls 2>/dev/null&&cat", [("", "ls"), ("&&", "cat")]),
]


@pytest.mark.parametrize(("text", "wanted"), READ, ids=[text for text, _ in READ])
def test_reads_exactly(text: str, wanted: list[tuple[str, ...]]) -> None:
    segments = read(text)
    assert segments is not None
    assert [(segment.op, *segment.argv) for segment in segments] == wanted


REFUSED = {
    "nothing": ["", " ", "\t", "''>/dev/null >&2;", ";", "&&", "| a", "a |", "a ;", "a && ", "a ;; b", "a || || b"],
    "a line break separates commands": [
        "ls\ntouch x",
        "ls\n",
        "\nls",
        "ls \\\n-la",
        "ls\r\n",
        "ls\rx",
        "git log \\\n; x",
    ],
    "control and foreign characters": [
        "ls \x00",
        "ls \x01",
        "ls \x0b x",
        "ls \x0c x",
        "ls \x7f",
        "ls '\x1b[2J'",
        "ls '\x00'",
        'ls "\r"',
        "\ufeffls",
        "ls é",
        "ls\u00a0x",
        "ls \u2028x",
        "ls '\ud800'",
        "ls \\é",
        "ls \\\t",
        "ls \\",
    ],
    "expansions": [
        "ls $HOME",
        "ls ${HOME}",
        "ls $(id)",
        "ls `id`",
        "ls $((1))",
        'ls "$HOME"',
        'ls "$(id)"',
        'ls "`id`"',
        'ls "a\\\\$x"',
        "ls $'\\x2d'",
        'ls $"x"',
        "$SUB",
        "git $SUB",
        "ls $",
        'ls "$"',
        "rm$IFS-rf$IFS/w",
        "$\\\n(cmd)",
        '"$\\\n(cmd)"',
        'echo "a\\\nb"',
        "ls <(id)",
        "ls >(id)",
        "$'\\x72\\x6d' -rf x",
        "$'\\'' ; cmd #'",
    ],
    "globs, braces and home directories of others": [
        "ls *",
        "ls a?",
        "ls [ab]",
        "ls ]",
        "ls {a,b}",
        "ls {1..3}",
        "{git,push}",
        "ls a{b,c}d",
        "ls {a','b}",
        "ls !(a)",
        "ls ~root",
        "ls ~+",
        "ls ~-",
        'ls ~"/"',
        "ls a=~/x",
        "ls a=b:~/x",
        "ls a:~",
        "git log {--output=F,-1}",
        "ls ! x",
        "! ls",
        "ls !x",
        "ls +(a)",
        "ls @(a)",
    ],
    "comments": ["# ls", "ls # x", "ls #x", "ls ;#x", "ls a &&# x", "#git log\ntouch x"],
    "redirects that are not to /dev/null": [
        "ls > x",
        "ls >> x",
        "ls >| /dev/null",
        "ls >/dev/nullx",
        "ls >'/dev/null'x",
        "ls >'/dev/null'",
        "ls >/dev/null/x",
        "ls >&٣",
        "ls >&²",
        "ls 2>&3",
        "ls >&-",
        "ls 2>&-",
        "ls <x",
        "ls <<EOF",
        "ls <<<x",
        "ls <>x",
        "ls 3>/dev/null",
        "ls 12>/dev/null",
        "ls {fd}>/dev/null",
        "ls &>x",
        "ls 2>&1x",
        "ls >&2x",
        "ls > $x",
        "ls >",
        "ls 2>&1 > ~/.bashrc",
        "ls >/dev/null2>&1",
        "ls >/DEV/NULL",
        "ls > /dev/null/../../tmp/x",
    ],
    "what `bash -c` takes for an option": ["-x ls", "-c", "+x ls", "--version"],
    "background and other operators": [
        "ls &",
        "ls & id",
        "ls |& cat",
        "ls &&& id",
        "(ls)",
        "{ ls; }",
        "ls ;& id",
        "a ;&>/dev/null b",
        "a |&>/dev/null b",
        "a &| b",
    ],
    "keywords and assignments": [
        "if a",
        "for x",
        "while x",
        "until x",
        "case x",
        "select x",
        "function f",
        "time ls",
        "coproc ls",
        "then x",
        "do rm",
        "done",
        "fi",
        "else x",
        "elif x",
        "esac",
        "{ ls",
        "} x",
        "[[ a",
        "[ a ]",
        "A=b",
        "A=b ls",
        "PATH=/tmp/x ls",
        "A+=b ls",
        '"A"=b ls',
        "a && B=c d",
        "ls && if x",
        "f() ls",
        "'if' x",
        "%1",
        "%1'q' x",
        "ls && %x",
    ],
    "an unfinished quote": ["ls 'a", 'ls "a', "ls 'it's'", 'ls "a\\"', 'ls "a\\'],
    "what another shell expands": ["=ls", "ls =ls"],
}


@pytest.mark.parametrize("text", [text for texts in REFUSED.values() for text in texts])
def test_refuses(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize("odd", [None, 1, b"ls", ["ls"], {}, 1.5, True], ids=repr)
def test_refuses_what_is_no_text(odd: object) -> None:
    assert read(odd) is None  # type: ignore[arg-type]


def test_length_is_what_the_kernel_takes() -> None:
    assert argvs("a" * MAX_COMMAND) == [("a" * MAX_COMMAND,)]
    assert read("a" * (MAX_COMMAND + 1)) is None


@pytest.mark.parametrize("home", ["", "relative", "/", "/etc"])
def test_no_home_no_tilde(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    assert read("ls ~/x") is None


def test_redirected_is_told() -> None:
    plain, quiet = read("a && b 2>&1") or []
    assert (plain.redirected, quiet.redirected) == (False, True)
