"""Builds everything and runs it: one event loop, one TaskGroup. A task that dies takes the daemon down."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from cage import cage_policy
from slack_gate.config import SECRETS, Settings
from slack_gate.core.event import ToolEvent
from slack_gate.core.ports import Executor
from slack_gate.daemon.apart import SMALL
from slack_gate.daemon.changes import Changes
from slack_gate.daemon.clock import SteadyClock
from slack_gate.daemon.controls import Controls
from slack_gate.daemon.files_now import FilesNow
from slack_gate.daemon.fleet import Fleet
from slack_gate.daemon.gate import Gate
from slack_gate.daemon.health import asked_now, health
from slack_gate.daemon.house import House
from slack_gate.daemon.judge import Judge, Run
from slack_gate.daemon.outbox import Outbox
from slack_gate.daemon.process import for_many_hooks, make_private, not_traceable, notify
from slack_gate.daemon.rulebook import database_files, rulebook
from slack_gate.daemon.runs import Runs
from slack_gate.daemon.socket import alone_with, hook_socket, lock_of, only_daemon
from slack_gate.daemon.sweeper import sweep
from slack_gate.daemon.threads import Threads
from slack_gate.errors import ConfigError
from slack_gate.executors.cage import Built, Cage
from slack_gate.executors.sandboxer import Sandboxer
from slack_gate.slack.app import Buttons
from slack_gate.slack.beside import beside_cards
from slack_gate.slack.cards import unshowable
from slack_gate.slack.copies import tell_where_cards_are
from slack_gate.slack.link import Link, check_app_token, check_bot_token, web_client
from slack_gate.slack.messenger import Messenger
from slack_gate.slack.people import People
from slack_gate.store.engines import is_shared
from slack_gate.store.glance import Glance
from slack_gate.store.notes import Notes
from slack_gate.store.shared_cards import SharedCards
from slack_gate.store.store import Store
from slack_gate.store.wakeups import Wakeups
from slack_gate.terminal import Terminal
from slack_gate.web.agent_api import AgentApi, agent_socket
from slack_gate.web.page import Page, announced
from slack_gate.whereabouts import launcher

SLACK, WEB, TERMINAL = "slack", "web", "terminal"  # where approvers are asked
CAGE, SANDBOXER = "cage", "sandboxer"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that answers hooks; for tests and the demo."""

    settings: Settings
    gate: Gate
    store: Store
    runs: Runs
    changes: Changes
    controls: Controls
    page: Page | None = None


async def serve(settings: Settings, approvers: Sequence[str]) -> None:
    """The daemon until SIGTERM or SIGINT. Raises GateError when it cannot start."""
    not_traceable()
    for_many_hooks()
    for name in SECRETS.values():  # no program started from here inherits them
        os.environ.pop(name, None)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(settings, approvers) as daemon, AsyncExitStack() as said:
        _say_where(daemon, said)
        if daemon.page is not None and set(approvers) == {WEB}:
            await said.enter_async_context(daemon.page.arrivals())
        log.info("waiting for hooks", socket=str(settings.socket_path), approvers=list(settings.approvers))
        gc.freeze()  # what stands now stands for good: no collection need look through it while a hook waits
        notify("READY=1")
        await stop.wait()
        notify("STOPPING=1")
    log.info("stopped")


def _say_where(daemon: Running, said: AsyncExitStack) -> None:
    """The lines of the start: where a person approves, and where agents ask."""
    settings = daemon.settings
    out = sys.stdout if sys.stdout.isatty() or not sys.stderr.isatty() else sys.stderr
    if daemon.page is not None:
        print(said.enter_context(announced(daemon.page, settings.home, out.isatty())), file=out, flush=True)
    if settings.agent_port:
        runs_in = settings.sandbox_id if settings.executor == SANDBOXER else "the cage"
        print(f"Agent endpoint http://127.0.0.1:{settings.agent_port}/run -> {runs_in}", file=out, flush=True)


@asynccontextmanager
async def running(settings: Settings, approvers: Sequence[str] = (SLACK,)) -> AsyncIterator[Running]:
    """Starts in the order that fails closed: the right to be the only one, tokens, people, store, link, socket last."""
    _require(settings, approvers)
    make_private(settings.home)
    # On another socket it would not be told what this one decides: of a database in a file nobody gives notice.
    state = next(iter(database_files(settings)), settings.home / "gate.db")
    with only_daemon(settings.socket_path), alone_with(state):
        async with AsyncExitStack() as opened:
            yield await _started(settings, approvers, opened)


