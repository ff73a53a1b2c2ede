"""Bodies that are refused before they are read, and clients that wait to be told to send theirs."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mcpdesk.transports.base import Rules
from tests.support.patience import WITHIN_S
from tests.support.site import serving

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
JSON = "Content-Type: application/json"


@asynccontextmanager
async def answer(url: str, *headers: str, body: bytes = b"") -> AsyncIterator[asyncio.StreamReader]:
    """What comes back for a request with a body that may be missing; every wait is bounded."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = "\r\n".join(("POST /mcp HTTP/1.1", f"Host: {host}", *headers, "", ""))
    writer.write(head.encode() + body)
    async with asyncio.timeout(WITHIN_S):
        yield reader
    writer.close()
    await writer.wait_closed()


async def test_a_body_said_to_be_too_large_is_refused_before_it_is_sent() -> None:
    async with serving(Rules(max_body_bytes=1000)) as served:
        async with answer(served.url, JSON, "Content-Length: 99999999999") as reader:
            assert b"413" in await reader.readline()
            rest = await reader.readuntil(b"}}")
        assert b"99999999999" in rest and b"1000" in rest


async def test_a_body_of_exactly_the_limit_is_taken() -> None:
    async with serving(Rules(max_body_bytes=len(PING))) as served:
        assert (await served.post(PING)).status == 200
        assert (await served.post(PING + b" ")).status == 413


async def test_a_body_in_chunks_is_measured_as_it_comes() -> None:
    async with serving(Rules(max_body_bytes=1000)) as served:
        chunks = b"400\r\n" + b"x" * 0x400 + b"\r\n0\r\n\r\n"
        async with answer(served.url, JSON, "Transfer-Encoding: chunked", body=chunks) as reader:
            assert b"413" in await reader.readline()


async def test_compressed_bodies_are_not_unfolded() -> None:
    async with serving() as served:
        for coding in ("gzip", "br", "deflate"):
            assert (await served.post(gzip.compress(PING), Content_Encoding=coding)).status == 415
        assert (await served.post(PING, Content_Encoding="identity")).status == 200


async def test_a_client_that_asks_whether_to_go_on_is_told_at_once() -> None:
    async with serving() as served:
        asking = ("Expect: 100-continue", JSON)
        async with answer(served.url, *asking, f"Content-Length: {len(PING)}") as reader:
            assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        async with answer(served.url, *asking, f"Content-Length: {1 << 40}") as reader:
            assert b"413" in await reader.readline()


async def test_a_body_that_breaks_off_is_no_trouble_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        async with answer(
            served.url, JSON, "Content-Length: 10", "Expect: 100-continue", body=b"{"
        ) as reader:
            await reader.readline()
        assert (await served.post(PING)).status == 200
    assert "Traceback" not in caplog.text
