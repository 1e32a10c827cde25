"""policy.toml: what it demands, and every way to write it wrongly, with the line."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from slack_gate.core.event import ToolEvent
from slack_gate.core.policy import EMPTY, Demands, PolicyError, parse


def bash(command: str, **fields: Any) -> ToolEvent:
    return ToolEvent("claude-code", "s1", "c1", "Bash", {"command": command, **fields}, "/w")


def rule(text: str) -> Any:
    return parse(f"[[gate.rule]]\n{text}\n")


# Not read exactly, and one of them may be a push when it runs.
MAY_BE_A_PUSH = [
    "git {push,}",
    "git {push,--tags}",
    "git pu{sh,}",
    "g{it,} push",
    "{git,push} origin main",
    "{git,'push'} origin",
    "$G push",
    "G=git; $G push origin",
    "X='git push'; $X",
    'C="git push"; eval $C',
    "git $X",
    "git ${X}sh",
    "git $(echo push)",
    "git `echo push`",
    "git $(printf 'pu%s' sh) origin",
    "git $(a $(b)) x",
    "git $'pu\\x73h'",
    "git p*",
    "git pus?",
    "git pu[s]h",
    "git @(push)",
    "$(which git) push",
    "/usr/bin/g?t push",
    "git -C x $S",
    "S=push; git --no-pager $S origin",
    "sudo $G push",
    "env A=1 git $X",
    "bash -c '$G push'",
    "if true; then $G push; fi",
    'g() { git "$@"; }; g push',
    "$(echo git) pu{sh,}",
    '"$G" pus?',
    "$E git p*",
    "$A $B push",
    "{ git pu{sh,}; }",
    "$'g\\x69t' $'push' origin",
    "git " + "$(a " * 12 + ")" * 12,
    "git " + "{" * 12 + "push" + ",}" * 12,
    "echo push | xargs git",
    "echo push | xargs -I{} git {}",
    "find . -name push -exec git {} +",
    "echo git push | sh",
    "printf 'git push' | bash",
]
NO_PUSH = [
    "git log $X",
    "git status; echo $HOME",
    "git commit -m \"$(cat <<'EOF'\nAdd push messages\nEOF\n)\"",
    "for d in a b; do git -C $d status; done",
    "echo $X push",
    "cat $X | grep push",
    "git add *",
    "git show stash@{0} $X",
    "$G status",
    "./$X main",
    "xargs git add",
    "find . -exec grep push {} +",
]


@pytest.mark.parametrize(
    ("words", "command", "named"),
    [
        ("git push ...", "git push origin main", True),
        ("git push ...", "git push", True),
        ("git push", "git push origin", False),
        ("git push --force ...", "git push origin --force", False),  # words, not patterns
        ("git push ...", "git -C x push", True),
        ("git push ...", "git -c a=b --no-pager push origin", True),
        ("git push ...", "git commit -m push", False),
        ("git push ...", "git -C x commit -m push", False),
        ("git push ...", "git -C x log push", False),
        ("git push", "git -C x push", True),
        ("git push", "git -C x push origin", False),
        ("git push ...", "env " + "A=1 " * 80 + "git push", True),
        ("git push ...", "find . -exec git push ;".replace(";", r"\;"), True),
        ("git push ...", "sbox env git push", True),
        ("git push ...", "git push>x", True),
        ("git push ...", "<x git push", True),
        ("git push ...", "git >x push", True),
        ("git push ...", "git \\\n  push $X", True),
        ("git push ...", "g''it pu\"\"sh $X", True),
        ("git push ...", "gi\\t push $X", True),
        ("git push ...", "git $'push'", True),
        ("git push ...", r'''bash -c "bash -c 'bash -c \"bash -c \\\"git push\\\"\"'"''', True),
        ("git push ...", "/usr/bin/git push", True),
        ("/usr/bin/git push ...", "git push", False),
        ("rm ...", "ls && rm -rf x", True),
        ("rm ...", "ls; rm x", True),
        ("rm ...", "true; " * 1667 + "rm -rf ~/work", True),
        ("rm ...", "true\n" * 2000 + "rm -rf $X", True),
        ("rm ...", "$(rm x)", True),  # not read exactly: rather too many
        ("rm ...", "sudo rm x", True),
        ("rm ...", "sudo -u root rm x", True),
        ("rm ...", "bash -c 'cd x && rm y'", True),
        ("rm ...", "bash -c 'sh -c \"rm y\"'", True),
        ("rm ...", "git commit -m 'no rm here'", False),
        ("rm ...", "if true; then rm x; fi", True),
        ("rm ...", "A=1 rm x", True),
        ("rm ...", "echo rm", False),
        ("rm ...", "rmdir x", False),
        ("curl ...", "sbox curl x", True),
        ("curl ...", "sbox --net-allow pypi -- curl x", True),
        ("sbox curl ...", "sbox curl x", True),
        ("sbox curl ...", "curl x", False),
        *(("git push ...", text, True) for text in MAY_BE_A_PUSH),
        *(("git push ...", text, False) for text in NO_PUSH),
        ("git push --force ...", "git $X", True),
        ("git push --force ...", "git push $X", True),
        ("git push --force ...", "git push origin $X", False),
        ("git push", "git $X", True),
        ("git push", "git $X main", False),
        ("rm -rf ...", "rm $X", True),
        ("npm run deploy ...", "npm run $X", True),
        ("npm run deploy ...", "npm run d*y", True),
        ("npm run deploy ...", "npm run de*pl*oy*", True),
        ("npm run deploy ...", "npm run d*x*y", False),
        ("npm run deploy ...", "npm run deplo*oy", False),
        ("/usr/bin/git push ...", "/usr/bin/$G push", True),
    ],
)
def test_which_commands_a_rule_names(words: str, command: str, named: bool) -> None:
    demands = rule(f"command = '{words}'\ndo = 'deny'").demands(bash(command))
    assert bool(demands.denied) is named


def test_patterns_tools_and_paths(tmp_path: Path) -> None:
    assert rule("pattern = 'prod'\ndo = 'ask'").demands(bash("deploy --to prod")).ask
    assert rule("tool = 'mcp__db__*'\ndo = 'deny'").demands(ToolEvent("a", "s", "c", "mcp__db__x", {}, "/")).denied
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    by_path = rule(f"path = '{tmp_path}/real/*'\ndo = 'deny'")
    for path in (f"{tmp_path}/real/a", f"{tmp_path}/link/a", f"{tmp_path}/x/../real/a"):
        assert by_path.demands(ToolEvent("a", "s", "c", "Write", {"file_path": path}, "/")).denied
    (tmp_path / "real" / "sub").mkdir()
    (tmp_path / "deep").symlink_to(tmp_path / "real" / "sub")
    by_link = rule(f"path = '{tmp_path}/link/*'\ndo = 'deny'")  # the rule itself names it by a link
    for path in (f"{tmp_path}/real/a", f"{tmp_path}/link/a", f"{tmp_path}/deep/../a"):
        assert by_link.demands(ToolEvent("a", "s", "c", "Write", {"file_path": path}, "/")).denied
        assert by_path.demands(ToolEvent("a", "s", "c", "Write", {"file_path": path}, "/")).denied
    for path in (f"{tmp_path}/a", f"{tmp_path}/a\0"):
        assert by_path.demands(ToolEvent("a", "s", "c", "Write", {"file_path": path}, "/")) == Demands()
    assert by_path.demands(ToolEvent("a", "s", "c", "Write", {"file_path": 7}, "/")) == Demands()
    assert by_path.demands(bash(f"cat {tmp_path}/real/a")) == Demands()


@pytest.mark.parametrize("name", ["prod.env", "caf\u00e9"])
@pytest.mark.parametrize("around", ["{}", "{} ", "{}\n", "{}\ufeff", " {}", "\u3000{}"])
def test_a_rule_for_a_path_sees_what_agents_open(name: str, around: str) -> None:
    """They take the blanks away and compose the accents before they open it."""
    for of_rule in ("NFC", "NFD"):
        found = rule(f"path = '/srv/{unicodedata.normalize(of_rule, name)}'\ndo = 'deny'")
        for form in ("NFC", "NFD"):
            path = around.format("/srv/" + unicodedata.normalize(form, name))
            assert found.demands(ToolEvent("a", "s", "c", "Write", {"file_path": path}, "/")).denied, ascii(path)


def test_every_matcher_of_a_rule_must_hold() -> None:
    both = rule("command = 'git push ...'\npattern = 'main'\ndo = 'deny'")
    assert both.demands(bash("git push origin main")).denied
    assert not both.demands(bash("git push origin dev")).denied
    assert not both.demands(ToolEvent("a", "s", "c", "WebFetch", {"url": "git push main"}, "/")).denied


def test_the_strictest_of_each_counts_whatever_the_order() -> None:
    rules = [
        "[[gate.rule]]\npattern = 'x'\ndo = 'never-remember'\nexecutor = 'sandboxer'\n",
        "[[gate.rule]]\npattern = 'x'\ndo = 'deny'\nreason = 'No.'\napprovals = 2\n",
        "[[gate.rule]]\npattern = 'x'\ndo = 'ask'\nexecutor = 'cage'\napprovals = 3\n",
    ]
    for order in (rules, rules[::-1]):
        found = parse("".join(order)).demands(bash("x"))
        assert (found.approvals, found.executor, found.forgettable) == (3, "cage", True)
        assert found.denied == "No. (policy: pattern 'x')" and found.ask


def test_the_allowlist_can_be_replaced() -> None:
    assert EMPTY.allowlist.allows("pwd") and parse("\n").allowlist.allows("git status")
    own = parse("[gate]\nallow = ['make test( -k \\w+)?']\n").allowlist
    assert own.allows("make test -k one") and not own.allows("pwd") and not own.allows("make test -k one; id")
    assert not parse("[gate]\nallow = []\n").allowlist.allows("pwd")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[gate\n", 1, "no TOML"),
        ("gate = 1\n", 1, "not a table"),
        ("[gate]\nfoo = 1\n", 2, "gate.foo is no setting"),
        ("[gate]\nallow = 'x'\n", 2, "not a list"),
        ("[gate]\nallow = [1]\n", 2, "not a text"),
        ("[gate]\nallow = ['(']\n", 2, "no regular expression"),
        ("[gate]\nrule = 1\n", 2, "not a list of tables"),
        ("\n[[gate.rule]]\ndo = 'deny'\n", 2, "names no calls"),
        ("[[gate.rule]]\ntool = 'x'\n", 1, "demands nothing"),
        ("[[gate.rule]]\ntool = 'x'\ndo = 'allow'\n", 3, "none of deny, ask, never-remember"),
        ("[[gate.rule]]\ntool = 'x'\ndo = 'deny'\n[[gate.rule]]\ntool = 'y'\n", 4, "demands nothing"),
        ("[[gate.rule]]\ntool = 'x'\nfoo = 1\n", 3, "foo is no field"),
        ("[[gate.rule]]\ntool = 1\ndo = 'deny'\n", 2, "tool is not a text"),
        ("[[gate.rule]]\ntool = 'x'\napprovals = true\n", 3, "approvals is not a number"),
        ("[[gate.rule]]\ntool = 'x'\napprovals = 0\n", 1, "between 1 and"),
        ("[[gate.rule]]\ntool = 'x'\nexecutor = 'host'\n", 3, "none of cage, sandboxer"),
        ("[[gate.rule]]\ncommand = 'a && b'\ndo = 'deny'\n", 2, "one command"),
        ("[[gate.rule]]\ncommand = '...'\ndo = 'deny'\n", 2, "one command"),
        ("[[gate.rule]]\npattern = '('\ndo = 'deny'\n", 2, "no regular expression"),
        ("[[gate.rule]]\npath = 'prod/*'\ndo = 'deny'\n", 2, "neither / nor ~"),
        ("", 0, "Remove it"),
    ],
)
def test_a_wrong_file_and_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse(text)
    assert error.value.line == line and words in str(error.value)
