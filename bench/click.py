"""Time a click: from the button to the hook's exit, against a bare Bolt app's acknowledgement of the same click.

    python bench/click.py [--runs N] [--reach RATIO]

Both run on the local Slack in one process and take turns. Exit code 1 when the ratio of the medians is above RATIO.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncAck, AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from slack_gate.config import load
from slack_gate.daemon.serve import running
from slack_gate.local_slack.person import Person
from slack_gate.local_slack.server import LocalSlack

HOOK = Path(__file__).resolve().parent.parent / "slack_gate" / "hook.py"
USER = "U0ANA"
BUTTON = {"type": "button", "action_id": "approve", "text": {"type": "plain_text", "text": "Approve"}, "value": "1"}


async def bare_click(client: AsyncWebClient, ana: Person, number: int) -> float:
    """Seconds from a click to its acknowledgement by a listener that does nothing else."""
    blocks = [{"type": "actions", "elements": [BUTTON]}]
    await client.chat_postMessage(channel=USER, text=f"bare {number}", blocks=blocks)
    card = await ana.wait_for_message(lambda m: m.text == f"bare {number}")
    started = time.perf_counter()
    await ana.click(card, "Approve")
    return time.perf_counter() - started


async def gate_click(socket: Path, ana: Person, number: int) -> float:
    """Seconds from a click on a card to the exit of the hook that waited for it."""
    command = f"touch file-{number}"
    event = {
        "session_id": "bench",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": f"toolu_{number}",
        "cwd": "/",
    }
    hook = await asyncio.create_subprocess_exec(
        *(sys.executable, "-IS", str(HOOK), "claude-code", "--socket", str(socket)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert hook.stdin is not None
    hook.stdin.write(json.dumps(event).encode())
    hook.stdin.close()
    card = await ana.wait_for_message(lambda m: m.has_button("Approve") and command in m.plain())
    await asyncio.sleep(0.02)  # the post is answered and filed: nothing of it falls into the time of the click
    started = time.perf_counter()
    _, ended = await asyncio.gather(ana.click(card, "Approve"), _exit(hook, started))
    return ended


async def _exit(hook: asyncio.subprocess.Process, started: float) -> float:
    output, _ = await hook.communicate()
    ended = time.perf_counter() - started
    assert b'"allow"' in output, output
    return ended


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--reach", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        async with LocalSlack() as bare, LocalSlack() as slack:
            client = AsyncWebClient(token=bare.bot_token, base_url=bare.api_url)
            app = AsyncApp(client=client)

            @app.action("approve")
            async def approve(ack: AsyncAck) -> None:
                await ack()

            handler = AsyncSocketModeHandler(app, bare.app_token)
            await handler.connect_async()
            one, two = bare.add_user(USER, name="Ana"), slack.add_user(USER, name="Ana")
            settings = load(
                slack_bot_token=slack.bot_token,
                slack_app_token=slack.app_token,
                slack_api_url=slack.api_url,
                approvers=USER,
                home=Path(place) / "home",
                socket=Path(place) / "run" / "gate.sock",
            )
            async with running(settings):
                pairs = []
                for number in range(options.runs + 3):
                    bare_s = await bare_click(client, one, number)
                    pairs.append((bare_s, await gate_click(settings.socket_path, two, number)))
            await handler.close_async()
    bare_ms, gate_ms = ([pair[side] * 1000 for pair in pairs[3:]] for side in (0, 1))
    for name, times in (("bare Bolt, click to acknowledgement", bare_ms), ("slack-gate, click to hook exit", gate_ms)):
        low, middle, high = statistics.quantiles(times, n=4)
        print(
            f"{name:38} median {middle:7.2f} ms   middle half {low:.2f} to {high:.2f} ms   fastest {min(times):.2f} ms"
        )
    ratio = statistics.median(gate_ms) / statistics.median(bare_ms)
    print(f"ratio {ratio:.3f}, to reach {options.reach}")
    return 0 if ratio <= options.reach else 1


sys.exit(asyncio.run(main()))
