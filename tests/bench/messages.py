"""The messages of a load, in both eras. Ids have nine digits, so the lengths never change."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
ERAS = {"handshake": HANDSHAKE, "stateless": STATELESS}
FIRST_ID = 100_000_000
EVENTS = 5_000
"""Progress events of one call of `tick`."""
STEPS = 6
"""Progress events of one call of `steps`."""
EVENT = b'"notifications/progress"'
_CLIENT = {"name": "bench", "version": "1"}
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


@dataclass(frozen=True, slots=True)
class Ask:
    """A repeated request. `name` is the tool it calls, if any."""

    method: str
    params: dict[str, Any]
    name: str = ""

    def frame(self, era: str) -> tuple[bytes, bytes]:
        """Return the parts of the message before and after the id."""
        params = self.params
        if era == "stateless":
            params = {**params, "_meta": {**_META, **params.get("_meta", {})}}
        said = json.dumps({"method": self.method, "params": params}, separators=(",", ":"))
        return b'{"jsonrpc":"2.0","id":', b"," + said[1:].encode()

    def post(self, address: Address, era: str, session: str = "") -> tuple[bytes, bytes]:
        """Return both parts of the request as HTTP."""
        before, after = self.frame(era)
        length = len(before) + len(str(FIRST_ID)) + len(after)
        headers = []
        if era == "stateless":
            headers = [f"MCP-Protocol-Version: {STATELESS}", f"Mcp-Method: {self.method}"]
            headers += [f"Mcp-Name: {self.name}"] if self.name else []
        elif session:
            headers = in_session(session)
        return address.head("POST", length, headers) + before, after


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server on this machine."""

    port: int
    path: str
    more: tuple[str, ...] = ()
    """Headers of every request."""

    def head(self, method: str, length: int, headers: list[str]) -> bytes:
        """Head of a request. `length` is the size of the body."""
        lines = [
            f"{method} {self.path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            "User-Agent: bench/1",
            *self.more,
            *headers,
            f"Content-Length: {length}",
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"


def in_session(session: str) -> list[str]:
    """Headers of a client in a session."""
    known = [f"Mcp-Session-Id: {session}"] if session else []
    return [f"MCP-Protocol-Version: {HANDSHAKE}", *known]


def call(tool: str, arguments: dict[str, Any], **meta: Any) -> Ask:
    """A `tools/call`; `meta` goes into its `_meta`."""
    params = {"name": tool, "arguments": arguments}
    return Ask("tools/call", {**params, "_meta": meta} if meta else params, tool)


def echo(tool: str = "echo") -> Ask:
    """The small call: echo 64 bytes of text."""
    return call(tool, {"text": "x" * 64})


def initialize() -> bytes:
    """The request that opens a session."""
    asked = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
    before, after = Ask("initialize", asked).frame("handshake")
    return before + b"1" + after


LIST = Ask("tools/list", {})
ASKS = {
    "echo": echo(),
    "big": call("echo", {"text": "x" * (1 << 20)}),
    "tick": call("tick", {"count": EVENTS}, progressToken="t"),
    "steps": call("tick", {"count": STEPS}, progressToken="t"),
    "list": LIST,
    "early": echo("early"),
    "final": echo("final"),
}
"""Requests a load can send, by name."""
