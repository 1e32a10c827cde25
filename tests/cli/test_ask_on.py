"""`slack-gate ask-on` against the real approval page: with its password, and with nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slack_gate.core.cord import Place, Pull
from slack_gate.daemon.serve import Running, running
from slack_gate.local_slack.server import LocalSlack
from slack_gate.web.cord import HAND
from tests.client.asking import Ran, program
from tests.daemon.house import settings_for
from tests.ports import free_port
from tests.terminal.sitting import alone


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(alone(tmp_path, page_port=free_port()), ("web",)) as found:
        yield found


def password(daemon: Running) -> str:
    assert daemon.page is not None
    return daemon.page.login.password


async def ask_on(daemon: Running, *arguments: str, stdin: str) -> Ran:
    process = await program(daemon.settings, "ask-on", *arguments, stdin=asyncio.subprocess.PIPE)
    async with asyncio.timeout(100):
        out, said = await process.communicate(stdin.encode())
    assert b"Traceback" not in said, said.decode()
    return Ran(process.returncode or 0, out, said)


async def place(daemon: Running) -> Place:
    return (await daemon.store.cord()).place


async def test_with_the_password_it_is_changed_and_logged(daemon: Running) -> None:
    for word, says in (
        ("console", "at the agent's own permission prompt"),
        ("web", "on the approval page and the terminal only, without cards"),
        ("slack", "on the approval page"),  # nobody is asked in Slack here
    ):
        ran = await ask_on(daemon, word, stdin=f"{password(daemon)}\n")
        assert (ran.code, ran.stdout) == (0, f"Gated calls are asked {says}.\n".encode()), ran
        assert await place(daemon) == word
    lines = [json.loads(line) for line in daemon.settings.log_path.read_text().splitlines()]
    assert [(line["decision"], line["by"]) for line in lines] == [
        ("ask-on-console", "human-web"),
        ("ask-on-web", "human-web"),
        ("ask-on-slack", "human-web"),
    ]


async def test_with_slack_it_says_so(tmp_path: Path) -> None:
    async with LocalSlack() as slack:
        slack.add_user("U0ANA", name="Ana")
        settings = settings_for(slack, tmp_path, page_port=free_port())
        async with running(settings, ("slack", "web")) as found:
            await ask_on(found, "web", stdin=f"{password(found)}\n")
            ran = await ask_on(found, "slack", stdin=f"{password(found)}\n")
            assert (ran.code, ran.stdout) == (0, b"Gated calls are asked in Slack.\n"), ran


async def test_what_is_paused_is_not_said_to_be_asked(daemon: Running) -> None:
    await daemon.controls.pull(Pull.PAUSE, HAND)
    ran = await ask_on(daemon, "web", stdin=f"{password(daemon)}\n")
    assert (ran.code, ran.stdout[:34]) == (0, b"Paused by a person on the page sin"), ran
    assert await place(daemon) is Place.WEB


@pytest.mark.parametrize("typed", ["", "\n", "wrong\n", " {password}\n", "{password} \n"])
async def test_without_the_password_nothing_changes(daemon: Running, typed: str) -> None:
    ran = await ask_on(daemon, "console", stdin=typed.replace("{password}", password(daemon)))
    said = b"The password is wrong" if typed.strip() else b"No password was given"
    assert (ran.code, said in ran.stderr) == (1, True), ran
    assert await place(daemon) is Place.SLACK


@pytest.mark.parametrize("arguments", [(), ("nowhere",), ("pause",), ("console", "{password}"), ("console", "--yes")])
async def test_no_other_words_and_no_password_as_an_argument(daemon: Running, arguments: tuple[str, ...]) -> None:
    given = [argument.replace("{password}", password(daemon)) for argument in arguments]
    assert (await ask_on(daemon, *given, stdin=password(daemon))).code == 2
    assert await place(daemon) is Place.SLACK


async def test_without_a_page_it_says_what_opens_one(tmp_path: Path) -> None:
    async with running(alone(tmp_path, page_port=free_port()), ("terminal",)) as found:
        ran = await ask_on(found, "console", stdin="x\n")
        assert (ran.code, b"No approval page answers" in ran.stderr) == (1, True), ran
