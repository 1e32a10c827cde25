"""What stands in the thread of a card, pure: reminders, and the run of a command that the gate carries out."""

from __future__ import annotations

from collections.abc import Sequence

from slack_gate.core.display import one_line, units, visible
from slack_gate.core.event import RUNS
from slack_gate.core.notes import NEARLY, STARTED, Note
from slack_gate.core.outcome import approval, duration
from slack_gate.core.request import State
from slack_gate.core.run import Carried
from slack_gate.slack.blocks import Block, clock, context, plain, section
from slack_gate.slack.cards import File, Picture, ends_of, escaped, notification, preformatted, summary

MAX_OUTPUT = 2400  # UTF-16 units of a stream that stand in the message; of a longer one, both ends
MAX_LINES = 30  # the same in lines: more is scrolled past, and the way back to the card is long
MAX_ERROR = 500


def drawn(note: Note, others: int = 0) -> tuple[Picture, list[File]]:
    """The message, and the files that belong to it. `others` wait as long as this one."""
    if note.run is None:
        return _reminder(note, others), []
    if note.name == STARTED:
        return _started(note, note.run), []
    return _ended(note, note.run)


def _reminder(note: Note, others: int) -> Picture:
    said = (
        "Nine tenths of the time to answer are over." if note.name == NEARLY else "Half of the time to answer is over."
    )
    more = f" {others} more {'waits' if others == 1 else 'wait'} as long." if others else ""
    # The mention is ours, and no text: it is what makes a phone ring.
    words = [{"type": "user", "user_id": note.approver}, {"type": "text", "text": f" {said}{more}"}]
    spoken = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": words}]}
    text = notification(note.request, before=f"{said.removesuffix('.')}: ")
    return Picture(text, [spoken, context(clock(note.request.expires_at, "Expires "))])


def _started(note: Note, run: Carried) -> Picture:
    where = RUNS.get(run.executor, "run").removeprefix("run ")
    said = f"{approval(note.request)}. Started {where}."
    return Picture(escaped(said), [section(said), context(clock(run.started_at))])


def _ended(note: Note, run: Carried) -> tuple[Picture, list[File]]:
    said = _how(note, run)
    blocks: list[Block] = [section(said)]
    files: list[File] = []
    for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
        if text:
            blocks += _output(name, text)
            files += [] if _short(visible(text)) else [File(f"Whole {name}", visible(text))]
    if not run.stdout and not run.stderr and note.request.state is not State.NOT_RUN:
        blocks.append(context(plain("It printed nothing.")))
    blocks.append(context(clock(run.ended_at or run.started_at)))
    return Picture(escaped(f"{said.splitlines()[0]} {summary(note.request, 100)}"), blocks), files


def _how(note: Note, run: Carried) -> str:
    after = f"after {duration((run.ended_at or run.started_at) - run.started_at)}"
    error = f"\n{one_line(run.error, MAX_ERROR)}" if run.error else ""
    if note.request.state is State.NOT_RUN:
        return f"It did not run.{error}"
    if note.request.state is State.LOST:
        return f"Outcome unknown {after}: it may have run, and is not started again.{error}"
    if run.timed_out:
        return f"Timed out {after} and was ended.{error}"
    if run.exit_code is None:
        return f"Ended {after} without an exit code.{error}"
    return f"Ended with exit code {run.exit_code} {after}.{error}"


def _short(shown: str) -> bool:
    return units(shown) <= MAX_OUTPUT and shown.rstrip("\n").count("\n") < MAX_LINES


def _first(text: str, lines: int) -> str:
    return "\n".join(text.split("\n")[:lines])


def _output(name: str, text: str) -> Sequence[Block]:
    shown = visible(text)
    lines = text.count("\n") + (not text.endswith("\n"))
    caption = context(plain(f"{name}, {len(text)} characters, {lines} {'line' if lines == 1 else 'lines'}"))
    if _short(shown):
        return [caption, preformatted(shown)]
    head, tail = ends_of(shown, MAX_OUTPUT) if units(shown) > MAX_OUTPUT else (shown, shown)
    head, tail = _first(head, MAX_LINES // 2), _first(tail[::-1], MAX_LINES // 2)[::-1]
    left = len(shown) - len(head) - len(tail)
    between = context(plain(f"{left} characters between stand in the file below only"))
    return [caption, *([preformatted(head)] if head else []), between, *([preformatted(tail)] if tail else [])]
