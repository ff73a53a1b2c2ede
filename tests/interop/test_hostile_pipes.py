"""Pipes, Unix sockets and WebSockets with malicious peers: only those are answered or disconnected."""

from __future__ import annotations

import asyncio
import random
import struct
from contextlib import suppress
from typing import Any

import orjson
import pytest

from mcpdesk.server.offer.resources import ResourceTemplate
from mcpdesk.server.offer.server import Limits
from mcpdesk.transports.base import Rules
from tests.support.features import having
from tests.support.patience import WITHIN_S, until, within
from tests.support.rude import (
    BEGIN,
    BINARY,
    CLOSE,
    CONTINUED,
    MIDDLE,
    PING,
    TEXT,
    UPGRADE,
    closing_code,
    connected,
    frame,
    upgraded,
)
from tests.support.served import Peer
from tests.support.site import serving

SEED = 20260728
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LIST = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
BROKEN = {
    "unmasked": (frame(TEXT, LIST, masked=False), 1002),
    "an unmasked one after a large one": (frame(TEXT, b" " * 70_000) + frame(TEXT, b"", masked=False), 1002),
    "an unmasked ping after a masked one": (frame(PING, b"a") + frame(PING, b"a", masked=False), 1002),
    "binary": (frame(BINARY, LIST), 1003),
    "a middle without a beginning": (frame(CONTINUED, LIST), 1002),
    "two beginnings": (frame(BEGIN, b"{") + frame(BEGIN, b"{"), 1002),
    "a reserved bit": (frame(TEXT | 0x40, LIST), 1002),
    "a reserved kind": (frame(0x83, LIST), 1002),
    "a ping in parts": (frame(0x09, b"ping"), 1002),
    "a large ping": (frame(PING, b"p" * 126), 1002),
    "a close of one byte": (frame(CLOSE, b"\x03"), 1002),
    "a close of no meaning": (frame(CLOSE, struct.pack("!H", 999)), 1002),
    "no text": (frame(TEXT, b"\xff\xfe"), 1007),
    "half a character": (frame(BEGIN, b"\xc3") + frame(CONTINUED, b""), 1007),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", BROKEN)
async def test_a_frame_against_the_rules_ends_its_socket_or_is_answered(name: str) -> None:
    async with serving() as served, upgraded(served) as (reader, writer):
        broken, code = BROKEN[name]
        writer.write(broken + frame(CLOSE, struct.pack("!H", 1000)))
        assert await closing_code(reader) == code
        assert (await served.modern("tools/list")).status == 200


async def test_a_frame_before_the_answer_to_the_handshake_is_refused() -> None:
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(UPGRADE + frame(TEXT, LIST))
        assert b" 400 " in await reader.readline()
        assert (await served.modern("tools/list")).status == 200


async def test_a_message_without_end_is_cut_off() -> None:
    async with serving(Rules(max_body_bytes=1 << 16)) as served, upgraded(served) as (reader, writer):
        with suppress(ConnectionError):
            writer.write(frame(BEGIN, b"x" * 1_000))
            for _ in range(200):
                writer.write(frame(MIDDLE, b"x" * 1_000))
                await writer.drain()
        # What is written after the end may cost the writer the closing frame.
        assert await closing_code(reader) in (0, 1009)
        assert (await served.modern("tools/list")).status == 200


async def test_a_frame_that_claims_to_be_endless_is_not_waited_for() -> None:
    async with serving() as served, upgraded(served) as (reader, writer):
        writer.write(bytes([TEXT, 0xFF]) + struct.pack("!Q", 2**62) + b"\0\0\0\0x")
        assert await closing_code(reader) == 1009


@pytest.mark.slow
async def test_a_flood_of_pings_nobody_reads_the_answers_of_holds_nobody_up() -> None:
    ping = frame(PING, b"p" * 125) * 1_000
    async with serving() as served, upgraded(served) as (_, writer):
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1):
                for _ in range(1_000):
                    writer.write(ping)
                    await writer.drain()
        assert (await served.modern("tools/list")).status == 200
        writer.transport.abort()


