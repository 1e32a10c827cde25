"""Always, from the button to the next call: what is stored, what is asked again, what runs and as what."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from slack_gate.daemon.programs import trusted_programs
from tests.daemon.house import House, house


async def always(h: House, command: str, **more: Any) -> None:
    hook, card = await h.asked(command, **more)
    await h.ana.click(card, "Always")
    assert (await h.ended(hook)).decision == "allow"


async def prompts(h: House, command: str, **more: Any) -> Any:
    """The card that `command` waits for; approved once so that nothing is left, and no denial either."""
    hook, card = await h.asked(command, **more)
    await h.ana.click(card, "Approve")
    assert (await h.ended(hook)).decision == "allow"
    return card


async def stored(h: House) -> list[str]:
    return [" ".join(rule.key.words) for rule in await h.running.store.rules()]


async def cli(h: House, *arguments: str) -> tuple[int, str]:
    """`slack-gate` as another process on the same home."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from slack_gate.cli import main; main()", *arguments),
        env={"SLACK_GATE_HOME": str(h.settings.home), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, error = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in error
    return process.returncode, output.decode()


async def test_a_rule_covers_its_words_and_nothing_else(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await always(h, "npm view 'a:*'")
        assert await stored(h) == ["npm view"]
        assert (await h.bash("npm view other")).decision == "allow"
        await prompts(h, "npm view other && touch /tmp/pwn")
        await prompts(h, "npm view other > out.txt")
        await prompts(h, "npm publish --tag npm-view")


@pytest.mark.parametrize("flag", ["dangerouslyDisableSandbox", "sudo"])
async def test_unusual_and_unknown_fields_are_asked_and_shown(tmp_path: Path, flag: str) -> None:
    async with house(tmp_path) as h:
        await always(h, "touch a")
        hook = await h.start(h.event(command="touch b", **{flag: True}))
        card = await h.card("touch b")
        assert flag in card.plain()
        assert "Always" not in card.buttons
        await h.press(card, "Approve", action_id="always")
        await h.ana.wait_for_ephemeral(lambda m: "can be remembered" in m.plain())
        assert await stored(h) == ["touch"]
        await h.ana.click(card, "Approve")
        assert (await h.ended(hook)).decision == "allow"


async def test_another_tool_is_remembered_exactly(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook = await h.start(h.event("WebFetch", url="https://a.example/x", prompt="p"))
        click = await h.ana.click(await h.card("https://a.example/x"), "Always")
        assert "WebFetch with exactly this input" in click.confirm
        assert (await h.ended(hook)).decision == "allow"
        again = await h.ask(h.event("WebFetch", prompt="p", url="https://a.example/x"))
        assert again.decision == "allow"
        assert "updatedInput" not in again.output
        hook = await h.start(h.event("WebFetch", url="https://a.example/y", prompt="p"))
        await h.ana.click(await h.card("https://a.example/y"), "Deny")
        assert (await h.ended(hook)).decision == "deny"
        [rule] = await h.running.store.rules()
        assert "a.example" not in json.dumps([rule.key.words, rule.shown])


async def test_a_project_runner_goes_on_in_the_cage(tmp_path: Path) -> None:
    sbox = trusted_programs(Path.home())["sbox"]
    async with house(tmp_path) as h:
        hook, card = await h.asked("make deploy", description="d")
        click = await h.ana.click(card, "Always")
        assert "make deploy" in click.confirm
        assert "runs in the cage" in click.confirm
        first = await h.ended(hook)
        assert "updatedInput" not in first.output  # approved by a person as it was shown
        await always(h, "touch a")
        one = await h.bash("make deploy", description="e")
        assert one.output["updatedInput"] == {"command": f"{shlex.quote(sbox)} make deploy", "description": "e"}
        two = await h.bash("touch b && make deploy")
        assert shlex.split(two.output["updatedInput"]["command"]) == [sbox, "bash", "-c", "touch b && make deploy"]
        alone = (await h.bash("touch b")).output["updatedInput"]["command"]
        assert shlex.split(alone)[2:] == ["/usr/bin/touch", "b"]
        await prompts(h, "make other")


async def test_hosts_in_disguise_are_asked(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await always(h, "curl https://example.com/")
        assert (await h.bash("curl https://example.org/")).decision == "allow"
        card = await prompts(h, "curl https://xn--exmple-cua.com/")
        assert "Always" not in card.buttons


async def test_no_secret_enters_the_rules(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        hook = await h.start(h.event(command="GH_TOKEN=ghp_EXAMPLE0000 gh api user"))
        card = await h.card("gh api user")
        await h.ana.click(card, "Deny")
        await h.ended(hook)
        assert "Always" not in card.buttons
        assert await stored(h) == []


async def test_revoking_acts_at_once_and_survives_with_the_rest(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        await always(h, "touch a")
        await always(h, "mkdir a")
        first, _ = await h.running.store.rules()
        assert (await cli(h, "rules"))[1].splitlines()[0].startswith(first.id)
        code, output = await cli(h, "rules", "revoke", first.id)
        assert (code, output) == (0, f"Revoked {first.id}: touch\n")
        await prompts(h, "touch b")
        assert (await h.bash("mkdir b")).decision == "allow"
        assert (await cli(h, "rules", "revoke", first.id))[0] == 1
        await always(h, "touch c")  # a revoked key may be remembered anew
        assert len(await h.running.store.rules()) == 2
    async with house(tmp_path) as h:
        h.calls = 100
        assert (await h.bash("touch d && mkdir d")).decision == "allow"
        assert "revoked" in [line["decision"] for line in h.log()]
        assert (await cli(h, "log", "verify"))[0] == 0


async def test_sessions_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    """While another process reads the rules over and over: each reading is whole and none shows fewer than before."""
    programs = [f"prog-{number}" for number in range(12)]
    async with house(tmp_path) as h:
        waiting = [await h.asked(f"{program} x", cwd="/w") for program in programs]
        counts: list[int] = []

        async def read_on() -> None:
            while not counts or counts[-1] < len(programs):
                counts.append(len(json.loads((await cli(h, "rules", "list", "--json"))[1])))

        reading = asyncio.create_task(read_on())
        await asyncio.gather(*(h.ana.click(card, "Always") for _, card in waiting))
        assert {(await h.ended(hook)).decision for hook, _ in waiting} == {"allow"}
        async with asyncio.timeout(100):
            await reading
        assert counts == sorted(counts)
        assert sorted(await stored(h)) == sorted(f"{program} x" for program in programs)


async def test_the_same_key_saved_twice_at_once_is_one_rule(tmp_path: Path) -> None:
    async with house(tmp_path) as h:
        waiting = [await h.asked(f"touch {name}") for name in ("a1", "b2", "c3")]
        await asyncio.gather(*(h.ana.click(card, "Always") for _, card in waiting))
        assert {(await h.ended(hook)).decision for hook, _ in waiting} == {"allow"}
        assert await stored(h) == ["touch"]


async def test_what_always_took_is_allowed_after_a_restart_byte_for_byte(tmp_path: Path) -> None:
    command = "git log --oneline -5  |  head -3"
    async with house(tmp_path) as h:
        await always(h, command)
        assert (await h.bash(command)).decision == "allow"
    async with house(tmp_path) as h:
        h.calls = 100
        assert (await h.bash(command)).decision == "allow"
        await prompts(h, "git log --oneline -5 | tee out")


async def test_another_program_that_looks_takes_no_file_of_the_database_away(tmp_path: Path) -> None:
    """SQLite's locks are the process's: a file opened and closed beside it loses them, and then the last reader to go
    takes the write-ahead file along, with all that the daemon wrote and will write into it."""

    def files() -> list[tuple[str, int]]:
        return sorted((file.name, file.stat().st_ino) for file in h.settings.home.glob("gate.db*"))

    async with house(tmp_path) as h:
        await always(h, "touch a")
        before = files()
        assert [name for name, _ in before] == ["gate.db", "gate.db-shm", "gate.db-wal", "gate.db.lock"]
        for arguments in (("status",), ("rules",), ("requests",), ("log", "verify")):
            await cli(h, *arguments)
            assert files() == before, arguments
