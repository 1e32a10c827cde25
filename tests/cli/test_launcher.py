"""What a hook hands over instead of an approved command starts this program again, from any shell, once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from slack_gate.install.program import base_python, copy_program
from slack_gate.whereabouts import launcher
from tests.client.asking import Ran
from tests.daemon.house import house

ROOT = Path(__file__).parents[2]


async def shell(text: str, cwd: Path) -> Ran:
    """As an agent's shell runs it: nothing of the daemon's environment."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", text),
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(100):
        out, said = await process.communicate()
    return Ran(process.returncode or 0, out, said)


async def test_an_approved_command_is_fetched_once(tmp_path: Path) -> None:
    """In the Sandboxer, played by a server with its contract."""
    commands: list[str] = []

    async def run(request: web.Request) -> web.StreamResponse:
        commands.append((await request.json())["command"])
        return web.json_response({"commandId": "cmd_1", "exitCode": 3, "stdout": "far\n", "stderr": ""})

    app = web.Application()
    app.router.add_post("/sandboxes/sb_1/commands", run)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = {"hook_executor": "sandboxer", "sandboxer_api_url": url, "sandbox_id": "sb_1", "sbx_gate_key": "k"}
    async with house(tmp_path, **settings) as h:
        hook, card = await h.asked("make deploy", cwd=str(tmp_path))
        await h.ana.click(card, "Approve")
        text = (await h.ended(hook)).output["updatedInput"]["command"]
        first = await shell(text, tmp_path)
        again = await shell(text, tmp_path)
    await runner.cleanup()
    assert (first.code, first.stdout, first.stderr) == (3, b"far\n", b""), first
    assert (again.code, b"an approval counts once" in again.stderr) == (77, True), again
    assert commands == ["make deploy"]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("copy")
    copy_program(target)
    return target


def test_the_installed_copy_starts_itself_and_nothing_else(copy: Path, tmp_path: Path) -> None:
    """Its words, from inside it, and what they start: the copy's own files, under the bare interpreter."""
    tell = (
        "import sys; sys.path.insert(0, {!r}); from slack_gate.whereabouts import launcher; import json; from pathlib "
    )
    tell = (tell + "import Path; print(json.dumps(launcher(Path('/run/x/gate.sock'))))").format(str(copy / "lib"))
    done = subprocess.run([base_python(), "-IS", "-c", tell], capture_output=True, text=True, check=True, cwd="/")
    words = json.loads(done.stdout)
    assert words == [
        *("/usr/bin/env", "SLACK_GATE_SOCKET=/run/x/gate.sock", str(base_python()), "-IS"),
        str(copy / "lib" / "slack_gate" / "__main__.py"),
    ]
    ended = subprocess.run([*words, "run", "--approved", "SG-1"], capture_output=True, text=True, cwd=tmp_path, env={})
    assert ended.returncode == 77, ended
    assert "/run/x/agent.sock" in ended.stderr


def test_a_source_tree_starts_itself(tmp_path: Path) -> None:
    words = launcher(tmp_path / "run" / "gate.sock")
    assert words[2:] == [sys.executable, "-I", str(ROOT / "slack_gate" / "__main__.py")]
    ended = subprocess.run([*words, "run", "--approved", "SG-1"], capture_output=True, text=True, cwd="/", env={})
    assert (ended.returncode, str(tmp_path / "run" / "agent.sock") in ended.stderr) == (77, True), ended
