"""Answers of the frames: encoded by orjson, without any check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from tests.bench.peers.catalogue import tools

Answer = Callable[[dict[str, Any]], bytes]
BATCH = 32
"""Events written at a time."""
_OPENED = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "frame"}}


def answering(more: int) -> Answer:
    """Return a function that answers any request; the list of tools is encoded once."""
    listed = orjson.dumps({"tools": tools(more)})

    def answer(message: dict[str, Any]) -> bytes:
        method = message["method"]
        if method == "tools/list":
            return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (message["id"], listed)
        result = _OPENED if method == "initialize" else _called(message["params"]["arguments"])
        return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})

    return answer


def ticks(message: dict[str, Any]) -> int:
    """Return the number of events before the answer."""
    if message["method"] != "tools/call":
        return 0
    count: int = message["params"]["arguments"].get("count", 0)
    return count


def batches(count: int, before: bytes, after: bytes) -> Iterator[bytes]:
    """The events of a call, as many together as are written at a time."""
    said = (
        b'%b{"jsonrpc":"2.0","method":"notifications/progress",'
        b'"params":{"progressToken":"t","progress":%%d,"total":%d}}%b'
    ) % (before, count, after)
    for first in range(1, count + 1, BATCH):
        yield b"".join([said % number for number in range(first, min(first + BATCH, count + 1))])


def _called(arguments: dict[str, Any]) -> dict[str, Any]:
    text = arguments.get("text", "done")
    return {"content": [{"type": "text", "text": text}], "isError": False}
