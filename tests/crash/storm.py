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
import time
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
from slack_gate.local_slack.visible import Control, Version
from slack_gate.local_slack.workspace import Message
from slack_gate.store.log import verify
from slack_gate.store.store import Store
from tests.daemon.house import HOOK, settings_for
from tests.daemon.serving import environment
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
READY_S = 60
END_S = 600  # beyond what a request waits, for a busy machine
HANDS = 6
PATIENCE_S = 5.0  # before the same is pressed again
REDRAWN_S = 60.0  # the same after a click that was acknowledged
LIVE = ("none", "none", 0)
WORDS = {
    State.APPROVED: "Approved",
    State.FINISHED: "pproved",
    State.LOST: "pproved",
    State.NOT_RUN: "did not run",
    State.DENIED: "Denied",
    State.CANCELLED: "Withdrawn",
    State.EXPIRED: "xpired",
}


@dataclass
class Asked:
    """One call of an agent, and how its hook ended."""

    call: str
    daemon: str
    command: str
    task: asyncio.Task[tuple[int, bytes, bytes]]


@dataclass
class Storm:
    """`settings` by daemon. Everything random comes from `chance`."""

    slack: LocalSlack
    ana: Person
    place: Path
    settings: dict[str, Settings]
    chance: random.Random
    pace: float = 1.0  # times as fast as Slack takes messages and calls; the daemons know
    within: dict[str, tuple[str, ...]] = field(default_factory=dict)  # words before a daemon's command
    dead_s: float = 0.0  # after so long a daemon is taken for dead; 0: as in earnest
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    runs: list[asyncio.Task[dict[str, Any] | None]] = field(default_factory=list)
    pressed: dict[str, set[str]] = field(default_factory=dict)  # by request: what was pressed on its cards
    not_before: dict[str, float] = field(default_factory=dict)  # by request: when it may be pressed again
    read: dict[str, str] = field(default_factory=dict)  # by request: what stood above the button that was pressed
    cards: list[Message] = field(default_factory=list)  # that had a button when they were last looked at
    looked: int = 0  # so many messages were looked at
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
            more |= {"TESTS_DEAD_S": str(self.dead_s or ""), "TESTS_PACE": str(self.pace)}
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
        assert ready or process.returncode == -signal.SIGKILL, self.said(name)
        return ready

    def said(self, name: str) -> str:
        """The end of what its daemons wrote."""
        return (self.place / f"{name}.stderr").read_text()[-3000:]

    async def kill(self, name: str) -> None:
        process = self.processes[name]
        if process.returncode is None:
            process.kill()
        await process.wait()
        self.kills += 1

    async def dies(self, name: str, within: float) -> bool:
        """Whether it died of what it was started with: before all that was asked has ended, or so many seconds after.
        Else it is killed."""
        ended = asyncio.create_task(self.processes[name].wait())
        work = asyncio.create_task(asyncio.wait([asked.task for asked in self.asked] + self.runs))
        await asyncio.wait({ended, work}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({ended}, timeout=within)
        by_itself = ended.done()
        work.cancel()
        await self.kill(name)
        return by_itself

    # Agents

    def ask(self, name: str) -> asyncio.Task[tuple[int, bytes, bytes]]:
        """A hook of that daemon's agent begins to wait."""
        call = f"call-{len(self.asked):05}"
        command = f"curl https://example.org/{call}"
        task = asyncio.create_task(self._hook(name, call, command))
        self.asked.append(Asked(call, name, command, task))
        return task

    async def _hook(self, name: str, call: str, command: str) -> tuple[int, bytes, bytes]:
        event = {
            "session_id": f"session-{name}",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": call,
            "cwd": "/srv",
        }
        hook = await asyncio.create_subprocess_exec(
            *(sys.executable, "-IS", str(HOOK), "claude-code", "--socket", str(self.settings[name].socket_path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            stdout, stderr = await hook.communicate(json.dumps(event).encode())
        finally:
            if hook.returncode is None:  # the storm was given up
                hook.kill()
        assert hook.returncode is not None
        return hook.returncode, stdout, stderr

    @property
    def marks(self) -> Path:
        return self.place / "projects" / "ran"

    def run(self, name: str) -> asyncio.Task[dict[str, Any] | None]:
        """A program asks the daemon to run a command that leaves one mark each time it runs."""
        task = asyncio.create_task(self._run(name, f"run-{len(self.runs):05}"))
        self.runs.append(task)
        return task

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

    async def rain(self, total: int, at_once: int, kills: int, runs: int = 0) -> None:
        """`total` requests, `at_once` of them at a time, over all daemons, `runs` of them of programs and the others of
        hooks; `kills` of the daemons at random moments. Each is started again at once."""
        deaths = set(self.chance.sample(range(at_once, total), kills))
        programs = set(self.chance.sample(range(total), runs))
        restarts: dict[str, asyncio.Task[bool]] = {}
        free = asyncio.Semaphore(at_once)
        for number in range(total):
            await free.acquire()
            if number in deaths:
                await asyncio.gather(*restarts.values())
                name = self.chance.choice(list(self.settings))
                await asyncio.sleep(self.chance.uniform(0, 0.2))
                assert self.processes[name].returncode is None, self.said(name)
                await self.kill(name)
                restarts[name] = asyncio.create_task(self.start(name))
            up = [name for name in self.settings if name not in restarts or restarts[name].done()]
            if not up:  # a hook that finds no daemon at all refuses at once, and proves little
                await asyncio.gather(*restarts.values())
            name = self.chance.choice(up or list(self.settings))
            asked = self.run(name) if number in programs else self.ask(name)
            asked.add_done_callback(lambda _: free.release())
        await asyncio.gather(*restarts.values())
        await self.settled()

    # The person

    async def clicks(self) -> None:
        """Presses whatever can be pressed, in random order, until cancelled; an answer that does not come holds up one
        hand alone."""
        async with asyncio.TaskGroup() as hands:
            for _ in range(HANDS):
                hands.create_task(self._hand())

    async def _hand(self) -> None:
        while True:
            self._look()
            if self.pause or not self.cards:
                await asyncio.sleep(0.05)
                continue
            card = self.chance.choice(self.cards)
            buttons = [control for control in card.latest.controls if control.label in ("Approve", "Deny")]
            if not buttons:
                self.cards.remove(card)
                continue
            label = self.chance.choice(["Approve", "Approve", "Deny"])
            shown = [control for control in buttons if control.label == label]
            number = self.chance.randrange(len(shown)) if shown else 0
            if not shown or self._just_pressed(request := shown[number].element["value"].split()[0]):
                await asyncio.sleep(0.01)
                continue
            self.pressed.setdefault(request, set()).add(label)
            self.read[request] = _above(card, shown[number])
            with suppress(LookupError, TimeoutError, ConnectionError):
                if (await self.ana.click(card, label, number=number)).acknowledged:
                    self.not_before[request] = time.monotonic() + REDRAWN_S

    def _just_pressed(self, request: str) -> bool:
        """Some press twice at once, all after a while: a click may have been lost with a daemon."""
        now = time.monotonic()
        if now < self.not_before.get(request, 0.0) and self.chance.random() > 0.01:
            return True
        self.not_before[request] = now + PATIENCE_S
        return False

    def _look(self) -> None:
        messages = self.slack.workspace.messages
        new, self.looked = messages[self.looked :], len(messages)
        self.cards += [message for message in new if message.metadata]

    # The end

    async def settled(self) -> None:
        """Every hook and every run has an end, and no card can be pressed any more."""
        tasks = [asked.task for asked in self.asked] + self.runs
        with suppress(TimeoutError):
            async with asyncio.timeout(max(each.wait for each in self.settings.values()) + END_S):
                await asyncio.wait(tasks)
                while self._pressable():  # noqa: ASYNC110 - a card tells nobody
                    await asyncio.sleep(0.2)
        hanging = [asked.call for asked in self.asked if not asked.task.done()]
        open_runs = [number for number, run in enumerate(self.runs) if not run.done()]
        assert (hanging, open_runs, self._pressable()) == ([], [], [])

    def _pressable(self) -> list[str]:
        return [message.plain() for message in self.ana.messages if message.has_button("Approve")]

    async def _stop(self) -> None:
        """In good order, as somebody would who turns the machine off."""
        self.pause = True
        alive = [process for process in self.processes.values() if process.returncode is None]
        for process in alive:
            process.terminate()
        async with asyncio.timeout(END_S):
            assert [await process.wait() for process in alive] == [0] * len(alive)

    async def holds(self) -> Counter[str]:
        """Stops the daemons and checks everything; returns how often each state was the end."""
        await self._stop()
        ends: Counter[str] = Counter()
        for name, settings in self.settings.items():
            assert "Traceback" not in (self.place / f"{name}.stderr").read_text(), self.said(name)
            # As a start does: others may have logged what nobody was there to write.
            async with Store(settings.database, settings.log_path, lambda: 0.0) as store:
                rows = {row.key: row for row in await store.requests(100_000)}
                lines = settings.log_path.read_bytes().splitlines(keepends=True)
                fault = verify(lines, await store.log_head())
            assert fault is None, f"the log of {name}: {fault}"
            assert not [row for row in rows.values() if row.state in (State.PENDING, State.RUNNING)]
            for asked in self.asked:
                if asked.daemon == name:
                    row = rows.get(asked.call)
                    assert row is None or row.command == asked.command
                    ends[self._answered(asked, row.state if row else None)] += 1
            logged = Counter((line["request"], line["decision"]) for line in map(json.loads, lines))
            assert {one: n for one, n in logged.items() if n > 1 and one[1] in {state.value for state in State}} == {}
            false = self._false_cards({row.id: row.state for row in rows.values()})
            assert false == [], f"{len(false)} cards of {name}, as {false[0]}"
            for row in rows.values():
                read = self.read.get(row.id)
                assert read is None or str(row.command) in read, f"{row.id} was shown as another: {read}"
                wanted = {State.APPROVED: "Approve", State.DENIED: "Deny"}.get(row.state)
                assert wanted is None or wanted in self.pressed[row.id], f"nobody pressed {wanted} on {row.id}"
        self._nothing_ran_twice()
        return ends

    def _answered(self, asked: Asked, state: State | None) -> str:
        code, stdout, stderr = asked.task.result()
        if code == 2:
            assert stderr.strip(), f"{asked.call}: a refusal without a word"
            return "refused by the hook"
        assert code == 0, f"{asked.call}: {code} {stderr}"
        answer = json.loads(stdout)["hookSpecificOutput"]
        if answer["permissionDecision"] == "allow":
            assert state is State.APPROVED, f"{asked.call} was allowed, and is {state}"
            return "allowed"
        assert answer["permissionDecision"] == "deny"
        assert answer["permissionDecisionReason"].strip()
        return f"denied, {state}"

    def _false_cards(self, states: dict[str, State]) -> list[str]:
        """Cards that say something else than their rows, or can still be pressed."""
        false = []
        for message in self.ana.messages:
            shown = _requests_on(message)
            for request in shown & set(states):
                word = WORDS.get(states[request])
                told = [line for line in message.plain().splitlines() if len(shown) == 1 or request in line]
                if message.has_button("Approve") or (word is not None and word not in "\n".join(told)):
                    false.append(f"{request} is {states[request]}: {message.plain()}")
        return false

    def _nothing_ran_twice(self) -> None:
        ran = Counter(self.marks.read_text().splitlines()) if self.marks.exists() else Counter()
        assert [mark for mark, count in ran.items() if count > 1] == []
        for number, task in enumerate(self.runs):
            answer = task.result()
            if answer is not None and answer["decision"] == "denied":
                assert ran[f"run-{number:05}"] == 0, f"run-{number:05} was refused, and ran"
            if answer is not None and answer.get("exitCode") == 0:
                assert ran[f"run-{number:05}"] == 1, f"run-{number:05} was said to have run"


def _requests_on(message: Message) -> set[str]:
    """Several may share a message."""
    return set((message.metadata or {}).get("event_payload", {}).get("request", "").split())


def _above(message: Message, pressed: Control) -> str:
    """What a person reads in the blocks above the button, back to the buttons of another request."""
    blocks: list[dict[str, Any]] = []
    for block in message.latest.blocks:
        if block.get("block_id") == pressed.block_id:
            break
        if block["type"] == "actions":
            blocks = []
        blocks.append(block)
    return Version("", blocks).plain()


@asynccontextmanager
async def storm(names: str, seed: int, url: str = "", wait: int = 120, pace: float = 1.0) -> AsyncIterator[Storm]:
    place = Path(tempfile.mkdtemp(prefix="gate-storm-"))
    place.chmod(0o755)
    (place / "projects").mkdir()
    try:
        async with LocalSlack(posting_limit=pace, tiers=pace, redeliveries=2, seed=seed) as slack:
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
            found = Storm(slack, ana, place, settings, random.Random(seed), pace)
            person = asyncio.create_task(found.clicks())
            try:
                yield found
            finally:
                person.cancel()
                for process in found.processes.values():
                    if process.returncode is None:
                        process.kill()
                        await process.wait()
                tasks: list[asyncio.Task[Any]] = [asked.task for asked in found.asked] + found.runs
                for task in tasks:
                    task.cancel()
                await asyncio.gather(person, *tasks, return_exceptions=True)
    finally:
        if not os.environ.get("SLACK_GATE_KEEP"):
            shutil.rmtree(place, ignore_errors=True)
