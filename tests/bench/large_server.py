"""A server over stdio with 300 tools, three of which answer with 5 MB. It uses only the standard library."""

from __future__ import annotations

import json
import sys
from typing import Any

PROGRAM = __file__
SIZE = 5_000_000
TEXT = {"type": "string", "description": "Words, as they come.", "maxLength": 400}
SCHEMA = {
    "type": "object",
    "properties": {
        "query": TEXT,
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "order": {"type": "string", "enum": ["newest", "oldest", "largest"], "default": "newest"},
        "tags": {"type": "array", "items": TEXT},
        "range": {"type": "object", "properties": {"since": TEXT, "until": TEXT}},
    },
}
LINE = "One of very many lines, each of them with words that a person may look for.\n"
ROW = {"id": 0, "name": "Ada", "mail": "ada@example.com", "tags": ["a", "b"], "note": "x" * 60}


def tools() -> list[dict[str, Any]]:
    """Large answers first, then tools with a form and a long description."""
    named = [{"name": name, "inputSchema": {"type": "object"}} for name in RESULTS]
    for number in range(300 - len(named)):
        described = f"Looks things up, way {number}. {LINE * 4}"
        named.append({"name": f"way-{number:03}", "description": described, "inputSchema": SCHEMA})
    return named


def rows() -> dict[str, Any]:
    """A list of objects, as text and as structured content."""
    made = {"rows": [ROW | {"id": number} for number in range(SIZE // len(json.dumps(ROW)))]}
    return {"content": [{"type": "text", "text": "see the structured content"}], "structuredContent": made}


RESULTS: dict[str, dict[str, Any]] = {
    "a-lines": {"content": [{"type": "text", "text": LINE * (SIZE // len(LINE))}]},
    "a-line": {"content": [{"type": "text", "text": "word " * (SIZE // 5)}]},
    "a-rows": rows(),
}
"""Tool -> its result; they are called and listed first."""


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request, or None if the method does not exist."""
    match method:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            identity = {"name": "large", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": identity}
        case "tools/list":
            return {"tools": tools()}
        case "tools/call":
            return RESULTS.get(params["name"], {"content": [{"type": "text", "text": "done"}]})
    return None


def main() -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        error = {"error": {"code": -32601, "message": "no such method"}}
        said = {"result": result} if result is not None else error
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


if __name__ == "__main__":
    main()
