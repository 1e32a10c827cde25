"""How often the gate would ask in recorded sessions: per 100 tool calls, by the gate's own functions.

    python bench/prompts.py SESSIONS

SESSIONS holds a JSON object a line: session, i, tool, input, cwd, with a home of /home/dev. Nothing recorded is run.
Each project directory is a small clean repository with a remote; the recorded files are not there. A cage is taken to
start, and the host to run another text.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slack_gate.config import load  # noqa: E402
from slack_gate.core.event import ToolEvent  # noqa: E402
from slack_gate.core.rules import Rule  # noqa: E402
from slack_gate.daemon import rulebook  # noqa: E402
from slack_gate.daemon.judge import Ask, Judge  # noqa: E402

RECORDED_HOME = "/home/dev"


def main() -> None:
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory(prefix="prompts-", dir="/var/tmp") as place:
        home = os.path.join(place, "home")
        calls = [json.loads(line.replace(RECORDED_HOME, home)) for line in lines if line.strip()]
        environment = {"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"}
        os.environ.clear()
        os.environ.update(environment)
        build(Path(home), {call["cwd"] for call in calls})
        rulebook.cage_starts = cages  # type: ignore[assignment]
        for cage_first in (False, True):
            judge = asyncio.run(rulebook.rulebook(load().model_copy(update={"cage_first": cage_first}))).judge
            for always in ("nothing", "remotes", "all"):
                asked = sum(prompts(judge, calls, always))
                first = "with" if cage_first else "without"
                print(f"{first} cage first, Always for {always}: {asked}, {100 * asked / len(calls):.1f} per 100 calls")


async def cages(_sbox: str | None) -> bool:
    return True


def build(home: Path, directories: Iterable[str]) -> None:
    for directory in directories:
        if Path(directory).is_relative_to(home):  # the others are this machine's own
            os.makedirs(directory, exist_ok=True)
    for repository in sorted((home / "projects").iterdir()):
        for words in (
            "init -q -b main",
            "config user.email dev@example.com",
            "config user.name Dev",
            "commit -q --allow-empty -m init",
            f"remote add origin https://github.com/acme/{repository.name}.git",
            "config branch.main.remote origin",
            "config branch.main.merge refs/heads/main",
        ):
            subprocess.run(["git", "-C", str(repository), *words.split()], check=True)
        for hook in (repository / ".git" / "hooks").glob("*"):
            hook.unlink()


def prompts(judge: Judge, calls: list[dict[str, Any]], always: str) -> Iterable[bool]:
    """Whether each call is asked, where a person answers Always to what they may."""
    saved: dict[str, list[Rule]] = {}
    for call in calls:
        session, number = call["session"], call["i"]
        words = (session, f"{session}-{number}", call["tool"], call["input"], call["cwd"])
        event = ToolEvent("claude-code", *words, rewritable=True)
        rules = saved.setdefault(session, [])
        found = judge.outcome(event, rules, 0.0)
        yield isinstance(found, Ask)
        if isinstance(found, Ask) and (always == "all" or (always == "remotes" and found.remotes is not None)):
            known = {rule.key for rule in rules}
            new = [key for key in judge.rememberable(event) if key not in known]
            rules += [Rule(f"{number}", key, "", 0.0, "", "") for key in new]


if __name__ == "__main__":
    main()
