"""Builds everything and runs it: one event loop, one TaskGroup. A task that dies takes the daemon down."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import make_url

from cage import cage_policy
from slack_gate.config import Settings, secret_files
from slack_gate.core.ports import Clock
from slack_gate.daemon.clock import SteadyClock
from slack_gate.daemon.gate import Gate, House
from slack_gate.daemon.outbox import Outbox
from slack_gate.daemon.own_files import OwnFiles, guarded_places
from slack_gate.daemon.programs import cage_starts, trusted_programs
from slack_gate.daemon.socket import hook_socket, only_daemon
from slack_gate.daemon.sweeper import sweep
from slack_gate.errors import ConfigError
from slack_gate.slack.app import Buttons
from slack_gate.slack.cards import unshowable
from slack_gate.slack.link import Link, check_app_token, check_bot_token, web_client
from slack_gate.slack.messenger import Messenger
from slack_gate.slack.people import People
from slack_gate.store.cards import Cards
from slack_gate.store.store import Store
from slack_gate.store.wakeups import Wakeups

SURFACE = "slack"
PR_SET_DUMPABLE = 4

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that answers hooks; for tests and the demo."""

    settings: Settings
    gate: Gate
    store: Store


async def serve(settings: Settings) -> None:
    """The daemon until SIGTERM or SIGINT. Raises GateError when it cannot start."""
    _not_traceable()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(settings):
        log.info("waiting for hooks", socket=str(settings.socket_path), approvers=list(settings.approvers))
        gc.freeze()  # what stands now stands for good: no collection need look through it while a hook waits
        _notify("READY=1")
        await stop.wait()
        _notify("STOPPING=1")
    log.info("stopped")


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    """Starts in the order that fails closed: the right to be the only one, tokens, people, store, link, socket last."""
    _require(settings)
    make_private(settings.home)
    with only_daemon(settings.socket_path):
        async with _running(settings) as daemon:
            yield daemon


@asynccontextmanager
async def _running(settings: Settings) -> AsyncIterator[Running]:
    client = web_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url)
    app_token = settings.slack_app_token.get_secret_value()
    team = await check_bot_token(client, settings.team)
    await check_app_token(client, app_token)
    people = People(client)
    for approver in settings.approvers:
        await people.check(approver)
    clock = SteadyClock()
    programs = trusted_programs(Path.home())
    if not (cages := await cage_starts(programs.get("sbox"))):
        log.warning("no cage starts here, so git runs uncaged and is asked more often; `sbox --check` says why")
    async with Store(settings.database, settings.log_path, clock) as store, _tasks() as group:
        running = _Assembly(settings, store, Wakeups(), group, clock)
        link = Link(running.buttons(client, people, team, programs, cages).app, app_token)
        running.outbox = Outbox(Cards(store.database, SURFACE), Messenger(client), link.down, clock)
        async with link.opened():
            tasks = [group.create_task(running.outbox.run(running.gate)), group.create_task(sweep(running.gate, store))]
            await running.gate.resume()
            async with hook_socket(settings.socket_path, running.gate, lambda: _status(link)):
                yield Running(settings, running.gate, store)
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def _tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """A TaskGroup whose one fault comes out as itself: a start that fails says its own sentence."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as faults:
        if len(faults.exceptions) == 1:
            raise faults.exceptions[0] from None
        raise


class _Assembly:
    """The gate and what calls it know one another; this ties the knot."""

    outbox: Outbox

    def __init__(
        self, settings: Settings, store: Store, wakeups: Wakeups, group: asyncio.TaskGroup, clock: Clock
    ) -> None:
        self._settings = settings
        self._store = store
        self._wakeups = wakeups
        self._group = group
        self._clock = clock
        self.gate: Gate

    def buttons(self, client: Any, people: People, team: str, programs: Mapping[str, str], cages: bool) -> Buttons:
        host = socket.gethostname()
        settings = self._settings
        house = House(
            home=f"{host}:{settings.socket_path}",
            host=host,
            approvers=settings.approvers,
            team=team,
            surface=SURFACE,
            wait=settings.wait,
            cages=cages,
            cage_first=settings.cage_first,
        )
        places = [settings.home, settings.socket_path.parent, *secret_files().values(), *_database_files(settings)]
        own = OwnFiles(places, guarded_places(Path.home()))
        self.gate = Gate(
            self._store,
            self._wakeups,
            cage_policy,
            own,
            programs,
            house,
            self._clock,
            unshowable,
            lambda: self.outbox.wake(),
        )
        return Buttons(client, self.gate, people, self._later)

    def _later(self, work: Coroutine[Any, Any, None]) -> object:
        return self._group.create_task(_guarded(work))


def _database_files(settings: Settings) -> list[Path]:
    """Where the database is when it does not lie in the home."""
    name = make_url(settings.database).database
    return [Path(name + tail) for tail in ("", "-wal", "-shm")] if name else []


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    """What is done after a click was answered must not take the daemon down."""
    try:
        await work
    except Exception:
        log.exception("an answer to a click failed")


def _status(link: Link) -> bytes:
    """What `slack-gate status` prints: never a token."""
    down = link.down()
    status = {"healthy": down is None, "lastInboundSeconds": round(link.silent_s(), 1), "fault": down}
    return json.dumps(status).encode()


def _require(settings: Settings) -> None:
    for name in ("slack_bot_token", "slack_app_token"):
        if not getattr(settings, name).get_secret_value():
            raise ConfigError(
                f"{name.upper()} is not set.", "README.md says how to get it; `slack-gate demo` needs no tokens."
            )
    if not settings.approvers:
        raise ConfigError(
            "SLACK_GATE_APPROVERS is empty, so nobody could approve anything.", "Set it to your Slack member id."
        )


def make_private(home: Path) -> None:
    """The home exists, is ours, and is closed to others. Raises ConfigError."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = home.stat()
        if found.st_uid != os.geteuid():
            raise ConfigError(
                f"The home {home} belongs to another user.", "Set SLACK_GATE_HOME to a directory of yours."
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            home.chmod(0o700)
    except OSError as error:
        raise ConfigError(f"The home {home} cannot be used: {error.strerror}.", "Set SLACK_GATE_HOME.") from error


def _not_traceable() -> None:
    """Other processes of our uid, the agent's among them, may neither trace us nor read our memory (tokens)."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise ConfigError("The kernel does not let slack-gate protect its memory.", "")


def _notify(state: str) -> None:
    """Tells systemd, where it started us."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
