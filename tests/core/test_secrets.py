"""A mask hides the value and nothing but the value."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slack_gate.core.secrets import mask, mask_value


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "cat >> .env <<'EOF'\nSLACK_APP_TOKEN=xapp-1-A000-EXAMPLEEXAMPLEEXAMPLE\nEOF",
            "cat >> .env <<'EOF'\nSLACK_APP_TOKEN=[masked 33]\nEOF",
        ),
        (
            "curl -H 'Authorization: Bearer ghp_EXAMPLE0123456789' https://api.example.com; rm -rf x",
            "curl -H 'Authorization: Bearer [masked 21]' https://api.example.com; rm -rf x",
        ),
        ("psql postgres://u:EXAMPLEpw@db.example/x", "psql postgres://u:[masked 9]@db.example/x"),
        ("tool --password hunter2 --verbose", "tool --password [masked 7] --verbose"),
        ("tool --api-key=abc|tee log", "tool --api-key=[masked 3]|tee log"),
        ("PASSWORD=a;rm -rf b", "PASSWORD=[masked 1];rm -rf b"),
        ("GH_TOKEN=ghp_EXAMPLE0000 gh api user", "GH_TOKEN=[masked 15] gh api user"),
        ("git push origin main", "git push origin main"),
        ('TOKEN=$(cat x); PASSWORD="$PW" SECRET=${A}', 'TOKEN=$(cat x); PASSWORD="$PW" SECRET=${A}'),
        ("PASSWORD='$ecret' x", "PASSWORD='$ecret' x"),
        ("echo token=\\' ; reboot \\'", "echo token=\\' ; reboot \\'"),  # a hidden backslash would open a quote
        ("git push origin api-token:main", "git push origin api-token:main"),
        ("docker run acme/token:evil", "docker run acme/token:evil"),
        ("[ $token == x ]", "[ $token == x ]"),
        ("tool --token --yes", "tool --token --yes"),
        ("tool --token= --yes", "tool --token= --yes"),
        ("restic --password-command=reboot", "restic --password-command=reboot"),
        ("TOKEN= reboot", "TOKEN= reboot"),
        ("x=token: reboot", "x=token: reboot"),
        ("x='\ntoken': reboot", "x='\ntoken': reboot"),
        ("x=\\\ntoken: reboot", "x=\\\ntoken: reboot"),
        ("> token: reboot", "> token: reboot"),
        ("> --password reboot", "> --password reboot"),
        ("x=--password reboot", "x=--password reboot"),
        ("x=authorization: bearer reboot", "x=authorization: bearer reboot"),
        ("x='-H 'token: reboot''", "x='-H 'token: reboot''"),
        ("db:\n  password: abc\n", "db:\n  password: [masked 3]\n"),
        ("Authorization: Bearer [masked 3] x", "Authorization: Bearer [masked 3] x"),
        ("password = abc", "password = [masked 3]"),
        ("""curl -d '{"token": "abc"}'""", """curl -d '{"token": "[masked 3]"}'"""),
        ("login \\\n  --password abc", "login \\\n  --password [masked 3]"),
        ("curl -d token=@x", "curl -d token=@x"),
        ("""curl -d '{"token":"abc","b":"c"}'""", """curl -d '{"token":"[masked 3]","b":"c"}'"""),
        ("curl -H 'X-Api-Key: abc'", "curl -H 'X-Api-Key: [masked 3]'"),
        ("token=a/b/evil.sh", "token=a/b/evil.sh"),
        ("SECRET_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY x", "SECRET_KEY=[masked 40] x"),
        ("token=a/token=b", "token=a/token=[masked 1]"),
        ("token=a-ghp_12345678/x", "token=a-[masked 12]/x"),
        ("token=a[0]b", "token=[masked 5]"),
        ("mcp__ghp_EXAMPLE0000", "mcp__[masked 15]"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [masked 20]"),
        (f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}\nreboot\n", "-----BEGIN PRIVATE KEY-----\n[masked 64]\nreboot\n"),
        (
            f"-----BEGIN EC PRIVATE KEY-----\\n{'A' * 64}\\n{'n' * 56}\\n---",
            "-----BEGIN EC PRIVATE KEY-----\\n[masked 64]\\n[masked 56]\\n---",
        ),
        ("./sk-remove-everything.sh", "./sk-remove-everything.sh"),
        ("npm_config_registry=http://x npm ci", "npm_config_registry=http://x npm ci"),
        ("xoxb-12345678/../../evil", "[masked 13]/../../evil"),
        ("use sk-ant-api03-abcdefghijkl now", "use [masked 25] now"),
        ("a eyJhbGciOiJI.eyJzdWIi.sig-x b", "a [masked 27] b"),
        ("echo token", "echo token"),
    ],
)
def test_mask(text: str, masked: str) -> None:
    assert mask(text) == masked


WORDS = st.sampled_from(
    (
        *("reboot", "/tmp/evil.sh", "./x", "https://evil.example/x", "--yes", "-rf", "a.b", "$X", "`id`", "$(id)", "'"),
        *("token", "SECRET:", "x=token:", ">token:", "TOKEN=", "--password", "--no-token", "Bearer", "Authorization:"),
        *("basic", "-----BEGIN PRIVATE KEY-----", '"', "\\", "#", "!x", "@x", "=", "{", ",", "[masked 3]", "-H"),
    )
)
PARTS = st.sampled_from(["; ", " && ", " | ", "\n", " ", "\t", " & ", " > ", ""])
HIDDEN = st.sampled_from(["TOKEN=s3cr", "--api-key=s3cr", "--password s3cr", "ghp_s3crs3cr", "http://u:s3cr@h"])
MARK = re.compile(r"\[masked (\d+)\]")


@given(st.lists(st.one_of(st.tuples(WORDS, PARTS), st.tuples(HIDDEN, PARTS)), max_size=12))
@settings(max_examples=500)
def test_a_mark_stands_for_a_value_and_for_nothing_that_runs(parts: list[tuple[str, str]]) -> None:
    text = "".join(word + part for word, part in parts)
    at = 0
    masked = mask(text)
    for piece in re.split(r"(\[masked \d+\])", masked):
        mark = MARK.fullmatch(piece)
        if mark is None or text.startswith(piece, at):
            assert text.startswith(piece, at)
            at += len(piece)
            continue
        value = text[at : at + int(mark[1])]
        assert len(value) == int(mark[1]) > 0
        assert not re.search(r"[\s'\"`;|&<>()$\\/]", value), (text, masked)
        assert not re.match(r"--|[!@#=~.]", value), (text, masked)
        at += len(value)
    assert at == len(text)
    assert mask(masked) == masked


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask(mask(text)) == mask(text)


def test_fields_named_like_secrets_are_masked_whole() -> None:
    value = {"url": "https://x", "api_key": "hun:ter2", "headers": [{"note": "token=abc"}], "n": 3}
    assert mask_value(value) == {
        "url": "https://x",
        "api_key": "[masked 8]",
        "headers": [{"note": "token=[masked 3]"}],
        "n": 3,
    }
    assert mask_value({"Authorization": "Bearer abc"}) == {"Authorization": "Bearer [masked 3]"}


@pytest.mark.parametrize("item", ["two words", "/tmp/evil.sh", "$(reboot)", "a;reboot", "[masked 3]", "", 5])
def test_what_is_no_opaque_word_stays_visible(item: object) -> None:
    assert mask_value({"token": item}) == {"token": item}


def test_a_field_for_a_program_stays_visible() -> None:
    assert mask_value({"token_command": "reboot"}) == {"token_command": "reboot"}


def test_masked_names_stay_two_fields() -> None:
    value = {"ghp_EXAMPLE00001": 1, "ghp_EXAMPLE00002": 2}
    assert mask_value(value) == {"[masked 16]": 1, "[masked 16]'": 2}
