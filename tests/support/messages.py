"""JSON-RPC messages that tests send, and the text of what comes back."""

from __future__ import annotations

from typing import Any


def request(method: str, params: dict[str, Any] | None = None, identifier: int = 1) -> dict[str, Any]:
    """A request, always with `params`."""
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params or {}}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A call of the handshake era."""
    return request("tools/call", {"name": tool, "arguments": arguments})


def said(result: dict[str, Any]) -> str:
    """The text of a tool's result."""
    return str(result["content"][0]["text"])


def text_of(response: dict[str, Any]) -> str:
    """The text of a tool's answer."""
    return said(response["result"])
