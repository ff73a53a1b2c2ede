"""Stored data about an upstream server's own requests has a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time
from typing import Any, cast

import pytest

from mcpdesk.client.in_memory import InMemory, Write
from mcpdesk.client.transport import Incoming
from mcpdesk.hosting.channel import FrameChannel
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.recorder.interceptor import Interceptor
from mcpdesk.recorder.record import ConnectionInfo, Recorder
from mcpdesk.upstream import recorded_transport
from mcpdesk.upstream.recorded_transport import UNANSWERED_QUESTION, RecordedTransport
from tests.support.site import Frames


class Server:
    """The server's end of a connection in memory."""

    def __init__(self, write: Write) -> None:
        self.write = write

    def take(self, frame: bytes) -> None: ...

    def close(self, reason: str) -> None: ...


def transport_to(connect: Callable[[Write], FrameChannel], frames: Frames) -> RecordedTransport:
    return RecordedTransport(
        InMemory(connect, "far"),
        cast(Recorder, frames),
        ConnectionInfo(1, "far", "memory", "desk", "2025-11-25", time()),
        Interceptor(),
        lambda method, reply: None,
        lambda info: None,
        lambda: None,
    )


async def test_of_too_many_questions_without_an_answer_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorded_transport, "MAX_QUESTIONS", 2)
    servers, received, frames = list[Server](), list[Incoming](), Frames()

    def connect(write: Write) -> FrameChannel:
        servers.append(Server(write))
        return cast(FrameChannel, servers[0])

    transport = transport_to(connect, frames)
    await transport.open(received.append)
    asked: Sequence[bytes] = [codec.request(f"q{number}", "ping", {}) for number in range(3)]
    servers[0].write(asked)
    assert len(received) == 3, "all are handed on and recorded"
    assert [data for _, data in frames.seen] == asked
    transport.end_questions()
    assert [(each.id, each.remark.text) for each in frames.remarks] == [
        ("q1", UNANSWERED_QUESTION),
        ("q2", UNANSWERED_QUESTION),
    ]
    await transport.close()


class Pending(dict[Id, Any]):
    """Pending requests. They count how often all of them are looked at."""

    scans = 0

    def values(self) -> Any:
        self.scans += 1
        return super().values()


async def test_a_message_costs_the_same_however_many_requests_are_pending() -> None:
    servers, received, frames = list[Server](), list[Incoming](), Frames()

    def connect(write: Write) -> FrameChannel:
        servers.append(Server(write))
        return cast(FrameChannel, servers[0])

    transport = transport_to(connect, frames)
    await transport.open(received.append)
    pending = transport._pending = Pending()
    servers[0].write([codec.request("q", "ping", {})])
    assert len(received) == 1 and len(frames.seen) == 1
    assert pending.scans == 0
    await transport.close()
