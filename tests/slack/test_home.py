"""The Home tab as blocks: what Slack takes whatever stands in them, and no Approve below less than the whole."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slack_gate.core.change import FileNow
from slack_gate.core.cord import Cord, Place
from slack_gate.core.display import exact
from slack_gate.core.overview import Overview, Waiting
from slack_gate.core.request import Request, State
from slack_gate.core.rules import Key, Rule
from slack_gate.core.secrets import mask
from slack_gate.local_slack.blocks import home_faults
from slack_gate.slack.home import MAX_BLOCKS, OPEN, PREFIX, bare, closed, drawing
from slack_gate.slack.messenger import picture_of

NOW = 1_796_000_000.0
HEALTHY: dict[str, Any] = {"healthy": True, "fault": None, "lines": 2, "notes": [], "otherConnections": 0}


def request(command: str = "git push", number: int = 1, **changes: Any) -> Request:
    values: dict[str, Any] = {
        "id": f"SG-{number:012x}",
        "digest": f"{number:064x}",
        "state": State.PENDING,
        "agent": "claude-code",
        "session": "s1",
        "key": f"k{number}",
        "nonce": "n",
        "tool": "Bash",
        "tool_input": {"command": command},
        "command": command,
        "cwd": "/w/app",
        "host": "box",
        "home": "box:/run/gate.sock",
        "why": "git push is not green",
        "created_at": NOW,
        "expires_at": NOW + 300 + number,
    }
    return Request(**{**values, **changes})


def rule(number: int = 1, shown: str = "make", **changes: Any) -> Rule:
    return Rule(f"R-{number:08x}", Key("Bash", (shown,)), shown, NOW + number, "U0ANA", "SG-1", **changes)


def overview(*waiting: Waiting, **changes: Any) -> Overview:
    values: dict[str, Any] = {
        "waiting": waiting,
        "waiting_count": len(waiting),
        "ended": [],
        "ended_count": 0,
        "rules": [],
        "cord": Cord(),
        "health": HEALTHY,
    }
    return Overview(**{**values, **changes})


def asked(*requests: Request) -> list[Waiting]:
    return [Waiting(one, True, "D1", f"17000000{number:02}.000100") for number, one in enumerate(requests)]


def drawn(seen: Overview, **changes: Any) -> list[dict[str, Any]]:
    values: dict[str, Any] = {
        "picture": lambda one, file: picture_of(one, file=file).blocks,
        "link": lambda one: f"https://x.slack.com/archives/{one.channel}/p1" if one.message else "",
        "names": lambda user: {"U0ANA": "Ana"}.get(user, user),
    }
    blocks = drawing(seen, **{**values, **changes})
    assert home_faults({"type": "home", "private_metadata": "U0ANA", "blocks": blocks}) == []
    assert len(json.dumps(blocks)) < 200_000
    return blocks


def items(blocks: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The blocks between dividers."""
    found: list[list[dict[str, Any]]] = [[]]
    for block in blocks:
        if block["type"] == "divider":
            found.append([])
        else:
            found[-1].append(block)
    return found


def labels(blocks: Any) -> list[str]:
    return [
        element["text"]["text"]
        for block in blocks
        for element in [*(block["elements"] if block["type"] == "actions" else []), block.get("accessory")]
        if element
    ]


def literal(blocks: list[dict[str, Any]]) -> list[str]:
    """What stands in preformatted boxes."""
    rich = [part for block in blocks if block["type"] == "rich_text" for part in block["elements"]]
    return ["".join(piece["text"] for piece in part["elements"]) for part in rich]


def texts(value: Any, kind: str) -> list[str]:
    if isinstance(value, dict):
        own = [value["text"]] if value.get("type") == kind and isinstance(value.get("text"), str) else []
        return own + [text for item in value.values() for text in texts(item, kind)]
    return [text for item in value for text in texts(item, kind)] if isinstance(value, list) else []


HOSTILE = st.one_of(
    st.text(max_size=4000),
    st.sampled_from(
        ["<!channel>", "<@U0ANA> ", "```", "*b*", "<https://evil|good>", ":tada:", "\u202e", "a" * 3500]
    ).map(lambda text: text * 3),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(HOSTILE, max_size=40), HOSTILE, HOSTILE)
