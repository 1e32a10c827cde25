"""The installed gate as a user has it: our installer's copy below a HOME, its daemon, an approver in local Slack."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from slack_gate.local_slack import LocalSlack
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.workspace import Message

from .client import USER_ID, give_away

STARTED = b"waiting for hooks"
START_LIMIT_S = 60


@dataclass(frozen=True)
class Gate:
    """A running daemon and the person who may decide."""

    person: Person
    daemon: asyncio.subprocess.Process

    async def card(self, command: str) -> Message:
        """The card that asks about `command`, once it is in the DM."""
        return await self.person.wait_for_message(lambda m: m.has_button("Approve") and command in m.plain(), 30)

    async def kill(self) -> None:
        self.daemon.kill()
        await self.daemon.wait()


def install(home: Path, limit: int = 120) -> None:
    """`slack-gate install claude-code` for `home`, then given to the client's user."""
    command = [str(Path(sys.executable).with_name("slack-gate")), "install", "claude-code", "--limit", str(limit)]
    subprocess.run(command, env=_environment(home), cwd=home, check=True, capture_output=True, text=True, timeout=120)
    give_away(home)


@asynccontextmanager
async def running_gate(home: Path, wait: int = 60) -> AsyncIterator[Gate]:
    """`slack-gate serve` from the copy in `home`, with no state from before; a card waits `wait` seconds."""
    shutil.rmtree(home / "gate", ignore_errors=True)
    async with LocalSlack() as slack:
        person = slack.add_user("U0ANA", name="Ana")
        secrets = {
            "SLACK_BOT_TOKEN": slack.bot_token, "SLACK_APP_TOKEN": slack.app_token, "SLACK_API_URL": slack.api_url,
            "SLACK_GATE_APPROVERS": person.id, "GATE_WAIT": str(wait),
            "SLACK_GATE_AGENT_PORT": "0", "SLACK_GATE_PAGE_PORT": "0",
        }  # fmt: skip
        daemon = await asyncio.create_subprocess_exec(
            home / ".local/bin/slack-gate", "serve", env=_environment(home) | secrets, cwd=home,
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            user=USER_ID, group=USER_ID, extra_groups=None if USER_ID is None else [],
        )  # fmt: skip
        started = asyncio.Event()
        listening = asyncio.create_task(_listen(daemon, started))
        try:
            async with asyncio.timeout(START_LIMIT_S):
                await started.wait()
            assert daemon.returncode is None, await listening
            yield Gate(person, daemon)
        finally:
            if daemon.returncode is None:
                daemon.terminate()
            said = await listening
            await daemon.wait()
            print(said)  # pytest shows it when the test fails


async def _listen(daemon: asyncio.subprocess.Process, started: asyncio.Event) -> str:
    """Everything the daemon says; `started` is set when it waits for hooks, or has ended."""
    assert daemon.stderr is not None
    said = b""
    async for line in daemon.stderr:
        said += line
        if STARTED in line:
            started.set()
    await daemon.wait()
    started.set()
    return said.decode()


def _environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home), "PATH": f"{home}/.local/bin:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
        "SLACK_GATE_HOME": str(home / "gate"),
    }  # fmt: skip
