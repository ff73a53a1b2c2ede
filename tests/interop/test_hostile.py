"""Malicious clients over real sockets: they are answered or disconnected, and others are not affected."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import pytest

from mcpdesk.server.calls.conversation import Conversation
from tests.support.patience import within
from tests.support.rude import HEAD, connected
from tests.support.served import Peer
from tests.support.site import Served, serving

SOON_S = 10.0
BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'


async def status_of(reader: asyncio.StreamReader) -> int:
    """The status of the next answer; 0 when the connection ends instead."""
    async with within():
        line = await reader.readline()
    return int(line.split()[1]) if line else 0


async def is_served_soon(served: Served) -> bool:
    """True if an honest client gets its answer in time."""
    began = monotonic()
    answer = await served.modern("tools/list")
    return answer.status == 200 and monotonic() - began < SOON_S


def conversations() -> int:
    """Number of peers the process keeps."""
    gc.collect()
    return sum(isinstance(each, Conversation) for each in gc.get_objects())


@contextmanager
def nothing_left_behind(allowed: int = 2) -> Iterator[None]:
    """Check that what the block opened is released afterwards, except honest connections."""
    before = conversations()
    yield
    assert conversations() <= before + allowed


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "sent", [b"POST", HEAD, HEAD + b"Content-Length: 1000\r\n\r\n{", b"\x16\x03\x01\x02\x00"]
)
async def test_those_who_never_finish_a_request_hold_nobody_up(sent: bytes) -> None:
    with nothing_left_behind():
        async with serving() as served:
            slow = [connected(served) for _ in range(100)]
            writers = [(await each.__aenter__())[1] for each in slow]
            for writer in writers:
                writer.write(sent)
            for byte in (b"a", b"b"):
                assert await is_served_soon(served)
                for writer in writers:
                    writer.write(byte)
            for each in slow:
                await each.__aexit__(None, None, None)
            assert await is_served_soon(served)


@pytest.mark.requirement("12.20")
async def test_cancelling_what_was_never_asked_and_answering_what_was_not_does_nothing() -> None:
    peer = Peer()
    await peer.shake_hands()
    before = len(peer.received)
    identifiers: list[object] = [1, "1", None, [1], {}, 1.5, True]
    for identifier in identifiers:
        params = {"requestId": identifier}
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    peer.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    peer.send({"jsonrpc": "2.0", "id": "none", "error": {"code": 1, "message": "no"}})
    peer.request(1, "tools/call", {"name": "echo", "arguments": {"text": "still here"}})
    assert (await peer.response(1))["result"]["content"][0]["text"] == "still here"
    assert len(peer.received) == before + 1


STRANGERS = (b"Origin: https://evil.example", b"Origin: null", b"Host: evil.example")


@pytest.mark.sampled(8)
@pytest.mark.requirement("4.14", "5.13", "12.1")
@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("way", [b"", b"/sse", b"/messages?connection=x", b"/ws"])
@pytest.mark.parametrize("verb", [b"POST", b"GET", b"DELETE"])
async def test_strangers_are_refused_on_every_way_before_a_body_comes(
    verb: bytes, way: bytes, stranger: bytes
) -> None:
    host = b"" if stranger.startswith(b"Host") else b"Host: 127.0.0.1\r\n"
    head = b"%b /mcp/sample%b HTTP/1.1\r\n%b%b\r\n" % (verb, way, host, stranger)
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n")
        assert await status_of(reader) == 403


async def test_readers_who_do_not_read_hold_nobody_up() -> None:
    with nothing_left_behind():
        async with serving() as served:
            for _ in range(20):
                async with connected(served) as (_, writer):
                    for _ in range(50):
                        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
                    assert await is_served_soon(served)
