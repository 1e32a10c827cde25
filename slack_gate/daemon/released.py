"""What an agent runs once its call is allowed, where it is not its own text: pinned, caged, edited, handed over.

True texts are kept here, in memory, until they are fetched: on disk they are masked as soon as a request has ended.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cage import cage_policy
from slack_gate.core import network_git, rules
from slack_gate.core.cage_first import asks_outside, caged_first
from slack_gate.core.caged import caged_git, caged_words
from slack_gate.core.event import RUNS, ToolEvent
from slack_gate.core.inside import inside, unstartable, wrapped
from slack_gate.core.request import Request
from slack_gate.core.respell import BUILTINS, pinned, placed
from slack_gate.core.run import MAX_TIMEOUT_S
from slack_gate.daemon import cages
from slack_gate.daemon.planted import planted_words

HELD_S = 600.0  # how long an approved command waits to be fetched by the agent that was told to


class Gone(Exception):
    """What was approved cannot be released any more, or not as it was approved; the message is for the agent."""


@dataclass(frozen=True, slots=True)
class _Edit:
    event: ToolEvent
    digest: str


class Released:
    """`programs` are the trusted files by name, `words_of` start any program; `executor` runs what hooks were allowed
    to (`agent`: the agent itself); `launcher` are the words that start this program; `cages`: a cage starts here."""

    def __init__(
        self,
        programs: Mapping[str, str],
        words_of: Callable[[str], tuple[str, ...] | None],
        executor: str,
        launcher: Sequence[str],
        cages: bool = False,
    ) -> None:
        self._programs = programs
        self._cages = cages
        self._words_of = words_of
        self._executor = executor
        self._launcher = launcher
        self._held: dict[str, tuple[ToolEvent, float]] = {}
        self._edits: dict[str, _Edit] = {}

    def pinned(self, command: str | None) -> str | None:
        """What runs unasked; None when it cannot be made sure. A call without a shell text needs no pin: then ""."""
        if command is None:
            return ""
        words: dict[str, tuple[str, ...]] = {name: (path,) for name, path in self._programs.items() if name != "git"}
        if (git := self._words_of("git")) is not None:  # the agent's PATH does not choose what it starts, a filter
            words["git"] = git
        return pinned(command, words)

    def network(
        self, event: ToolEvent, allowed: Collection[tuple[str, ...]] | None = None, remembered: bool = False
    ) -> str | None:
        """The call with git that speaks to a remote, one of `allowed`, by its wrapper; None where it cannot be.

        What stands beside it runs as it would alone where the line is `remembered`; approved, it runs as it was shown.
        """

        def others(argv: tuple[str, ...]) -> tuple[str, ...] | None:
            if argv[0] != "git" and (not remembered or argv[0] in BUILTINS):
                return None
            alone = cage_policy.shown(argv)
            words = self._words_of(argv[0]) if rules.released(event, alone) == alone else None
            if words is None:
                raise cage_policy.Gated("remembered, it runs in the cage only")
            return words

        return network_git.wrapped(event, self._programs, allowed, others) if self._cages else None

    def leaves_git(self, event: ToolEvent) -> bool:
        """Whether git that speaks to no remote runs outside, in a line that the wrapper is for."""
        local = network_git.local(event)
        return bool(local) and caged_words(local, event.cwd, self._programs) is None

    def local_git(self, event: ToolEvent) -> str | None:
        """A line of git that runs in the cage unasked, pinned; None where that is a loss to it."""
        text = caged_git(event, self._programs) if self._cages else None
        return None if text is None else self.pinned(text)

    def caged_first(self, event: ToolEvent) -> str | None:
        """A gated shell command that is tried in the cage, pinned; None where it is to be asked."""
        text = caged_first(event, self._programs)
        return None if text is None else self.pinned(text)

    def caged(self, event: ToolEvent) -> str | None:
        """The call in the cage, pinned; None where it cannot be."""
        if event.executor is not None:
            return None
        text = wrapped(event)
        return None if text is None else self.pinned(text)

    def unstartable(self, event: ToolEvent) -> str | None:
        """Why no shell on this machine could be started with the command, with its length; None where one could."""
        if event.command is None or (event.executor or self._executor) == "sandboxer":
            return None
        _, text = (inside(event.command) if event.executor else None) or ((), event.command)
        return unstartable(text)

    def unfit(self, event: ToolEvent, cages: bool) -> str | None:
        """Why an approved command could not be handed to the executor that the settings name."""
        if self._executor == "agent" or event.command is None:
            return None
        if wrapped(event) is None or (self._executor == "cage" and not cages):
            return f"It cannot be run by the {self._executor} executor here, as the settings say it must be."
        return None

    def remembered(
        self, event: ToolEvent, saved: Sequence[rules.Rule], now: float, caged: bool = False
    ) -> rules.Coverage | None:
        """What Always allows, and the text to run, in the cage where `caged` says so; None to ask."""
        if event.executor is None and self._executor == "sandboxer" and event.command is not None:
            return None  # what is handed over is held for one approval each
        coverage = rules.covered(event, saved, now)
        if coverage is None or event.command is None or event.executor is not None:
            return coverage
        demanded = caged or self._executor == "cage"
        is_green = network_git.uses_network(event)
        if coverage.remotes and not (is_green and not (self._cages and event.rewritable)):
            text = self.network(event, coverage.remotes, True) if is_green or not demanded else None
            return None if text is None else replace(coverage, command=text)
        if not (demanded or coverage.command) and self._leaves_git(event, event.command):
            return None
        outside = None if demanded or coverage.command else self._outside(event, event.command)
        if outside is not None:
            return replace(coverage, command=outside)
        if (coverage.command or not demanded) and asks_outside(event.command):
            return None  # remembered, it runs in the cage only, which has stopped it
        text = coverage.command or wrapped(event)
        made_sure = self.pinned(text) if text else None
        return None if made_sure is None else replace(coverage, command=made_sure)

    def runs_caged(self, event: ToolEvent) -> bool:
        """Whether Always would have this call run in the cage only."""
        if event.command is None or event.executor is not None or network_git.remotes(event):
            return False
        return rules.runs_caged(event) or self._outside(event, event.command) is None

    def _outside(self, event: ToolEvent, command: str) -> str | None:
        """A remembered command as it runs outside the cage; None where only the cage is left to it, or a person.

        A host that runs no other text finds the programs by the agent's PATH.
        """
        if event.rewritable:
            git = self._caged_git(event, command) or {}
            return placed(command, lambda argv: git.get(argv) or self._words_of(argv[0]))
        return None if planted_words(event) else self.pinned(command)

    def _leaves_git(self, event: ToolEvent, command: str) -> bool:
        """Whether git would run outside where more decides what it does than what a person said Always to."""
        if event.rewritable and self._caged_git(event, command):
            return False
        return rules.leaves_git(event) or cages.may_have_made(event)

    def _caged_git(self, event: ToolEvent, command: str) -> dict[tuple[str, ...], tuple[str, ...]] | None:
        """What starts each git in the cage, where that is no loss: what is planted after this look stays in there."""
        line = [segment.argv for segment in cage_policy.read(command) or [] if segment.argv[0] == "git"]
        return caged_words(line, event.cwd, self._programs) if self._cages and line else None

    def edited(self, request: str, event: ToolEvent, digest: str) -> None:
        """Keeps the text that a person put in place; `digest` binds it as the request's own binds the agent's text."""
        self._edits[request] = _Edit(event, digest)

    def forget(self, request: str) -> None:
        self._edits.pop(request, None)

    def edit(self, request: str) -> tuple[ToolEvent, str] | None:
        """The call with the text that a person put in place here, and the digest it must still have."""
        edit = self._edits.get(request)
        return None if edit is None else (edit.event, edit.digest)

    def text(self, row: Request, event: ToolEvent, original: str | None, now: float) -> str | None:
        """What runs instead of the agent's text `original`; None where that runs as it stands. Raises Gone."""
        if event.command is None:
            return None
        if row.caged or (event.executor is None and self._executor == "cage"):
            if (caged := self.caged(event)) is None:
                raise Gone("It was approved for the cage, and cannot be run there. Ask again.")
            return caged
        if event.executor is None and self._executor == "sandboxer":
            fields = {"command": event.command, "timeoutSeconds": MAX_TIMEOUT_S}
            self._held[row.id] = replace(event, tool=RUNS["sandboxer"], tool_input=fields), now
            return shlex.join([*self._launcher, "run", "--approved", row.id])
        return None if event.command == original else event.command

    def fetched(self, request: str) -> ToolEvent | None:
        """The call that was handed over for this approved request, once; None when it is not there any more."""
        event, _ = self._held.pop(request, (None, 0.0))
        return event

    def tidy(self, now: float) -> None:
        self._held = {request: held for request, held in self._held.items() if now - held[1] < HELD_S}

    @property
    def holds(self) -> bool:
        return bool(self._held)
