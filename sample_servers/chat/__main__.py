"""The chat program: `python sample_servers/chat "Please greet Ada"`.

Without a model of yours it starts the scripted one. A real one:
MODEL_KEY=... python sample_servers/chat --api anthropic --model claude-sonnet-4-5 --server URL "..."
"""

import argparse
import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from conversation import NoAnswer, converse
from model import Model, ModelError
from scripted_model import scripted_model

from mcpdesk.bridge import Client
from mcpdesk.errors import DeskError

HELLO = Path(__file__).resolve().parent.parent / "hello"


def arguments() -> argparse.Namespace:
    """What was asked on the command line."""
    parser = argparse.ArgumentParser(prog="chat", description="Ask a model that may use a server's tools.")
    parser.add_argument("question")
    parser.add_argument("--api", choices=("openai", "anthropic"), default="openai")
    parser.add_argument(
        "--server", default=str(HELLO), help="a server folder or a URL (default: the sample hello)"
    )
    parser.add_argument("--mode", default="", help="a mode of the server")
    parser.add_argument("--model", default=os.environ.get("MODEL", "scripted"))
    parser.add_argument("--model-url", default=os.environ.get("MODEL_URL", ""), help="of another endpoint")
    return parser.parse_args()


async def tell(message: dict[str, Any]) -> None:
    """Show a message as it is on the wire; answers go to stdout, everything else to stderr."""
    print(json.dumps(message, ensure_ascii=False), file=sys.stderr)


async def main() -> int:
    """Run one conversation; returns the exit code."""
    asked = arguments()
    try:
        print(await conversation(asked))
    except (DeskError, ModelError, NoAnswer) as error:
        print(f"chat: {error}", file=sys.stderr)
        return 1
    return 0


async def conversation(asked: argparse.Namespace) -> str:
    """What the model says in the end."""
    async with AsyncExitStack() as stack:
        url = asked.model_url
        if not url and asked.model == "scripted":
            url = await stack.enter_async_context(scripted_model())
        model = Model(asked.api, url, asked.model, os.environ.get("MODEL_KEY", ""))
        token, key = os.environ.get("SERVER_TOKEN"), os.environ.get("SERVER_KEY")
        client = await stack.enter_async_context(
            Client(asked.server, mode=asked.mode, token=token, api_key=key)
        )
        return await converse(asked.question, client, model, tell)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
