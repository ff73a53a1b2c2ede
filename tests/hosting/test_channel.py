"""Byte pipes: any split in, whole lines out, everything recorded as it was."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from mcpdesk.hosting.channel import Pipe
from mcpdesk.protocol.revisions import R5
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.recorder.record import Direction
from tests.support.served import Peer
from tests.support.site import Frames

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def make_pipe(limit: int = 1 << 20) -> tuple[Pipe, list[bytes], Frames]:
    endpoint = Peer().endpoint
    frames = Frames()
    endpoint.recorder = frames
    sent: list[bytes] = []
    return Pipe(endpoint, "stdio", "tester", sent.append, limit), sent, frames


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_frames_are_found_in_any_split(size: int) -> None:
    pipe, sent, frames = make_pipe()
    data = REQUEST + b"\r\n\n" + REQUEST + b"\n"
    for start in range(0, len(data), size):
        pipe.feed(data[start : start + size])
    assert sent == [b'{"jsonrpc":"2.0","id":1,"result":{}}\n'] * 2
    assert frames.seen[0] == (Direction.IN, REQUEST)
    assert frames.seen[1] == (Direction.OUT, sent[0][:-1])


async def test_a_last_line_without_newline_counts() -> None:
    pipe, sent, _ = make_pipe()
    pipe.feed(REQUEST)
    pipe.eof()
    assert len(sent) == 1


async def test_an_oversized_line_is_refused_and_the_pipe_lives_on() -> None:
    pipe, sent, _ = make_pipe(limit=100)
    pipe.feed(b"x" * 500)
    pipe.feed(b"x\n" + REQUEST + b"\n")
    assert orjson.loads(sent[0])["error"]["code"] == -32600
    assert "100 bytes" in sent[0].decode()
    assert orjson.loads(sent[1])["result"] == {}


async def test_nothing_is_sent_after_close() -> None:
    pipe, sent, _ = make_pipe()
    pipe.close()
    pipe.close()
    pipe.feed(REQUEST + b"\n")
    assert sent == []


async def test_a_peer_that_sends_no_more_need_not_wait_for_what_it_listens_to() -> None:
    pipe, _, _ = make_pipe()
    params = {"notifications": {}, "_meta": request_meta(R5, {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    pipe.feed(orjson.dumps(message) + b"\n")
    pipe.eof()
    async with asyncio.timeout(5):
        await pipe.drained()
    pipe.close()
