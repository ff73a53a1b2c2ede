"""The tool loop: send a question to a model, and its tool calls to a server, until the model answers with
text.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from model import Model

from mcpdesk.bridge import Client, client_tools

MAX_ROUNDS = 10
Report = Callable[[dict[str, Any]], Awaitable[None]]


class NoAnswer(Exception):
    """The model still calls tools after `MAX_ROUNDS` rounds."""


async def converse(question: str, client: Client, model: Model, report: Report | None = None) -> str:
    """Return the model's answer. `report` is called with each message that is added to the conversation."""
    tools = await client_tools(client, model.api)
    messages: list[dict[str, Any]] = []

    async def add(message: dict[str, Any]) -> None:
        messages.append(message)
        if report is not None:
            await report(message)

    await add({"role": "user", "content": question})
    for _ in range(MAX_ROUNDS):
        reply = await model.reply(messages, tools.schemas)
        await add(reply)
        results = await tools.answer(reply)
        if not results:
            return model.text(reply)
        for result in results:
            await add(result)
    raise NoAnswer(f"no answer after {MAX_ROUNDS} rounds of tool calls")
