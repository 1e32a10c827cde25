"""`slack-gate run` as a process of its own, against the daemon with a real cage and a person in the local Slack."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cli.test_cli import program as here
from tests.client.asking import double, ended, program
from tests.daemon.house import House, house


@pytest.fixture
async def h(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as one:
        yield one


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


def decisions(h: House) -> list[str]:
    return [line["decision"] for line in h.log()]


async def test_output_and_exit_code_are_the_commands(h: House, work: Path) -> None:
    command = "printf 'a\\377\\0b'; printf no >&2; exit 3"
    process = await program(h.settings, "run", "--", "bash", "-c", command, cwd=work)
    await h.ana.click(await h.card("bash -c"), "Approve")
    ran = await ended(process)
    assert (ran.code, ran.stdout, ran.stderr) == (3, b"a\xff\0b", b"no")


async def test_words_stay_words_and_the_directory_is_the_callers(h: House, work: Path) -> None:
    process = await program(h.settings, "run", "--reason", "look", "touch", "two words", "$HOME;x", "--help", cwd=work)
    card = await h.card("touch 'two words' '$HOME;x' --help")
    assert "look" in card.plain()
    await h.ana.click(card, "Deny")
    assert (await ended(process)).code == 77
    assert h.log()[-1]["cwd"] == str(work)


async def test_green_runs_unasked(h: House, work: Path) -> None:
    ran = await ended(await program(h.settings, "run", "--", "sbox", "pwd", cwd=work))
    assert (ran.code, ran.stdout) == (0, f"{work}\n".encode()), ran
    assert h.ana.messages == []


async def test_denied_is_77_and_the_reason_is_said(h: House, work: Path) -> None:
    process = await program(h.settings, "run", "--", "make", "deploy", cwd=work)
    card = await h.card("make deploy")
    await h.ana.choose(card, "Deny with a reason")
    await h.ana.submit(await h.ana.wait_for_modal(), {"reason": "archive\u202e first"})
    ran = await ended(process)
    assert (ran.code, ran.stdout) == (77, b"")
    assert b"Denied by Ana: archive\\u{202e} first" in ran.stderr


async def test_a_changed_command_is_told_and_logged(h: House, work: Path) -> None:
    process = await program(h.settings, "run", "--", "make", "deploy", cwd=work)
    await h.ana.choose(await h.card("make deploy"), "Edit and approve")
    await h.ana.submit(await h.ana.wait_for_modal(), {"edit": "echo checked"})
    ran = await ended(process)
    assert (ran.code, ran.stdout) == (0, b"checked\n")
    assert ran.stderr.endswith(
        b"Ana changed the command before approving it. What runs instead of yours: echo checked\n"
    )
    logged = [(line["decision"], line["command"], line["edited"]) for line in h.log()]
    after = ("make deploy", "echo checked")
    assert logged == [
        ("pending", "make deploy", None),
        ("approved", *after),
        ("running", *after),
        ("finished", *after),
    ]


async def test_nobody_answers(tmp_path: Path, work: Path) -> None:
    async with house(tmp_path, wait=1) as h:
        ran = await ended(await program(h.settings, "run", "--", "make", "deploy", cwd=work))
    assert (ran.code, b"not a refusal" in ran.stderr) == (77, True)


async def test_too_long_is_124_and_nothing_of_it_lives_on(h: House, work: Path) -> None:
    process = await program(h.settings, "run", "--timeout", "5", "--", "sbox", "sh", "-c", "echo a; sleep 77", cwd=work)
    ran = await ended(process)
    assert (ran.code, ran.stdout) == (124, b"a\n")


async def test_output_comes_before_the_end(h: House, work: Path) -> None:
    (work / "go").write_text("")
    command = "echo first; while test -e go; do sleep 0.05; done; echo last"
    process = await program(h.settings, "run", "--", "sbox", "sh", "-c", command, cwd=work)
    assert process.stdout is not None
    async with asyncio.timeout(100):
        assert await process.stdout.readline() == b"first\n"
    (work / "go").unlink()
    assert (await ended(process)).stdout == b"last\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_withdraws_the_question(h: House, work: Path, number: signal.Signals) -> None:
    process = await program(h.settings, "run", "--", "make", "deploy", cwd=work)
    card = await h.card("make deploy")
    process.send_signal(number)
    assert (await ended(process)).code == -number
    await card.wait_for_update(lambda version: not version.buttons)
    assert decisions(h) == ["pending", "cancelled"]


async def test_a_signal_ends_what_runs(h: House, work: Path) -> None:
    mark = f"600.{os.getpid()}"
    command = f"echo up; sleep {mark}"
    process = await program(h.settings, "run", "--timeout", "600", "--", "sbox", "sh", "-c", command, cwd=work)
    assert process.stdout is not None
    async with asyncio.timeout(100):
        assert await process.stdout.readline() == b"up\n"
    await asyncio.to_thread(wait_until, lambda: runs(mark))
    process.send_signal(signal.SIGTERM)
    await ended(process)
    await asyncio.to_thread(wait_until, lambda: not runs(mark))


def runs(mark: str) -> bool:
    """Whether `sleep MARK` is alive, in a cage or not."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            if place.read_bytes().startswith(f"sleep\0{mark}".encode()):
                return True
    return False


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


