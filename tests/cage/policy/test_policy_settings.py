"""policy.toml: what the person sets, checked; a stricter entry wins, and what is not understood asks for everything."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from cage import cage_policy
from cage.cage_policy import HELPER_VERBS, explain, keys, settings_problem

from .conftest import House, entries


def write(house: House, text: str) -> None:
    (house.gate / "policy.toml").write_text(text)


def test_without_the_file_nothing_changes(house: House) -> None:
    assert (house.bash("sbox ls"), house.bash("git status"), settings_problem()) == ("green", "green", "")
    write(house, "\n")
    assert (house.bash("sbox ls"), house.bash("git status"), settings_problem()) == ("green", "green", "")


def test_the_zone_can_be_made_smaller(house: House) -> None:
    (house.projects / "other").mkdir()
    write(house, "zone = ['~/projects/app']\n")
    assert house.write(house.repo / "new") == house.bash("git status") == house.bash("sbox ls") == "green"
    for path in (house.projects / "other" / "x", "/tmp/x", house.cache / "x", house.projects / "apple"):
        assert house.write(path) == "gated"
    (house.projects / "other" / ".git").mkdir()
    assert house.bash("git status", house.projects / "other") == "gated"
    (house.projects / "link").symlink_to(house.repo)
    assert house.write(house.projects / "link" / "new") == "green"


def test_what_is_written_by_caged_code_stays_so_in_a_smaller_zone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(house, "zone = ['/tmp']\n")
    (house.projects / "bin").mkdir()
    (house.projects / "bin" / "sbox").write_text("")
    monkeypatch.setenv("PATH", f"{house.projects}/bin:/usr/bin:/bin")
    assert house.bash("sbox ls") == "gated"


def test_more_commands_are_green(house: House) -> None:
    (house.outside / "tool").write_text("")
    write(house, f"green = ['{house.outside}/tool list ...', '{house.outside}/tool ping']\n")
    tool = f"{house.outside}/tool"
    green = [f"{tool} list", f"{tool} list -a 'b c'", f"{tool} ping", f"{tool} ping 2>&1", f"{tool} ping && sbox ls"]
    gated = [
        tool,
        f"{tool} lists",
        f"{tool} ping x",
        f"{tool} ping > x",
        f"{tool} ping | cat",
        f"{tool} ping && git status",
        f"{tool} list $X",
        "tool list",
        f"{house.outside}/../outside/tool list",
        f"A=b {tool} list",
    ]
    assert [line for line in green if house.bash(line) != "green"] == []
    assert [line for line in gated if house.bash(line) != "gated"] == []
    assert house.why(f"{tool} ping").rule == "your settings call it green"


def test_loaders_count_for_them_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    write(house, "green = ['/usr/bin/true']\n")
    assert house.bash("/usr/bin/true") == "green"
    monkeypatch.setenv("LD_PRELOAD", str(house.projects / "x.so"))
    assert house.bash("/usr/bin/true") == "gated"


def test_the_gates_own_table_is_not_ours(house: House) -> None:
    write(house, "zone = ['/tmp']\n[gate]\nallow = []\n[[gate.rule]]\ncommand = 'git push ...'\ndo = 'ask'\n")
    assert (house.write("/tmp/x"), house.write(house.repo / "x"), house.bash("sbox ls")) == ("green", "gated", "green")


def test_the_helper_directory(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = house.home / "tools"
    line = f"python3 {tools}/gh-issue/gh_issue.py view 3"
    assert house.bash(line) == "gated"
    write(house, "helper_directory = '~/tools'\n")
    assert (house.bash(line), house.bash("python3 ~/work/gh-issue/gh_issue.py view 3")) == ("green", "gated")
    monkeypatch.setenv("AGENT_TOOLS_DIR", str(tools))
    assert house.bash(line) == "green"
    monkeypatch.setenv("AGENT_TOOLS_DIR", str(house.work))
    assert house.bash(line) == house.bash("python3 ~/work/gh-issue/gh_issue.py view 3") == "gated", "they disagree"
    write(house, f"helper_directory = '{house.projects}/tools'\n")
    monkeypatch.delenv("AGENT_TOOLS_DIR")
    assert house.bash(f"python3 {house.projects}/tools/gh-issue/gh_issue.py view 3") == "gated"
    assert house.write(house.projects / "tools" / "x") == "gated"


WRONG = {
    "no TOML": ["", "zone = ", "[[", "x", "\x00", "zone = ['~/projects']\nzone = []", "a=" + "[" * 9999],
    "no such setting": ["gated = []", "zones = []", "[zone]\na = 1", "Green = []", "x = 1"],
    "another form": [
        "zone = '~/projects'",
        "green = [1]",
        "green = ['/usr/bin/file', ['x']]",
        "helper_directory = ['x']",
        "helper_repositories = true",
    ],
    "wider than the zone": [
        "zone = ['/']",
        "zone = ['~']",
        "zone = ['~/work']",
        "zone = ['projects']",
        "zone = ['']",
        "zone = ['~/projects/../work']",
        "zone = ['~/projects/out']",
    ],
    "no command": [
        "green = ['']",
        "green = ['/bin/a; /bin/b']",
        "green = ['/bin/a > b']",
        "green = ['/bin/a > /dev/null']",
        "green = ['...']",
        "green = ['/bin/a $X']",
    ],
    "no program out of reach": [
        "green = ['tool x']",
        "green = ['~/projects/tool']",
        "green = ['/tmp/tool']",
        "green = ['./tool']",
        "green = ['~/projects/out/tool']",
    ],
}


@pytest.mark.parametrize("text", [text for texts in WRONG.values() for text in texts])
def test_a_file_that_is_not_understood_asks_for_everything(text: str, house: House) -> None:
    (house.projects / "out").symlink_to(house.outside)
    write(house, text)
    assert settings_problem().startswith(str(house.gate / "policy.toml"))
    green = entries("sbox ls; git status; python3 ~/work/gh-issue/gh_issue.py view 3; /usr/bin/true")
    assert [line for line in green if house.bash(line) != "gated"] == []
    assert house.write(house.repo / "new") == "gated"
    assert house.why("sbox ls").rule == settings_problem()
    assert explain("Read", {}).verdict == "ungated"
    assert keys("/usr/bin/file x") == [] and keys("ls") == [("ls",)]
    write(house, "\n")
    assert (house.bash("sbox ls"), settings_problem()) == ("green", "")


@pytest.mark.parametrize("break_it", ["others", "directory", "fifo", "bytes", "zone", "link", "no reader"])
def test_a_file_that_others_could_write_or_nobody_can_read(
    break_it: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = house.gate / "policy.toml"
    write(house, "helper_repositories = ['a/b']\n")
    assert house.bash("sbox ls") == "green"
    file.unlink()
    if break_it == "others":
        write(house, "\n")
        file.chmod(0o664)
    elif break_it == "directory":
        file.mkdir()
    elif break_it == "fifo":
        os.mkfifo(file)
    elif break_it == "bytes":
        file.write_bytes(b"\xff")
    elif break_it == "zone":
        monkeypatch.setenv("SLACK_GATE_HOME", str(house.projects))
        (house.projects / "policy.toml").write_text("\n")
    elif break_it == "link":
        (house.projects / "policy.toml").write_text("\n")
        file.symlink_to(house.projects / "policy.toml")
    else:
        write(house, "\n")
        monkeypatch.setitem(sys.modules, "tomllib", None)
    assert house.bash("sbox ls") == house.write(house.repo / "x") == "gated"
    assert "only you can write" in settings_problem()


def test_a_file_that_cannot_be_looked_at(house: House) -> None:
    (house.gate / "policy.toml").symlink_to("policy.toml")
    assert house.bash("sbox ls") == "gated"
    assert settings_problem()


def test_a_network_needs_its_hosts(house: House) -> None:
    (house.gate / "net-allow.txt").write_text("bare\nodd pypi.org\nhalf pypi.org:443 x\n\n# c\ngood pypi.org:443 # x\n")
    lines = [f"sbox --net-allow {name} -- ls" for name in ("bare", "odd", "half", "good", "pypi.org:443")]
    assert [house.bash(line) for line in lines] == ["gated", "gated", "gated", "green", "gated"]
    (house.gate / "net-allow.txt").unlink()
    (house.gate / "net-allow.txt").symlink_to("net-allow.txt")
    assert house.bash(lines[3]) == "gated"


def test_alone_on_a_home_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert settings_problem() == ""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        monkeypatch.setenv("SLACK_GATE_HOME", home)
        (Path(home) / "policy.toml").write_text("zone = 1")
        assert settings_problem() and cage_policy.classify("Bash", {"command": "sbox ls"}, "/") == "gated"


def test_the_helpers_own_verbs_are_the_ones_that_are_green() -> None:
    from cage.gh_issue import OPTIONS, VERBS

    words = {name: options.split() for name, (_, options, _) in VERBS.items()}
    assert {name: options.replace(":", "") for name, (_, options, _) in HELPER_VERBS.items()} == {
        name: " ".join(word for word in options if word[:2] == "--") for name, options in words.items()
    }
    for name, (plain, _, required) in HELPER_VERBS.items():
        assert plain == sum(word[:2] != "--" for word in words[name])
        assert set(required.split()) == {word for word in words[name] if OPTIONS[word].get("required")}
