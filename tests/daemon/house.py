"""A daemon on the local Slack, and real hook processes that ask it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, select

from slack_gate.config import Settings
from slack_gate.daemon.serve import Running, running
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.server import LocalSlack
from slack_gate.store import tables

HOOK = Path(__file__).parents[2] / "slack_gate" / "hook.py"


@dataclass
class Ended:
    """How a hook process ended; `decision` and `reason` as Claude Code reads them (silence is "none")."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def output(self) -> dict[str, Any]:
        value = json.loads(self.stdout)
        assert list(value) == ["hookSpecificOutput"]
        found: dict[str, Any] = value["hookSpecificOutput"]
        return found

    @property
    def decision(self) -> str:
        return self.output["permissionDecision"] if self.stdout else "none"

    @property
    def reason(self) -> str:
        return str(self.output["permissionDecisionReason"])


@dataclass
class House:
    slack: LocalSlack
    ana: Person
    settings: Settings
    running: Running
    calls: int = 0
    hooks: list[asyncio.subprocess.Process] = field(default_factory=list)

    def event(self, tool: str = "Bash", cwd: str = "/w/app", **tool_input: Any) -> dict[str, Any]:
        """A new call's PreToolUse event."""
        self.calls += 1
        return {
            "session_id": "s1",
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
            "tool_input": tool_input,
            "tool_use_id": f"toolu_{self.calls}",
            "cwd": cwd,
        }

    async def start(self, event: dict[str, Any] | bytes, *options: str) -> asyncio.subprocess.Process:
        """A hook process that has been given `event` and now waits."""
        hook = await asyncio.create_subprocess_exec(
            *(sys.executable, "-IS", str(HOOK), "claude-code", "--socket", str(self.settings.socket_path), *options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert hook.stdin is not None
        hook.stdin.write(event if isinstance(event, bytes) else json.dumps(event).encode())
        hook.stdin.close()
        self.hooks.append(hook)
        return hook

    async def drawn_anew(self) -> None:
        """Returns once it is on file that some card shows its request as it is since that was changed."""
        await self.on_file(tables.cards.c.revision > 0)

    async def on_file(self, condition: ColumnElement[bool], rows: int = 1) -> None:
        """Returns once there are so many cards' rows for which this holds."""
        query = select(tables.cards.c.id).where(condition)
        async with asyncio.timeout(100):
            while len(await self.running.store.database.run(lambda c: c.execute(query).all())) < rows:  # noqa: ASYNC110
                await asyncio.sleep(0.02)  # a row tells nobody

    async def ended(self, hook: asyncio.subprocess.Process, timeout: float = 100) -> Ended:
        async with asyncio.timeout(timeout):
            stdout, stderr = await hook.communicate()
        assert hook.returncode is not None
        return Ended(hook.returncode, stdout, stderr)

    async def ask(self, event: dict[str, Any] | bytes, *options: str) -> Ended:
        return await self.ended(await self.start(event, *options))

    async def bash(self, command: str, **more: Any) -> Ended:
        """A call that is answered without anybody's help."""
        return await self.ask(self.event(command=command, **more))

    async def asked(self, command: str, **more: Any) -> tuple[asyncio.subprocess.Process, Any]:
        """A call that waits, and its card in Ana's DM."""
        hook = await self.start(self.event(command=command, **more))
        return hook, await self.card(command)

    async def card(self, text: str) -> Any:
        return await self.ana.wait_for_message(lambda m: m.has_button("Approve") and text in m.plain())

    async def press(self, card: Any, label: str, **forged: Any) -> Any:
        """The button's click as Slack would send it, also when the card does not show it any more."""
        buttons = [e for block in card.versions[0].blocks if block["type"] == "actions" for e in block["elements"]]
        button = next(e for e in buttons if e.get("text", {}).get("text") == label)
        values = {
            "user": "U0ANA",
            "action_id": button["action_id"],
            "value": button["value"],
            "channel": card.channel,
            "message_ts": card.ts,
        }
        return await self.slack.send_action(**{**values, **forged})

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.settings.log_path.read_text().splitlines()]


def settings_for(slack: LocalSlack, place: Path, **changes: Any) -> Settings:
    values: dict[str, Any] = {
        "slack_bot_token": slack.bot_token,
        "slack_app_token": slack.app_token,
        "slack_api_url": slack.api_url,
        "approvers": "U0ANA",
        "home": place / "home",
        "socket": place / "run" / "gate.sock",
        "wait": 300,
        "agent_port": 0,
        "page_port": 0,
    }
    return Settings(**{**values, **changes})


@asynccontextmanager
async def house(place: Path, **changes: Any) -> AsyncIterator[House]:
    async with LocalSlack() as slack:
        ana = slack.add_user("U0ANA", name="Ana")
        for other in changes.get("approvers", "U0ANA").split(",")[1:]:
            slack.add_user(other, name=other.removeprefix("U0").capitalize())
        settings = settings_for(slack, place, **changes)
        async with running(settings) as daemon:
            one = House(slack, ana, settings, daemon)
            try:
                yield one
            finally:
                for hook in one.hooks:
                    if hook.returncode is None:
                        hook.kill()
                        await hook.wait()
