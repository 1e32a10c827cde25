"""`/gate WORD`, and the same words written to the app: what waits, the rules, a pause, where gated calls are asked.

Each is answered to its writer alone. One that Slack brings late changes nothing: it would undo what came after it.
"""

from __future__ import annotations

import asyncio
import html
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slack_bolt.async_app import AsyncAck, AsyncApp

from slack_gate.core.cord import Pull, state
from slack_gate.core.display import one_line
from slack_gate.core.overview import Waiting
from slack_gate.errors import GateError
from slack_gate.slack.blocks import Block, button, clock, context, section
from slack_gate.slack.cards import escaped
from slack_gate.slack.contact import Body, Contact, respond
from slack_gate.slack.home import OPEN, health, rule_line
from slack_gate.slack.permalinks import Permalinks

COMMAND = "/gate"
SOON_S = 2.0  # an answer ready by then goes with the acknowledgement, for which Slack waits three seconds
LATE_S = 60.0  # a message that old is an event that Slack had to send again
MAX_PENDING = 10
MAX_RULES = 40
EVENTS = 2000  # whose ids are remembered; Slack sends some twice

HELP = (
    "`/gate status`  how slack-gate stands\n"
    "`/gate pending`  what waits\n"
    "`/gate rules`  what runs without asking\n"
    "`/gate lift SG-…`  take a denial back, so that the same is asked again\n"
    "`/gate pause`  deny at once whatever needs asking\n"
    "`/gate resume`  ask again\n"
    "`/gate console`  leave what needs asking to the agent's own prompt, where that holds\n"
    "`/gate web`  ask on the approval page and the terminal only, without cards\n"
    "`/gate slack`  ask here again\n"
    "The words work in this conversation without `/gate` too, in threads as well."
)
WORDS = frozenset({"status", "pending", "rules", "help", *(pull.value for pull in Pull)})
STRANGER = "Only this slack-gate's approvers can use this. Nothing was done."


@dataclass(frozen=True, slots=True)
class Reply:
    """`text` is what a screen reader reads."""

    text: str
    blocks: Sequence[Block]

    @classmethod
    def of(cls, sentence: str) -> Reply:
        return cls(sentence, [section(sentence)])


