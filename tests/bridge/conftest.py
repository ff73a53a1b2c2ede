"""A server folder with a tool for every kind of answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpdesk.bridge.client import Client
from mcpdesk.protocol.revisions import LATEST_HANDSHAKE
from mcpdesk.upstream.target_transport import Reach
from tests.support.desk import running_desk
from tests.support.folders import write

FILES = {
    "mcp.json": '{"name": "kinds", "version": "1.0", "instructions": "Be brief.", '
    '"modes": {"calm": {"tools": ["greet", "count.words"]}}, "settings": {"page_size": 2}}',
    "tools/kinds.py": '''
        import asyncio
        from dataclasses import dataclass
        from typing import Annotated, Any

        from mcpdesk import Context, ToolResult, fail, header, image, resource_link, tool

        @dataclass
        class Count:
            words: int

        @tool
        async def greet(name: str, loud: bool = False) -> str:
            """Greet somebody."""
            return f"Hello, {name}!".upper() if loud else f"Hello, {name}!"

        @tool(name="count.words")
        async def count_words(text: str) -> Count:
            """Count words."""
            return Count(len(text.split()))

        @tool
        async def picture() -> Any:
            """A picture with words."""
            return [{"type": "text", "text": "a dot"}, image(b"dot", "image/png")]

        @tool
        async def refuse() -> str:
            """Always fail."""
            fail("not today", until="tomorrow")

        @tool
        async def wait(ctx: Context) -> str:
            """Never end, but say so when it is ended."""
            await ctx.progress(1, 2, "waiting")
            await asyncio.Event().wait()
            return ""

        @tool
        async def steps(ctx: Context, let_go: bool = False) -> str:
            """Report on the way, and leave the connection if told to."""
            for step in range(1, 4):
                await ctx.progress(step, 3, f"step {step}")
                await ctx.info(f"step {step}")
                if let_go and step == 2:
                    await ctx.close_stream(retry_ms=10)
            return "done"

        @tool
        async def route(region: Annotated[str, header("Region")], at: int = 1) -> str:
            """Goes by a header."""
            return f"{region} {at}"
        ''',
}
TOOLS = ["count.words", "greet", "picture", "refuse", "route", "steps", "wait"]


HANDSHAKE = Reach(revision=LATEST_HANDSHAKE.name)
"""The newest revision with a handshake, for a server that has a newer one."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder `kinds`."""
    return write(tmp_path / "kinds", FILES)


@pytest.fixture(params=["folder", "http", "session"])
async def client(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Client]:
    """A client of the same folder in this process, over HTTP, and over HTTP in a session."""
    if request.param == "folder":
        async with Client(folder) as made:
            yield made
        return
    async with running_desk(folder, http=True) as desk:
        url = desk.view().servers[0].url
        async with Client(url) as made:
            if request.param == "session":
                made._reach = HANDSHAKE
            yield made
