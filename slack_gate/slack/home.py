"""The app's Home tab as blocks, pure: what waits with its buttons, what was decided today, the rules, the cord.

A request has an Approve here only below the whole of what its card shows; a longer one has a way to its card.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from slack_gate.core.change import FileNow
from slack_gate.core.cord import Cord, state
from slack_gate.core.display import one_line, sentence, shortened, units
from slack_gate.core.fields import length
from slack_gate.core.kinds import parts_now
from slack_gate.core.outcome import ended_at, outcome_of
from slack_gate.core.overview import Overview, Waiting
from slack_gate.core.request import Choice, Request, State
from slack_gate.core.rules import Rule
from slack_gate.core.wording import grounds, headline, named, origin, range_of
from slack_gate.slack.blocks import Block, button, clock, confirm, context, divider, header, plain, section
from slack_gate.slack.cards import summary, value_of

PREFIX = "home."  # of every action id on this tab, so that no button here passes for one of a card
OPEN, REVOKE, PAUSE, RESUME, LIFT = "home.open", "home.revoke", "home.pause", "home.resume", "home.lift"
MAX_BLOCKS = 100
MAX_BYTES = 120_000  # of the view as JSON; Slack takes 250,000
MAX_ITEM = 3000  # UTF-16 units of a request shown whole
MAX_LONG = 20_000  # characters of an input
MAX_FIELD = 300
MAX_WHY = 300
MAX_SUMMARY = 160  # UTF-16 units of one that has no room
MAX_ENDED = 10
MAX_RULES = 20
SHOWN_ITEMS = 30  # of what waits are looked at; what does not fit is counted

Names = Callable[[str], str]
Link = Callable[[Waiting], str]  # where the card is, empty when that is not known
Files = Callable[[Request], FileNow | None]
Picture = Callable[[Request, FileNow | None], list[Block]]


def closed() -> list[Block]:
    """What anybody but an approver sees."""
    return [section("This is slack-gate. What waits here is shown to its approvers only.")]


def bare() -> list[Block]:
    """Without a button: for a view that Slack refuses."""
    return [section("The Home tab cannot be drawn just now. The cards under Messages have their buttons.")]


def drawing(
    seen: Overview,
    picture: Picture,
    link: Link,
    names: Names,
    notes: Sequence[str] = (),
    files: Files = lambda request: None,
) -> list[Block]:
    """All blocks of an approver's tab. `picture` draws a request's card, `notes` are sentences for the top; `files`
    says what stands in the file that a request would change."""
    top = [header(_count(seen.waiting_count)), _status(seen), _cord_button(seen.cord)]
    top += [section(note) for note in notes]
    tail = [*_ended(seen), *_rules(seen.rules, names)]
    room = MAX_BLOCKS - len(top) - len(tail) - 1
    bytes_left = MAX_BYTES - len(json.dumps([*top, *tail]))
    items: list[Block] = []
    shown = 0
    for waiting in seen.waiting:
        item = [divider(), *_item(waiting, files(waiting.request), picture, link)]
        if len(items) + len(item) > room or (size := len(json.dumps(item))) > bytes_left:
            break
        items += item
        bytes_left -= size
        shown += 1
    more = seen.waiting_count - shown
    rest = [section(f"{more} more {'waits' if more == 1 else 'wait'}; the cards are under Messages.")] if more else []
    return [*top, *items, *rest, *tail]


# What waits


def _item(waiting: Waiting, file: FileNow | None, picture: Picture, link: Link) -> list[Block]:
    request = waiting.request
    if not waiting.asked:
        return _short(request, "It is not asked of you in Slack.")
    long = length(dict(request.tool_input)) > MAX_LONG  # then drawing it to see whether it fits would take too long
    blocks = [] if long else picture(request, file)
    if long or not _whole(request, file, blocks):
        reject = [button("Deny", Choice.DENY.value, value=value_of(request), style="danger")]
        place = link(waiting)
        way = [button("Open the card", OPEN, url=place)] if place else []
        return [
            *_short(request, "Too long for this tab: its card shows all of it."),
            *_buttons(request, [*way, *_renamed(reject)]),
        ]
    whole = [block for block in blocks if block["type"] != "actions"]
    return [*whole, *_buttons(request, _renamed(_elements(blocks)))]


def _short(request: Request, why: str) -> list[Block]:
    return [
        section("\n".join([headline(request), *grounds(request, MAX_WHY), _what(request)])),
        context(plain(f"{why} {origin(request)}"), clock(request.expires_at, "Expires ")),
    ]


def _what(request: Request) -> str:
    return summary(_beginning(request), MAX_SUMMARY)


def _beginning(request: Request) -> Request:
    """Of a long one the short fields and the beginning of the command: enough for a line."""
    if length(dict(request.tool_input)) <= MAX_LONG:
        return request
    fields = {name: value for name, value in request.tool_input.items() if length(value) <= MAX_FIELD}
    if request.command is None:
        return replace(request, tool_input=fields)
    command = request.command[:MAX_LONG]
    return replace(request, tool_input={**fields, "command": command}, command=command)


def _whole(request: Request, file: FileNow | None, blocks: Sequence[Block]) -> bool:
    """Whether these blocks show all that would run and are short enough for this tab."""
    texts = _texts(blocks)
    there = all(not part.shown or any(part.shown in text for text in texts) for part in parts_now(request, file))
    return there and sum(map(units, texts)) <= MAX_ITEM


def _elements(blocks: Sequence[Block]) -> list[Block]:
    """The card's buttons that decide at once; what else it offers is under Messages."""
    actions = [element for block in blocks if block["type"] == "actions" for element in block["elements"]]
    choices = {Choice.APPROVE.value, Choice.DENY.value, Choice.ALWAYS.value}
    return [element for element in actions if element["type"] == "button" and element["action_id"] in choices]


