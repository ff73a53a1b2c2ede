"""A script on 127.0.0.1 that answers as a model, with both APIs. It needs no network.

It greets the person in the question, counts the words of the greeting, and reports both. Like the real APIs,
it refuses an invalid request: a tool with an invalid name, a schema that is not an object, a call without a
result.
"""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GREET, COUNT = "greet", "word-count"


@asynccontextmanager
async def scripted_model() -> AsyncIterator[str]:
    """Serve until the block ends. Yield the URL."""
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", chat_completions), web.post("/v1/messages", messages)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()


async def chat_completions(request: web.Request) -> web.Response:
    """Answer in OpenAI's format: `tool_calls` in the message, and results as messages of the role `tool`."""
    body = await request.json()
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
    asked, results = [], {}
    for message in body["messages"]:
        asked += [call["id"] for call in message.get("tool_calls") or ()]
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message["content"]
    if fault := _fault(tools, asked, results):
        return _refused(fault)
    step = _next(body["messages"][0]["content"], [results[each] for each in asked], tools)
    if isinstance(step, str):
        message, reason = {"role": "assistant", "content": step}, "stop"
    else:
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        call = {"id": f"call_{len(asked)}", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return web.json_response({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]})


async def messages(request: web.Request) -> web.Response:
    """Answer in Anthropic's format: blocks `tool_use`, and `tool_result` in the user's next message."""
    body = await request.json()
    if request.headers.get("anthropic-version") != "2023-06-01" or "max_tokens" not in body:
        return _refused("anthropic-version and max_tokens are required")
    tools = {tool["name"]: tool["input_schema"] for tool in body["tools"]}
    blocks = [
        each
        for message in body["messages"]
        if isinstance(message["content"], list)
        for each in message["content"]
    ]
    asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = {
        block["tool_use_id"]: block["content"][0]["text"]
        for block in blocks
        if block["type"] == "tool_result"
    }
    if fault := _fault(tools, asked, results):
        return _refused(fault)
    step = _next(body["messages"][0]["content"], [results[each] for each in asked], tools)
    if isinstance(step, str):
        content, reason = [{"type": "text", "text": step}], "end_turn"
    else:
        use = {"type": "tool_use", "id": f"toolu_{len(asked)}", "name": step[0], "input": step[1]}
        content, reason = [{"type": "text", "text": "One moment."}, use], "tool_use"
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": reason,
    }
    return web.json_response(answer)


def _next(question: str, results: list[str], tools: dict[str, Any]) -> str | tuple[str, dict[str, Any]]:
    """Return the next call as name and arguments, or the last text."""
    name = re.findall(r"\w+", question)[-1]
    if not results and GREET in tools:
        return GREET, {"name": name}
    if len(results) == 1 and COUNT in tools:
        return COUNT, {"text": results[0]}
    if not results:
        return "I have no tool that greets."
    if len(results) == 1:
        return f"I say: {results[0]}"
    return f"I say: {results[0]} The word count is {results[1]}."


def _fault(tools: dict[str, Any], asked: list[str], results: dict[str, str]) -> str:
    for name, schema in tools.items():
        if not NAME.fullmatch(name):
            return f"{name!r} is not a valid name for a tool"
        if schema.get("type") != "object" or "properties" not in schema:
            return f"the schema of {name} is not an object"
    missing = [each for each in asked if each not in results]
    return f"no result for {', '.join(missing)}" if missing else ""


def _refused(reason: str) -> web.Response:
    return web.json_response({"error": {"type": "invalid_request_error", "message": reason}}, status=400)
