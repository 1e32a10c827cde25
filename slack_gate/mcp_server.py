"""MCP over stdin and stdout: `run_command`, `request_approval` and `get_decision` for any agent that speaks it.

It holds nothing and decides nothing: each call asks the daemon, and ends with it. A refusal, a failure and an absent
daemon are results with `isError`, so that the model reads why.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from slack_gate.client import ask, decision, fault, follow, working_directory
from slack_gate.core.display import one_line
from slack_gate.core.run import UNKNOWN
from slack_gate.core.secrets import mask
from slack_gate.errors import GateError

PROGRESS_S = 10.0  # between two words of progress when nothing changes; clients give up after 30 s or more of silence
SOONEST_S = 1.0  # between two words of progress when much changes
LOOK_S = 1.0  # between two looks at a request that is waited for
MAX_WAIT_S = 50  # in one get_decision: some clients end a call after 60 s
LAST = 4096  # bytes of output from which the newest line is taken
MAX_MESSAGE = 200
MAX_STREAM = 64 * 1024  # characters of stdout or stderr that are always passed on whole

INSTRUCTIONS = (
    "Commands that need a person's consent are asked first, and the call waits. "
    "What was refused must not be tried again or in other words; explain it or take another way."
)
_TEXT = {"type": "string"}


def _tool(name: str, description: str, hints: types.ToolAnnotations, **properties: Mapping[str, Any]) -> types.Tool:
    """The first property must be given."""
    needed = next(iter(properties))
    schema = {"type": "object", "properties": properties, "required": [needed], "additionalProperties": False}
    return types.Tool(name=name, description=description, input_schema=schema, annotations=hints)


TOOLS = [
    _tool(
        "run_command",
        "Run a shell command where slack-gate runs commands, in the working directory of this session. A command that "
        "is not known to be harmless waits for a person first. Not zero, refused or not run is an error.",
        types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
        command={**_TEXT, "description": "The shell command, exactly as it is to run."},
        reason={**_TEXT, "description": "Why it is needed, for the person who is asked."},
        timeoutSeconds={"type": "integer", "minimum": 1, "description": "For the command itself; 30, at most 600."},
        cwd={**_TEXT, "description": "Another working directory, absolute or relative to the session's."},
    ),
    _tool(
        "request_approval",
        "Ask a person to agree to a plan or a step, in words; nothing is run. Returns at once with a request id; "
        "get_decision tells the answer.",
        types.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False),
        text={**_TEXT, "description": "What the person is to agree to."},
        reason={**_TEXT, "description": "Why."},
    ),
    _tool(
        "get_decision",
        "What became of a request: pending, approved, denied or expired, and the person's words. Waits for the answer.",
        types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
        request={**_TEXT, "description": "The id, such as SG-1a2b3c4d5e6f."},
        waitSeconds={"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "description": "Default: 30."},
    ),
]
_FIELDS = {tool.name: frozenset(tool.input_schema["properties"]) for tool in TOOLS}

Context = ServerRequestContext[Any, Any]
Arguments = Mapping[str, Any]


async def serve() -> None:
    """Until stdin ends; calls that wait then are withdrawn."""
    async with stdio_server() as (reader, writer):
        server = make_server()
        await server.run(reader, writer, server.create_initialization_options())


def make_server() -> Server[Any]:
    return Server(
        "slack-gate",
        version=version("slack-gate"),
        instructions=INSTRUCTIONS,
        on_list_tools=_listed,
        on_call_tool=_called,
    )


async def _listed(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def _called(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    arguments = params.arguments or {}
    if params.name not in _CALLS:
        return _result(f"There is no tool {params.name[:60]!r} here.", True)
    if unknown := sorted(set(arguments) - _FIELDS[params.name]):
        return _result(f"{params.name} takes no {unknown[0][:60]!r}.", True)
    try:
        return await _CALLS[params.name](ctx, arguments)
    except GateError as error:
        return _result(str(error), True)
    except (TypeError, ValueError, KeyError) as error:
        return _result(f"The arguments cannot be read: {error}.", True)


async def _run_command(ctx: Context, arguments: Arguments) -> types.CallToolResult:
    progress = _Progress(ctx)
    cwd = os.path.join(working_directory(), arguments.get("cwd", ""))
    body = {"reason": "", "agent": "mcp", **arguments, "cwd": cwd}
    telling = asyncio.create_task(progress.told())
    try:
        return _ran(await follow(body, progress.hear))
    finally:
        telling.cancel()


async def _request_approval(ctx: Context, arguments: Arguments) -> types.CallToolResult:
    asked = await ask(arguments["text"], arguments.get("reason", ""), "mcp")
    if asked.get("decision") == "denied":
        return _result(str(asked["message"]), True)
    return _result(json.dumps(asked), False)


async def _get_decision(ctx: Context, arguments: Arguments) -> types.CallToolResult:
    started = time.monotonic()
    wait = min(int(arguments.get("waitSeconds", 30)), MAX_WAIT_S)
    while True:
        found = await decision(arguments["request"])
        waited = time.monotonic() - started
        if found["state"] != "pending" or waited >= wait:
            return _result(json.dumps(found), False)
        await ctx.session.report_progress(waited, message="Waiting for a person")
        await asyncio.sleep(min(LOOK_S, wait - waited))


_CALLS: Mapping[str, Callable[[Context, Arguments], Awaitable[types.CallToolResult]]] = {
    "run_command": _run_command,
    "request_approval": _request_approval,
    "get_decision": _get_decision,
}


class _Progress:
    """What a waiting client hears: who is asked and for how long, then the newest line of output."""

    def __init__(self, ctx: Context) -> None:
        self._session = ctx.session
        self._started = time.monotonic()
        self._news = asyncio.Event()
        self._asked: Arguments | None = None
        self._last = b""

    def hear(self, event: Mapping[str, Any]) -> None:
        match event.get("event"):
            case "asked":
                self._asked = event
            case "started":
                self._asked = None
            case "output":
                self._last = (self._last + base64.b64decode(event["data"]))[-LAST:]
            case _:
                return
        self._news.set()

    async def told(self) -> None:
        """Sends progress until cancelled: at every change, and when nothing changes for a while."""
        while True:
            try:
                async with asyncio.timeout(PROGRESS_S):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()
            await self._session.report_progress(time.monotonic() - self._started, message=self._message())
            await asyncio.sleep(SOONEST_S)

    def _message(self) -> str:
        if self._asked is not None:
            left = max(0, int(self._asked["expiresAt"] - time.time()))
            return f"Waiting for {', '.join(self._asked['where'])}: {left // 60}:{left % 60:02d} left"
        lines = self._last.decode("utf-8", "replace").splitlines()
        return one_line(mask(lines[-1]), MAX_MESSAGE) if lines else "Running"


def _ran(end: Arguments) -> types.CallToolResult:
    """What a person changed, then the output, then how it ended unless that was with 0."""
    if end["decision"] != "ran":
        return _result(str(end["message"]), True)
    code = end["exitCode"]
    stdout, stderr = (_bounded(str(end[name] or "")) for name in ("stdout", "stderr"))
    good = code == 0 and not end["timedOut"]
    if end["timedOut"]:
        verdict = "[It ran longer than it may and was ended.]"
    elif code is None:
        verdict = f"[{end['code'] or UNKNOWN}: {fault(end)}]"
    else:
        verdict = "" if good and (stdout or stderr) else f"[exit code {code}]"
    changed = f"[{end['message']}]" if end.get("message") else ""
    parts = [changed, stdout, f"[stderr]\n{stderr}" if stderr else "", verdict]
    return _result("\n".join(part.rstrip("\n") for part in parts if part), not good)


def _bounded(text: str) -> str:
    """What a model can be given: a long text's head and tail, and how much is left out between them."""
    if len(text) <= MAX_STREAM:
        return text
    half = MAX_STREAM // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def _result(text: str, error: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=error)