class Commands:
    """`clock` counts seconds since the epoch, as Slack does."""

    def __init__(self, contact: Contact, links: Permalinks, clock: Callable[[], float] = time.time) -> None:
        self._contact = contact
        self._controls = contact.controls
        self._links = links
        self._clock = clock
        self._seen = SeenEvents()

    def listen(self, app: AsyncApp) -> None:
        app.command(COMMAND)(self._command)
        app.event("message")(self._message)

    # Slash command

    async def _command(self, ack: AsyncAck, body: Body) -> None:
        press = str(body.get("trigger_id", ""))
        if not self._seen.new(press):
            await ack()  # done before: what came after it stands
            return
        user, team = str(body.get("user_id", "")), str(body.get("team_id", ""))
        answer = asyncio.ensure_future(self._reply(str(body.get("text") or ""), user, team, press))
        done, _ = await asyncio.wait([answer], timeout=SOON_S)
        if done:
            reply = answer.result()
            await ack(text=escaped(reply.text), blocks=list(reply.blocks), response_type="ephemeral")
            return
        self._contact.later(self._respond(str(body.get("response_url", "")), answer))
        await ack()

    async def _respond(self, url: str, answer: asyncio.Future[Reply]) -> None:
        reply = await answer
        await respond(url, reply.text, reply.blocks)

    # The same words in the conversation

    async def _message(self, event: Body, body: Body) -> None:
        """Only what a person writes to the app: no changes of messages, nothing of a bot, our own cards among it."""
        if event.get("channel_type") != "im" or event.get("subtype") or event.get("bot_id") or not event.get("user"):
            return
        press = str(body.get("event_id", ""))
        if not self._seen.new(press):
            return
        text = html.unescape(str(event.get("text") or ""))
        if word_of(text) is None and lift_of(text) is None:
            if event.get("thread_ts"):
                return  # people may talk below a card
            text = "help"
        team = str(event.get("team") or body.get("team_id", ""))
        reply = await self._reply(text, str(event["user"]), team, press, self._age(event))
        where = str(event["channel"]), str(event["user"]), reply.text, reply.blocks, str(event.get("thread_ts") or "")
        self._contact.later(self._contact.whisper(*where))

    def _age(self, event: Body) -> float:
        try:
            return self._clock() - float(event.get("ts", ""))
        except ValueError:
            return 0.0

    # Answers

    async def _reply(self, text: str, user: str, team: str, press: str, age: float = 0.0) -> Reply:
        """Never raises for what the gate or Slack cannot do."""
        if not self._controls.approves(user, team):
            return Reply.of(STRANGER)
        word, denial = word_of(text) or "help", lift_of(text)
        try:
            match word if denial is None else "lift":
                case "status":
                    return await self._status(user)
                case "pending":
                    return await self._pending(user)
                case "rules":
                    return await self._rules(user)
                case "help":
                    return Reply("Commands of slack-gate", [_marked(HELP)])
            if age > LATE_S:
                return Reply.of(
                    f"This reached slack-gate {age:.0f} s after it was written, so nothing was done. Write it again."
                )
            hand = self._contact.hand(user, press)
            if denial is not None:
                return Reply.of(await self._controls.lift(denial, hand, team))
            return Reply.of(await self._controls.pull(Pull(word), hand, team))
        except GateError as error:
            return Reply.of(f"That could not be done: {error}")

    async def _status(self, user: str) -> Reply:
        seen = await self._controls.overview(user)
        count = seen.waiting_count
        waiting = "Nothing waits." if not count else f"{count} {'request waits' if count == 1 else 'requests wait'}."
        said = "\n".join([state(seen.cord), waiting, *health(seen)])
        return Reply(said, [section(said)])

    async def _pending(self, user: str) -> Reply:
        seen = await self._controls.overview(user)
        if not seen.waiting_count:
            return Reply.of("Nothing waits.")
        await self._links.look_up()
        shown = seen.waiting[:MAX_PENDING]
        blocks = [block for one in shown for block in self._pending_line(one)]
        if (more := seen.waiting_count - len(shown)) > 0:
            blocks.append(section(f"{more} more; the Home tab and the cards have them."))
        return Reply(f"{seen.waiting_count} waiting", blocks)

    def _pending_line(self, waiting: Waiting) -> list[Block]:
        request = waiting.request
        line = section(one_line(request.command or request.tool, 300))
        if url := self._links.of(waiting.channel, waiting.message):
            line["accessory"] = button("Open the card", OPEN, url=url)
        return [line, context(clock(request.expires_at, "Expires "))]

    async def _rules(self, user: str) -> Reply:
        rules = (await self._controls.overview(user)).rules
        if not rules:
            return Reply.of("Nothing runs without asking but what is green.")
        shown = rules[:MAX_RULES]
        blocks = [section(f"{rule.id}  {rule_line(rule, self._contact.people.name)}") for rule in shown]
        more = len(rules) - len(shown)
        rest = f"{more} more. " if more > 0 else ""
        blocks.append(section(f"{rest}The Home tab revokes the newest; on the machine `slack-gate rules` lists all."))
        return Reply(f"{len(rules)} rules", blocks)


class SeenEvents:
    """Ids of events that came already: Slack may send one again minutes later."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def new(self, event: str) -> bool:
        """Whether this is the first time; an event without an id always is."""
        if event in self._ids:
            return False
        if event:
            self._ids[event] = None
            if len(self._ids) > EVENTS:
                self._ids.popitem(last=False)
        return True


def word_of(text: str) -> str | None:
    """The one word that this text is, with or without `/gate`; None for anything else."""
    words = text.lower().split()
    if words[:1] in ([COMMAND], [COMMAND[1:]]):
        words = words[1:]
    return words[0] if len(words) == 1 and words[0] in WORDS else None


def lift_of(text: str) -> str | None:
    """The request whose denial this text takes back: `lift SG-…`, with or without `/gate`; None for anything else."""
    words = text.lower().split()
    if words[:1] in ([COMMAND], [COMMAND[1:]]):
        words = words[1:]
    if len(words) != 2 or words[0] != "lift" or not words[1].startswith("sg-"):
        return None
    return f"SG-{words[1][3:]}"


def _marked(text: str) -> Block:
    """Our own words only: Slack reads their marks."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}
