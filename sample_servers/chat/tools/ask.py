"""The loop of `conversation.py` as a tool. The model uses the tools of another server."""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from conversation import NoAnswer, converse
from model import Model, ModelError
from scripted_model import scripted_model

from mcpdesk import Context, fail, tool
from mcpdesk.bridge import CallError, Client

HELLO = Path(__file__).resolve().parent.parent.parent / "hello"


@tool(title="Ask a model", read_only=True, open_world=True, timeout=120)
async def ask(
    ctx: Context,
    question: Annotated[str, "Question, such as: Please greet Ada"],
    api: Annotated[Literal["openai", "anthropic"], "API of the model."] = "openai",
) -> str:
    """Ask a model that can use the tools of the sample server hello. Each message is reported as progress."""
    count = 0

    async def report(message: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        await ctx.progress(count, message=str(message["role"]))

    async with AsyncExitStack() as stack:
        url = os.environ.get("MODEL_URL") or await stack.enter_async_context(scripted_model())
        model = Model(api, url, os.environ.get("MODEL", "scripted"), os.environ.get("MODEL_KEY", ""))
        client = await stack.enter_async_context(Client(HELLO))
        try:
            return await converse(question, client, model, report)
        except (CallError, ModelError, NoAnswer) as error:
            fail(str(error))
