"""Recordings with traffic in them, for tests of recorder and screen."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcpdesk.protocol.codec import encode
from mcpdesk.recorder.capture.capture_lines import frame_pieces
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import ConnectionInfo, Direction, Frame, HttpNote

IN, OUT = Direction.IN, Direction.OUT
OPENED = 1_764_000_000.0


def connection(number: int = 1, peer: str = "claude-code 2.1", **changes: Any) -> ConnectionInfo:
    """One connection of a peer to `profiles`."""
    known: dict[str, Any] = {
        "server": "profiles",
        "transport": "http",
        "revision": "2025-11-25",
        "opened": OPENED,
    }
    return ConnectionInfo(number=number, peer=peer, **{**known, **changes})


def request(identifier: Any, method: str, params: dict[str, Any] | None = None) -> bytes:
    """A request's frame."""
    message = {"jsonrpc": "2.0", "id": identifier, "method": method}
    return encode(message if params is None else message | {"params": params})


def call(identifier: Any, tool: str, arguments: Any = None, **params: Any) -> bytes:
    """A `tools/call` frame."""
    return request(identifier, "tools/call", {"name": tool, "arguments": arguments or {}, **params})


def result(identifier: Any, value: Any = None) -> bytes:
    """A result's frame."""
    return encode({"jsonrpc": "2.0", "id": identifier, "result": {} if value is None else value})


def text(identifier: Any, words: str, *, is_error: bool = False) -> bytes:
    """A tool result's frame."""
    content = [{"type": "text", "text": words}]
    return result(identifier, {"content": content, "isError": is_error})


def error(identifier: Any, code: int = -32602, message: str = "no") -> bytes:
    """An error's frame."""
    return encode({"jsonrpc": "2.0", "id": identifier, "error": {"code": code, "message": message}})


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    """A notification's frame."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params or {}})


def progress(token: Any, amount: float) -> bytes:
    """A progress notification's frame."""
    return notification("notifications/progress", {"progressToken": token, "progress": amount, "total": 10})


def asks(identifier: Any, state: str, **questions: Any) -> bytes:
    """A result's frame that asks the client in forms; `questions` are their messages by key."""
    requests = {
        key: {"method": "elicitation/create", "params": {"message": words}}
        for key, words in questions.items()
    }
    value: dict[str, Any] = {"resultType": "input_required", "requestState": state}
    return result(identifier, value | ({"inputRequests": requests} if requests else {}))


def retry(identifier: Any, tool: str, state: str, **answers: Any) -> bytes:
    """A `tools/call` frame that comes back with answers; `answers` are contents of forms by key."""
    accepted = {key: {"action": "accept", "content": content} for key, content in answers.items()}
    return call(identifier, tool, requestState=state, inputResponses=accepted)


def frame_line(frame: Frame, data: bytes, is_json: bool = False) -> bytes:
    """The line of a capture that holds one frame; `data` is all that is left of its bytes."""
    return b"".join(frame_pieces(frame, data, is_json))


def settle(recording: Recording) -> None:
    """Pair everything that was recorded."""
    while recording.index.catch_up(1.0):
        pass


def size_on_disk(folder: Path) -> int:
    """Bytes of the files in a folder; a recording may remove files during the count."""
    size = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def busy_recording() -> Recording:
    """Two peers, every status but `lost`, one malformed frame, HTTP notes with secrets; in memory only."""
    recording = Recording(None)
    recording.connect(connection(1))
    recording.connect(connection(2, "desk", transport="memory", revision="2026-07-28"))
    headers = (
        ("Host", "127.0.0.1:3333"),
        ("Authorization", "Bearer abcdef123456"),
        ("Mcp-Method", "initialize"),
    )
    note = HttpNote("POST /mcp/profiles?api_key=topsecret HTTP/1.1", headers)
    recording.frame(1, IN, request(0, "initialize", {"protocolVersion": "2025-11-25"}), note=note)
    note = HttpNote("HTTP/1.1 200 OK", (("Content-Type", "application/json"),))
    recording.frame(1, OUT, result(0, {"protocolVersion": "2025-11-25"}), note=note)
    recording.frame(1, IN, notification("notifications/initialized"))
    recording.frame(2, IN, call(7, "user-profile", {"userId": "123", "password": "hunter2"}))
    recording.frame(2, OUT, text(7, "Ada"))
    recording.frame(1, IN, call(1, "slow-report", {"days": 30}, _meta={"progressToken": "p1"}))
    recording.frame(1, OUT, progress("p1", 3))
    recording.frame(1, OUT, progress("p1", 7))
    recording.frame(1, OUT, text(1, "the oven is cold", is_error=True))
    recording.frame(1, IN, request(2, "resources/read", {"uri": "file:///nowhere.txt"}))
    recording.frame(1, OUT, error(2, -32002, "Resource not found"))
    recording.frame(1, IN, call(3, "place-order", {"customer": "Grace"}))
    recording.frame(1, IN, notification("notifications/cancelled", {"requestId": 3}))
    recording.frame(1, IN, call(4, "place-order", {"customer": "Linus"}))
    recording.frame(1, IN, notification("notifications/cancelled", {"requestId": 4}))
    recording.frame(1, OUT, text(4, "too late"))
    recording.frame(1, IN, b'{"jsonrpc": "2.0", "id": 5, "method": ')
    recording.frame(1, OUT, error(None, -32700, "Parse error"))
    recording.frame(1, IN, call("six", "Bash", {"command": "sleep 100"}))
    settle(recording)
    return recording


