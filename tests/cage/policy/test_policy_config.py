"""Git's settings as they are read here and as git reads them: whatever file is accepted says the same to both."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from cage.cage_policy import Gated, parse_config

HEADERS = [
    "[core]",
    "[CoRe]",
    '[remote "origin"]',
    '[remote "a b]c"]',
    '[branch "x#y"] ; c',
    "[a.b]",
    "[user]\t# c",
    " [x-y] ",
]
KEYS = ["url", "fsmonitor", "FsMonitor", "a-b", "x1", "1x", "a_b", "name"]
VALUES = [
    *(
        "x",
        "a b  c",
        '"q u"',
        '"a#b"',
        "a # c",
        "a;c",
        "",
        " ",
        "\t",
        "true",
        "false",
        "0",
        "é☕",
        "a\tb",
        '"a',
        'a"b"c',
    ),
    *("\\", "a\\", "a\\nb", '"a\\"b"', "x\\ ", "!cmd", "%s", "=", "a=b", '" x "', '"a\tb"', "# c", '"" # c'),
]
ODD = ["\r", "\x0b", "\ufeff", "\x00", "\n", "\\\n", "[", "]", '"', "#", ";", "=", " ", "\t", "\u00a0", "\x7f", "é"]


def text_from(pick: random.Random) -> str:
    lines = []
    for _ in range(pick.randint(1, 6)):
        roll = pick.random()
        key = pick.choice(KEYS) + pick.choice(["", " ", "\t"])
        value = pick.choice(["=", "= ", " = ", ""]) + pick.choice(VALUES)
        lines.append(pick.choice(HEADERS) if roll < 0.4 else pick.choice(["", "\t", "  "]) + key + value)
    text = "\n".join(lines) + pick.choice(["", "\n"])
    if pick.random() < 0.4:
        at = pick.randint(0, len(text))
        text = text[:at] + pick.choice(ODD) + text[at:]
    return text


def as_git_reads(file: Path) -> list[tuple[str, str]] | None:
    done = subprocess.run(["git", "config", "--file", str(file), "-z", "--list"], capture_output=True)
    if done.returncode:
        return None
    pairs = [entry.partition("\n") for entry in done.stdout.decode().split("\0")[:-1]]
    return [(key, value if mark else "true") for key, mark, value in pairs]  # a key alone is true


def test_what_is_accepted_says_the_same_to_git(tmp_path: Path, long_run: bool) -> None:
    pick, file, accepted = random.Random(11), tmp_path / "config", 0
    for _ in range(20_000 if long_run else 1_500):
        text = text_from(pick)
        file.write_bytes(text.encode())
        try:
            found = parse_config(str(file))
        except Gated:
            continue
        wanted = as_git_reads(file)
        if wanted is None:
            continue  # git refuses the file as a whole
        accepted += 1
        assert [section + "." + name for section, name, _ in found] == [key for key, _ in wanted], text
        for (section, name, value), (_, other) in zip(found, wanted, strict=True):
            # quotes and escapes inside a value are kept raw, and match no list
            assert value == other or '"' in value or "\\" in value, (text, section, name, value, other)
    assert accepted > 100
