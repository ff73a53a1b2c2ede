"""A server folder with one item for everything a client may ask for."""

from __future__ import annotations

from pathlib import Path

from tests.support.folders import write

TOOLS = '''
"""Tools that answer, report, fail and wait."""

import asyncio
import os
from dataclasses import dataclass

from mcpdesk import Context, fail, tool

ended = asyncio.Event()


@dataclass
class Parcel:
    """A parcel.

    Attributes:
        weight: In kilograms.
        labels: What is written on it.
    """

    weight: float
    labels: list[str]


@tool(title="Weigh a parcel", read_only=True)
async def weigh(weight: float, labels: list[str] = []) -> Parcel:
    """Weigh a parcel.

    Args:
        weight: In kilograms.
        labels: What is written on it.
    """
    return Parcel(weight, labels)


@tool
async def say(text: str) -> str:
    """Say it again."""
    return text


@tool
async def who() -> int:
    """The process that answers."""
    return os.getpid()


@tool
async def lines(count: int) -> list[str]:
    """Count in words."""
    return [f"line {number}" for number in range(count)]


@tool
async def steps(ctx: Context, count: int = 3) -> str:
    """Report every step, and log the first."""
    await ctx.debug("not for everybody")
    await ctx.info({"steps": count})
    for step in range(1, count + 1):
        await ctx.progress(step, count, f"step {step}")
    await ctx.warning("that was the last")
    return "walked"


@tool
async def refuse(reason: str) -> str:
    """Always fail, politely."""
    fail(reason, reason=reason)


@tool
async def crash() -> str:
    """Always fail, rudely."""
    raise KeyError("nothing here")


@tool
async def forever(ctx: Context) -> str:
    """Never answer; `seen_end` tells when somebody gave up."""
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

RESOURCES = '''
"""Resources that are made when they are read."""

from mcpdesk import resource


@resource("parcel://{number}", mime_type="text/plain")
async def parcel(number: str) -> str:
    """One parcel."""
    return f"parcel {number}"
'''

LETTER = """
---
title: A letter
description: Write a letter.
arguments:
  - name: to
    description: Who gets it.
    required: true
  - name: tone
---
Write to {{to}}, {{tone}}.
"""

MANIFEST = """{
  "name": "workshop", "version": "2.0.0", "title": "The workshop", "instructions": "Weigh first.",
  "builtins": ["AskUserQuestion"], "settings": {"page_size": 4}
}"""


def workshop(folder: Path) -> Path:
    """Write the folder to `folder` and return it."""
    write(folder, {"mcp.json": MANIFEST, "resources/notes.md": "# Notes\n", "resources/dot.png": "\x01\x02"})
    write(folder, {"resources/parcels.py": RESOURCES, "prompts/letter.md": LETTER.lstrip("\n")})
    return write(folder, {"tools/tools.py": TOOLS})