def test_whatever_is_asked_slack_takes_it_and_approve_stands_below_the_whole(
    commands: list[str], cwd: str, rule_text: str
) -> None:
    one_line_cwd = f"/w/{cwd[:200]}"
    waiting = asked(*(request(command, number, cwd=one_line_cwd) for number, command in enumerate(commands, 1)))
    ended = [
        replace(
            one.request,
            state=State.DENIED,
            decided_at=NOW + 9,
            decided_by="U0EVE",
            reason=cwd[:300],
            decided_name=rule_text[:90],
        )
        for one in waiting[:12]
    ]
    rules = [rule(number, rule_text or "x", cwd=one_line_cwd, session=cwd[:90]) for number in range(25)]
    blocks = drawn(
        overview(*waiting, ended=ended, ended_count=len(ended), rules=rules, cord=Cord(paused_at=NOW, paused_by=cwd))
    )
    by_id = {one.request.id: one.request for one in waiting}
    for item in items(blocks):
        approve = [
            e
            for block in item
            if block["type"] == "actions"
            for e in block["elements"]
            if e["action_id"] == "home.approve"
        ]
        for element in approve:
            asked_for = by_id[element["value"].split(" ")[0]]
            assert element["value"] == f"{asked_for.id} {asked_for.digest}"
            shown = literal(item)[0] if asked_for.command else ""
            assert exact(shown) == mask(asked_for.command or "")
    for text in texts(blocks, "mrkdwn"):  # nothing from outside is parsed
        assert text.split("<!date^")[0] in ("", "Expires ", "Last used ")


def test_only_what_is_asked_of_this_person_has_buttons() -> None:
    mine, other = asked(request("make a", 1))[0], Waiting(request("make b", 2), False)
    blocks = drawn(overview(mine, other))
    first, second = items(blocks)[1:3]
    assert labels(first) == ["Approve", "Deny", "Always"]
    assert labels(second) == [] and "not asked of you" in json.dumps(second)


def test_what_else_the_card_offers_stays_with_the_card() -> None:
    [_, item] = items(drawn(overview(*asked(request()))))
    actions = [block for block in item if block["type"] == "actions"]
    assert [e["action_id"] for e in actions[0]["elements"]] == ["home.approve", "home.deny", "home.always"]
    assert all(e["action_id"].startswith(PREFIX) for block in actions for e in block["elements"])
    assert actions[0]["elements"][2]["confirm"]["text"]["text"].startswith("From now on")


@pytest.mark.parametrize("length", [2000, 2900, 4000, 6000])
def test_a_long_text_is_whole_or_has_no_approve(length: int) -> None:
    command = "echo " + "x" * length
    [_, item] = items(drawn(overview(*asked(request(command)))))
    whole = literal(item) == [command]
    assert whole == ("Approve" in labels(item)) and "Deny" in labels(item)
    assert whole == (length < 2500)
    if not whole:
        [way] = [e for block in item if block["type"] == "actions" for e in block["elements"] if e["action_id"] == OPEN]
        assert way["url"].startswith("https://x.slack.com/archives/D1/")


def test_line_ends_of_a_text_without_room_are_drawn_once() -> None:
    command = "python3 - <<'EOF'\n" + "print('line')\n" * 300 + "EOF"
    [_, item] = items(drawn(overview(*asked(request(command)))))
    [said] = [text for text in texts(item, "plain_text") if "python3" in text]
    assert "python3 - <<'EOF'\u23ceprint('line')\u23ce" in said and "\\u{" not in said


def test_a_picture_that_holds_only_part_of_the_text_gives_no_approve() -> None:
    one = request("git push && rm -rf everything")
    cut = picture_of(replace(one, tool_input={"command": "git push"}, command="git push")).blocks
    [_, item] = items(drawn(overview(*asked(one)), picture=lambda *_: cut))
    assert labels(item) == ["Open the card", "Deny"]


def test_a_text_too_long_for_this_tab_is_masked_like_on_its_card() -> None:
    fields = {"file_path": "/srv/x.yml", "content": "db:\npassword: hunter2hunter2\n" + "x" * 6000}
    one = request(tool="Write", tool_input=fields, command=None)
    [_, item] = items(drawn(overview(*asked(one))))
    assert "Open the card" in labels(item)
    assert "hunter2" not in json.dumps(item) and "/srv/x.yml" in json.dumps(item)


def test_a_card_without_approve_gives_none_here() -> None:
    one = request()
    blocks = [
        block if block["type"] != "actions" else {**block, "elements": block["elements"][1:2]}
        for block in picture_of(one).blocks
    ]
    [_, item] = items(drawn(overview(*asked(one)), picture=lambda *_: blocks))
    assert labels(item) == ["Deny"]


def test_a_write_is_drawn_as_the_change_that_its_card_draws() -> None:
    one = request(tool="Write", tool_input={"file_path": "/srv/a", "content": "a\nB\n"}, command=None)
    [_, item] = items(drawn(overview(*asked(one)), files=lambda asked: FileNow("a\nb\n") if asked == one else None))
    assert literal(item) == ["file_path: /srv/a", " a\n-b\n+B\n "] and "Approve" in labels(item)
    [_, item] = items(drawn(overview(*asked(one))))
    assert "a\nB\n" in literal(item) and "The file is on box: what stands in it now is not shown" in json.dumps(item)
    long = FileNow("".join(f"line {number}\n" for number in range(2000)))
    [_, item] = items(drawn(overview(*asked(one)), files=lambda _: long))
    assert labels(item) == ["Open the card", "Deny"]


