"""Secrets that stay in a file of the home after the request was decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import structlog

from slack_gate.core.ports import Entry
from slack_gate.daemon.messages import configure
from slack_gate.store.log import chained
from tests.daemon.house import house

SECRET = "hunter2hunter2"


def holds(home: Path) -> list[str]:
    return [file.name for file in home.iterdir() if file.is_file() and SECRET.encode() in file.read_bytes()]


async def test_the_database_and_its_wal(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook = await h.start(h.event(command=f"deploy --token={SECRET} now"))
        card = await h.card("deploy")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        async with asyncio.timeout(100):  # the sweeper puts it away
            while holds(h.settings.home):  # noqa: ASYNC110 - a file tells nobody when it changes
                await asyncio.sleep(0.05)


async def test_why_it_was_asked(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook = await h.start(h.event(command=f"git log --token={SECRET}"))
        card = await h.card("git log")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        row = (await h.running.store.requests(1))[0]
        assert SECRET not in row.why


def test_a_cut_between_a_password_and_what_ends_it() -> None:
    command = "x" * (32 * 1024 - 23) + f" https://u:{SECRET}@host/"
    assert SECRET[:12] not in chained(Entry("refused", "gate", command=command), 1, "0" * 64, 0.0).text


def test_every_field_of_a_line_is_masked_and_bounded() -> None:
    entry = Entry("refused", "gate", session="y" * 4_000_000, tool="mcp__ghp_" + "a" * 36)
    line = chained(entry, 1, "0" * 64, 0.0).text
    assert "ghp_aaaa" not in line
    assert len(line) < 200_000


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_tells_no_secret_and_steers_no_terminal(capfd: pytest.CaptureFixture[str], form: Any) -> None:
    """What an agent sent may stand in the message of a fault of ours."""
    before = structlog.get_config()
    configure(form)
    try:
        raise ValueError("odd: --password hunter2hunter2 \x1b[2J TOKEN=abcdefgh12345678")
    except ValueError:
        structlog.get_logger().exception("a hook could not be answered")
    finally:
        structlog.configure(**before)
    told = capfd.readouterr().err
    assert "ValueError" in told and "in test_a_traceback" in told
    assert not any(text in told for text in ("hunter2", "abcdefgh", "\x1b", "\\u001b"))