async def _started(settings: Settings, approvers: Sequence[str], opened: AsyncExitStack) -> Running:
    slack = await _Slack.checked(settings) if SLACK in approvers else None
    clock, changes = SteadyClock(), Changes()
    key = settings.sbx_gate_key.get_secret_value()
    book = await rulebook(settings, (CAGE, SANDBOXER) if key else (CAGE,), launcher(settings.socket_path))
    judge = book.judge
    if book.sbox is None:
        log.warning("no cage starts here, so git runs uncaged and is asked more often; `sbox --check` says why")
    if problem := cage_policy.settings_problem():
        log.warning("what would be green is asked", because=problem)
    cage = Cage(book.sbox)
    executors: dict[str, Executor] = {CAGE: cage}
    if key:
        sandboxer = Sandboxer(settings.sandboxer_api_url, settings.sandbox_id, key)
        executors[SANDBOXER] = await opened.enter_async_context(sandboxer)
    house = _house(settings, approvers, slack.team if slack else "")
    store = await opened.enter_async_context(Store(settings.database, settings.log_path, clock, home=house.home))
    waiting = Wakeups()
    fleet = await _joined(settings, store, house.home, clock, waiting, changes)
    group = await opened.enter_async_context(_tasks())
    files = FilesNow(judge.is_own)
    gate = Gate(store, waiting, judge, book.released, house, clock, unshowable, changes.wake, files)
    runs = Runs(gate, store, executors, clock, _ahead(judge, cage))
    await runs.resume(house.home)
    await gate.reopen()
    works: list[Callable[[], Coroutine[Any, Any, None]]] = [partial(sweep, gate, runs, store)]  # begun once all stands
    link, outbox = None, None
    glance = Glance(store.database, SLACK)
    controls = Controls(
        store,
        glance,
        house,
        lambda: json.loads(_status(settings, link, outbox, store, fleet)),
        clock,
        changes.wake,
    )
    if slack is not None:
        app = Buttons(slack.client, gate, slack.people, _later(group)).app
        link = Link(app, slack.app_token, clock)
        messenger = Messenger(slack.client, gate.offers, files.of)
        outbox = _outbox(store, link, messenger, house, clock, fleet)
        threads = Threads(Notes(store.database, SLACK, house.home), messenger, clock, link.down)
        changes.also(threads.wake)
        works.append(threads.run)
        tell_where_cards_are(app, outbox.seen)
        changes.also(outbox.wake)
        later = _later(group)
        tab = beside_cards(app, slack.client, controls, gate, slack.people, later, settings.reactions, files.of)
        changes.also(tab.changed)
        await opened.enter_async_context(link.opened())
        works.append(partial(outbox.run, gate))
        works.append(tab.run)
    if fleet is not None:
        fleet.down = link.down if link else None
        works.append(partial(fleet.run, gate, SLACK))
    if house.terminal:
        alone = not (house.approvers or house.page)
        works.append(Terminal(gate, store, house.home, alone, changes.also).run)
    tasks = [group.create_task(work()) for work in works]
    opened.callback(lambda: [task.cancel() for task in tasks])
    opened.push_async_callback(runs.close)
    await gate.resume()
    page = None
    if house.page:
        page = Page(
            *(gate, store, changes, house.home, lambda: _status(settings, link, outbox, store, fleet), clock, controls),
            file=files.of,
        )
        await opened.enter_async_context(page.open(settings.page_port))

    async def told() -> bytes:
        health = json.loads(_status(settings, link, outbox, store, fleet))
        return json.dumps(health | await asked_now(store, glance)).encode()

    api = AgentApi(gate, runs, store, settings.executor, settings.wait, lambda: _where(settings, slack, house))
    await opened.enter_async_context(api.on_socket(agent_socket(settings.socket_path)))
    if settings.agent_port:
        await opened.enter_async_context(api.on_port(settings.agent_port))
    await opened.enter_async_context(hook_socket(settings.socket_path, gate, told))
    return Running(settings, gate, store, runs, changes, controls, page)


@dataclass(frozen=True, slots=True)
class _Slack:
    """What was found out about Slack before anything else starts."""

    client: AsyncWebClient
    app_token: str
    team: str
    people: People

    @classmethod
    async def checked(cls, settings: Settings) -> _Slack:
        """Raises SlackError when a token, the team or an approver is not right."""
        client = web_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url)
        app_token = settings.slack_app_token.get_secret_value()
        team = await check_bot_token(client, settings.team)
        await check_app_token(client, app_token)
        people = People(client)
        for approver in settings.approvers:
            await people.check(approver)
        return cls(client, app_token, team, people)