@pytest.mark.slow
async def test_random_frames_end_their_socket_alone() -> None:
    chance = random.Random(SEED)
    async with serving() as served:
        for _ in range(150):
            async with upgraded(served) as (reader, writer):
                changed = bytearray(frame(TEXT, LIST) + frame(PING, b"a") + frame(TEXT, b"[]"))
                for _ in range(chance.randrange(1, 6)):
                    changed[chance.randrange(len(changed))] = chance.randrange(256)
                with suppress(ConnectionError):
                    writer.write(bytes(changed) + frame(CLOSE, struct.pack("!H", 1000)))
                    writer.write_eof()
                await closing_code(reader)
        assert (await served.modern("tools/list")).status == 200


async def test_frames_are_answered_the_same_in_every_split() -> None:
    data = frame(TEXT, LIST) + frame(BEGIN, LIST[:9]) + frame(PING, b"a") + frame(CONTINUED, LIST[9:])
    goodbye = frame(CLOSE, struct.pack("!H", 1000))
    async with serving() as served:
        seen = set()
        for step in (1, 2, 7, 50, len(data)):
            async with upgraded(served) as (reader, writer):
                for start in range(0, len(data), step):
                    writer.write(data[start : start + step])
                    await writer.drain()
                came = b""
                async with within():
                    while came.count(b'"result"') < 2 or b"\x8a\x01a" not in came:
                        came += await reader.read(1 << 16)
                    writer.write(goodbye)
                    came += await reader.read()
            seen.add(came.replace(b"\x8a\x01a", b""))
        assert len(seen) == 1


IDS: tuple[Any, ...] = (0, -1, "", "1", 2**63 - 1, -(2**63) + 1, "\u0000", "é" * 100, "x" * 10_000, "🙂")


async def test_ids_of_every_kind_come_back_as_they_were() -> None:
    peer = Peer()
    await peer.shake_hands()
    for identifier in IDS:
        peer.request(identifier, "ping")
    came = [each["id"] for each in peer.received[1:]]
    assert came == list(IDS) and [type(each) for each in came] == [type(each) for each in IDS]


async def test_the_same_id_twice_is_refused_and_the_first_call_answered() -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.request(7, "tools/call", {"name": "forever"})
    peer.request(7, "tools/call", {"name": "echo", "arguments": {"text": "second"}})
    peer.request("7", "tools/call", {"name": "echo", "arguments": {"text": "another"}})
    assert (await peer.response("7"))["result"]["content"][0]["text"] == "another"
    assert (await peer.response(7))["error"]["code"] == -32600
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    peer.request(8, "ping")
    await peer.response(8)
    assert [each["id"] for each in peer.received].count(7) == 1


async def read_number(uri: str, variables: dict[str, str], context: object) -> str:
    return variables["number"]


async def test_more_subscriptions_than_allowed_are_refused_by_name() -> None:
    peer = Peer()
    peer.server.limits = Limits(subscriptions=3)
    peer.server.templates.replace([ResourceTemplate("resource://{number}", "number", read_number)])
    await peer.shake_hands()
    uris = [f"resource://{number}" for number in range(4)]
    for number, uri in enumerate((*uris[:3], uris[0], uris[3], "x" * 10_000), 1):
        peer.request(number, "resources/subscribe", {"uri": uri})
    answers = [await peer.response(number) for number in range(1, 7)]
    assert ["error" in each for each in answers] == [False] * 4 + [True, True]
    assert "max_subscriptions" in answers[4]["error"]["message"]
    peer.request(7, "resources/unsubscribe", {"uri": uris[0]})
    peer.request(8, "resources/subscribe", {"uri": uris[3]})
    assert "result" in await peer.response(8)
    for number, listened in ((9, uris), (10, uris[:3])):
        peer.modern(number, "subscriptions/listen", {"notifications": {"resourceSubscriptions": listened}})
    assert "max_subscriptions" in (await peer.response(9))["error"]["message"]
    peer.channel.close()


