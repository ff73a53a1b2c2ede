"""A server folder full of errors, with some tools that work."""

from __future__ import annotations

from pathlib import Path

from tests.support.folders import write

WORKING = '''
"""Tools that behave, and one that talks too much."""

import asyncio
import os
import subprocess

from mcpdesk import Context, tool

ended = asyncio.Event()


@tool
async def say(text: str, times: int = 1, deep: list[dict[str, int]] = []) -> str:
    """Say it again."""
    return text * times


@tool
async def who() -> int:
    """The process that answers."""
    return os.getpid()


@tool
async def noisy() -> str:
    """Say something everywhere."""
    print("a stray print")
    os.write(1, b"raw bytes\\n")
    subprocess.run(["echo", "a child"], check=True)
    os.system("echo another child")
    return "said"


@tool
async def forever(ctx: Context) -> str:
    """Never answer."""
    try:
        await ctx.progress(1)
        await asyncio.Event().wait()
    finally:
        ended.set()


@tool
async def seen_end() -> bool:
    """Wait until a call of `forever` was ended."""
    await ended.wait()
    ended.clear()
    return True
'''

LYING = """
DESCRIPTION = "Promises a sum and returns what it was given."
INPUT_SCHEMA = {"type": "object", "properties": {"sum": {}}}
OUTPUT_SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


async def handler(args, context):
    return {"sum": args["sum"]} if "sum" in args else None
"""

NOT_ASYNC = """
INPUT_SCHEMA = {"type": "object"}


def handler(args, context):
    return "from a thread"
"""

FILES = {
    "mcp.json": '{"name": "rough"}',
    "tools/working.py": WORKING,
    "tools/lying.py": LYING,
    "tools/not_async.py": NOT_ASYNC,
    "tools/plain.py": "from mcpdesk import tool\n\n\n@tool\ndef plain() -> str:\n    return 'plain'\n",
    "tools/first.py": "async def twice() -> str:\n    return 'first'\n",
    "tools/second.py": "\n\nasync def twice() -> str:\n    return 'second'\n",
    "tools/syntax.py": "async def broken(:\n",
    "tools/raising.py": "import nowhere_to_be_found\n",
    "prompts/odd.md": "---\narguments: 7\n---\nText\n",
}
REPORTED = {
    "tools/second.py:3": "twice",
    "tools/syntax.py:1": "syntax",
    "tools/raising.py:1": "nowhere_to_be_found",
    "prompts/odd.md": "arguments",
}
"""File of each error, and a word of its report."""


def rough(folder: Path) -> Path:
    """Write the folder to `folder` and return it."""
    return write(folder, FILES)
