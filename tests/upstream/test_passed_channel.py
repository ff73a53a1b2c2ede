"""Tables and queues of a channel that clients share have limits that a server or a slow client can reach."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from mcpdesk.protocol import codec
from mcpdesk.upstream import passed_channel
from mcpdesk.upstream.channels import Heard
from mcpdesk.upstream.passed_channel import ClientStream, PassedChannel, Waiting
from tests.support.patience import WITHIN_S


class Server:
    """Implements `Channels` and their channel; what comes of it is given to `heard`."""

    has_lines = holds_credentials = False

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.heard: Heard

    def sender(self, given: Mapping[str, str]) -> dict[str, str]:
        return {}

    async def open(self, sender: Mapping[str, str], heard: Heard) -> Server:
        self.heard = heard
        return self

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def end(self) -> None: ...

    async def close(self) -> None: ...

    def say(self, data: bytes) -> None:
        """Send a message."""
        self.heard.on_message(data, None)


def answer(identifier: int, mark: str = "") -> bytes:
    return b'{"jsonrpc": "2.0", "id": %d, "result": {"mark": "%b"}}' % (identifier, mark.encode())


async def test_second_answers_go_to_the_takers_of_the_latest_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passed_channel, "MOST_ASKED", 2)
    server, strays = Server(), list[bytes]()
    takers: dict[int, list[bytes]] = {number: [] for number in (1, 2, 3)}
    channel = PassedChannel("far", strays.append, lambda: None, strays.append)
    await channel.open(server, {})
    for number, taker in takers.items():
        message = {"jsonrpc": "2.0", "id": number, "method": "ping"}
        waiting = Waiting(taker.append)
        async with channel.request(message, codec.encode(message), waiting, is_alone=False):
            server.say(answer(number))
            assert await waiting.take(WITHIN_S) == (answer(number), True)
    for number in takers:
        server.say(answer(number, "again"))
    assert takers[2] == [answer(2, "again")]
    assert takers[3] == [answer(1, "again"), answer(3, "again")], "the first request is forgotten"


async def test_of_a_client_that_reads_too_slowly_messages_go_to_the_record_and_its_answer_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passed_channel, "MOST_HELD_BYTES", 100)
    unclaimed: list[bytes] = []
    waiting = Waiting(unclaimed.append)
    told = [b"%d" % number * 60 for number in range(4)]
    for each in told:
        waiting.put(each)
    waiting.put(b"answer", True)
    assert [each async for each in waiting.messages()] == [*told[:2], b"answer"]
    assert unclaimed == told[2:]


async def test_a_stream_whose_client_leaves_too_much_unread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_channel, "MOST_HELD_BYTES", 100)
    stream = ClientStream()
    stream.put(b"a" * 60)
    assert not stream.is_broken
    stream.put(b"b" * 60)
    assert stream.is_broken
    async with asyncio.timeout(WITHIN_S):
        assert len([each async for each in stream.pieces()]) == 2