async def test_a_reader_that_has_enough_ends_the_command(h: House, work: Path) -> None:
    ours, theirs = os.pipe()
    process = await program(h.settings, "run", "--timeout", "60", "--", "sbox", "yes", cwd=work, stdout=theirs)
    os.close(theirs)
    assert await asyncio.to_thread(os.read, ours, 2) == b"y\n"
    os.close(ours)
    assert (await ended(process)).code == -signal.SIGPIPE


async def test_no_daemon_is_a_refusal(tmp_path: Path, work: Path) -> None:
    async with house(tmp_path) as h:
        settings = h.settings
    ran = await ended(await program(settings, "run", "--", "ls", cwd=work))
    assert (ran.code, b"slack-gate serve" in ran.stderr) == (77, True)


@pytest.mark.parametrize(
    "arguments",
    ["", "--timeout 0 -- ls", "--timeout x ls", "--frob ls", "--approved SG-1 ls", "--approved SG-1 --reason x"],
)
def test_wrong_use(arguments: str) -> None:
    assert here("run", *arguments.split()).returncode == 2


async def test_the_answers_that_are_no_exit_code(tmp_path: Path) -> None:
    ran: dict[str, Any] = {"decision": "ran", "timedOut": False, "exitCode": None, "code": None, "error": None}
    cases = [
        ({**ran, "exitCode": 0}, 0, b""),
        ({**ran, "timedOut": True, "exitCode": 124}, 124, b"longer than it may"),
        ({**ran, "timedOut": True}, 124, b"longer than it may"),
        ({**ran, "code": "CAGE_UNAVAILABLE", "error": "No cage\x1b[2J"}, 70, b"No cage\\u{1b}[2J (CAGE_UNAVAILABLE)"),
        ({**ran, "code": "OUTCOME_UNKNOWN", "error": "outcome unknown"}, 70, b"outcome unknown"),
        (ran, 70, b"outcome unknown"),
        ({**ran, "code": "E500", "error": "why", "lost": True}, 70, b"slack-gate: why; outcome unknown (E500)"),
        ({**ran, "code": "E401", "error": "why", "lost": False}, 70, b"slack-gate: why (E401)"),
        ({"decision": "denied", "message": "No\x1b[2J."}, 77, b"No\\u{1b}[2J."),
    ]
    answers = [case[0] for case in cases]

    async def run(request: web.Request) -> web.StreamResponse:
        return web.Response(text=json.dumps({"event": "end", **answers.pop(0)}) + "\n")

    async with house(tmp_path) as h:
        settings = h.settings
    async with double(settings, run=run):
        for _, code, words in cases:
            found = await ended(await program(settings, "run", "--", "ls"))
            assert (found.code, words in found.stderr) == (code, True), found


async def test_a_daemon_that_hangs_up_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    async def run(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"event":"started","request":"SG-1"}\n')
        return response

    async with house(tmp_path) as h:
        settings = h.settings
    async with double(settings, run=run):
        found = await ended(await program(settings, "run", "--", "ls"))
    assert (found.code, b"unknown" in found.stderr or b"do not start it again" in found.stderr) == (70, True)


async def test_on_a_terminal_a_line_says_who_is_asked_and_goes_again(h: House, work: Path) -> None:
    ours, theirs = pty.openpty()
    process = await program(h.settings, "run", "--", "sh", "-c", "echo done", cwd=work, stderr=theirs)
    os.close(theirs)
    card = await h.card("echo done")
    seen = b""
    async with asyncio.timeout(100):
        while len(re.findall(rb"left, asked Slack \(Ana\)", seen)) < 2:  # drawn, and drawn again
            seen += await asyncio.to_thread(os.read, ours, 4096)
    await h.ana.click(card, "Approve")
    ran = await ended(process)
    try:
        while data := os.read(ours, 4096):
            seen += data
    except OSError:  # the other end is closed
        os.close(ours)
    assert (ran.code, ran.stdout) == (0, b"done\n")
    assert re.search(rb"[45]:\d\d left, asked Slack \(Ana\) \(SG-", seen), seen
    assert seen.endswith(b"\r\x1b[K")
    assert b"\n" not in seen
