"""The frames the load consists of, in both eras. Ids have nine digits, so that lengths never change."""

from __future__ import annotations

import json
from typing import Any

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
ERAS = {"handshake": HANDSHAKE, "stateless": STATELESS}
FIRST_ID = 100_000_000
TEXT = "x" * 64
_CLIENT = {"name": "bench", "version": "1"}
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def request(method: str, params: dict[str, Any], era: str) -> tuple[bytes, bytes]:
    """What stands before and after the id of a request."""
    if era == "stateless":
        params = {**params, "_meta": _META}
    said = json.dumps({"method": method, "params": params}, separators=(",", ":"))
    return b'{"jsonrpc":"2.0","id":', b"," + said[1:].encode()


def call(era: str, tool: str = "echo") -> tuple[bytes, bytes]:
    """What stands before and after the id of an echoing `tools/call`."""
    return request("tools/call", {"name": tool, "arguments": {"text": TEXT}}, era)


def initialize() -> bytes:
    """The request that opens a session."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
    before, after = request("initialize", params, "handshake")
    return before + b"1" + after


def http_head(port: int, path: str, length: int, era: str, session: str = "", tool: str = "") -> bytes:
    """The head of a POST. `length` is the body's."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "User-Agent: bench/1",
        f"Content-Length: {length}",
    ]
    if era == "stateless":
        lines += [f"MCP-Protocol-Version: {STATELESS}", "Mcp-Method: tools/call", f"Mcp-Name: {tool}"]
    elif session:
        lines += [f"MCP-Protocol-Version: {HANDSHAKE}", f"Mcp-Session-Id: {session}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def http_call(port: int, path: str, era: str, session: str = "", tool: str = "echo") -> tuple[bytes, bytes]:
    """What stands before and after the id of an echoing `tools/call` over HTTP."""
    before, after = call(era, tool)
    length = len(before) + len(str(FIRST_ID)) + len(after)
    return http_head(port, path, length, era, session, tool) + before, after
