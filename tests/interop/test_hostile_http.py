"""Ambiguous requests, and bytes that are not HTTP at all: each has one outcome, and the server continues."""

from __future__ import annotations

import asyncio
import random
import re
from contextlib import suppress
from itertools import pairwise

import pytest

from tests.support.features import having
from tests.support.patience import within
from tests.support.rude import HEAD, all_of, connected, posted
from tests.support.site import Served, serving

SEED = 20260728
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
SIZED = b"Content-Length: %d\r\n" % len(PING)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"28\r\n" + PING + b"\r\n0\r\n\r\n"

REFUSED = {
    "the length twice": HEAD + SIZED + SIZED + b"\r\n" + PING,
    "two lengths": HEAD + SIZED + b"Content-Length: 3\r\n\r\n" + PING,
    "a list of lengths": HEAD + b"Content-Length: 40, 40\r\n\r\n" + PING,
    "length before chunks": HEAD + SIZED + CHUNKED + b"\r\n" + CHUNKS,
    "chunks before length": HEAD + CHUNKED + SIZED + b"\r\n" + CHUNKS,
    "chunks twice": HEAD + CHUNKED + CHUNKED + b"\r\n" + CHUNKS,
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS,
    "a coding before chunks": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
    "a coding before chunks in two headers": HEAD
    + b"Transfer-Encoding: gzip\r\n"
    + CHUNKED
    + b"\r\n"
    + CHUNKS,
    "no coding at all": HEAD + b"Transfer-Encoding: identity\r\n\r\n",
    "a coding behind chunks": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "a sign before the length": HEAD + b"Content-Length: +40\r\n\r\n" + PING,
    "a length below zero": HEAD + b"Content-Length: -1\r\n\r\n" + PING,
    "a hexadecimal length": HEAD + b"Content-Length: 0x28\r\n\r\n" + PING,
    "an endless length": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n" + PING,
    "a blank before the colon": HEAD + b"Content-Length : 40\r\n\r\n" + PING,
    "a folded header": HEAD + b"X-A: b\r\n c\r\n" + SIZED + b"\r\n" + PING,
    "a bare carriage return": HEAD + b"X-A: b\rX-B: c\r\n" + SIZED + b"\r\n" + PING,
    "bare line feeds": (HEAD + SIZED + b"\r\n").replace(b"\r\n", b"\n") + PING,
    "a null in a header": HEAD + b"X-A: b\0c\r\n" + SIZED + b"\r\n" + PING,
    "two hosts": HEAD + b"Host: evil.example\r\n" + SIZED + b"\r\n" + PING,
    "no host": (HEAD + SIZED + b"\r\n").replace(b"Host: 127.0.0.1\r\n", b"") + PING,
    "a chunk below zero": HEAD + CHUNKED + b"\r\n-28\r\n" + PING + b"\r\n0\r\n\r\n",
    "an endless chunk": HEAD + CHUNKED + b"\r\nffffffffffffffffff\r\n" + PING,
    "chunks with bare line feeds": HEAD + CHUNKED + b"\r\n28\n" + PING + b"\n0\n\n",
    "endless trailers": HEAD + CHUNKED + b"\r\n" + CHUNKS[:-2] + b"A: b\r\n" * 10_000,
    "another version": (HEAD + SIZED + b"\r\n").replace(b"HTTP/1.1", b"HTTP/3.7") + PING,
    "the next version": (HEAD + SIZED + b"\r\n").replace(b"HTTP/1.1", b"HTTP/2.0") + PING,
    "the first version": (HEAD + SIZED + b"\r\n").replace(b"HTTP/1.1", b"HTTP/0.9") + PING,
    "the next protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "encrypted": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
}
"""Requests that are refused before any part of them is processed; the connection ends."""

FOREIGN = {
    "a foreign host": (HEAD + SIZED + b"\r\n").replace(b"127.0.0.1", b"evil.example") + PING,
    "a foreign target": (HEAD + SIZED + b"\r\n").replace(b"/mcp", b"http://evil.example/mcp") + PING,
    "a foreign target in other letters": (HEAD + SIZED + b"\r\n").replace(
        b"/mcp", b"HTTPS://evil.example/mcp"
    )
    + PING,
    "a target with a user before its name": (HEAD + SIZED + b"\r\n").replace(
        b"/mcp", b"http://ada:secret@127.0.0.1/mcp"
    )
    + PING,
    "a target without a name": (HEAD + SIZED + b"\r\n").replace(b"/mcp", b"http:///mcp") + PING,
    "a target of another protocol": HEAD.replace(b"POST /mcp/sample", b"CONNECT evil.example:80") + b"\r\n",
    "a way out of the folder": (HEAD + SIZED + b"\r\n").replace(b"/mcp/", b"/mcp/../mcp/") + PING,
    "an encoded path": (HEAD + SIZED + b"\r\n").replace(b"sample", b"%73ample%00") + PING,
}
"""Understood, and not served."""