def _house(settings: Settings, approvers: Sequence[str], team: str) -> House:
    host = socket.gethostname()
    return House(
        home=f"{host}:{settings.socket_path}",
        host=host,
        approvers=settings.approvers if SLACK in approvers or is_shared(settings.database) else (),
        team=team,
        surface=SLACK,
        wait=settings.wait,
        hook_executor=settings.hook_executor,
        escalate=settings.escalate,
        page=f"http://127.0.0.1:{settings.page_port}/" if WEB in approvers and settings.page_port else "",
        terminal=TERMINAL in approvers,
    )


def _ahead(judge: Judge, cage: Cage) -> Callable[[ToolEvent], Built | None]:
    """Builds a cage while the gate records that a command runs unasked. The gate decides: this only guesses."""

    def built(event: ToolEvent) -> Built | None:
        command = event.command or ""
        if event.executor != CAGE or len(command) > SMALL or not isinstance(judge.look(event), Run):
            return None
        return cage.built(command, event.cwd)

    return built


def _where(settings: Settings, slack: _Slack | None, house: House) -> list[str]:
    """The places where people are asked, in words for a caller's terminal."""
    people = ", ".join(slack.people.name(approver) for approver in settings.approvers) if slack is not None else ""
    places = [f"Slack ({people})" if people else "", house.page, "the terminal of slack-gate" if house.terminal else ""]
    return [place for place in places if place]


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


def _later(group: asyncio.TaskGroup) -> Callable[[Coroutine[Any, Any, None]], object]:
    def begin(work: Coroutine[Any, Any, None]) -> None:
        guarded = _guarded(work)
        try:
            group.create_task(guarded)
        except RuntimeError:  # the daemon stops: what was decided is on file, its words are not said any more
            guarded.close()
            work.close()

    return begin


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    """What is done after a click was answered must not take the daemon down."""
    try:
        await work
    except Exception:
        log.exception("an answer to a click failed")


async def _joined(
    settings: Settings, store: Store, home: str, clock: SteadyClock, waiting: Wakeups, changes: Changes
) -> Fleet | None:
    """This daemon's place among those on a shared database, None when it has its own."""
    if not store.database.shared:
        return None
    fleet = Fleet(store, home, lock_of(settings.socket_path), clock, waiting, changes)
    await fleet.join()
    return fleet


def _outbox(
    store: Store, link: Link, messenger: Messenger, house: House, clock: SteadyClock, fleet: Fleet | None
) -> Outbox:
    def elsewhere() -> bool:  # whether anybody sees it on the page or in the terminal here, the gate knows
        return fleet is not None and fleet.others_hear()

    def left_to_others() -> bool:
        return fleet is not None and link.down() is not None and fleet.others_hear()

    cards = SharedCards(store.database, SLACK, house.home, left_to_others)
    return Outbox(cards, messenger, link.down, clock, elsewhere)


def _status(settings: Settings, link: Link | None, outbox: Outbox | None, store: Store, fleet: Fleet | None) -> bytes:
    """What `slack-gate status` prints: never a token. Without Slack there is nothing to be heard."""
    files = {"log": settings.log_path, "database": next(iter(database_files(settings)), None)}
    faults = [store.database.fault, store.fault, outbox.fault() if outbox else None, fleet.fault() if fleet else None]
    return json.dumps(health(link, next(filter(None, faults), None), files)).encode()


def _require(settings: Settings, approvers: Sequence[str]) -> None:
    if SLACK in approvers:
        for name in ("slack_bot_token", "slack_app_token"):
            if not getattr(settings, name).get_secret_value():
                raise ConfigError(
                    f"{name.upper()} is not set.",
                    "docs/slack-app.md says how to get it, `slack-gate init` writes it down; "
                    "`slack-gate serve --approver web` and `slack-gate demo` need none.",
                )
        if not settings.approvers:
            raise ConfigError(
                "SLACK_GATE_APPROVERS is empty, so nobody could approve anything.", "Set it to your Slack member id."
            )
    if not set(approvers) - ({WEB} if not settings.page_port else set()):
        raise ConfigError("No surface is on, so nobody could approve anything.", "See `slack-gate serve --help`.")
    if SANDBOXER in (settings.executor, settings.hook_executor):
        for name in ("sbx_gate_key", "sandbox_id"):
            value = getattr(settings, name)
            if not (value if isinstance(value, str) else value.get_secret_value()):
                raise ConfigError(f"{name.upper()} is not set, so the Sandboxer cannot be used.")
