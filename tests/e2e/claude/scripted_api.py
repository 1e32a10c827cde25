"""A Messages API on loopback whose model says what the test wrote down.

A script is a list of turns: a text, or a list of `ToolCall`. The turn to give is the number of assistant messages the
client already sends back, so a request that the client repeats gets the same turn again. Requests that offer no tools
(titles, quota probes) get a short text and use up nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
USAGE: Json = {
    "input_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1,
}  # fmt: skip


@dataclass(frozen=True)
class ToolCall:
    """One `tool_use` block; `id` is what the client's `tool_use_id` will be."""

    name: str
    input: Json
    id: str


def bash(command: str, id: str = "toolu_1") -> ToolCall:
    return ToolCall("Bash", {"command": command, "description": "scripted"}, id)


Turn = str | Sequence[ToolCall]


@dataclass
class ScriptedApi:
    """`url` is what ANTHROPIC_BASE_URL takes; `requests` are the bodies of every `POST /v1/messages`, in order."""

    turns: Sequence[Turn]
    url: str = ""
    requests: list[Json] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """`METHOD path` of every request that the script has no answer for."""

    def tool_results(self) -> dict[str, str]:
        """The text the model got back for each call, by `tool_use_id`."""
        results: dict[str, str] = {}
        for request in self.requests:
            for message in request["messages"]:
                if isinstance(message["content"], list):
                    for block in message["content"]:
                        if block.get("type") == "tool_result":
                            results[block["tool_use_id"]] = _text(block.get("content", ""))
        return results

    def _turn(self, request: Json) -> Turn:
        if not request.get("tools"):
            return "ok"
        said = sum(message["role"] == "assistant" for message in request["messages"])
        return self.turns[said] if said < len(self.turns) else "done"

    async def _messages(self, http: web.Request) -> web.StreamResponse:
        request: Json = await http.json()
        self.requests.append(request)
        message = _message(request["model"], self._turn(request), len(self.requests))
        if not request.get("stream"):
            return web.json_response(message)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(http)
        for event in _events(message):
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return response

    async def _count_tokens(self, http: web.Request) -> web.StreamResponse:
        return web.json_response({"input_tokens": 1})

    async def _stranger(self, http: web.Request) -> web.StreamResponse:
        self.strangers.append(f"{http.method} {http.path}")
        error = {"type": "not_found_error", "message": "not in the script"}
        return web.json_response({"type": "error", "error": error}, status=404)


@asynccontextmanager
async def scripted_api(*turns: Turn) -> AsyncIterator[ScriptedApi]:
    """Serve `turns` on a free port of 127.0.0.1 until the block ends."""
    api = ScriptedApi(turns)
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/v1/messages", api._messages)
    app.router.add_post("/v1/messages/count_tokens", api._count_tokens)
    app.router.add_route("*", "/{path:.*}", api._stranger)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield api
    finally:
        await runner.cleanup()


def _message(model: str, turn: Turn, number: int) -> Json:
    content: list[Json]
    if isinstance(turn, str):
        content, reason = [{"type": "text", "text": turn}], "end_turn"
    else:
        content = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in turn]
        reason = "tool_use"
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": reason, "stop_sequence": None, "usage": USAGE,
    }  # fmt: skip


def _events(message: Json) -> list[Json]:
    """The same message as the stream of server-sent events."""
    opening = {**message, "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": opening}]
    for index, block in enumerate(message["content"]):
        empty: Json
        if block["type"] == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [*events, {"type": "message_delta", "delta": ending, "usage": USAGE}, {"type": "message_stop"}]


def _text(content: str | list[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)