def test_a_denial_is_taken_back_with_one_press() -> None:
    done = replace(request(), state=State.DENIED, decided_at=NOW + 3, decided_by="U0ANA", form="f" * 64)
    blocks = drawn(overview(ended=[done, replace(done, lifted_at=NOW + 9), replace(done, form="")], ended_count=3))
    [back] = [block["accessory"] for block in blocks if block.get("accessory")]
    assert (back["action_id"], back["value"], back["text"]["text"]) == ("home.lift", done.id, "Take back")


def test_three_hundred_fit_and_those_that_end_soonest_come_first() -> None:
    waiting = asked(*(request(f"make {number}", number) for number in range(40)))
    blocks = drawn(overview(*waiting, waiting_count=300, rules=[rule(number) for number in range(60)]))
    assert len(blocks) <= MAX_BLOCKS and blocks[0]["text"]["text"] == "300 requests wait"
    shown = [literal(item)[0] for item in items(blocks) if literal(item)]
    assert shown == [f"make {number}" for number in range(len(shown))] and len(shown) >= 10
    assert f"{300 - len(shown)} more wait; the cards are under Messages." in texts(blocks, "plain_text")


def test_rules_have_their_reach_last_use_and_a_confirmed_revoke() -> None:
    saved = [
        rule(1, "make", used_at=NOW),
        rule(2, "npm run build", cwd="/w/app", session="s1"),
        *(rule(number, f"tool-{number}") for number in range(3, 25)),
    ]
    blocks = drawn(overview(rules=saved))
    sections = [block for block in blocks if block.get("accessory")]
    assert len(sections) == 20 and "4 more; `/gate rules` lists them." in texts(blocks, "plain_text")
    few = drawn(overview(rules=saved[:2]))
    newer, older = [block for block in few if block.get("accessory")]
    assert newer["text"]["text"] == "npm run build\nin /w/app, session s1 only; saved by Ana"
    assert newer["fields"][0]["text"] == "Not used yet"
    assert older["text"]["text"] == "make\nany directory; saved by Ana"
    assert older["fields"][0]["text"].startswith(f"Last used <!date^{int(NOW)}^")
    assert (older["accessory"]["value"], older["accessory"]["confirm"]["text"]["text"]) == (
        "R-00000001",
        "make is asked again from now on.",
    )


def test_what_was_decided_today_says_how_it_ended_and_masks_secrets() -> None:
    done = replace(request("curl -H 'Authorization: Bearer abcdefgh12345'"), state=State.APPROVED, decided_at=NOW + 3)
    done = replace(done, decided_by="U0ANA", decided_name="Ana")
    blocks = drawn(overview(ended=[done] * 12, ended_count=31))
    lines = [text for text in texts(blocks, "plain_text") if text.startswith("Approved by Ana after 3 s: curl")]
    assert len(lines) == 10 and "abcdefgh12345" not in json.dumps(blocks)
    assert "21 more today; `slack-gate requests` lists them all." in texts(blocks, "plain_text")


@pytest.mark.parametrize(
    ("cord", "button", "says"),
    [
        (Cord(), "Pause", "Gated calls are asked in Slack."),
        (Cord(paused_at=NOW, paused_by="Ben"), "Resume", "Paused by Ben since"),
        (Cord(Place.CONSOLE), "Pause", "at the agent's own permission prompt"),
    ],
)
def test_the_cord(cord: Cord, button: str, says: str) -> None:
    blocks = drawn(overview(cord=cord))
    assert labels(blocks) == [button] and says in blocks[1]["elements"][0]["text"]
    assert (blocks[2]["elements"][0].get("confirm") is not None) == (button == "Pause")


@pytest.mark.parametrize(
    ("health", "says"),
    [
        (HEALTHY, "The link to Slack is up."),
        (HEALTHY | {"lines": 1}, "The link to Slack is up on one line; another is being opened."),
        (HEALTHY | {"fault": "the link to Slack is down: x"}, "Not healthy: the link to Slack is down: x"),
        (HEALTHY | {"otherConnections": 1}, "Another program is connected as this app and may swallow clicks."),
        (HEALTHY | {"notes": ["xoxb-123456789012 is wrong"]}, "[masked 17] is wrong"),
    ],
)
def test_the_health(health: dict[str, Any], says: str) -> None:
    assert says in texts(drawn(overview(health=health))[1], "plain_text")


def test_it_does_not_change_by_itself() -> None:
    seen = overview(*asked(request()), rules=[rule()], health=HEALTHY | {"lastInboundSeconds": 1.0})
    first = drawn(seen)
    time.sleep(0.01)
    assert drawn(replace(seen, health=HEALTHY | {"lastInboundSeconds": 9.0})) == first


def test_what_others_see_and_what_is_left_of_a_refused_tab_have_no_buttons() -> None:
    for blocks in (closed(), bare()):
        assert home_faults({"type": "home", "blocks": blocks}) == [] and labels(blocks) == []
