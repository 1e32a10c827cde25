"""Names and texts that are read otherwise than they are meant: MCP servers, patterns of the allowlist."""

from __future__ import annotations

import pytest

from slack_gate.core.allowlist import Allowlist
from slack_gate.core.reach import mcp


@pytest.mark.parametrize("name", ["mcp__github__evil__create", "mcp__a___b", "mcp__a__b__c__d"])
def test_no_server_is_named_that_may_be_another(name: str) -> None:
    """A project's server `github__evil` with the tool `create` is not `github` with a tool `evil__create`."""
    assert mcp(name) is None
    assert mcp("mcp__my_server__create_issue") == ("my_server", "create_issue")


@pytest.mark.parametrize("command", ["git log --output notes.txt", "git -C project diff --output notes.txt HEAD"])
def test_git_writes_no_file_unasked(command: str) -> None:
    assert not Allowlist().allows(command)


@pytest.mark.parametrize("blank", ["\t", " '", ' "', " --file=", " {a,", " a:", "\x0b", "\r/", "\x1b "])
def test_a_wide_pattern_lets_no_absolute_path_through(blank: str) -> None:
    """The person who wrote `cat.*` was promised that absolute paths are asked whatever the pattern says."""
    allowlist = Allowlist(["cat.*"])
    assert allowlist.allows("cat src/main.c")
    assert not allowlist.allows(f"cat{blank}/etc/passwd")
