"""Several daemons on one database and one Slack, and the hooks that ask each of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slack_gate.config import Settings
from slack_gate.daemon.serve import running
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.server import LocalSlack
from tests.daemon.house import House, settings_for


@dataclass
class Street:
    """`houses` are the daemons that run; each has a home and a socket of its own."""

    slack: LocalSlack
    ana: Person
    url: str
    place: Path
    opened: AsyncExitStack
    houses: dict[str, House] = field(default_factory=dict)
    stops: dict[str, AsyncExitStack] = field(default_factory=dict)

    def settings(self, name: str, **changes: Any) -> Settings:
        return settings_for(self.slack, self.place / name, database_url=self.url, **changes)

    async def start(self, name: str, *approvers: str, **changes: Any) -> House:
        """A daemon in this process."""
        settings = self.settings(name, **changes)
        stop = await self.opened.enter_async_context(AsyncExitStack())
        daemon = await stop.enter_async_context(running(settings, approvers or ("slack",)))
        self.stops[name] = stop
        self.houses[name] = House(self.slack, self.ana, settings, daemon)
        return self.houses[name]

    async def stop(self, name: str) -> None:
        """In good order."""
        await self.stops[name].aclose()

    async def asked(self, name: str, command: str) -> tuple[Any, Any]:
        """A hook of that daemon's agent, and its card."""
        found = self.houses[name]
        found.calls += 1
        event = found.event(command=command) | {"session_id": f"session-{name}"}
        hook = await found.start(event)
        return hook, await found.card(command)


@asynccontextmanager
async def street(url: str, **slack: Any) -> AsyncIterator[Street]:
    place = Path(tempfile.mkdtemp(prefix="gate-fleet-"))
    place.chmod(0o755)
    try:
        async with LocalSlack(**slack) as local, AsyncExitStack() as opened:
            found = Street(local, local.add_user("U0ANA", name="Ana"), url, place, opened)
            try:
                yield found
            finally:
                for house in found.houses.values():
                    for hook in house.hooks:
                        if hook.returncode is None:
                            hook.kill()
                            await hook.wait()
    finally:
        shutil.rmtree(place, ignore_errors=True)