def _renamed(elements: Sequence[Block]) -> list[Block]:
    return [{**element, "action_id": PREFIX + element["action_id"]} for element in elements]


def _buttons(request: Request, elements: list[Block]) -> list[Block]:
    return [{"type": "actions", "block_id": f"{PREFIX}{request.id}", "elements": elements}] if elements else []


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["text"]] if isinstance(value.get("text"), str) else []
        return own + [text for name, item in value.items() if name != "confirm" for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []


# How it stands


def _count(waiting: int) -> str:
    if not waiting:
        return "Nothing waits"
    return f"{waiting} {'request waits' if waiting == 1 else 'requests wait'}"


def _status(seen: Overview) -> Block:
    return context(*(plain(line) for line in (state(seen.cord), *health(seen))))


def health(seen: Overview) -> list[str]:
    """Sentences on the link and the files, without numbers that change by themselves."""
    found = seen.health
    fault, lines, notes = found.get("fault"), found.get("lines"), found.get("notes") or ()
    said = [f"Not healthy: {fault}"] if fault else []
    if not fault and lines is not None:
        said = [
            "The link to Slack is up." if lines > 1 else "The link to Slack is up on one line; another is being opened."
        ]
    if found.get("otherConnections"):
        said.append("Another program is connected as this app and may swallow clicks.")
    return [shortened(sentence(one), 400) for one in (*said, *notes)][:6]


def _cord_button(cord: Cord) -> Block:
    if cord.paused:
        element = button("Resume", RESUME, style="primary")
    else:
        text = "Until somebody resumes, whatever needs asking is denied at once. What waits now can still be decided."
        element = button("Pause", PAUSE, confirm=confirm("Pause slack-gate?", text, "Pause"))
    return {"type": "actions", "block_id": f"{PREFIX}cord", "elements": [element]}


# What was


def _ended(seen: Overview) -> list[Block]:
    if not seen.ended_count:
        return []
    lines = [_ended_line(request) for request in seen.ended[:MAX_ENDED]]
    more = seen.ended_count - len(lines)
    rest = [section(f"{more} more today; `slack-gate requests` lists them all.")] if more > 0 else []
    return [divider(), header(f"Decided today: {seen.ended_count}"), *lines, *rest]


def _ended_line(request: Request) -> Block:
    what = one_line(named(request, request.command or request.tool), 150)
    line = plain(f"{outcome_of(request).splitlines()[0].rstrip('.')}: {what}")
    if request.state is State.DENIED and request.form and request.lifted_at is None:
        again = button("Take back", LIFT, value=request.id, accessibility_label="Take this denial back")
        return {"type": "section", "text": line, "fields": [clock(ended_at(request))], "accessory": again}
    return context(line, clock(ended_at(request)))


def _rules(rules: Sequence[Rule], names: Names) -> list[Block]:
    if not rules:
        return []
    newest = sorted(rules, key=lambda rule: -rule.created_at)
    lines = [_rule(rule, names) for rule in newest[:MAX_RULES]]
    more = len(rules) - len(lines)
    rest = [section(f"{more} more; `/gate rules` lists them.")] if more > 0 else []
    return [divider(), header(f"Runs without asking: {len(rules)}"), *lines, *rest]


def _rule(rule: Rule, names: Names) -> Block:
    used = clock(rule.used_at, "Last used ") if rule.used_at else plain("Not used yet")
    text = f"{one_line(rule.shown, 200)} is asked again from now on."
    return {
        "type": "section",
        "block_id": f"{PREFIX}{rule.id}",
        "text": plain(rule_line(rule, names)),
        "fields": [used],
        "accessory": button("Revoke", REVOKE, value=rule.id, confirm=confirm("Revoke this rule?", text, "Revoke")),
    }


def rule_line(rule: Rule, names: Names) -> str:
    """A rule with its reach and who saved it."""
    return f"{one_line(rule.shown, 200)}\n{range_of(rule)}; saved by {one_line(names(rule.created_by), 80)}"
