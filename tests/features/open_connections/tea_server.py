"""Server of the handshake era that counts, asks, notifies and ends. Reads one message a line."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TOOLS = ("inc", "ask", "capabilities", "touch", "brew", "die", "wait")
FORM = {
    "message": "Which tea?",
    "requestedSchema": {"type": "object", "properties": {"tea": {"type": "string"}}, "required": ["tea"]},
}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(value: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


class Server:
    """State of the one session."""

    def __init__(self) -> None:
        self.count = 0
        self.declared: dict[str, Any] = {}
        self.asking: dict[Any, Any] = {}
        """Ids of calls that wait for an answer, by id of the question."""
        self.cancelled: list[Any] = []

    def receive(self, message: dict[str, Any]) -> None:
        identifier, params = message.get("id"), message.get("params") or {}
        if "method" not in message:
            answer = message.get("result") or message.get("error")
            send(id=self.asking.pop(identifier), result=text(answer))
        elif message["method"] == "notifications/cancelled":
            self.cancelled.append(params["requestId"])
            print(f"cancelled {params['requestId']}", file=sys.stderr, flush=True)
        elif identifier is not None:
            self.request(identifier, message["method"], params)

    def request(self, identifier: Any, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                self.declared = params["capabilities"]
                capabilities = {
                    "tools": {"listChanged": True},
                    "logging": {},
                    "resources": {"subscribe": True},
                }
                about = {"name": "tea", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}
                send(id=identifier, result=result)
            case "tools/list":
                tools = [{"name": each, "inputSchema": {"type": "object"}} for each in TOOLS]
                send(id=identifier, result={"tools": tools})
            case "resources/list":
                send(id=identifier, result={"resources": []})
            case "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel":
                print(method, params.get("uri", ""), file=sys.stderr, flush=True)
                send(id=identifier, result={})
            case "tools/call":
                self.call(identifier, params)
            case _:
                send(id=identifier, error={"code": -32601, "message": f"no {method}"})

    def call(self, identifier: Any, params: dict[str, Any]) -> None:
        match params["name"]:
            case "inc":
                self.count += 1
                send(id=identifier, result=text(str(self.count)))
            case "ask":
                question = f"question-{identifier}"
                self.asking[question] = identifier
                send(id=question, method="elicitation/create", params=FORM)
            case "capabilities":
                send(id=identifier, result=text(sorted(self.declared)))
            case "touch":
                send(method="notifications/resources/updated", params={"uri": "tea://pot"})
                send(method="notifications/message", params={"level": "info", "data": "touched"})
                send(id=identifier, result=text("touched"))
            case "brew":
                token = params.get("_meta", {}).get("progressToken")
                progress = {"progressToken": token, "progress": 1, "total": 2, "message": "steeping"}
                send(method="notifications/progress", params=progress)
                send(id=identifier, result=text("brewed" if token is not None else "brewed without a token"))
            case "wait":
                pass  # until it is cancelled
            case "die":
                print("out of water", file=sys.stderr, flush=True)
                os._exit(7)


def main() -> None:
    if "--broken" in sys.argv:
        print("no kettle", file=sys.stderr, flush=True)
        sys.exit(3)
    if "--slow" in sys.argv:
        time.sleep(60)
    server = Server()
    for line in sys.stdin:
        server.receive(json.loads(line))


if __name__ == "__main__":
    main()
