"""The chat program: `python sample_servers/chat "Please greet Ada"`.

By default, the scripted model answers. To use a real model:
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
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="chat", description="Ask a model that can use a server's tools.")
    parser.add_argument("question")
    parser.add_argument("--api", choices=("openai", "anthropic"), default="openai")
    parser.add_argument(
        "--server", default=str(HELLO), help="a server folder or a URL (default: the sample hello)"
    )
    parser.add_argument("--mode", default="", help="a mode of the server")
    parser.add_argument("--model", default=os.environ.get("MODEL", "scripted"))
    parser.add_argument(
        "--model-url", default=os.environ.get("MODEL_URL", ""), help="URL of another endpoint"
    )
    return parser.parse_args()


async def report(message: dict[str, Any]) -> None:
    """Print a message as JSON on stderr. Only the last answer goes to stdout."""
    print(json.dumps(message, ensure_ascii=False), file=sys.stderr)


async def main() -> int:
    """Run one conversation. Return the exit code."""
    options = arguments()
    try:
        print(await conversation(options))
    except (DeskError, ModelError, NoAnswer) as error:
        print(f"chat: {error}", file=sys.stderr)
        return 1
    return 0


async def conversation(options: argparse.Namespace) -> str:
    """Return the last text of the model."""
    async with AsyncExitStack() as stack:
        url = options.model_url
        if not url and options.model == "scripted":
            url = await stack.enter_async_context(scripted_model())
        model = Model(options.api, url, options.model, os.environ.get("MODEL_KEY", ""))
        token, key = os.environ.get("SERVER_TOKEN"), os.environ.get("SERVER_KEY")
        client = await stack.enter_async_context(
            Client(options.server, mode=options.mode, token=token, api_key=key)
        )
        return await converse(options.question, client, model, report)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
