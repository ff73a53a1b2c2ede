"""A server with tools for jobs, behind a real listener, and a client of the gateway dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from yarl import URL

from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.server import Limits
from mcpdesk.server.offer.tool import Tool, ToolResult
from mcpdesk.transports.base import Rules
from tests.support.patience import within
from tests.support.site import Served, serving

ANY = {"type": "object"}
DELIVER = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string"}}, "size": {"type": "integer"}},
}
Call = dict[str, Any]


class Gates:
    """Events that tools wait for; tests set them."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.ended: list[str] = []


class Gateway:
    """The site and its `/v1/mcp`."""

    def __init__(self, served: Served, gates: Gates) -> None:
        self.served = served
        self.gates = gates
        self.client = served.client
        self.url = served.url

    async def post(self, message: Any, path: str = "/v1/mcp", **headers: str) -> aiohttp.ClientResponse:
        """POST one message; keyword names become header names."""
        named = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        body = message if isinstance(message, bytes) else orjson.dumps(message)
        return await self.client.post(self.url + path, data=body, headers=named)

    async def rpc(self, method: str, params: Any = None, **headers: str) -> Any:
        """The answer to one request, decoded."""
        message: Call = {"jsonrpc": "2.0", "id": 1, "method": method}
        answer = await self.post(message if params is None else message | {"params": params}, **headers)
        assert answer.status == 200 and answer.content_type == "application/json", await answer.text()
        return await answer.json()

    async def begin(self, name: str, arguments: Call | None = None, **headers: str) -> Call:
        """Start a job and return the response."""
        params = {"name": name, "arguments": arguments or {}, "mode": "async"}
        result: Call = (await self.rpc("tools/call", params, **headers))["result"]
        assert result["status"] == "accepted"
        return result

    async def get(self, path: str, status: int = 200, **headers: str) -> Any:
        """GET something that answers with JSON."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.client.get(self.url + path, headers=named)
        assert answer.status == status, await answer.text()
        return await answer.json()

    async def status(self, method: str, path: str, **options: Any) -> int:
        """Status of the response; the path is sent unchanged."""
        async with self.client.request(method, URL(self.url + path, encoded=True), **options) as answer:
            await answer.read()
            return answer.status

    async def over(self, job: Call) -> Call:
        """State of a job after its end."""
        async with within():
            answer = await self.client.get(f"{self.url}/v1/mcp/progress/{job['job_id']}?interval_ms=10")
            await answer.read()
        facts: Call = await self.get(job["poll"])
        return facts


def tools(gates: Gates) -> list[Tool]:
    """Tools that wait, write, fail and make files."""

    async def wait(arguments: Call, context: Context) -> Any:
        await context.progress(1, 4, "waiting")
        gates.started.set()
        try:
            await gates.go_on.wait()
        except asyncio.CancelledError:
            gates.ended.append("wait")
            raise
        return "continued"

    async def talk(arguments: Call, context: Context) -> Any:
        assert context.feed is not None
        gates.started.set()
        for number in range(arguments.get("lines", 3)):
            context.feed.stdout(f"line {number}\n")
            await context.progress(number + 1, arguments.get("lines", 3))
        context.feed.stderr("careful\n")
        await gates.go_on.wait()
        done = {"exit_code": 0, "stdout": "all of it", "stderr": "careful\n"}
        return ToolResult(({"type": "text", "text": "all of it"},), done)

    async def exits(arguments: Call, context: Context) -> Any:
        answers = {
            "exit_code": 3,
            "stdout": "half",
            "stderr": "no such file",
            "stage": "deep",
            "command": "exit",
        }
        return ToolResult(({"type": "text", "text": "no such file"},), answers, is_error=True)

    async def deliver(arguments: Call, context: Context) -> Any:
        assert context.folder is not None
        for name in arguments.get("names", ["out.txt"]):
            path = context.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                (f"{name}:".encode() * (1 + arguments.get("size", 1)))[: arguments.get("size", 9)]
            )
            context.produced(name)
        for name in arguments.get("outside", []):
            context.produced(name)
        return "delivered"

    async def huge(arguments: Call, context: Context) -> Any:
        return "x" * arguments["size"]

    return [
        Tool("deep-wait", wait, ANY, timeout_s=60),
        Tool("deep-talk", talk, ANY, timeout_s=60),
        Tool("deep-exit", exits, ANY),
        Tool("make-file", deliver, DELIVER),
        Tool("make-huge", huge, ANY),
    ]


@asynccontextmanager
async def gateway(
    folder: Path | None = None, rules: Rules | None = None, **limits: Any
) -> AsyncIterator[Gateway]:
    """Serve until the block ends."""
    async with serving(rules) as served:
        gates, server = Gates(), served.peer.server
        server.folder = folder
        server.limits = Limits(**({"output_dirs": ()} | limits))
        server.tools.replace([*server.tools, *tools(gates)])
        try:
            yield Gateway(served, gates)
        finally:
            await served.peer.services.jobs.stop()


def sent(text: str) -> list[Call]:
    """The events of a stream without names."""
    return [orjson.loads(each.removeprefix("data: ")) for each in text.strip().split("\n\n")]
