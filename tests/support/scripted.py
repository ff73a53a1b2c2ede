"""An HTTP server on 127.0.0.1 that sends the bytes a test gives it, and records the requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True)
class Seen:
    """One request that came."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def message(self) -> Any:
        """Body decoded from JSON."""
        return orjson.loads(self.body)


Answerer = Callable[[Seen], bytes | None]
"""The bytes of the whole response; None leaves the request without any."""


class Scripted:
    """Records requests in `seen`; `left` is set when the client closed a connection without an answer."""

    def __init__(self, answer: Answerer) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        self.left = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: as many requests as it brings."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ", 2)
                pairs = (line.split(": ", 1) for line in head[1:] if ": " in line)
                headers = {name.lower(): value for name, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.seen.append(Seen(method, path, headers, body))
                data = self.answer(self.seen[-1])
                if data is None:
                    await reader.read()
                    self.left.set()
                    return
                writer.write(data)
                await writer.drain()
                if b"content-length" not in data.lower() or b"connection: close" in data.lower():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def scripted(answer: Answerer) -> AsyncIterator[Scripted]:
    """Serve until the block ends."""
    made = Scripted(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield made
    finally:
        server.close()


def http(status: int, body: bytes | str = b"", kind: str = "application/json", **headers: str) -> bytes:
    """A whole response; keywords become headers."""
    data = body.encode() if isinstance(body, str) else body
    named = {"Content-Type": kind, "Content-Length": str(len(data))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return "\r\n".join(lines).encode() + data


def json(value: Any, status: int = 200, **headers: str) -> bytes:
    """A response with JSON."""
    return http(status, orjson.dumps(value), **headers)


def stream(*lines: str, **headers: str) -> bytes:
    """An event stream that ends after these lines."""
    named = {"Content-Type": "text/event-stream", "Connection": "close"} | headers
    head = [
        "HTTP/1.1 200 OK",
        *(f"{name.replace('_', '-')}: {value}" for name, value in named.items()),
        "",
        "",
    ]
    return "\r\n".join(head).encode() + "\n".join([*lines, ""]).encode()


def event(message: Any) -> str:
    """A message as an event, with the blank line that ends it."""
    return f"data: {orjson.dumps(message).decode()}\n"


def result(seen: Seen, value: dict[str, Any]) -> dict[str, Any]:
    """The response to a request."""
    return {"jsonrpc": "2.0", "id": seen.message["id"], "result": value}


def modern(answer: Callable[[Seen], bytes | None]) -> Answerer:
    """A stateless server: answers `server/discover`, and leaves all else to `answer`."""

    def both(seen: Seen) -> bytes | None:
        if seen.body and seen.message.get("method") == "server/discover":
            return json(result(seen, DISCOVERED))
        return answer(seen)

    return both


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "instructions": "Be kind.",
    "ttlMs": 0,
    "cacheScope": "public",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "script", "version": "1"}},
}