async def test_a_line_without_end_holds_no_more_than_its_limit() -> None:
    peer, written = Peer(), bytearray()
    pipe = peer.endpoint.pipe("unix", "t", written.extend, limit=10_000)
    for _ in range(1_000):
        pipe.feed(b"x" * 1_000)
        assert sum(map(len, pipe._framer._pieces)) <= 10_000
    pipe.feed(b"\n" + LIST + b"\n")
    refused, answered = (orjson.loads(line) for line in bytes(written).splitlines())
    assert refused["error"]["code"] == -32600 and "id" not in refused
    assert answered["id"] == 1 and "result" in answered
    pipe.close()


CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}'
TWICE = {
    "the id": CALL.replace(b'"id":1', b'"id":1,"id":2') % b'{"name":"echo","arguments":{}}',
    "the method": CALL.replace(b'"id"', b'"method":"ping","id"') % b'{"name":"echo","arguments":{}}',
    "the tool": CALL % b'{"name":"echo","name":"steps","arguments":{}}',
    "an argument": CALL % b'{"name":"echo","arguments":{"text":"a","text":"b"}}',
    "metadata": CALL % b'{"name":"echo","arguments":{"text":"a"},"_meta":{"x":1,"x":1}}',
}


@pytest.mark.parametrize("name", TWICE)
async def test_a_message_that_gives_a_key_twice_is_refused_on_every_way_in(name: str) -> None:
    told = "is given more than once"
    peer, written = Peer(), bytearray()
    pipe = peer.endpoint.pipe("stdio", "t", written.extend)
    pipe.feed(TWICE[name] + b"\n" + LIST + b"\n")
    refused, answered = (orjson.loads(line) for line in bytes(written).splitlines())
    assert refused["error"]["code"] == -32600 and told in refused["error"]["message"]
    assert "id" not in refused and "result" in answered
    pipe.close()
    async with serving() as served:
        for path in ("/mcp/sample", *having("gateway", "/v1/mcp")):
            headers = {"Content-Type": "application/json"}
            answer = await served.client.post(served.url + path, data=TWICE[name], headers=headers)
            assert answer.status == 400 and told in (await answer.json())["error"]["message"]
        for path in ("/mcp/sample/ws", *having("gateway", "/v1/ws/mcp")):
            async with served.client.ws_connect(served.url + path) as socket:
                await socket.send_str(TWICE[name].decode())
                assert told in orjson.loads(await socket.receive_str(timeout=WITHIN_S))["error"]["message"]
        async with served.client.get(f"{served.url}/mcp/sample/sse") as stream:
            await stream.content.readline()
            place = (await stream.content.readline()).decode().strip().removeprefix("data: ")
            answer = await served.client.post(served.url + place, data=TWICE[name], headers=headers)
            assert answer.status == 400 and told in (await answer.json())["error"]["message"]


async def test_large_requests_in_flight_are_bounded_over_all_channels_and_given_back() -> None:
    peer = Peer()
    peer.server.limits = Limits(large_bytes=250_000)
    other = peer.endpoint.channel("unix", "another", peer._take)
    for identifier, channel in ((1, peer.channel), (2, other), (3, other)):
        params = {"name": "forever", "_meta": META, "more": "x" * 100_000}
        message = {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}
        channel.receive(orjson.dumps(message))
    assert "max_bodies_bytes" in (await peer.response(3))["error"]["message"]
    assert peer.endpoint.large.bytes > 200_000
    peer.modern(4, "tools/list")
    assert "result" in await peer.response(4)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    other.close()
    await until(lambda: not (peer.endpoint.large.bytes))