def asking_recording() -> Recording:
    """An operation of each sort: three rounds over HTTP, a call that asks twice, a task; in memory.

    They begin with the exchanges 0, 3 and 7.
    """
    recording = Recording(None)
    recording.connect(connection(1, "notebook 3.0", revision="2026-07-28"))
    recording.connect(connection(2, "claude-code 2.1", transport="stdio"))
    posted = stateless_headers("tools/call", "book-flight")
    for number, (asked, answered) in enumerate(
        [
            (call(11, "book-flight", {"to": "Lisbon"}), asks(11, "v1.one", seat="Which seat?")),
            (
                retry(12, "book-flight", "v1.one", seat={"seat": "7A"}),
                asks(12, "v1.two", meal="Which meal?", bag="How many bags?"),
            ),
            (
                retry(13, "book-flight", "v1.two", meal={"meal": "vegan"}, bag={"bags": 1}),
                text(13, "Booked."),
            ),
        ]
    ):
        headers = posted if number else tuple(pair for pair in posted if pair[0] != "Mcp-Name")
        recording.frame(1, IN, asked, note=HttpNote("POST /mcp/profiles HTTP/1.1", headers))
        recording.frame(1, OUT, answered)
    recording.frame(2, IN, call(1, "plan-party", {"guests": 12}, _meta={"progressToken": "p"}))
    recording.frame(2, OUT, progress("p", 2))
    recording.frame(2, OUT, request("q1", "elicitation/create", {"message": "Inside or outside?"}))
    recording.frame(2, IN, result("q1", {"action": "accept", "content": {"place": "garden"}}))
    recording.frame(2, OUT, request(2, "sampling/createMessage", {"messages": [], "maxTokens": 50}))
    recording.frame(2, IN, error(2, -1, "User rejected sampling request"))
    recording.frame(2, OUT, text(1, "A party for 12 in the garden."))
    created = {"resultType": "task", "taskId": "t-9f1c", "status": "working", "ttlMs": 60000}
    recording.frame(1, IN, call(20, "paint-house"))
    recording.frame(1, OUT, result(20, created))
    for number, state in ((21, "working"), (22, "completed")):
        recording.frame(1, IN, request(number, "tasks/get", {"taskId": "t-9f1c"}))
        recording.frame(1, OUT, result(number, {**created, "resultType": "complete", "status": state}))
    settle(recording)
    return recording


def stateless_headers(method: str, name: str = "") -> tuple[tuple[str, str], ...]:
    """Headers of a request by a client of revision 2026-07-28."""
    named = (("Mcp-Name", name),) if name else ()
    return (
        ("Host", "127.0.0.1:3333"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", method),
        *named,
        ("Authorization", "Bearer abcdef123456"),
    )


def mixed_traffic(recording: Recording, count: int, seed: int = 1) -> None:
    """Calls answered in any order, some late, some never; progress, cancellations, batches, garbage."""
    chance, waiting = random.Random(seed), list[tuple[int, int]]()
    for number in range(seed * count, seed * count + count):
        at = chance.randint(1, 3)
        match chance.randint(0, 20):
            case 0:
                recording.frame(at, IN, notification("notifications/roots/list_changed"))
            case 1:
                recording.frame(at, IN, b"garbage")
            case 2:
                recording.frame(
                    at, IN, b"[" + call(f"x{number}", "a") + b"," + call(f"y{number}", "b") + b"]"
                )
            case 3 if waiting:
                recording.frame(*_cancel(*waiting.pop(chance.randrange(len(waiting)))))
            case _:
                recording.frame(at, IN, call(number, chance.choice("abc"), _meta={"progressToken": number}))
                waiting.append((at, number))
        if waiting and chance.random() < 0.2:
            at, which = chance.choice(waiting)
            recording.frame(at, OUT, progress(which, 1))
        while waiting and (len(waiting) > 30 or chance.random() < 0.4):
            at, which = waiting.pop(chance.randrange(max(1, len(waiting) - 1)))
            failed = chance.random() < 0.1
            recording.frame(
                at, OUT, error(which) if failed else text(which, "words" * chance.randint(0, 400))
            )
    for at, which in waiting:
        recording.frame(at, OUT, text(which, "late"))


def _cancel(at: int, which: int) -> tuple[int, Direction, bytes]:
    return at, IN, notification("notifications/cancelled", {"requestId": which})
