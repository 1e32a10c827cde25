from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slack_gate.cli import main
from slack_gate.core.request import Choice, Decision, Request, State
from slack_gate.core.rules import Key
from slack_gate.errors import LogError
from slack_gate.store.store import Store

# Clears the line, moves up, sets the title, reverses the direction, hides, and imitates.
HOSTILE = "\x1b[2K\x1b[1A\x1b]0;t\x07\r\b\x9b2J\u202e\u2066\u200bend"


@dataclass
class Ended:
    code: int
    out: str
    err: str


@dataclass
class Home:
    """A gate's home and the command line on it, in this process."""

    path: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    @property
    def log(self) -> Path:
        return self.path / "gate-log.jsonl"

    def run(self, *arguments: str) -> Ended:
        self.monkeypatch.setattr(sys, "argv", ["slack-gate", *arguments])
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
            sys.exit(0)
        captured = self.capsys.readouterr()
        assert "Traceback" not in captured.err
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    def store(self, use: Callable[[Store], Awaitable[object]]) -> None:
        async def run() -> None:
            async with Store(f"sqlite:///{self.path / 'gate.db'}", self.log, lambda: 1_700_000_000.0) as store:
                await use(store)

        asyncio.run(run())

    def store_fails(self, words: str) -> None:
        with pytest.raises(LogError, match=words):
            self.store(lambda store: store.rules())

    def ask(
        self, number: int = 1, command: str | None = "touch a", tool: str = "Bash", name: str = "Ana", **answer: Any
    ) -> Request:
        """A request that Ana answered with Always; `answer` are fields of her decision."""
        request = Request(
            id=f"SG-{number}", digest="d", state=State.PENDING, agent="claude-code", session="s1",
            key=f"toolu_{number}", nonce="n", tool=tool, tool_input={"command": command} if command else {"a": HOSTILE},
            command=command, cwd="/w", host="box", home="box:/run", why="w", created_at=1000.0 + number,
            expires_at=1300.0,
        )  # fmt: skip
        key = Key(tool, ("touch",) if command else (f"{number}" * 8,))

        async def filed(store: Store) -> None:
            await store.submitted(request, ["U0ANA"], "slack")
            click = Decision(
                *(request.id, "d", Choice.ALWAYS, "human-slack", "U0ANA", name, "ok", "T1", "D1", "1.1"), **answer
            )
            await store.decided(click, [key], [str(key)], 1100.0)

        self.store(filed)
        return request


@pytest.fixture
def home(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in (
        "SLACK_GATE_SOCKET",
        "SLACK_GATE_WAIT",
        "GATE_WAIT",
        "SLACK_GATE_DATABASE_URL",
        "SLACK_GATE_APPROVERS",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_BOT_TOKEN_FILE", "SLACK_APP_TOKEN_FILE", "SLACK_API_URL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("SLACK_GATE_HOME", str(path))
    monkeypatch.setenv("SLACK_GATE_SOCKET", str(tmp_path / "run" / "gate.sock"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr("slack_gate.cli.log.PAUSES_S", (0.0,))
    return Home(path, capsys, monkeypatch)


def raw(text: str) -> list[str]:
    """The characters in `text` that a terminal would obey or hide."""
    return [char for char in text if char != "\n" and not char.isprintable()]
