"""A server over stdio with odd habits, of the standard library: started by tests as a program.

`python odd_server.py HABIT`: with `silent` it answers nothing, with `chatty` it writes lines that are not
messages, with `brief` it ends at once, with `late` it starts slowly and speaks the newest revision only, with
`endless` it answers no call: it reports progress of all its calls when one begins, and of a cancelled one.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

PROGRAM = __file__
ANYTHING = {"type": "object"}
TOOLS: list[Any] = [
    {"name": "echo", "title": "Echo", "inputSchema": ANYTHING | {"properties": {"text": {"type": "string"}}}},
    {"name": "ask", "inputSchema": ANYTHING},
    {"name": "grow", "inputSchema": ANYTHING},
    {"name": "die", "inputSchema": ANYTHING},
    {"name": "echo", "inputSchema": ANYTHING, "description": "again"},
    {"name": "shapeless"},
    "no object",
]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}, "extensions": {"com.example/odd": {}}},
    "serverInfo": {"name": "odd", "title": "The odd one", "version": "0.9"},
    "instructions": "Be gentle.",
}


COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def send(**message: Any) -> None:
    """Write one message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def fail(message: str, code: int) -> None:
    """Exit with a message on stderr."""
    print(message, file=sys.stderr, flush=True)
    raise SystemExit(code)


def text(content: str) -> dict[str, Any]:
    """Result of a tool."""
    return {"content": [{"type": "text", "text": content}]}


def call(identifier: Any, name: str, arguments: dict[str, Any]) -> None:
    """Answer a call as its tool defines."""
    if name == "die":
        print("ERROR: no more\n  at all", file=sys.stderr, flush=True)
        fail("out of memory", 3)
    if name == "ask and die":
        send(id="q", method="elicitation/create", params={"message": "Who?", "requestedSchema": FORM})
        fail("gone", 4)
    if name == "ask":
        send(id="q", method="elicitation/create", params={"message": "Who?", "requestedSchema": FORM})
        answer = json.loads(sys.stdin.readline())["result"]
        send(id=identifier, result=text(f"{answer['action']} {answer.get('content')}"))
        return
    if name == "grow":
        TOOLS.append({"name": f"tool-{len(TOOLS)}", "inputSchema": ANYTHING})
        send(method="notifications/tools/list_changed")
    send(id=identifier, result=text(str(arguments.get("text", "done"))))


def follow(message: dict[str, Any], tokens: dict[Any, Any]) -> None:
    """Report progress of calls that never end; `tokens` has their progress tokens."""
    params = message.get("params", {})
    if message["method"] == "tools/call":
        tokens[message["id"]] = params["_meta"]["progressToken"]
        for token in tokens.values():
            send(method="notifications/progress", params={"progressToken": token, "progress": len(tokens)})
    elif message["method"] == "notifications/cancelled":
        token = tokens.pop(params["requestId"])
        send(method="notifications/progress", params={"progressToken": token, "progress": 10})
        send(method="notifications/message", params={"level": "info", "data": "it was cancelled"})


def main(habit: str) -> None:
    """Serve until stdin ends."""
    tokens: dict[Any, Any] = {}
    print("it begins", file=sys.stderr, flush=True)
    if habit == "brief":
        fail("no configuration", 7)
    if habit == "late":
        time.sleep(0.5)
    for line in sys.stdin:
        message = json.loads(line)
        if habit == "endless" and message.get("method") in ("tools/call", "notifications/cancelled"):
            follow(message, tokens)
            continue
        if habit == "silent" or "id" not in message:
            continue
        if habit == "chatty":
            print("Listening on nothing ...", flush=True)
        identifier, params = message["id"], message.get("params", {})
        match message["method"]:
            case "initialize" if habit == "late":
                error = {"supported": ["2026-07-28"], "requested": params["protocolVersion"]}
                send(id=identifier, error={"code": -32022, "message": "too old", "data": error})
            case "server/discover" if habit == "late":
                send(
                    id=identifier, result=COMPLETE | {"supportedVersions": ["2026-07-28"], "capabilities": {}}
                )
            case "initialize":
                send(id=identifier, result=ABOUT)
            case "tools/list":
                send(id=identifier, result={"tools": TOOLS})
            case "tools/call":
                call(identifier, params["name"], params.get("arguments", {}))
            case method:
                send(id=identifier, error={"code": -32601, "message": f"no {method}"})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
