"""Daemons that are killed again and again while hooks and programs ask and a person clicks; and what must be true of it
all in the end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from slack_gate.config import Settings
from slack_gate.core.request import State
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.server import LocalSlack
from slack_gate.local_slack.workspace import Message
from slack_gate.store.log import verify
from slack_gate.store.store import Store
from tests.daemon.house import HOOK, settings_for
from tests.daemon.serving import environment
from tests.store.server import free_port

ROOT = Path(__file__).parents[2]
READY_S = 60
END_S = 180
LIVE = ("none", "none", 0)


@dataclass
class Asked:
    """One call of an agent, and how its hook ended."""

    call: str
    daemon: str
    task: asyncio.Task[tuple[int, bytes, bytes]]


@dataclass
class Storm:
    """`settings` by daemon. Everything random comes from `chance`."""

    slack: LocalSlack
    ana: Person
    place: Path
    settings: dict[str, Settings]
    chance: random.Random
    within: dict[str, tuple[str, ...]] = field(default_factory=dict)  # words before a daemon's command
    dead_s: float = 0.0  # after so long a daemon is taken for dead; 0: as in earnest
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    runs: list[asyncio.Task[dict[str, Any] | None]] = field(default_factory=list)
    pressed: dict[str, set[str]] = field(default_factory=dict)  # by request: what was pressed on its cards
    kills: int = 0
    pause: bool = False  # the person looks elsewhere

    # Daemons

    async def start(self, name: str, death: tuple[str, str, int] = LIVE) -> bool:
        """Whether it told that it is ready; it may be meant to die before."""
        address = str(self.place / f"notify-{secrets.token_hex(4)}")  # a path: the daemon may be on another network
        settings = self.settings[name]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(address)
            notify.setblocking(False)
            more = {"NOTIFY_SOCKET": address, "SLACK_GATE_DATABASE_URL": settings.database_url}
            more |= {"TESTS_DEAD_S": str(self.dead_s or "")}
            process = await asyncio.create_subprocess_exec(
                *self.within.get(name, ()),
                *(sys.executable, "-m", "tests.crash.launcher", *map(str, death), "serve", "--approver", "slack"),
                env=environment(settings, **{key: value for key, value in more.items() if value}),
                cwd=ROOT,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=(self.place / f"{name}.stderr").open("ab"),
            )
            self.processes[name] = process
            told = asyncio.create_task(asyncio.get_running_loop().sock_recv(notify, 100))
            ended = asyncio.create_task(process.wait())
            await asyncio.wait({told, ended}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
            ready = told.done()
            told.cancel()
        assert ready or process.returncode == -signal.SIGKILL, (self.place / f"{name}.stderr").read_text()[-3000:]
        return ready

    async def kill(self, name: str) -> None:
        process = self.processes[name]
        if process.returncode is None:
            process.kill()
        await process.wait()
        self.kills += 1

    async def dies(self, name: str, within: float) -> bool:
        """Whether it died of what it was started with; else it is killed where it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.processes[name].wait()
        by_itself = self.processes[name].returncode is not None
        await self.kill(name)
        return by_itself

    # Agents

    def ask(self, name: str) -> None:
        """A hook of that daemon's agent begins to wait."""
        call = f"call-{len(self.asked)}"
        self.asked.append(Asked(call, name, asyncio.create_task(self._hook(name, call))))

    async def _hook(self, name: str, call: str) -> tuple[int, bytes, bytes]:
        event = {
            "session_id": f"session-{name}",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": f"curl https://example.org/{call}"},
            "tool_use_id": call,
            "cwd": "/srv",
        }
        hook = await asyncio.create_subprocess_exec(
            *(sys.executable, "-IS", str(HOOK), "claude-code", "--socket", str(self.settings[name].socket_path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await hook.communicate(json.dumps(event).encode())
        assert hook.returncode is not None
        return hook.returncode, stdout, stderr

    @property
    def marks(self) -> Path:
        return self.place / "projects" / "ran"

    def run(self, name: str) -> None:
        """A program asks the daemon to run a command that leaves one mark each time it runs."""
        self.runs.append(asyncio.create_task(self._run(name, f"run-{len(self.runs)}")))

    async def _run(self, name: str, mark: str) -> dict[str, Any] | None:
        """The answer; None when the daemon died before there was one: then nobody asks again."""
        body = {
            "command": f"python3 -c \"open('{self.marks}', 'a').write('{mark}\\n')\"",
            "cwd": str(self.marks.parent),
        }
        url = f"http://127.0.0.1:{self.settings[name].agent_port}/run"
        try:
            async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
                found: dict[str, Any] = await answer.json()
                return found
        except aiohttp.ClientError:
            return None

    async def rain(self, total: int, at_once: int, kills: int) -> None:
        """`total` hooks, `at_once` of them at a time, over all daemons; `kills` of these at random moments. Each is
        started again at once."""
        places = set(self.chance.sample(range(at_once, total), kills))
        restarts: dict[str, asyncio.Task[bool]] = {}
        for number in range(total):
            while len(waiting := [asked.task for asked in self.asked if not asked.task.done()]) >= at_once:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if number in places:
                await asyncio.gather(*restarts.values())
                name = self.chance.choice(list(self.settings))
                await self.kill(name)
                restarts[name] = asyncio.create_task(self.start(name))
            up = [name for name in self.settings if name not in restarts or restarts[name].done()]
            if not up:  # a hook that finds no daemon at all refuses at once, and proves little
                await asyncio.gather(*restarts.values())
            self.ask(self.chance.choice(up or list(self.settings)))
        await asyncio.gather(*restarts.values())
        await self.settled()

    # The person

    async def clicks(self) -> None:
        """Presses whatever can be pressed, in random order, until cancelled."""
        while True:
            open_cards = [message for message in self.ana.messages if message.has_button("Approve") and not self.pause]
            self.chance.shuffle(open_cards)
            for card in open_cards[:16]:
                label = self.chance.choice(["Approve", "Approve", "Deny"])
                self.pressed.setdefault(_request_of(card, label), set()).add(label)
                with suppress(LookupError, TimeoutError, ConnectionError):
                    await self.ana.click(card, label)
            await asyncio.sleep(0.05)

    # The end

    async def settled(self) -> None:
        """Every hook and every run has an end, and no card can be pressed any more."""
        tasks = [asked.task for asked in self.asked] + self.runs
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await asyncio.wait(tasks)
                while self._pressable():  # noqa: ASYNC110 - a card tells nobody
                    await asyncio.sleep(0.1)
        hanging = [asked.call for asked in self.asked if not asked.task.done()]
        open_runs = [number for number, run in enumerate(self.runs) if not run.done()]
        assert (hanging, open_runs, self._pressable()) == ([], [], [])

    def _pressable(self) -> list[str]:
        return [message.plain() for message in self.ana.messages if message.has_button("Approve")]

    async def holds(self) -> Counter[str]:
        """Checks everything; returns how often each state was the end."""
        ends: Counter[str] = Counter()
        for name, settings in self.settings.items():
            async with Store(settings.database, settings.log_path, lambda: 0.0, repair=False) as store:
                await store.recorded()
                rows = {row.key: row for row in await store.requests(100_000)}
                lines = settings.log_path.read_bytes().splitlines(keepends=True)
                assert verify(lines, await store.log_head()) is None
            assert not [row for row in rows.values() if row.state in (State.PENDING, State.RUNNING)]
            for asked in self.asked:
                if asked.daemon == name:
                    ends[self._answered(asked, rows[asked.call].state if asked.call in rows else None)] += 1
            logged = Counter((line["request"], line["decision"]) for line in map(json.loads, lines))
            assert {one: n for one, n in logged.items() if n > 1 and one[1] in {state.value for state in State}} == {}
            self._cards_tell_the_truth({row.id: row.state for row in rows.values()})
            for row in rows.values():
                wanted = {State.APPROVED: "Approve", State.DENIED: "Deny"}.get(row.state)
                assert wanted is None or wanted in self.pressed[row.id], f"nobody pressed {wanted} on {row.id}"
        self._nothing_ran_twice()
        return ends

    def _answered(self, asked: Asked, state: State | None) -> str:
        code, stdout, stderr = asked.task.result()
        if code == 2:
            assert stderr.strip(), f"{asked.call}: a refusal without a word"
            return "refused by the hook"
        assert code == 0
        answer = json.loads(stdout)["hookSpecificOutput"]
        if answer["permissionDecision"] == "allow":
            assert state is State.APPROVED, f"{asked.call} was allowed, and is {state}"
            return "allowed"
        assert answer["permissionDecision"] == "deny"
        assert answer["permissionDecisionReason"].strip()
        return f"denied, {state}"

    def _cards_tell_the_truth(self, states: dict[str, State]) -> None:
        words = {
            State.APPROVED: "Approved",
            State.FINISHED: "pproved",
            State.LOST: "pproved",
            State.DENIED: "Denied",
            State.CANCELLED: "Withdrawn",
            State.EXPIRED: "Expired",
        }
        for message in self.ana.messages:
            if message.deleted:
                continue
            for request in _requests_on(message) & set(states):
                assert not message.has_button("Approve")
                expected = words.get(states[request])
                assert expected is None or expected in message.plain(), (states[request], message.plain())

    def _nothing_ran_twice(self) -> None:
        ran = Counter(self.marks.read_text().splitlines()) if self.marks.exists() else Counter()
        assert [mark for mark, count in ran.items() if count > 1] == []
        for number, task in enumerate(self.runs):
            answer = task.result()
            if answer is not None and answer["decision"] == "denied":
                assert ran[f"run-{number}"] == 0, f"run-{number} was refused, and ran"
            if answer is not None and answer.get("exitCode") == 0:
                assert ran[f"run-{number}"] == 1, f"run-{number} was said to have run"


def _requests_on(message: Message) -> set[str]:
    """Several may share a message."""
    return set((message.metadata or {}).get("event_payload", {}).get("request", "").split())


def _request_of(message: Message, label: str) -> str:
    """The one that the first button of this name decides; empty when it has just gone."""
    for block in message.versions[-1].blocks:
        for button in block.get("elements", ()) if block["type"] == "actions" else ():
            if button.get("text", {}).get("text") == label:
                found: str = button["value"].split()[0]
                return found
    return ""


@asynccontextmanager
async def storm(names: str, seed: int, url: str = "", wait: int = 120) -> AsyncIterator[Storm]:
    place = Path(tempfile.mkdtemp(prefix="gate-storm-"))
    place.chmod(0o755)
    (place / "projects").mkdir()
    try:
        async with LocalSlack(redeliveries=2, seed=seed) as slack:
            ana = slack.add_user("U0ANA", name="Ana")
            settings = {
                name: settings_for(
                    slack,
                    place / name if len(names) > 1 else place,
                    wait=wait,
                    agent_port=free_port(),
                    database_url=url,
                )
                for name in names
            }
            found = Storm(slack, ana, place, settings, random.Random(seed))
            person = asyncio.create_task(found.clicks())
            try:
                yield found
            finally:
                person.cancel()
                for process in found.processes.values():
                    if process.returncode is None:
                        process.kill()
                        await process.wait()
                for task in [asked.task for asked in found.asked] + found.runs:
                    task.cancel()
                await asyncio.gather(person, return_exceptions=True)
    finally:
        if not os.environ.get("SLACK_GATE_KEEP"):
            shutil.rmtree(place, ignore_errors=True)
