"""A client of the handshake era that meets another replica with each request, and the server it talks to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tests.support.patience import WITHIN_S
from tests.support.replicas import ReplicaCluster

TOOLS = '''
import asyncio
from mcpdesk import Context, tool

async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

async def slow(seconds: float, ctx: Context) -> str:
    """Report progress, and take its time."""
    await ctx.progress(1, 2, "begun")
    await asyncio.sleep(seconds)
    await ctx.progress(2, 2, "done")
    return "slept"

async def count(to: int, ctx: Context) -> str:
    """Report progress again and again."""
    for number in range(1, to + 1):
        await ctx.progress(number, to)
        await asyncio.sleep(0.05)
    return "counted"

async def leave_mark(name: str, place: str) -> str:
    """Add a line to a file, in a moment."""
    await asyncio.sleep(0.3)
    with open(place, "a") as file:
        file.write(name + "\\n")
    return name

async def ask_name(ctx: Context) -> str:
    """Ask the client."""
    given = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"{given.action} {given.content}"
'''


def calculator(folder: Path) -> Path:
    """A server folder with tools that add, take long, and ask."""
    made = folder / "calc"
    (made / "tools").mkdir(parents=True)
    (made / "mcp.json").write_text(
        '{"name": "calc", "builtins": ["PlanMode", "TaskManager", "SetCallback", "ListBgTasks"]}'
    )
    (made / "tools" / "calc.py").write_text(TOOLS)
    return made


class SessionClient:
    """A client of the handshake era that opens a connection for each request."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = f"{url}/mcp/calc"
        self.http = http
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Connection": "close",
        }
        self.number = 0

    async def open(self) -> None:
        capabilities: dict[str, Any] = {"elicitation": {}}
        info = {"name": "tester", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}
        async with self.post("initialize", params) as answer:
            assert answer.status == 200, await answer.text()
            self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
            self.headers["MCP-Protocol-Version"] = "2025-11-25"
        assert await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202

    def post(self, method: str, params: dict[str, Any]) -> Any:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        return self.http.post(self.url, data=orjson.dumps(message), headers=self.headers)

    async def send(self, message: dict[str, Any]) -> int:
        async with self.http.post(self.url, data=orjson.dumps(message), headers=self.headers) as answer:
            return int(answer.status)

    async def ask(self, method: str, **params: Any) -> Any:
        async with self.post(method, params) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            if answer.content_type == "text/event-stream":
                events = [line for line in body.split(b"\n") if line.startswith(b"data: {")]
                body = events[-1][6:]
            return orjson.loads(body)

    async def call(self, name: str, **arguments: Any) -> Any:
        answer = await self.ask("tools/call", name=name, arguments=arguments)
        return answer["result"]


@asynccontextmanager
async def session_client(cluster: ReplicaCluster) -> AsyncIterator[SessionClient]:
    """A client with a session."""
    timeout, connector = aiohttp.ClientTimeout(total=WITHIN_S), aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
        made = SessionClient(cluster.url, http)
        await made.open()
        yield made


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """Ids and messages of an event stream."""
    identifier = ""
    async for line in answer.content:
        if line.startswith(b"id: "):
            identifier = line[4:].strip().decode()
        elif line.startswith(b"data: {"):
            yield identifier, orjson.loads(line[6:])
