"""What becomes of a call before anyone is asked: refused, allowed or run unasked, left to its host, or to be asked.

The strictest word counts: the gate's own files, then the policy's denials, then what the policy has asked each time,
then what is green, then what Always remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from cage import cage_policy
from slack_gate.core import cage_first, network_git, rules
from slack_gate.core.answer import Answer, Ruling
from slack_gate.core.display import one_line
from slack_gate.core.event import APPROVAL, RUNS, ToolEvent
from slack_gate.core.policy import NOTHING, Demands
from slack_gate.core.ports import Classifier, Judgement
from slack_gate.core.secrets import mask
from slack_gate.daemon import cages
from slack_gate.daemon.own_files import OwnFiles
from slack_gate.daemon.policy_file import PolicyFile
from slack_gate.daemon.released import Released


@dataclass(frozen=True, slots=True)
class Refuse:
    sentence: str
    may_be_remembered: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Allow:
    """Unasked: what the agent is told, and how the log names it; `used` are the rules it rests on."""

    answer: Answer
    decision: str
    by: str
    reason: str = ""
    used: Sequence[str] = ()

    @property
    def may_be_remembered(self) -> bool:
        return self.decision == "caged"


@dataclass(frozen=True, slots=True)
class Run:
    """The gate runs it unasked, by the allowlist, because it is green, or by Always."""

    via: str
    used: Sequence[str] = ()
    may_be_remembered: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Ask:
    """`why` is a clause for the card; it tells of `remotes`, None where it tells of none (`core/network_git.py`)."""

    why: str
    demands: Demands = NOTHING
    remotes: Sequence[tuple[str, ...]] | None = None
    may_be_remembered: ClassVar[bool] = True


Outcome = Refuse | Allow | Run | Ask


@dataclass(frozen=True, slots=True)
class Recall:
    """What people had remembered decides; `by` makes the outcome of the rules on file and the time."""

    by: Callable[[Sequence[rules.Rule], float], Outcome]


class Judge:
    """`executors` are the names of those that commands can be run with; `cages`: a cage starts here."""

    def __init__(
        self,
        classifier: Classifier,
        own_files: OwnFiles,
        policy: PolicyFile,
        released: Released,
        executors: Sequence[str],
        cages: bool,
        cages_first: bool,
    ) -> None:
        self._classifier = classifier
        self._own_files = own_files
        self._policy = policy
        self._released = released
        self._executors = executors
        self._cages = cages
        self._cages_first = cages and cages_first

    def outcome(self, event: ToolEvent, saved: Sequence[rules.Rule], now: float) -> Outcome:
        """What becomes of the call where these rules are on file."""
        found = self.look(event)
        return found.by(saved, now) if isinstance(found, Recall) else found

    def look(self, event: ToolEvent) -> Outcome | Recall:
        """A function of the call, the settings and the file system; may run in a thread, as what it returns may."""
        if (refusal := self.refused(event)) is not None:
            return Refuse(refusal)
        if (too_long := self._released.unstartable(event)) is not None:
            return Refuse(too_long)
        demands = self._policy.current().demands(event)
        if event.tool == APPROVAL:
            return Ask("it is a question to a person", demands)
        judged = self.explained(event)
        if event.executor is not None and event.executor not in self._executors:
            return Refuse(f"This slack-gate has no {event.executor} executor set up.")
        if (why := self._stricter(demands)) is not None:
            return self._ask(event, why, demands)
        if event.executor is None and (text := self._released.local_git(event)) is not None:
            return Allow(Answer(Ruling.ALLOW, "Green: local git, run in the cage.", text), *_CAGED_GIT)
        if judged.verdict == "green" and event.executor is None and not network_git.uses_network(event):
            return self._green(event, judged, demands)
        if judged.verdict != "green" and self._own_files.reached_by(event):
            return self._ask(event, f"{_why(judged)}; it could reach what slack-gate rests on", demands)
        if event.executor is not None and (via := self._unasked(event, judged)):
            return Run(via)
        if judged.verdict == "ungated" and event.executor is None:
            return Allow(Answer(Ruling.SILENT), "ungated", "policy")
        by = partial(self._remembered, event, judged, demands)
        return by((), 0.0) if demands.forgettable else Recall(by)

    def covered(self, event: ToolEvent, saved: Sequence[rules.Rule], now: float, caged: bool) -> rules.Coverage | None:
        """What lets a call go that waits, as it would let it pass if it were asked now; None: a person decides."""
        return self._released.remembered(event, saved, now, caged)

    def placed(self, event: ToolEvent) -> ToolEvent:
        """A run with the executor that the policy names for it."""
        if event.executor is None or not (executor := self._policy.current().demands(event).executor):
            return event
        return replace(event, tool=RUNS[executor])

    @property
    def cages(self) -> bool:
        """Whether cages start here."""
        return self._cages

    def is_own(self, path: str) -> bool:
        """Whether this resolved path leads into the gate's own files."""
        return self._own_files.holds(path)

    def explained(self, event: ToolEvent) -> Judgement:
        if event.executor is not None:
            return self._classifier.explain("Bash", {"command": event.command}, event.cwd)
        return self._classifier.explain(event.tool, dict(event.tool_input), event.cwd)

    def rememberable(self, event: ToolEvent) -> Sequence[rules.Key]:
        """What Always may save of this call; empty for nothing, also where the same would be asked all the same."""
        if self._policy.current().demands(event).forgettable or self._policy.problem:
            return ()
        keys = () if self._own_files.reached_by(event) else rules.keys_to_remember(event)
        saved = [rules.Rule("", key, "", 0.0, "", "") for key in keys]
        return () if not keys or isinstance(self.outcome(event, saved, 0.0), Ask | Refuse) else keys

    def refused(self, event: ToolEvent) -> str | None:
        """Why nobody is asked about this call, and why it does not run if somebody was before that was so."""
        if (refusal := self._own_files.refusal(event)) is not None:
            return refusal
        return self._policy.current().demands(event).denied or None

    def unfit(self, event: ToolEvent, caged: bool = False) -> str | None:
        """Why a person cannot put this call in place of the one asked about; `caged`: that one runs in the cage."""
        demands = self._policy.current().demands(event)
        if (why := self._own_files.refusal(event) or demands.denied) or demands.approvals > 1:
            return why or f"The policy has {demands.approvals} people approve that; the agent must ask for it itself."
        if self._elsewhere(event, demands, caged):
            return f"The policy has that run by the {demands.executor}; the agent must ask for it itself."
        return self._released.unfit(event, self._cages)

    def outgrown(self, event: ToolEvent, quorum: int, caged: bool) -> str | None:
        """What the policy demands by now of a call that `quorum` people approved, for the cage or not; a clause."""
        demands = self._policy.current().demands(event)
        if demands.approvals > quorum:
            return f"has had {demands.approvals} people approve it"
        return f"has had it run by the {demands.executor}" if self._elsewhere(event, demands, caged) else None

    def _elsewhere(self, event: ToolEvent, demands: Demands, caged: bool) -> bool:
        """Whether the policy has it run by another executor than it would be."""
        if event.executor is not None:
            return self.placed(event) != event
        return event.command is not None and demands.executor == "cage" and not caged

    def _stricter(self, demands: Demands) -> str | None:
        """Why it is asked whatever else is true of it."""
        if self._policy.problem:
            return self._policy.problem.rstrip(".")
        if demands.ask:
            return demands.ask
        return f"{demands.approvals} people must approve it" if demands.approvals > 1 else None

    def _green(self, event: ToolEvent, judged: Judgement, demands: Demands) -> Outcome:
        if event.command is not None and _brings_files(event.command):
            return self._ask(event, "git would write files of another commit outside the cage", demands)
        if event.command is not None and cages.may_have_made(event):
            return self._ask(event, cages.DOUBT, demands)
        if (text := self._released.pinned(event.command)) is None:
            return self._ask(event, "its programs cannot be pinned to files the agent cannot change", demands)
        return Allow(Answer(Ruling.ALLOW, f"Green: {judged.rule}.", _changed(text, event)), "green", "policy")

    def _remembered(
        self, event: ToolEvent, judged: Judgement, demands: Demands, saved: Sequence[rules.Rule], now: float
    ) -> Outcome:
        """What is asked unless rules cover it."""
        if event.executor is None and judged.verdict == "green":
            return self._network(event, judged, demands, saved, now)
        caged = demands.executor == "cage" and event.executor is None
        if (coverage := self._released.remembered(event, saved, now, caged)) is not None:
            if event.executor is not None:
                return Run("always", coverage.rules)
            return _by_rules(coverage, _changed(coverage.command, event))
        if event.executor is not None:
            return Ask(f"{_not_yet(event, saved, now)}it is not on the allowlist", demands)
        text = self._released.caged_first(event) if self._cages_first else None
        if text is not None:
            answer = Answer(Ruling.ALLOW, f"In the cage, not asked: {judged.rule}.", text, cage_first.ADVICE)
            return Allow(answer, "caged", "policy", _why(judged))
        why, remotes = f"{_not_yet(event, saved, now)}{_why(judged)}", None
        if self._released.network(event) is not None:
            told, remotes = network_git.why(event, [rule.key.words for rule in saved])
            alone = "" if self._released.network(event, None, True) else "; for Always, git needs a call of its own"
            why = f"{why}; {told}{alone}; {network_git.BY_WRAPPER}"
        return self._ask(event, why, demands, remotes)

    def _network(
        self, event: ToolEvent, judged: Judgement, demands: Demands, saved: Sequence[rules.Rule], now: float
    ) -> Outcome:
        """Git that speaks to a remote: asked until a person has allowed its address, then run by the wrapper where a
        cage starts and the host runs another text; elsewhere it is green like any other."""
        coverage = rules.covered(event, saved, now)
        if coverage is None:
            why, remotes = network_git.why(event, [rule.key.words for rule in saved])
            if self._released.network(event) is not None:
                why = f"{why}; {network_git.BY_WRAPPER}"
            return self._ask(event, why, demands, remotes)
        if not (self._cages and event.rewritable):
            return self._green(event, judged, demands)
        if self._released.leaves_git(event) and cages.may_have_made(event):
            return self._ask(event, cages.DOUBT, demands)
        if (text := self._released.network(event, coverage.remotes)) is None:
            return self._ask(event, "network git cannot run by its wrapper here", demands)
        return _by_rules(coverage, text)

    def _unasked(self, event: ToolEvent, judged: Judgement) -> str | None:
        """What lets the gate run a command itself, whatever is remembered."""
        if event.command is not None and self._policy.current().allowlist.allows(event.command):
            return "allowlist"
        return "green" if event.executor == "cage" and judged.verdict == "green" else None

    def _ask(
        self, event: ToolEvent, why: str, demands: Demands, remotes: Sequence[tuple[str, ...]] | None = None
    ) -> Ask | Refuse:
        unfit = None if event.executor is not None else self._released.unfit(event, self._cages)
        return Ask(why, demands, remotes) if unfit is None else Refuse(unfit)


def _not_yet(event: ToolEvent, saved: Sequence[rules.Rule], now: float) -> str:
    """Of a line that is remembered in part, what is not: a clause before the others, else empty."""
    keys = rules.missing(event, saved, now)
    return f"a part of it is remembered, but not {one_line(', '.join(map(str, keys)), 100)}; " if keys else ""


def _by_rules(coverage: rules.Coverage, text: str | None) -> Allow:
    shown = ", ".join(coverage.rules)
    answer = Answer(Ruling.ALLOW, f"Remembered by Always ({shown}).", text)
    return Allow(answer, "remembered", "always", shown, coverage.rules)


_CAGED_GIT = ("green", "policy", "in the cage")


def _brings_files(command: str) -> bool:
    """What the host's git writes, no cage holds back: settings of the agent among it. Caged git never comes here."""
    return cage_policy.brings_files(segment.argv for segment in cage_policy.read(command) or [])


def _changed(text: str | None, event: ToolEvent) -> str | None:
    return text if text and text != event.command else None


def _why(judged: Judgement) -> str:
    """One masked line: the rule, and the part of the call it stopped at."""
    where = f" ({mask(judged.segment)[:200]})" if judged.segment else ""
    return f"{mask(judged.rule)[:300]}{where}"