@pytest.mark.sampled(8)
@pytest.mark.requirement("12.10")
@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_of_two_readings_gets_one_refusal(name: str) -> None:
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(REFUSED[name] + posted(PING))
        answer = await all_of(reader)
        assert re.findall(rb"HTTP/1\.\d (\d+)", answer) in ([b"400"], [b"431"], [b"501"], [b"505"], [])
        assert b"result" not in answer
        assert (await served.modern("tools/list")).status == 200


@pytest.mark.parametrize("version", [b"2.0", b"0.9"])
@pytest.mark.parametrize(
    "line", [b"GET /health", b"POST /mcp/sample", *having("gateway", b"OPTIONS /v1/mcp")]
)
async def test_a_version_that_is_not_spoken_is_refused(line: bytes, version: bytes) -> None:
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(posted(PING).replace(b"POST /mcp/sample HTTP/1.1", line + b" HTTP/" + version))
        answer = await all_of(reader)
    assert b" 505 " in answer.splitlines()[0] and b"result" not in answer


OTHER_STATUS = {
    "a target without a name": b"400",
    "a target of another protocol": b"404",
    "a way out of the folder": b"404",
    "an encoded path": b"404",
}


@pytest.mark.parametrize("name", FOREIGN)
async def test_what_is_addressed_elsewhere_is_not_served_here(name: str) -> None:
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(FOREIGN[name])
        async with within():
            status = (await reader.readline()).split()[1]
    assert status == OTHER_STATUS.get(name, b"403")


async def test_a_target_in_absolute_form_is_served_like_any_other() -> None:
    whole = posted(PING).replace(b"/mcp", b"http://127.0.0.1/mcp")
    status = b"GET http://localhost:1/status?a=b HTTP/1.1\r\nHost: localhost:1\r\nConnection: close\r\n\r\n"
    async with serving() as served, connected(served) as (reader, writer):
        for _ in range(3):
            writer.write(whole)
            assert (await reader.readline()).split()[1] == b"200"
            assert (await reader.readuntil(b"}}")).endswith(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        writer.write(status)
        assert (await reader.readline()).split()[1] == b"200"


async def test_what_hides_behind_a_request_is_a_request_of_its_own() -> None:
    hidden = b"GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(posted(PING) + hidden + posted(PING, b"Connection: close\r\n"))
        answer = await all_of(reader)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == [b"200", b"403", b"200"]


async def test_requests_are_answered_the_same_in_every_split() -> None:
    chance = random.Random(SEED)
    data = (
        posted(PING)
        + HEAD
        + CHUNKED
        + b"\r\n"
        + CHUNKS
        + posted(b"[")
        + posted(PING, b"Connection: close\r\n")
    )

    async def answers(served: Served, pieces: list[bytes]) -> list[bytes]:
        async with connected(served) as (reader, writer):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            return re.findall(rb"HTTP/1\.1 (\d+)|(\{.*?\})(?=HTTP|$)", await all_of(reader))

    async with serving() as served:
        whole = await answers(served, [data])
        assert len(whole) == 8
        for count in (*range(1, 12), len(data) // 3):
            places = [0, *sorted(chance.sample(range(1, len(data)), count)), len(data)]
            assert await answers(served, [data[a:b] for a, b in pairwise(places)]) == whole


@pytest.mark.slow
async def test_random_bytes_are_refused_or_waited_for_and_others_are_served() -> None:
    chance = random.Random(SEED)
    whole = posted(PING, b"X-Some: thing\r\n")
    async with serving() as served:
        for number in range(300):
            changed = bytearray(whole)
            for _ in range(chance.randrange(1, 6)):
                place = chance.randrange(len(changed))
                changed[place : place + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
            async with connected(served) as (reader, writer):
                cut = chance.randrange(len(changed))
                with suppress(ConnectionError):
                    writer.write(bytes(changed[:cut]) if number % 2 else chance.randbytes(cut))
                    await writer.drain()
                    writer.write(bytes(changed[cut:]))
                    writer.write_eof()
                await all_of(reader)
        assert (await served.modern("tools/list")).status == 200
        listener = served.service._listener
        assert listener is not None and listener.budget.held_bytes == 0
