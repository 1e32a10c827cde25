"""The daemon's own terminal as a place where a person is asked: one request after the other, in order.

Only `y` approves. Whoever can type here, or write to the pipe that is its input, is the approver.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import structlog

from slack_gate.core.display import one_line, visible
from slack_gate.core.display import sentence as drawn_once
from slack_gate.core.fields import parts
from slack_gate.core.offers import Offers
from slack_gate.core.outcome import outcome_of, sentence
from slack_gate.core.ports import Click, Verdict
from slack_gate.core.request import BY_TERMINAL, Choice, Decision, Request, State
from slack_gate.core.secrets import mask
from slack_gate.core.wording import (
    MAX_TOOL,
    always,
    arrival,
    counted,
    grounds,
    measure,
    no_always,
    origin,
    place,
    remarks,
)
from slack_gate.errors import GateError
from slack_gate.keyboard import Input, write

SETTLE_S = 1.0  # after a question was answered elsewhere: what is typed just then was meant for it
AGAIN_S = 1.0  # after the database could not be read
REMARKS = ("reason", "description")
MAX_WHY = 400
PROMPT = "Approve? [y/N] "
ENDED = "the terminal of slack-gate has no input any more, so nobody can answer there"

log = structlog.get_logger()


class Gate(Protocol):
    """`daemon.gate.Gate`, as far as a person needs it."""

    def offers(self, request: Request) -> Offers: ...

    async def decide(self, decision: Decision) -> Click: ...


class Store(Protocol):
    """`store.store.Store`, as far as a person needs it."""

    async def request(self, request: str) -> Request | None: ...

    async def pending(self, home: str) -> list[Request]: ...


class Terminal:
    """`alone`: nobody is asked anywhere else, so that without input everything is denied. `also` takes what is to be
    called whenever a request may have changed."""

    def __init__(
        self,
        gate: Gate,
        store: Store,
        home: str,
        alone: bool,
        also: Callable[[Callable[[], None]], None],
        stdin: int = 0,
        stdout: int = 1,
    ) -> None:
        self._gate = gate
        self._store = store
        self._home = home
        self._alone = alone
        self._input = Input(stdin)
        self._stdout = stdout
        self._unread = False
        self._user = _login()
        self._news = asyncio.Event()
        self._seen: set[str] = set()
        self._answered: set[str] = set()
        also(self._news.set)

    async def run(self) -> None:
        """Until cancelled; ends by itself when the input has ended and people are asked elsewhere too."""
        while not self._input.ended:
            try:
                if (request := await self._next()) is not None:
                    await self._ask(request)
            except GateError as error:  # until the database is back nothing is allowed anyway
                await self._say(f"\n{drawn_once(str(error))}\n")
                await asyncio.sleep(AGAIN_S)
        await self._say(f"\n({ENDED})\n")
        while self._alone:
            try:
                if (request := await self._next()) is not None:
                    await self._decide(request, Choice.DENY, ENDED)
            except GateError:
                await asyncio.sleep(AGAIN_S)

    async def _next(self) -> Request | None:
        """The oldest request that was not answered here, when there is one."""
        found = await self._pending()
        waiting = [request for request in found if request.id not in self._answered]
        if waiting:
            return min(waiting, key=lambda request: request.created_at)
        await self._news.wait()
        return None

    async def _pending(self) -> list[Request]:
        """All that wait, the new ones announced."""
        self._news.clear()
        found = await self._store.pending(self._home)
        new = [request for request in found if request.id not in self._seen]
        self._seen = {request.id for request in found}
        self._answered &= self._seen
        if new:
            await self._say("".join(f"\n{arrival(request)}" for request in new) + "\n")
        return found

    async def _ask(self, request: Request) -> None:
        """One question, until it is answered here or has ended elsewhere."""
        await self._say(f"\n{described(request, self._columns())}\n{self._choices(request)}\n")
        await self._say(PROMPT, self._input.forget)
        answer = asyncio.ensure_future(self._input.line())
        try:
            while not answer.done():
                if await self._over(request):
                    return
                news = asyncio.ensure_future(self._news.wait())
                await asyncio.wait({answer, news}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)  # it has let go of the input before the next begins
        if (line := answer.result()) is not None:
            await self._answer(request, line)

    async def _over(self, request: Request) -> bool:
        """Whether it has ended elsewhere; says how. Others that came meanwhile are announced above the prompt."""
        seen = set(self._seen)
        if any(found.id == request.id for found in await self._pending()):
            if self._seen - seen:
                await self._say(PROMPT)
            return False
        row = await self._store.request(request.id)
        expired = row is None or row.state is State.EXPIRED
        await self._say("(no answer)\n" if expired or row is None else f"\n{outcome_of(row)}\n")
        if not expired and self._input.typed:
            await asyncio.sleep(SETTLE_S)
        return True

    async def _answer(self, request: Request, line: str) -> None:
        if not self._input.typed:  # a terminal shows what was typed, a pipe does not
            await self._say(f"{one_line(line, 200)}\n")
        word, _, reason = line.strip().partition(" ")
        match word.lower():
            case "y" if not reason:
                choice = Choice.APPROVE
            case "a" | "always" if not reason:
                choice = Choice.ALWAYS
            case "r":
                choice = Choice.DENY
                reason = reason.strip() or await self._reason()
            case _:
                choice, reason = Choice.DENY, ""
        await self._decide(request, choice, reason)

    async def _reason(self) -> str:
        await self._say("Reason, as the agent will read it: ")
        line = (await self._input.line() or "").strip()
        if not self._input.typed:
            await self._say(f"{one_line(line, 200)}\n")
        return line

    async def _decide(self, request: Request, choice: Choice, reason: str) -> None:
        decision = Decision(request.id, request.digest, choice, BY_TERMINAL, self._user, self._user, reason)
        try:
            click = await self._gate.decide(decision)
        except Exception as error:
            log.exception("an answer at the terminal failed", request=request.id)
            self._answered.add(request.id)
            why = str(error) if isinstance(error, GateError) else f"slack-gate failed ({type(error).__name__})."
            await self._say(f"Nothing was decided. {drawn_once(why)}\n")
            return
        said = sentence(click)
        if click.verdict is Verdict.DECIDED:
            said = f"{'Denied' if choice is Choice.DENY else 'Approved'} {request.id}. {said}".rstrip()
        if click.verdict not in (Verdict.UNREMEMBERABLE, Verdict.UNFIT, Verdict.DENIED_BEFORE):  # these are asked again
            self._answered.add(request.id)
        await self._say(f"{drawn_once(said)}\n")

    def _choices(self, request: Request) -> str:
        offers = self._gate.offers(request)
        offer = always(offers.keys, offers.caged)
        remember = f"a: always, {offer}. " if offer else f"No always: {no_always(request)}. "
        return f"y: once. {remember}r REASON: no, and why. Anything else: no."

    def _columns(self) -> int | None:
        try:
            return max(20, os.get_terminal_size(self._stdout).columns)
        except OSError:
            return None

    async def _say(self, text: str, first: Callable[[], None] | None = None) -> None:
        """As `write`; once nobody reads, nobody can answer."""
        if self._unread:
            return
        try:
            await write(self._stdout, text, first)
        except OSError:
            self._unread = self._input.ended = True


def described(request: Request, columns: int | None) -> str:
    """The whole of what would run, and what a card says of it, safe for a terminal; None: no width to wrap it at."""
    reason = "-"
    if request.command is not None:  # the agent's remark on it, not a part of what runs
        told = [request.tool_input.get(name) for name in REMARKS]
        reason = next((value for value in told if isinstance(value, str) and value), reason)
        rest = {name: value for name, value in request.tool_input.items() if name not in REMARKS or value != reason}
        shown = parts(replace(request, tool_input=rest))
    else:
        shown = parts(request)
    what = "run" if request.command is not None else f"use {one_line(request.tool, MAX_TOOL)}"
    lines = [f"Agent wants to {what}:"]
    brief = request.command is not None and all(part.brief for part in shown[1:])
    literal, said_beside = (shown[:1], shown[1:]) if brief else (shown, [])
    for part in literal:
        lines += [f"{part.caption}:"] if part.caption else []
        lines += _wrapped(part.shown, columns)
    said = visible(mask(reason))
    lines += ["Reason:", *_wrapped(said, columns)] if "\n" in said else [f"Reason: {said}"]
    lines += [
        f"By {one_line(request.agent, 40)}: {one_line(request.tool, MAX_TOOL)}",
        place(request),
        origin(request),
        *grounds(request, MAX_WHY),
        *(line for part in said_beside for line in part.shown.split("\n")),
        *remarks(request),
        *counted(request),
        *measure(request, literal),
        f"Until {time.strftime('%H:%M:%S', time.localtime(request.expires_at))}",
    ]
    return "\n".join(lines)


def _wrapped(text: str, columns: int | None) -> Iterator[str]:
    """Each line indented by two; what does not fit goes on below a mark that no line of the text can begin with."""
    for line in text.split("\n"):
        start, width, mark = 0, 2, "  "
        for at, char in enumerate(line):
            wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if columns is not None and width + wide > columns - 1:
                yield mark + line[start:at]
                start, width, mark = at, 2, "↪ "
            width += wide
        yield mark + line[start:]


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
