"""Each limit of Block Kit: the largest that Slack takes is taken, one more is refused with a pointer to the place."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.local_slack import LocalSlack
from slack_gate.local_slack.blocks import MESSAGE_TOTAL, completed, message_faults, total, view_faults
from slack_gate.local_slack.visible import Version
from tests.local_slack.apps import card

Block = dict[str, Any]


def plain(text: str) -> Block:
    return {"type": "plain_text", "text": text}


def section(text: str = "x", **more: Any) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


def fields(count: int, size: int = 1) -> Block:
    return {"type": "section", "fields": [plain("x" * size)] * count}


def button(**more: Any) -> Block:
    return {"type": "button", "text": plain("Go"), **more}


def actions(*elements: Block, **more: Any) -> Block:
    return {"type": "actions", "elements": list(elements), **more}


def buttons(count: int) -> Block:
    return actions(*(button(action_id=str(number)) for number in range(count)))


def confirm(title: int = 1, text: int = 1, yes: int = 1, no: int = 1) -> Block:
    sizes = {"title": title, "text": text, "confirm": yes, "deny": no}
    return actions(button(confirm={name: plain("x" * size) for name, size in sizes.items()}))


def overflow(count: int, size: int = 1, value: int = 1) -> Block:
    option = {"text": plain("x" * size), "value": "v" * value}
    return actions({"type": "overflow", "options": [option] * count})


def pre(text: str, **more: Any) -> Block:
    inner = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}], **more}
    return {"type": "rich_text", "elements": [inner]}


def context(count: int) -> Block:
    return {"type": "context", "elements": [plain("x")] * count}


@pytest.mark.parametrize(
    ("fits", "too_much", "pointer"),
    [
        ([section("x" * 3000)], [section("x" * 3001)], "/blocks/0/text/text"),
        ([section("😀" * 1500)], [section("😀" * 1501)], "/blocks/0/text/text"),
        ([section()], [section("")], "/blocks/0/text/text"),
        ([section()] * 50, [section()] * 51, "/blocks"),
        ([fields(10)], [fields(11)], "/blocks/0/fields"),
        ([fields(1, 2000)], [fields(1, 2001)], "/blocks/0/fields/0/text"),
        ([section(block_id="b" * 255)], [section(block_id="b" * 256)], "/blocks/0/block_id"),
        ([{"type": "header", "text": plain("x" * 150)}], [{"type": "header", "text": plain("x" * 151)}], "/text/text"),
        ([context(10)], [context(11)], "/blocks/0/elements"),
        ([buttons(25)], [buttons(26)], "/blocks/0/elements"),
        ([buttons(1)], [buttons(0)], "/blocks/0/elements"),
        ([actions(button(text=plain("x" * 75)))], [actions(button(text=plain("x" * 76)))], "/elements/0/text/text"),
        ([actions(button(value="v" * 2000))], [actions(button(value="v" * 2001))], "/elements/0/value"),
        ([actions(button(action_id="a" * 255))], [actions(button(action_id="a" * 256))], "/elements/0/action_id"),
        ([actions(button(style="danger"))], [actions(button(style="default"))], "/elements/0/style"),
        ([confirm(title=100)], [confirm(title=101)], "/confirm/title/text"),
        ([confirm(text=300)], [confirm(text=301)], "/confirm/text/text"),
        ([confirm(yes=30)], [confirm(yes=31)], "/confirm/confirm/text"),
        ([confirm(no=30)], [confirm(no=31)], "/confirm/deny/text"),
        ([overflow(5)], [overflow(6)], "/elements/0/options"),
        ([overflow(1, 75)], [overflow(1, 76)], "/options/0/text/text"),
        ([overflow(1, 1, 150)], [overflow(1, 1, 151)], "/options/0/value"),
        ([pre("ls")], [pre("")], "/blocks/0/elements/0/elements/0/text"),
        ([pre("ls", border=1)], [pre("ls", border=2)], "/blocks/0/elements/0/border"),
    ],
)
def test_limits(fits: list[Block], too_much: list[Block], pointer: str) -> None:
    assert message_faults(fits) == []
    (fault,) = message_faults(too_much)
    assert fault.endswith(f"{pointer}]")


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        ("text", "must provide an array [json-pointer:/blocks]"),
        (["text"], "must provide an object [json-pointer:/blocks/0]"),
        ([{}], "missing required field: type [json-pointer:/blocks/0]"),
        ([{"type": "video"}], "unsupported type: video [json-pointer:/blocks/0/type]"),
        ([{"type": ["section"]}], "unsupported type: ['section'] [json-pointer:/blocks/0/type]"),
        ([{"type": "section"}], "missing required field: text [json-pointer:/blocks/0]"),
        ([section(colour="red")], "invalid additional property: colour [json-pointer:/blocks/0]"),
        ([section(expand="yes")], "must provide a boolean [json-pointer:/blocks/0/expand]"),
        ([{"type": "section", "text": "x"}], "must provide an object [json-pointer:/blocks/0/text]"),
        ([{"type": "section", "text": plain(3)}], "must provide a string [json-pointer:/blocks/0/text/text]"),  # type: ignore[arg-type]
        ([pre("ls", border=True)], "must provide an integer [json-pointer:/blocks/0/elements/0/border]"),
        ([actions(button(confirm="sure?"))], "must provide an object [json-pointer:/blocks/0/elements/0/confirm]"),
        ([{"type": "actions", "elements": {}}], "must provide an array [json-pointer:/blocks/0/elements]"),
        ([section(block_id="a")] * 2, "block_id a already exists [json-pointer:/blocks/1/block_id]"),
        (
            [actions(button(action_id="a"), button(action_id="a"), block_id="b")],
            "action_id a already exists for block_id b [json-pointer:/blocks/0]",
        ),
        (
            [{"type": "rich_text", "elements": [{"type": "rich_text_preformatted", "elements": [{"type": "user"}]}]}],
            "unsupported type: user [json-pointer:/blocks/0/elements/0/elements/0/type]",
        ),
    ],
)
def test_shapes(blocks: Any, fault: str) -> None:
    assert message_faults(blocks) == [fault]


def test_the_same_action_in_two_blocks_is_fine() -> None:
    assert message_faults([actions(button(action_id="a"), block_id=name) for name in ("one", "two")]) == []


def modal(**more: Any) -> Block:
    return {"type": "modal", "title": plain("T"), "blocks": [section()], **more}


def field(**element: Any) -> Block:
    return {"type": "input", "label": plain("L"), "element": {"type": "plain_text_input", **element}}


@pytest.mark.parametrize(
    ("fits", "too_much", "pointer"),
    [
        (modal(title=plain("x" * 24)), modal(title=plain("x" * 25)), "/view/title/text"),
        (modal(submit=plain("x" * 24)), modal(submit=plain("x" * 25)), "/view/submit/text"),
        (modal(close=plain("x" * 24)), modal(close=plain("x" * 25)), "/view/close/text"),
        (modal(blocks=[section()] * 100), modal(blocks=[section()] * 101), "/view/blocks"),
        (modal(private_metadata="m" * 3000), modal(private_metadata="m" * 3001), "/view/private_metadata"),
        (modal(callback_id="c" * 255), modal(callback_id="c" * 256), "/view/callback_id"),
        (modal(blocks=[field()], submit=plain("S")), modal(blocks=[field()]), "/view"),
        (
            modal(blocks=[field(initial_value="x" * 3000)], submit=plain("S")),
            modal(blocks=[field(initial_value="x" * 3001)], submit=plain("S")),
            "/view/blocks/0/element/initial_value",
        ),
        (modal(), {**modal(), "type": "home"}, "/view/type"),
        (modal(), modal(colour="red"), "/view"),
    ],
)
def test_modal_limits(fits: Block, too_much: Block, pointer: str) -> None:
    assert view_faults(fits) == []
    (fault,) = view_faults(too_much)
    assert fault.endswith(f"[json-pointer:{pointer}]")


async def test_refusals_reach_the_client_in_slacks_shape(slack: LocalSlack, client: AsyncWebClient) -> None:
    ana = slack.add_user("U0ANA", name="Ana")
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel="U0ANA", text="x", blocks=[section("x" * 3001)])
    fault = "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
    assert refused.value.response.data == {
        "ok": False,
        "error": "invalid_blocks",
        "errors": [fault],
        "response_metadata": {"messages": [f"[ERROR] {fault}"]},
    }
    ephemeral = client.chat_postEphemeral(channel=ana.channel, user="U0ANA", text="x", blocks=[section("")])
    with pytest.raises(SlackApiError, match="invalid_blocks"):
        await ephemeral
    assert ana.messages == [] and ana.ephemerals == []


async def test_all_blocks_together_have_a_limit_too(slack: LocalSlack, client: AsyncWebClient) -> None:
    slack.add_user("U0ANA", name="Ana")
    most = [pre("x" * (MESSAGE_TOTAL - 1000)), section("y" * 1000)]
    assert total(most) == MESSAGE_TOTAL
    posted = await client.chat_postMessage(channel="U0ANA", text="x", blocks=most)
    with pytest.raises(SlackApiError, match="msg_blocks_too_long"):
        await client.chat_postMessage(channel="U0ANA", text="x", blocks=[*most, section("z")])
    with pytest.raises(SlackApiError, match="msg_blocks_too_long"):
        await client.chat_update(channel=posted["channel"], ts=posted["ts"], text="x", blocks=[*most, section("z")])


def test_what_a_person_reads() -> None:
    inline: list[Block] = [
        {"type": "text", "text": "run "},
        {"type": "text", "text": "it"},
        {"type": "user", "user_id": "U1"},
        {"type": "broadcast", "range": "here"},
        {"type": "link", "url": "https://a.example"},
        {"type": "emoji", "name": "x"},
    ]
    blocks = [
        {"type": "header", "text": plain("Asked &amp; waiting")},
        section("a &lt; b &amp;&amp; c"),
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": inline}]},
        confirm(),
    ]
    assert message_faults(blocks) == []
    shown = Version("fallback &gt;", completed(blocks))
    assert shown.plain().split("\n") == [
        "Asked &amp; waiting",  # plain_text is literal
        "a < b && c",
        "run it@U1@herehttps://a.example",
        "Go",
    ]
    assert Version("fallback &gt;").plain() == "fallback >"
    more = Version("", completed([overflow(2)]))
    assert (more.buttons, more.options) == ([], ["x", "x"])


def test_a_whole_card_passes() -> None:
    assert message_faults(card(confirm=True)) == []
