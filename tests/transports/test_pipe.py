"""What happens to a pipe after its peer's end of input."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports.pipe import UNREAD, finish_calls
from tests.interop.test_hostile_pipes import TEXT, UPGRADE, frame
from tests.support.echo_pipe import EchoCore
from tests.support.patience import WITHIN_S
from tests.support.rude import posted
from tests.support.site import Served, serving


async def test_calls_under_way_finish_before_the_pipe_closes() -> None:
    written: list[bytes] = []
    pipe = EchoCore().open_pipe(None, "unix", written.append)
    pipe.feed(b"wait\n")
    finishing_aio = asyncio.create_task(finish_calls(pipe, 5.0))
    await pipe.ended.wait()
    assert not pipe.closed.is_set()
    pipe.release()
    await finishing_aio
    assert written == [b"waited\n"]
    assert pipe.closed.is_set()


async def test_calls_that_last_longer_are_given_up() -> None:
    pipe = EchoCore().open_pipe(None, "unix", lambda data: None)
    pipe.feed(b"wait\n")
    await finish_calls(pipe, 0.01)
    assert pipe.closed.is_set()


LARGE = 16 << 20
"""Bytes of an answer: more than the buffers of the system take."""
CALL = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large"}})


async def large(arguments: dict[str, Any], context: Any) -> str:
    return "x" * LARGE


async def greedy(served: Served, data: bytes) -> asyncio.StreamWriter:
    """A client that asks, and reads no more than its own buffers take."""
    place = urlsplit(served.url)
    sock = socket.create_connection((place.hostname, place.port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    _, writer = await asyncio.open_connection(sock=sock, limit=4096)
    writer.write(data)
    return writer


@pytest.mark.slow
@pytest.mark.parametrize("way", ["JSON", "event stream", "WebSocket"])
async def test_clients_that_do_not_read_hold_no_more_than_the_bound_together(
    way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(UNREAD, "most", 5 * LARGE)
    asked = {
        "JSON": posted(CALL),
        "event stream": posted(CALL).replace(b"/mcp/sample ", b"/mcp/sample?stream=1 "),
        "WebSocket": UPGRADE + frame(TEXT, orjson.dumps(modern_call())),
    }[way]
    async with serving() as served:
        served.hosted.server.tools.replace([Tool("large", large, {"type": "object"})])
        clients = []
        try:
            async with asyncio.timeout(WITHIN_S):
                while caplog.text.count("all hold too many") < 3:
                    clients.append(await greedy(served, asked))
                    await asyncio.sleep(0.02)  # the server is in this loop: its turn to answer
                    assert sum(each.unread for each in UNREAD._senders) <= 5 * LARGE
                    assert len(clients) < 20
            # Who reads is answered still.
            answer = await served.post(CALL)
            assert (await answer.json())["result"]["content"][0]["text"] == "x" * LARGE
        finally:
            for client in clients:
                client.transport.abort()


def modern_call() -> dict[str, Any]:
    from mcpdesk.protocol.revisions import V2026_07_28
    from mcpdesk.protocol.stateless import request_meta

    params = {
        "name": "large",
        "arguments": {},
        "_meta": request_meta(V2026_07_28, {"name": "t", "version": "1"}),
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
