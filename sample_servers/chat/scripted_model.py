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
    call_ids, results = [], {}
    for message in body["messages"]:
        call_ids += [call["id"] for call in message.get("tool_calls") or ()]
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message["content"]
    if fault := _fault(tools, call_ids, results):
        return _error_response(fault)
    step = _next_step(body["messages"][0]["content"], [results[each] for each in call_ids], tools)
    if isinstance(step, str):
        message = {"role": "assistant", "content": step}
        end_reason = "stop"
    else:
        function = {"name": step[0], "arguments": json.dumps(step[1])}
        call = {"id": f"call_{len(call_ids)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        end_reason = "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": end_reason}
    return web.json_response({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]})


async def messages(request: web.Request) -> web.Response:
    """Answer in Anthropic's format: blocks `tool_use`, and `tool_result` in the user's next message."""
    body = await request.json()
    if request.headers.get("anthropic-version") != "2023-06-01" or "max_tokens" not in body:
        return _error_response("anthropic-version and max_tokens are required")
    tools = {tool["name"]: tool["input_schema"] for tool in body["tools"]}
    blocks = [
        each
        for message in body["messages"]
        if isinstance(message["content"], list)
        for each in message["content"]
    ]
    call_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = {
        block["tool_use_id"]: block["content"][0]["text"]
        for block in blocks
        if block["type"] == "tool_result"
    }
    if fault := _fault(tools, call_ids, results):
        return _error_response(fault)
    step = _next_step(body["messages"][0]["content"], [results[each] for each in call_ids], tools)
    if isinstance(step, str):
        content = [{"type": "text", "text": step}]
        end_reason = "end_turn"
    else:
        use = {"type": "tool_use", "id": f"toolu_{len(call_ids)}", "name": step[0], "input": step[1]}
        content = [{"type": "text", "text": "One moment."}, use]
        end_reason = "tool_use"
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": end_reason,
    }
    return web.json_response(answer)


def _next_step(question: str, results: list[str], tools: dict[str, Any]) -> str | tuple[str, dict[str, Any]]:
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


def _fault(tools: dict[str, Any], call_ids: list[str], results: dict[str, str]) -> str:
    """Return the reason why a request is invalid, or an empty text."""
    for name, schema in tools.items():
        if not NAME.fullmatch(name):
            return f"{name!r} is not a valid name for a tool"
        if schema.get("type") != "object" or "properties" not in schema:
            return f"the schema of {name} is not an object"
    unanswered_ids = [each for each in call_ids if each not in results]
    return f"no result for {', '.join(unanswered_ids)}" if unanswered_ids else ""


def _error_response(reason: str) -> web.Response:
    return web.json_response({"error": {"type": "invalid_request_error", "message": reason}}, status=400)
