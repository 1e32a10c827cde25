"""A mask hides the value and nothing but the value."""

import pytest
from hypothesis import given
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
        ("PASSWORD='$ecret' x", "PASSWORD='[masked 6]' x"),
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


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask(mask(text)) == mask(text)


def test_fields_named_like_secrets_are_masked_whole() -> None:
    value = {"url": "https://x", "api_key": "two words", "headers": [{"note": "token=abc"}], "n": 3}
    assert mask_value(value) == {
        "url": "https://x",
        "api_key": "[masked 9]",
        "headers": [{"note": "token=[masked 3]"}],
        "n": 3,
    }


def test_masked_names_stay_two_fields() -> None:
    value = {"ghp_EXAMPLE00001": 1, "ghp_EXAMPLE00002": 2}
    assert mask_value(value) == {"[masked 16]": 1, "[masked 16]'": 2}
