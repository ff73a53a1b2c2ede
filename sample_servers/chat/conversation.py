"""The tool loop: a question goes to a model, its tool calls to a server, until it answers in words."""

from collections.abc import Awaitable, Callable
from typing import Any

from model import Model

from mcpdesk.bridge import Client, client_tools

MAX_ROUNDS = 10
Tell = Callable[[dict[str, Any]], Awaitable[None]]


class NoAnswer(Exception):
    """The model calls tools for ever."""


async def converse(question: str, client: Client, model: Model, tell: Tell | None = None) -> str:
    """The model's answer. `tell` hears of every message as it is added to the conversation."""
    tools = await client_tools(client, model.api)
    messages: list[dict[str, Any]] = []

    async def add(message: dict[str, Any]) -> None:
        messages.append(message)
        if tell is not None:
            await tell(message)

    await add({"role": "user", "content": question})
    for _ in range(MAX_ROUNDS):
        said = await model.reply(messages, tools.schemas)
        await add(said)
        results = await tools.answer(said)
        if not results:
            return model.words(said)
        for result in results:
            await add(result)
    raise NoAnswer(f"no answer after {MAX_ROUNDS} rounds of tool calls")
