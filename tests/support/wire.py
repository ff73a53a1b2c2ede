"""A session over HTTP, spoken in plain messages."""

from __future__ import annotations

from typing import Any

import aiohttp


class Wire:
    """A session over HTTP."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self.headers = {"Accept": "application/json"}
        self.base = url.rpartition("/mcp/")[0]
        self.client = client
        self.url = url
        self._number = 0

    async def open(self) -> None:
        """Open a session."""
        info = {"name": "wire", "version": "1"}
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        await self.post("initialize", opening)

    async def post(self, method: str, params: dict[str, Any], **headers: str) -> Any:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        all_headers = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.post(self.url, json=message, headers=all_headers) as answer:
            if session := answer.headers.get("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = session
            return await answer.json()

    async def call(self, tool: str, *, fails: bool = False, **arguments: Any) -> Any:
        answer = await self.post("tools/call", {"name": tool, "arguments": arguments})
        assert answer["result"]["isError"] is fails, answer
        return answer["result"]

    async def get(self, path: str, status: int = 200, **headers: str) -> bytes:
        async with self.client.get(self.base + path, headers=headers) as answer:
            assert answer.status == status, await answer.text()
            return await answer.read()

    async def job(self, name: str, **arguments: Any) -> str:
        """Begin a job; returns its id."""
        params = {"name": name, "arguments": arguments, "mode": "async"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with self.client.post(f"{self.base}/v1/mcp", json=message) as answer:
            return str((await answer.json())["result"]["job_id"])
